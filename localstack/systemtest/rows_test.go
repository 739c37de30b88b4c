package systemtest

import (
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"
)

// rowStory makes one move of the table from outside: reach brings the call to
// the state before, move makes the move.
type rowStory struct {
	tool          string // act if empty
	order         map[string]string
	before, after string
	reach, move   func(c *rowCall)
}

func does(what string, finds ...string) map[string]string {
	return map[string]string{"does": what, "finds": strings.Join(finds, "")}
}

// heldStory is a move of an executor whose last word is held until then.
func heldStory(order map[string]string, after string) rowStory {
	var release func()
	return rowStory{
		order: order, before: "started", after: after,
		reach: func(c *rowCall) { release = c.held("invoke", 1, 1, "started") },
		move:  func(*rowCall) { release() },
	}
}

// lateStory is the same when somebody has given up on the executor before, and
// done more.
func lateStory(order map[string]string, before, after string, meanwhile func(c *rowCall)) rowStory {
	story := heldStory(order, after)
	held := story.reach
	story.before = before
	story.reach = func(c *rowCall) {
		held(c)
		c.becomes("indeterminate", c.inspect)
		meanwhile(c)
	}
	return story
}

func decided(order map[string]string, before string, reach func(c *rowCall), after, verb string, more ...any) rowStory {
	return rowStory{order: order, before: before, after: after, reach: reach, move: func(c *rowCall) { c.decide(verb, more...) }}
}

func nothing(*rowCall) {}

func startHeld(attempt int) func(c *rowCall) {
	return func(c *rowCall) { c.held("invoke", attempt, 2, "started") }
}

// rowStories are the moves that the functions and the operator's API make today.
func rowStories() map[string]rowStory {
	unknown := does("loses_track")
	approved := func(story rowStory) rowStory {
		story.tool = "act_approved"
		return story
	}
	lookedUpLate := func() rowStory {
		var release func()
		return rowStory{
			order: does("loses_track", "effect"), before: "failed, final", after: "failed, final, contradicted",
			reach: func(c *rowCall) {
				c.act()
				release = c.held("reconcile", 1, 1, "indeterminate")
				c.decide("resolve", "outcome", "failed")
			},
			move: func(*rowCall) { release() },
		}
	}
	undo := map[string]string{"does": "completes", "undoes": "loses_track"}
	askUndo := func(c *rowCall) {
		c.act()
		c.decide("compensate")
	}
	return map[string]rowStory{
		"start":              {order: does("completes"), before: "none", after: "started", reach: nothing, move: func(c *rowCall) { c.held("invoke", 1, 1, "started") }},
		"ask approval":       approved(rowStory{order: does("completes"), before: "none", after: "reserved", reach: nothing, move: (*rowCall).act}),
		"close unseen":       {order: unknown, before: "none", after: "failed, final", reach: nothing, move: func(c *rowCall) { c.invoke(testTools, "close", 1) }},
		"close retryable":    {order: does("sends_nothing"), before: "failed, retryable", after: "failed, final", reach: (*rowCall).act, move: func(c *rowCall) { c.invoke(testTools, "close", 1) }},
		"journal completed":  {tool: "read", order: does("completes"), before: "none", after: "completed", reach: nothing, move: (*rowCall).act},
		"journal failed":     {tool: "read", order: does("is_rejected"), before: "none", after: "failed, final", reach: nothing, move: (*rowCall).act},
		"approve":            approved(decided(does("completes"), "reserved", (*rowCall).act, "reserved, approved", "approve")),
		"new policy":         approved(rowStory{order: does("completes"), before: "reserved, approved", after: "reserved", reach: approve, move: func(c *rowCall) { c.invoke(laterTools, "invoke", 1) }}),
		"deny":               approved(decided(does("completes"), "reserved", (*rowCall).act, "failed, final", "deny")),
		"expire":             {tool: "act_approved_soon", order: does("completes"), before: "reserved", after: "failed, final", reach: (*rowCall).act, move: func(c *rowCall) { c.becomes("failed, final", c.reconcile) }},
		"start approved":     approved(rowStory{order: does("completes"), before: "reserved, approved", after: "started", reach: approve, move: startHeld(1)}),
		"start granted":      {order: unknown, before: "failed, retryable, granted", after: "started", reach: grant, move: startHeld(1)},
		"start next attempt": {order: does("sends_nothing"), before: "failed, retryable", after: "started", reach: (*rowCall).act, move: startHeld(2)},
		"withdraw":           decided(does("sends_nothing"), "failed, retryable", (*rowCall).act, "failed, final", "withdraw"),
		"complete":           heldStory(does("completes"), "completed"),
		"not attempted":      heldStory(does("sends_nothing"), "failed, retryable"),
		"reject":             heldStory(does("is_rejected"), "failed, final"),
		"lose track":         heldStory(unknown, "indeterminate"),
		"orphan": {
			order: unknown, before: "started", after: "indeterminate", reach: func(c *rowCall) { c.held("invoke", 1, 1, "started") },
			move: func(c *rowCall) { c.becomes("indeterminate", c.inspect) },
		},
		"complete late":               lateStory(does("completes"), "indeterminate", "completed", nothing),
		"not attempted late":          lateStory(does("sends_nothing"), "indeterminate", "failed, retryable", nothing),
		"reject late":                 lateStory(does("is_rejected"), "indeterminate", "failed, final", nothing),
		"found":                       {order: does("loses_track", "effect"), before: "indeterminate", after: "completed", reach: (*rowCall).act, move: (*rowCall).reconcile},
		"absent":                      {order: does("loses_track", "nothing"), before: "indeterminate", after: "failed, retryable", reach: (*rowCall).act, move: func(c *rowCall) { c.becomes("failed, retryable", c.reconcile) }},
		"resolve completed":           decided(unknown, "indeterminate", (*rowCall).act, "completed", "resolve", "outcome", "completed"),
		"resolve failed":              decided(unknown, "indeterminate", (*rowCall).act, "failed, final", "resolve", "outcome", "failed"),
		"resolve failed with a grant": decided(unknown, "indeterminate", (*rowCall).act, "failed, retryable, granted", "resolve", "outcome", "failed", "allow_retry", true),
		"contradict failed": lateStory(does("completes"), "failed, final", "failed, final, contradicted",
			func(c *rowCall) { c.decide("resolve", "outcome", "failed") }),
		"contradict by earlier attempt": lateStory(does("completes"), "completed", "completed, contradicted", func(c *rowCall) {
			c.decide("resolve", "outcome", "failed", "allow_retry", true)
			c.act()
		}),
		"contradict by look-up": lookedUpLate(),
		"acknowledge":           decided(does("completes"), "failed, final, contradicted", contradict, "failed, final, acknowledged", "acknowledge"),
		"ask undo":              decided(undo, "completed", (*rowCall).act, "completed, undo_open", "compensate"),
		"ask undo of unknown": {
			order: map[string]string{"does": "loses_track", "undoes": "loses_track"}, before: "indeterminate", after: "indeterminate, undo_open, decided", reach: (*rowCall).act,
			move: func(c *rowCall) {
				c.becomes("indeterminate, undo_open, decided", func() { c.tryDecide(c.run+":call_1", "compensate", "knows_unknown", true) })
			},
		},
		"ask undo of contradicted": decided(undo, "failed, final, acknowledged", func(c *rowCall) {
			contradict(c)
			c.decide("acknowledge")
		}, "failed, final, undo_open, acknowledged", "compensate"),
		"undo completed": {order: undo, before: "completed, undo_open", after: "compensated", reach: askUndo, move: func(c *rowCall) { c.undone("completed") }},
		"undo failed":    {order: undo, before: "completed, undo_open", after: "completed", reach: askUndo, move: func(c *rowCall) { c.undone("failed") }},
		"acknowledge undo": decided(map[string]string{"does": "completes", "undoes": "completes"}, "completed", func(c *rowCall) {
			c.act()
			release := c.heldUndo()
			eventually(c.T, "the undo is unknown", func() bool {
				c.ask(http.MethodPost, keyPath(c.run+":call_1", "reconcile"), map[string]any{})
				return c.of(c.undoKey()).State == "indeterminate"
			})
			c.undone("failed")
			release()
			eventually(c.T, "the undo is contradicted", func() bool { return c.of(c.undoKey()).State == "failed, final, contradicted" })
		}, "compensated", "acknowledge"),
		"note": {order: unknown, before: "indeterminate", after: "indeterminate", reach: (*rowCall).act, move: func(c *rowCall) {
			before := len(c.detail().Evidence)
			c.reconcile()
			if after := len(c.detail().Evidence); after != before+1 {
				c.Errorf("%d pieces of evidence after %d", after, before)
			}
		}},
	}
}

