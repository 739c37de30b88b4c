// Package faults loses messages on purpose. A [Plan] holds armed rules; its
// middleware stands in front of AWS-like HTTP services and drops, delays,
// repeats or refuses the n-th request, drops its answer, kills the sandbox that
// sent it, or closes every connection for a while. It also counts requests per
// service, operation and caller, so that a test can assert how many one call
// costs. Rules and counters are served as JSON under /_local/.
package faults
