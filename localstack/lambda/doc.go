// Package lambda runs built Lambda functions on one machine. A [Supervisor]
// starts one bootstrap process per concurrent invocation, speaks the Runtime
// API with it, reuses idle ones, enforces timeouts by SIGKILL and words
// failures, log lines and HTTP answers as AWS does. Its HTTP API serves
// Invoke, ListFunctions, GetFunction and GetFunctionConfiguration to any SDK.
// Sandboxes can be killed from outside, which is what the package is for.
package lambda
