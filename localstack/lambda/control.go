package lambda

import (
	"encoding/json"
	"errors"
	"io"
	"net/http"
)

// Control serves what no AWS API has: POST /_local/lambda/kill with
// {"function": name} kills the sandboxes of that function which are running an
// invocation and answers {"killed": n}. Requests sent by web pages of other
// origins are refused.
func (s *Supervisor) Control() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("POST /_local/lambda/kill", func(w http.ResponseWriter, r *http.Request) {
		function, err := readKill(http.MaxBytesReader(w, r.Body, 4<<10))
		if err != nil {
			answerControl(w, http.StatusBadRequest, map[string]any{"error": err.Error()})
			return
		}
		if !s.known(function) {
			answerControl(w, http.StatusNotFound, map[string]any{"error": "no function of this name"})
			return
		}
		answerControl(w, http.StatusOK, map[string]any{"killed": s.Kill(function)})
	})
	return http.NewCrossOriginProtection().Handler(mux)
}

func readKill(body io.Reader) (string, error) {
	var request struct {
		Function string `json:"function"`
	}
	d := json.NewDecoder(body)
	d.DisallowUnknownFields()
	if err := d.Decode(&request); err != nil {
		return "", err
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return "", errors.New("must be one JSON object")
	}
	if request.Function == "" {
		return "", errors.New("function: required")
	}
	return request.Function, nil
}

func (s *Supervisor) known(function string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.pools[function] != nil
}

func answerControl(w http.ResponseWriter, status int, body any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(body)
}
