package interpreter

import (
	"encoding/json"
	"time"

	"github.com/onceward/onceward/localstack/stepfunctions/asl"
	"github.com/onceward/onceward/localstack/stepfunctions/jsonvalue"
)

// Pause means that the state is over after For, or at Until if that is set;
// Then is how it goes on.
type Pause struct {
	For   time.Duration
	Until time.Time
	Then  Advance
}

func (Pause) step() {}

func (e *evaluation) wait(s *asl.Wait, input any) (Step, *Failure) {
	then, failure := e.advance(&s.Common, input)
	if failure != nil {
		return nil, failure
	}
	pause := Pause{Until: s.Timestamp, Then: then, For: time.Duration(s.Seconds.Literal) * time.Second}
	switch {
	case s.Seconds.Path != nil:
		pause.For, failure = e.waitSeconds(*s.Seconds.Path, input)
	case s.TimestampPath != nil:
		pause.Until, failure = e.waitUntil(*s.TimestampPath, input)
	}
	if failure != nil {
		return nil, failure
	}
	return pause, nil
}

func (e *evaluation) waitSeconds(path asl.Path, input any) (time.Duration, *Failure) {
	value, found := path.Get(input, e.object)
	if !found {
		return 0, e.runtime("The SecondsPath parameter does not reference an input value: %s", path)
	}
	n, ok := value.(json.Number)
	if !ok {
		return 0, e.runtime("The SecondsPath parameter cannot be parsed as a long value: %s == %s", path, jsonvalue.MustEncode(value))
	}
	seconds, ok := jsonvalue.Int64(n)
	switch {
	case !ok:
		return 0, e.runtime("The SecondsPath parameter cannot be parsed as a long value: %s == %s", path, n)
	case seconds < 0:
		return 0, e.runtime("The SecondsPath parameter references a negative value: %s == %s", path, n)
	case seconds > maxSeconds:
		return 0, e.runtime("Wait state delay is too long.")
	}
	return time.Duration(seconds) * time.Second, nil
}

func (e *evaluation) waitUntil(path asl.Path, input any) (time.Time, *Failure) {
	value, found := path.Get(input, e.object)
	if !found {
		return time.Time{}, e.runtime("The TimestampPath parameter does not reference an input value: %s", path)
	}
	written, ok := value.(string)
	if !ok {
		written = jsonvalue.MustEncode(value)
	}
	until, err := asl.ParseTimestamp(written)
	if !ok || err != nil {
		return time.Time{}, e.runtime("The TimestampPath parameter does not reference a valid ISO-8601 extended offset date-time format string: %s == %s", path, written)
	}
	return until, nil
}
