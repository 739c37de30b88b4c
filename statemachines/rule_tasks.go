package statemachines

import (
	"maps"
	"slices"
	"strings"
)

const (
	lambdaInvoke   = "arn:aws:states:::lambda:invoke"
	lambdaWait     = "arn:aws:states:::lambda:invoke.waitForTaskToken"
	startExecution = "arn:aws:states:::states:startExecution"

	longestLambda = 900
	longestPark   = 14 * 86_400
	longestRun    = 365 * 86_400
)

func (s *state) resource() string { return str(s.body, "Resource") }

// payload returns what a Lambda is sent.
func (s *state) payload() object { return sub(s.body, "Parameters", "Payload") }

// mayRun says whether s may run a tool: only the literal modes of planner and
// desk are known not to.
func (s *state) mayRun() bool {
	if !strings.HasPrefix(s.resource(), lambdaInvoke) {
		return s.resource() != startExecution
	}
	switch str(s.payload(), "mode") {
	case "plan", "park", "inspect":
		return s.payload()["mode.$"] != nil
	}
	return true
}

func knownResources(f *search) {
	for _, s := range f.of("Task") {
		switch s.resource() {
		case lambdaInvoke, lambdaWait, startExecution:
		default:
			f.add(s.under("Resource"), "%q is not a known integration", s.resource())
		}
	}
}

func taskTimeout(f *search) {
	if n, ok := f.root["TimeoutSeconds"].(float64); !ok || n < 1 || n >= longestRun {
		f.add("$.TimeoutSeconds", "the machine has no literal timeout below a year")
	}
	for _, s := range f.of("Task") {
		n, ok := s.body["TimeoutSeconds"].(float64)
		switch {
		case !ok:
			f.add(s.under("TimeoutSeconds"), "%s has no literal timeout", s.name)
		case strings.HasPrefix(s.resource(), lambdaInvoke) && n <= longestLambda:
			f.add(s.under("TimeoutSeconds"), "%s waits %v s, which a Lambda may outlive", s.name, n)
		}
	}
}

func doorbell(f *search) {
	for _, s := range f.all() {
		token := s.under("Parameters", "Payload", "token.$")
		s.walkTemplates(func(path, _ string, v any) {
			text, _ := v.(string)
			if strings.Contains(text, "$$.Task") && (path != token || s.resource() != lambdaWait) {
				f.add(path, "the task token goes where it has no business")
			}
		})
		if s.kind == "Task" && s.resource() == lambdaWait {
			ringsOnly(f, s)
		}
	}
}

// ringsOnly checks that a wait is a doorbell: what rings decides nothing.
func ringsOnly(f *search, s *state) {
	if str(s.payload(), "token.$") != "$$.Task.Token" {
		f.add(s.under("Parameters", "Payload", "token.$"), "the desk isn't sent the token")
	}
	if to, named := s.body["ResultPath"]; !named || to != nil {
		f.add(s.under("ResultPath"), "what the bell says is kept")
	}
	if n, ok := s.body["TimeoutSeconds"].(float64); ok && n > longestPark {
		f.add(s.under("TimeoutSeconds"), "the wait lasts longer than 14 days")
	}
	for _, name := range []string{"States.Timeout", "States.HeartbeatTimeout"} {
		if r := matching(s, "Retry", name); r == nil || r["MaxAttempts"] != 0.0 {
			f.add(s.under("Retry"), "%s is not named with MaxAttempts 0, so a new wait would not count as a round", name)
		}
		if c := matching(s, "Catch", name); c == nil || !s.leadsBack(str(c, "Next")) {
			f.add(s.under("Catch"), "%s is not caught by name on the way back to asking", name)
		}
	}
	for _, e := range s.edges() {
		if !s.leadsBack(e.to) {
			f.add(e.path, "%s doesn't lead back to asking", s.name)
		}
	}
}

// matching returns the first retrier or catcher of s that lists name itself.
func matching(s *state, field, name string) object {
	for _, r := range list(s.body, field) {
		if o, ok := r.(object); ok && slices.Contains(errorNames(o), name) {
			return o
		}
	}
	return nil
}

// leadsBack says whether target goes on to s again without ending.
func (s *state) leadsBack(target string) bool {
	t, ok := s.in.states[target]
	return ok && !t.ends() && s.in.reaches(target, s.name, nil)
}

func handOver(f *search) {
	const exists = "StepFunctions.ExecutionAlreadyExistsException"
	for _, s := range f.of("Task") {
		if s.resource() != startExecution {
			continue
		}
		for _, key := range []string{"StateMachineArn.$", "Name.$", "Input.$"} {
			if v := str(sub(s.body, "Parameters"), key); !f.inAnswer(v) {
				f.add(s.under("Parameters", key), "%q doesn't come from the planner", v)
			}
		}
		caught := first(s, "Catch")
		if next := s.in.states[str(caught, "Next")]; !slices.Equal(errorNames(caught), []string{exists}) || next == nil || next.kind != "Succeed" {
			f.add(s.under("Catch"), "an execution that exists isn't caught first, as a good end")
		}
		if r := first(s, "Retry"); !slices.Equal(errorNames(r), []string{exists}) || r["MaxAttempts"] != 0.0 {
			f.add(s.under("Retry"), "an execution that exists is started again")
		}
	}
}

// first returns the first retrier or catcher of s, nil if it has none.
func first(s *state, field string) object {
	l := list(s.body, field)
	if len(l) == 0 {
		return nil
	}
	o, _ := l[0].(object)
	return o
}

