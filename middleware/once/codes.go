package once

//go:generate go run ./internal/errorspage ../../docs/reference/errors.md

import "slices"

// Code is one row of the closed table of reasons: the words that stand in
// [Report].Code and in an answer's error.
type Code struct {
	Word    string // stable; part of the contract
	Status  Status // the answer that it comes with
	Effect  string // of the call: none, unknown, happened, undone, or "as recorded"
	Retry   string // what may be asked again, under the same key
	HTTP    int    // for a front that speaks HTTP
	Meaning string
}

// StepFunctions returns the error name that [LambdaError] gives the code, for a
// Catch in a state machine.
func (c Code) StepFunctions() string { return errorName(c.Status) }

// Codes returns the table. docs/reference/errors.md is generated from it.
func Codes() []Code { return slices.Clone(codes) }

const (
	asRecorded = "as recorded"

	retryNever    = "never"
	retryFixed    = "after correcting the request"
	retrySame     = "same key, later"
	retryLook     = "same key, which looks it up"
	retryApproved = "same key, once approved"
	retryGranted  = "only by a person's grant or a named next attempt"
)

const (
	codeBadJSON       = "bad_json"
	codeBadUTF8       = "bad_utf8"
	codeDuplicate     = "duplicate_name"
	codeUnknownField  = "unknown_field"
	codeBadField      = "bad_field"
	codeBadVersion    = "bad_version"
	codeBadMode       = "bad_mode"
	codeWrongFunction = "wrong_function"
	codeMissingID     = "missing_id"
	codeBadID         = "bad_id"
	codeUnknownTool   = "unknown_tool"
	codeNoArguments   = "missing_arguments"
	codeTwoArguments  = "two_arguments"
	codeTooLarge      = "arguments_too_large"
	codeBadArguments  = "bad_arguments"
	codeBadNumber     = "bad_number"
	codeUnidentified  = "unidentified"
	codeNotSupported  = "not_supported"
	codeNotAuthorised = "not_authorised"
	codeTooLittleTime = "too_little_time"
	codeStoreDown     = "store_unavailable"
	codeCorrupt       = "corrupt_record"
	codeNoRecord      = "no_record"
	codeFollower      = "follows_another"
	codeOtherCall     = "other_call"
	codePastRetention = "past_retention"
	codeRunning       = "running"
	codeAwaiting      = "awaiting_approval"
	codeNotAttempted  = "not_attempted"
	codeNeverRan      = "never_ran"
	codeRejected      = "rejected"
	codeReadFailed    = "read_failed"
	codeAbsent        = "absent"
	codeUnknown       = "outcome_unknown"
	codeCannotTell    = "look_up_unknown"
	codeFoundNothing  = "look_up_absent"
	codeTimeout       = "timeout"
	codePanic         = "panic"
	codeInterrupted   = "interrupted"
	codeNotRecorded   = "not_recorded"
	codeContradicted  = "contradicted"
	codeCompensated   = "compensated"
	codeNotAsked      = "undo_not_asked"
	codeNotOpen       = "undo_not_open"
	codeOtherOwner    = "undo_of_other"
	codeClosed        = "closed"
)

