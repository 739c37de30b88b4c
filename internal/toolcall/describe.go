package toolcall

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/onceward/onceward/middleware/once"
)

// ErrNotServed reports that the function behind a tool answers, and does not
// serve the tool.
var ErrNotServed = errors.New("toolcall: the function does not serve this tool")

// Manifest is what a tool's function says of the tool.
type Manifest struct {
	Name string `json:"name"`

	// Undo says whether the tool can undo a call; nil if the function does not say.
	Undo *bool `json:"undo"`
}

// Describe asks the function behind a tool what it says of the tool. It changes
// nothing. [ErrNoTool] and [ErrNotServed] mean that the tool can't be asked for
// anything as things stand.
func (c Caller) Describe(ctx context.Context, tool string) (Manifest, error) {
	payload, err := json.Marshal(struct {
		Onceward int       `json:"onceward"`
		Mode     once.Mode `json:"mode"`
	}{once.EnvelopeVersion, once.ModeDescribe})
	if err != nil {
		return Manifest{}, fmt.Errorf("toolcall: describe: %w", err)
	}
	raw, err := c.invoke(ctx, tool, payload)
	if err != nil {
		return Manifest{}, err
	}
	var all struct {
		Onceward int        `json:"onceward"`
		Tools    []Manifest `json:"tools"`
	}
	if err := json.Unmarshal(raw, &all); err != nil || all.Onceward != once.EnvelopeVersion || all.Tools == nil {
		return Manifest{}, fmt.Errorf("%w: it is no manifest of version %d", ErrNoAnswer, once.EnvelopeVersion)
	}
	i := slices.IndexFunc(all.Tools, func(m Manifest) bool { return m.Name == tool })
	if i < 0 {
		return Manifest{}, fmt.Errorf("%w: %s", ErrNotServed, tool)
	}
	return all.Tools[i], nil
}