var (
	envelopeFields = []string{"onceward", "mode", "reply", "tenant.$", "run.$", "call.$", "principal.$", "policy.$", "from"}
	planFields     = []string{"onceward", "mode", "input.$", "outcomes.$", "turn_broken.$", "execution"}
	planExecution  = object{
		"id.$": "$$.Execution.Id", "name.$": "$$.Execution.Name",
		"started_at.$": "$$.Execution.StartTime", "state_machine.$": "$$.StateMachine.Id",
	}
)

func exactEnvelope(f *search) {
	for _, s := range f.of("Task") {
		if !s.inMap() || !strings.HasPrefix(s.resource(), lambdaInvoke) {
			continue
		}
		want := envelopeFields
		if s.resource() == lambdaWait {
			want = append(slices.Clone(want), "token.$")
		}
		got := maps.Clone(s.payload())
		if v, ok := got["mode.$"]; ok {
			delete(got, "mode.$")
			got["mode"] = v
		}
		f.compareFields(s, got, want)
		if str(s.payload(), "reply") != "brief" {
			f.add(s.under("Parameters", "Payload", "reply"), "%s doesn't ask for a brief reply", s.name)
		}
	}
}

func exactPlan(f *search) {
	for _, s := range f.of("Task") {
		if s.inMap() || !strings.HasPrefix(s.resource(), lambdaInvoke) {
			continue
		}
		f.compareFields(s, s.payload(), planFields)
		if str(s.payload(), "input.$") != "$$.Execution.Input" {
			f.add(s.under("Parameters", "Payload", "input.$"), "the planner isn't sent the execution's input as it came")
		}
		if !maps.Equal(sub(s.payload(), "execution"), planExecution) {
			f.add(s.under("Parameters", "Payload", "execution"), "the planner isn't told exactly which execution asks")
		}
	}
}

var outcomeFields = []string{"code", "id", "message", "rounds", "status", "turn"}

func exactOutcome(f *search) {
	for _, s := range f.of("Pass") {
		if !s.inMap() || !s.ends() {
			continue
		}
		var told []string
		for k := range sub(s.body, "Parameters") {
			told = append(told, strings.TrimSuffix(k, ".$"))
		}
		slices.Sort(told)
		if !slices.Equal(told, outcomeFields) {
			f.add(s.under("Parameters"), "%s tells %v and not %v", s.name, told, outcomeFields)
		}
	}
}

// compareFields reports missing and unknown fields of a payload of version 1.
func (f *search) compareFields(s *state, got object, want []string) {
	for _, k := range want {
		if _, ok := got[k]; !ok {
			f.add(s.under("Parameters", "Payload", k), "%s doesn't send %s", s.name, k)
		}
	}
	for _, k := range slices.Sorted(maps.Keys(got)) {
		if !slices.Contains(want, k) {
			f.add(s.under("Parameters", "Payload", k), "%s sends %s, which the contract doesn't have", s.name, k)
		}
	}
	if v, ok := got["onceward"]; ok && v != 1.0 {
		f.add(s.under("Parameters", "Payload", "onceward"), "%s speaks version %v", s.name, v)
	}
}

// literalAsks follows each asked function and mode to where it is written.
func literalAsks(f *search) {
	for _, s := range f.of("Task") {
		if !strings.HasPrefix(s.resource(), lambdaInvoke) {
			continue
		}
		params, payload := sub(s.body, "Parameters"), s.payload()
		if mode, ok := payload["mode.$"].(string); ok {
			f.askedThrough(s, str(params, "FunctionName.$"), mode)
			continue
		}
		allowed := "plan"
		if s.inMap() {
			allowed = "park"
		}
		if str(params, "FunctionName") == "" || str(payload, "mode") != allowed {
			f.add(s.under("Parameters"), "%s asks for something else than its function's %s", s.name, allowed)
		}
	}
}

// askedThrough checks the field of the state that names function and mode: where
// a Pass, or the Map's ItemSelector, writes it.
func (f *search) askedThrough(s *state, function, mode string) {
	root, ok := strings.CutSuffix(function, ".function")
	if !ok || mode != root+".mode" || !s.inMap() {
		f.add(s.under("Parameters"), "%s takes function %q and mode %q, not the two of one field", s.name, function, mode)
		return
	}
	field := strings.TrimPrefix(root, "$.")
	selector := sub(s.in.owner.body, "ItemSelector")
	f.literalAsk(s.in.owner.under("ItemSelector", field), sub(selector, field), "$$.Map.Item.Value.function")
	for _, p := range s.in.sorted {
		if str(p.body, "ResultPath") != root {
			continue
		}
		if p.kind != "Pass" {
			f.add(p.under("ResultPath"), "%s overwrites what is asked with a result", p.name)
			continue
		}
		f.literalAsk(p.under("Parameters"), sub(p.body, "Parameters"), toolPath(selector))
	}
}

// toolPath returns where an iteration keeps the tool's function.
func toolPath(selector object) string {
	for _, k := range slices.Sorted(maps.Keys(selector)) {
		if selector[k] == "$$.Map.Item.Value.function" {
			return "$." + strings.TrimSuffix(k, ".$")
		}
	}
	return ""
}

func (f *search) literalAsk(path string, ask object, tool string) {
	mode, literal := ask["mode"].(string)
	desk, isDesk := ask["function"].(string)
	switch {
	case !literal:
		f.add(path, "the mode isn't written down")
	case isDesk && desk != "" && mode == "inspect":
	case !isDesk && str(ask, "function.$") == tool && (mode == "invoke" || mode == "reconcile"):
	default:
		f.add(path, "mode %q isn't one that this function may be asked for", mode)
	}
}
