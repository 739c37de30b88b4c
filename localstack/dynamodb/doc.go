// Package dynamodb runs a real local engine that speaks DynamoDB's protocol as
// a child process: dynoxide where npm serves it, dynalite elsewhere. It finds
// the engine that npm installed, starts it on a free loopback port, waits
// until it answers, passes requests on to it through a reverse proxy that
// never sends one twice, and stops it gracefully. It knows nothing of tables.
// Start with [Find] and [Start].
package dynamodb
