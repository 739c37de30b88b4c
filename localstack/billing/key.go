package billing

import (
	"encoding/json"
	"fmt"
	"net/http"

	bolt "go.etcd.io/bbolt"
)

// keyed is what an idempotency key stands for: the request it belongs to and
// the body it was answered with.
type keyed struct {
	Operation Operation       `json:"operation"`
	Request   string          `json:"request"`
	Body      json.RawMessage `json:"body"`
}

// write runs apply once per key in one transaction: effect and key reach the
// disk together, or neither does. It returns the body to answer with and
// whether that body is a replay.
func (s *store) write(op Operation, key, request string, apply func(*bolt.Tx) (any, error)) (body json.RawMessage, replayed bool, err error) {
	err = s.db.Update(func(tx *bolt.Tx) error {
		keys := tx.Bucket(bucketKeys)
		if stored := keys.Get([]byte(key)); key != "" && stored != nil {
			replayed = true
			body, err = replay(stored, op, request)
			return err
		}
		out, err := apply(tx)
		if err != nil {
			return err
		}
		if body, err = json.Marshal(out); err != nil || key == "" {
			return err
		}
		// Stored with this commit: the effect and the answer it has under this
		// key. If the answer is lost, the key finds both again.
		return putJSON(keys, []byte(key), keyed{Operation: op, Request: request, Body: body})
	})
	return body, replayed, err
}

func replay(stored []byte, op Operation, request string) (json.RawMessage, error) {
	var k keyed
	if err := json.Unmarshal(stored, &k); err != nil {
		return nil, fmt.Errorf("billing: stored key is unreadable: %w", err)
	}
	if k.Operation != op || k.Request != request {
		return nil, &StatusError{Status: http.StatusConflict, Code: CodeKeyReused, Message: "this idempotency key belongs to another request"}
	}
	return k.Body, nil
}
