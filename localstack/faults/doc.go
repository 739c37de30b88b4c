// Package faults loses messages on purpose. A [Plan] holds armed rules; its
// middleware stands in front of AWS-like HTTP services and drops the n-th
// request before it is handled or its answer afterwards, kills the sandbox
// that sent it, or answers an AWS error. It also counts requests per service,
// operation and caller, so that a test can assert how many one call costs.
// Rules and counters are served as JSON under /_local/.
package faults