var codes = []Code{
	{codeBadJSON, Refused, asRecorded, retryFixed, 400, "The payload is not one JSON object."},
	{codeBadUTF8, Refused, asRecorded, retryFixed, 400, "The payload or the arguments hold invalid UTF-8 or half a surrogate pair."},
	{codeDuplicate, Refused, asRecorded, retryFixed, 400, "A name stands twice in one object."},
	{codeUnknownField, Refused, asRecorded, retryFixed, 400, "The envelope has a field that version 1 lacks."},
	{codeBadField, Refused, asRecorded, retryFixed, 400, "A field of the envelope has the wrong type or value."},
	{codeBadVersion, Refused, asRecorded, retryFixed, 400, "The field onceward is missing or names another version than 1."},
	{codeBadMode, Refused, asRecorded, retryFixed, 400, "The mode is missing or unknown."},
	{codeWrongFunction, Refused, asRecorded, retryFixed, 400, "The mode belongs to another function."},
	{codeMissingID, Refused, "none", retryFixed, 400, "The run id or the call id is missing."},
	{codeBadID, Refused, "none", retryFixed, 400, "The tenant, run id or call id is outside its charset or length."},
	{codeUnknownTool, Refused, asRecorded, retryFixed, 404, "No tool of that name is served here."},
	{codeNoArguments, Refused, asRecorded, retryFixed, 400, "Neither arguments nor arguments_json is given."},
	{codeTwoArguments, Refused, asRecorded, retryFixed, 400, "Both arguments and arguments_json are given."},
	{codeTooLarge, Refused, asRecorded, retryFixed, 413, "The arguments are longer than 256 KiB."},
	{codeBadArguments, Refused, asRecorded, retryFixed, 422, "The arguments are not what the tool asks for."},
	{codeBadNumber, Refused, asRecorded, retryFixed, 422, "A number does not survive as a double; send it as a string."},
	{codeUnidentified, Refused, asRecorded, retryFixed, 400, "The wrapped function can't say which call its input is."},
	{codeNotSupported, Refused, asRecorded, retryNever, 501, "The tool, or this version, can't do what was asked."},
	{codeNotAuthorised, Refused, asRecorded, retryFixed, 403, "The caller may not make this call."},
	{codeTooLittleTime, Refused, asRecorded, retrySame, 503, "Less time is left than the tool may need."},
	{codeStoreDown, Refused, asRecorded, retrySame, 503, "The ledger can't be reached; the tool was not run."},
	{codeCorrupt, Refused, "unknown", retryNever, 500, "The record can't be read as one; nothing may run on it."},
	{codeNoRecord, Refused, "none", retrySame, 404, "The ledger has no record of the call."},
	{codeFollower, Refused, "unknown", retryNever, 409, "The call answers as another one does, which this version can't follow."},
	{codeNotAsked, Refused, asRecorded, retryNever, 409, "Nobody has asked for this undo of the call."},
	{codeNotOpen, Refused, asRecorded, retryNever, 409, "The undo is over: it has ended, or a later one was asked for."},
	{codeOtherOwner, Refused, asRecorded, retryFixed, 409, "The call to undo is one of another tool, turn or arguments."},
	{codeOtherCall, Conflict, asRecorded, retryNever, 409, "The key belongs to a call of another tool, turn or arguments."},
	{codePastRetention, Expired, "none", retryNever, 410, "The call came later than records are kept, and there is none."},
	{codeRunning, InProgress, "unknown", retrySame, 202, "Another attempt may be running."},
	{codeAwaiting, ApprovalRequired, "none", retryApproved, 202, "A person has to approve the call first."},
	{codeNotAttempted, Failed, "none", retryGranted, 502, "The tool says that nothing was sent."},
	{codeNeverRan, Failed, "none", retryGranted, 503, "The process lost its time before the tool was run."},
	{codeRejected, Failed, "none", retryNever, 422, "The receiver said no, definitely."},
	{codeReadFailed, Failed, "none", retryNever, 502, "A read failed in all of its attempts."},
	{codeAbsent, Failed, "none", retryGranted, 502, "An authoritative look-up found no effect."},
	{codeClosed, Failed, "none", retryNever, 409, "The call was closed before it ran."},
	{"denied", Failed, "none", retryNever, 403, "A person denied the approval."},
	{"approval_expired", Failed, "none", retryNever, 410, "Nobody approved the call in time."},
	{"resolved_failed", Failed, "none", retryGranted, 409, "A person looked, and settled the call as failed."},
	{codeUnknown, Indeterminate, "unknown", retryLook, 502, "The tool failed after its request may have left."},
	{codeCannotTell, Indeterminate, "unknown", retryLook, 502, "The look-up was asked just now and could not tell."},
	{codeFoundNothing, Indeterminate, "unknown", retryLook, 409, "The look-up was asked just now and found nothing, which proves nothing yet."},
	{codeTimeout, Indeterminate, "unknown", retryLook, 504, "The tool, or a request that it made, did not end in time."},
	{codeInterrupted, Indeterminate, "unknown", retryLook, 504, "The caller went away while the tool ran."},
	{codePanic, Indeterminate, "unknown", retryLook, 500, "The tool panicked."},
	{"executor_lost", Indeterminate, "unknown", retryLook, 504, "The executor did not report before its deadline."},
	{codeNotRecorded, Indeterminate, "unknown", retryLook, 500, "The tool ran and what became of it could not be stored."},
	{codeContradicted, Indeterminate, "unknown", retryNever, 409, "A late outcome denies what the ledger said."},
	{codeCompensated, Compensated, "undone", retryNever, 200, "The call took effect and was undone."},
}

// sentences are told and stored where an error's own text must not be: it may
// hold what the handler knows.
var sentences = func() map[string]string {
	all := make(map[string]string, len(codes))
	for _, c := range codes {
		all[c.Word] = sentence(c.Meaning)
	}
	return all
}()

// sentence returns the meaning as a reason that can stand inside a sentence.
func sentence(meaning string) string {
	first, rest := meaning[:1], meaning[1:len(meaning)-1]
	if first >= "A" && first <= "Z" {
		first = string(first[0] + 'a' - 'A')
	}
	return first + rest
}
