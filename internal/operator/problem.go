package operator

import (
	"net/http"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Code is a stable word for what went wrong, the same in every version of the
// API.
type Code string

// The codes. [Codes] says what each means.
const (
	InvalidBody       Code = "invalid_body"
	InvalidRequest    Code = "invalid_request"
	InvalidCursor     Code = "invalid_cursor"
	KeyReused         Code = "idempotency_key_reused"
	MissingIdentity   Code = "missing_identity"
	MissingScope      Code = "missing_scope"
	InvalidTenant     Code = "invalid_tenant"
	NotFound          Code = "not_found"
	RunNotFound       Code = "run_not_found"
	NoRoute           Code = "no_such_route"
	MethodNotAllowed  Code = "method_not_allowed"
	RequestTimeout    Code = "request_timeout"
	BodyTooLarge      Code = "body_too_large"
	UnsupportedMedia  Code = "unsupported_media_type"
	StaleVersion      Code = "stale_version"
	AlreadyDecided    Code = "already_decided"
	AlreadySettled    Code = "already_settled"
	NotAllowed        Code = "not_allowed"
	NothingToLookUp   Code = "nothing_to_reconcile"
	NoArguments       Code = "no_arguments"
	ToolNotConfigured Code = "tool_not_configured"
	NoCompensation    Code = "no_compensation"
	RunDriven         Code = "run_driven"
	RunEnded          Code = "run_ended"
	RunExists         Code = "run_exists"
	LookUpFailed      Code = "look_up_failed"
	ToolUnreachable   Code = "tool_unreachable"
	RunNotStarted     Code = "run_not_started"
	Unavailable       Code = "unavailable"
	OutcomeUnknown    Code = "outcome_unknown"
	CorruptRecord     Code = "corrupt_record"
	Internal          Code = "internal"
)

// CodeInfo says what a code means.
type CodeInfo struct {
	Code   Code
	Status int    // HTTP status
	Title  string // the same for every occurrence
	Means  string // what it says of the call, and what to do
}

var codes = []CodeInfo{
	{InvalidBody, http.StatusBadRequest, "The body can't be read", "The body is missing, is not one JSON object, or gives a name twice. Nothing was changed: correct it and send it again."},
	{MissingIdentity, http.StatusUnauthorized, "Nobody is signed in", "The authorizer named no subject. Nothing was changed: sign in and send the request again."},
	{MissingScope, http.StatusForbidden, "Not allowed for this identity", "The identity lacks the scope that is named. Nothing was changed."},
	{InvalidTenant, http.StatusForbidden, "Not a tenant", "The identity's tenant is not one that a call can belong to: at most 40 of A-Za-z0-9_-, or no claim at all where there are no tenants. Nothing was changed."},
	{NotFound, http.StatusNotFound, "No such call", "There is no record under this key in your tenant. Nothing was changed: check the key and the tenant of your token."},
	{RunNotFound, http.StatusNotFound, "No such run", "There is no run of this id in your tenant, or its retention is over. Nothing was changed: check the id and the tenant of your token."},
	{NoRoute, http.StatusNotFound, "No such resource", "The path is not one of this API. Nothing was changed."},
	{MethodNotAllowed, http.StatusMethodNotAllowed, "Method not allowed", "The path exists under another method, see the Allow header. Nothing was changed."},
	{RequestTimeout, http.StatusRequestTimeout, "The body did not arrive in time", "Nothing was changed: send it again."},
	{StaleVersion, http.StatusConflict, "The call has moved", "The decision is still possible, but expected_version is not the record's version. Nothing was changed. Look at the record's version, then decide again with it as expected_version."},
	{AlreadyDecided, http.StatusConflict, "It has been decided already", "A person's decision stands, see decided_by and record. Nothing was changed by this request."},
	{AlreadySettled, http.StatusConflict, "The call is settled", "The executor, a look-up, the planner or the sweeper settled it, see decided_by and record. Nothing was changed by this request."},
	{NotAllowed, http.StatusConflict, "Not possible in this state", "This can't be decided in the call's state. Nothing was changed; record says where the call stands."},
	{NothingToLookUp, http.StatusConflict, "Nothing to look up", "The call is not unknown, its executor may still be at work, or it is an undo, which has no look-up. No look-up was asked, and nothing was decided."},
	{NoArguments, http.StatusConflict, "The arguments are not stored", "The turn that holds the call's arguments can't be found, and the tool's look-up needs them. Nothing was changed; resolve the call instead."},
	{ToolNotConfigured, http.StatusConflict, "No function for this tool", "This deployment has no function that serves the call's tool, so it can be asked neither for a look-up nor for an undo. Nothing was changed; resolve the call instead, or undo its effect at the receiver."},
	{NoCompensation, http.StatusConflict, "The tool can't undo", "The tool declares no compensation, so no undo was asked for. Nothing was changed; undo the effect at the receiver, or by another call."},
	{RunDriven, http.StatusConflict, "The run has a driver", "The execution that the run names is running. Nothing was changed: there is nothing to resume."},
	{RunEnded, http.StatusConflict, "The run has ended", "A run that has succeeded or failed is not resumed. Nothing was changed; start another run."},
	{RunExists, http.StatusConflict, "There is a run of this id", "A run of this id was started with another input. Nothing was changed: choose another run_id, or send the input that it was started with."},
	{BodyTooLarge, http.StatusRequestEntityTooLarge, "The body is too large", "At most 256 KiB are read. Nothing was changed."},
	{UnsupportedMedia, http.StatusUnsupportedMediaType, "Not JSON", "Send application/json. Nothing was changed."},
	{InvalidRequest, http.StatusUnprocessableEntity, "The request is not valid", "Every wrong field is named in errors. Nothing was changed: correct them and send the request again."},
	{InvalidCursor, http.StatusUnprocessableEntity, "The cursor is not valid here", "Cursors are opaque and belong to one list with its filters. Start again without one."},
	{KeyReused, http.StatusUnprocessableEntity, "The Idempotency-Key was used for something else", "The same identity sent another decision on this call under this key. Nothing was changed by this request: read the call, and use a new key for a new decision."},
	{Internal, http.StatusInternalServerError, "The service failed", "Nothing is known: read the call before deciding again."},
	{CorruptRecord, http.StatusInternalServerError, "The stored record can't be read", "Nothing may run on it, and its effect is unknown. Nothing was changed. If a newer version wrote it, ask that version; otherwise the stored item has to be repaired."},
	{LookUpFailed, http.StatusBadGateway, "The look-up gave no answer", "The tool's function did not answer and the record is as it was. The look-up only reads, so it may be asked again."},
	{ToolUnreachable, http.StatusBadGateway, "The tool's function gave no answer", "The function was asked what it can do, and gave no answer. No undo was asked for, and nothing was changed. Try again."},
	{Unavailable, http.StatusServiceUnavailable, "The ledger can't be reached", "Nothing was changed. Try again."},
	{OutcomeUnknown, http.StatusServiceUnavailable, "It is not known whether the decision was stored", "The decision, or what a look-up found, may or may not stand; the tool was not run. Send the same request again with the same Idempotency-Key, or read the call. Without a key a repeat is answered 409 if the decision stands, and wakes the run."},
	{RunNotStarted, http.StatusServiceUnavailable, "It is not known whether the run goes on", "Its execution may run or not. Send the same request again: it starts at most one. If the run is stored and nothing drives it, the sweeper starts it."},
}

// Codes returns the closed table of codes, ordered by status.
func Codes() []CodeInfo { return slices.Clone(codes) }

func infoOf(code Code) CodeInfo {
	for _, info := range codes {
		if info.Code == code {
			return info
		}
	}
	return infoOf(Internal)
}

// FieldError names one wrong part of a request. It never repeats the value.
type FieldError struct {
	Location string `json:"location" doc:"Where, such as body.reason or query.limit"`
	Message  string `json:"message" doc:"What is wrong with it"`
}

// Problem is an error as RFC 9457 describes it, and the body that is answered
// with. It holds nothing internal; its cause is for logs only.
type Problem struct { //nolint:errname // RFC 9457 calls it a problem, and so does everybody who reads one
	Type      string       `json:"type" doc:"urn:onceward:problem: and the code"`
	Title     string       `json:"title" doc:"The same for every occurrence of the code"`
	Status    int          `json:"status" doc:"HTTP status"`
	Code      Code         `json:"code" doc:"Stable word; docs/reference/problems.md lists them"`
	Detail    string       `json:"detail,omitempty" doc:"This occurrence, what it means for the call, and what to do"`
	Errors    []FieldError `json:"errors,omitempty" doc:"Every wrong field"`
	Record    *Record      `json:"record,omitempty" doc:"The record that stands, on a conflict"`
	DecidedBy *DecidedBy   `json:"decided_by,omitempty" doc:"Who brought the call where it stands, on a conflict; absent if nobody has decided or settled it"`

	// Undo is nil where the request met no open undo.
	Undo *UndoCall `json:"undo,omitempty" doc:"The undo that the request met as the latest decision on the call, as it stands"`

	// NotBefore is "" where waiting alone does not make the request possible.
	NotBefore string `json:"not_before,omitempty" format:"date-time" doc:"After this the request may be possible"`

	// RunWaiting is "" where the call was not met.
	RunWaiting RunWaiting `json:"run_waiting,omitempty" enum:"woken,not waiting,no longer waiting,not woken yet,still waiting for a decision" doc:"What became of the parked run of the call that the request met"`

	cause error
}

// DecidedBy says who brought a call into the state that stands.
type DecidedBy struct {
	Kind     string `json:"kind" doc:"person, executor, hook, planner or sweeper"`
	Actor    string `json:"actor,omitempty" doc:"The person's id"`
	Decision string `json:"decision,omitempty" doc:"What the person decided, such as resolve_completed"`
	At       string `json:"at,omitempty" format:"date-time" doc:"When"`
}

// NewProblem returns the problem of a code. Its detail is what is said of this
// occurrence, "" for nothing, and then what the code means. cause is for logs; it
// may be nil.
func NewProblem(code Code, occurrence string, cause error) *Problem {
	info := infoOf(code)
	p := &Problem{Type: "urn:onceward:problem:" + string(info.Code), Title: info.Title, Status: info.Status, Code: info.Code, cause: cause}
	p.say(occurrence)
	p.say(info.Means)
	return p
}

// say adds a sentence to the detail.
func (p *Problem) say(words string) {
	if words == "" {
		return
	}
	first, size := utf8.DecodeRuneInString(words)
	words = string(unicode.ToUpper(first)) + words[size:]
	if !strings.HasSuffix(words, ".") {
		words += "."
	}
	p.Detail = strings.TrimPrefix(p.Detail+" "+words, " ")
}

func problem(code Code, detail string) *Problem { return NewProblem(code, detail, nil) }

func (p *Problem) because(err error) *Problem {
	p.cause = err
	return p
}

// Error implements error: the code, the detail and the wrong fields.
func (p *Problem) Error() string {
	words := []string{"operator: " + string(p.Code)}
	if p.Detail != "" {
		words = append(words, p.Detail)
	}
	for _, f := range p.Errors {
		words = append(words, f.Location+": "+f.Message)
	}
	return strings.Join(words, "; ")
}

// Unwrap returns the cause, which must not reach a client.
func (p *Problem) Unwrap() error { return p.cause }

// invalid collects wrong fields.
type invalid []FieldError

func (v *invalid) add(location, message string) {
	*v = append(*v, FieldError{Location: location, Message: message})
}

func (v *invalid) problem() error {
	if len(*v) == 0 {
		return nil
	}
	return v.list()
}

func (v *invalid) list() *Problem {
	var names []string
	for _, f := range *v {
		names = append(names, f.Location)
	}
	p := problem(InvalidRequest, "wrong: "+strings.Join(names, ", "))
	p.Errors = *v
	return p
}
