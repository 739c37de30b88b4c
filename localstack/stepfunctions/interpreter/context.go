package interpreter

import (
	"encoding/json"
	"strconv"
	"time"
)

// Context is what the context object ($$) is made of.
type Context struct {
	Execution    Execution
	Machine      Machine
	StateName    string
	Entered      time.Time
	EnteredEvent int64 // the id of the StateEntered event, for error texts
	RetryCount   int
	Token        string // empty unless the state waits for one
	Item         *Item  // nil outside of a Map
}

// Execution is the running execution.
type Execution struct {
	ID, Name, RoleARN string
	Input             any
	Started           time.Time
	Redrives          int
	Redriven          time.Time // the last time
}

// Machine is the state machine that runs.
type Machine struct{ ID, Name string }

// Item is the element of a list that a Map's iteration works on.
type Item struct {
	Index int
	Value any
}

// timeFormat is the one of AWS: UTC with milliseconds.
const timeFormat = "2006-01-02T15:04:05.000Z"

func (c Context) value() any {
	object := map[string]any{
		"Execution":    c.Execution.value(),
		"StateMachine": map[string]any{"Id": c.Machine.ID, "Name": c.Machine.Name},
		"State": map[string]any{
			"Name": c.StateName, "EnteredTime": c.Entered.UTC().Format(timeFormat), "RetryCount": number(c.RetryCount),
		},
	}
	if c.Token != "" {
		object["Task"] = map[string]any{"Token": c.Token}
	}
	if c.Item != nil {
		object["Map"] = map[string]any{"Item": map[string]any{"Index": number(c.Item.Index), "Value": c.Item.Value}}
	}
	return object
}

func (e Execution) value() map[string]any {
	object := map[string]any{
		"Id": e.ID, "Name": e.Name, "RoleArn": e.RoleARN, "Input": e.Input,
		"StartTime": e.Started.UTC().Format(timeFormat), "RedriveCount": number(e.Redrives),
	}
	if e.Redrives > 0 {
		object["RedriveTime"] = e.Redriven.UTC().Format(timeFormat)
	}
	return object
}

func number(n int) json.Number { return json.Number(strconv.Itoa(n)) }
