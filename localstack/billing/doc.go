// Package billing is a fake billing service: the receiver whose own database
// says how often money moved. It runs in its own process with its own durable
// file, so that it outlives every kill of the system under test. It honours
// Idempotency-Key, can be asked by key, and misbehaves when told to. Start with
// [Run] and [Client]; it serves loopback only and is no model of a real ledger.
//
// # Requests
//
//	POST /sessions               sign in; writes need the token
//	GET  /orders/{id}            a made-up order, the same for the same id
//	POST /credits                credit an account
//	GET  /credits?key=K          the credit of a key: [] or [credit]
//	GET  /credits?account_id=A   every credit of an account
//	POST /credits/{id}/void      undo a credit
//	GET  /voids?key=K            the void of a key: [] or [void]
//	POST /accounts/{id}/close    later credits answer 422
//	GET  /closures?key=K         the closure of a key: [] or [closure]
//	GET  /_effects               what took effect, counted from the file
//	GET|POST|DELETE /_faults     rules that make requests fail
//	GET  /_test-accounts         the table below, as JSON
//
// A write without a key takes effect each time. A write with a key takes effect
// once: the same request again answers 200 with the first answer's body and
// Idempotent-Replayed: true, another request under that key answers 409. A
// refusal (422) is definite, stores nothing and does not use up its key.
//
// # Test accounts
//
// An account id that contains one of these words misbehaves by itself, so that
// the input of a run alone decides its story. Words combine: an account with
// lose-answer-lookup-down loses the answer and cannot be asked afterwards.
//
//	word                 request   how often           what happens
//	lose-answer          credit    first of each key   stored, connection closed without an answer
//	drop-request         credit    first of each key   nothing stored, connection closed
//	hang                 credit    first of each key   stored, no answer until the client gives up
//	hang-before          credit    first of each key   nothing stored, no answer until the client gives up
//	error-500            credit    first of each key   stored, 500
//	error-500-before     credit    first of each key   nothing stored, 500
//	unavailable          credit    first of each key   nothing stored, 503
//	refuse               credit    always              nothing stored, 422 refused
//	lookup-down          lookup    always              503, so nobody can tell, of voids and closures neither
//	expired-credentials  session   always              401 credentials_expired
//
// A request without a key is always the first of its key. Of two words where
// one contains the other, the longer counts.
package billing