// contradict lets a person call a call failed whose executor then says that it
// took effect.
func contradict(c *rowCall) {
	release := c.held("invoke", 1, 1, "started")
	c.becomes("indeterminate", c.inspect)
	c.decide("resolve", "outcome", "failed")
	release()
	eventually(c.T, "the call is contradicted", func() bool { return c.state() == "failed, final, contradicted" })
}

func approve(c *rowCall) {
	c.act()
	c.decide("approve")
}

func grant(c *rowCall) {
	c.act()
	c.decide("resolve", "outcome", "failed", "allow_retry", true)
}

// rowsNotUsed are the rows that no function makes yet, with why.
var rowsNotUsed = map[string]string{
	"follow": "claims on a business key are not offered by any function",
}

func TestEveryRowOfTheTableIsMadeFromOutside(t *testing.T) {
	t.Parallel()
	rows, stories := tableRows(t), rowStories()
	told := slices.Sorted(maps.Keys(stories))
	for name := range rowsNotUsed {
		told = append(told, name)
	}
	slices.Sort(told)
	if known := slices.Sorted(maps.Keys(rows)); len(known) < 30 || !slices.Equal(known, told) {
		t.Fatalf("the table has the rows\n%v\nand the stories are about\n%v", known, told)
	}
	desk := newRowDesk(t)
	for name, story := range stories {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := &rowCall{rowDesk: desk, T: t, run: ownRun(t), tool: story.tool, order: story.order}
			if c.tool == "" {
				c.tool = "act"
			}
			row := rows[name]
			if !slices.Contains(row.from, status(story.before)) || status(story.after) != row.to && (row.to != "the same" || status(story.after) != status(story.before)) {
				t.Fatalf("from %q to %q is not what the table says: %+v", story.before, story.after, row)
			}
			story.reach(c)
			if got := c.state(); got != story.before {
				t.Fatalf("before the move it is %q, want %q", got, story.before)
			}
			story.move(c)
			// A request that was held may arrive after its sender has given up.
			eventually(t, "it moves from "+story.before+" to "+story.after, func() bool { return c.state() == story.after })
		})
	}
}

func status(state string) string {
	word, _, _ := strings.Cut(state, ",")
	return word
}
