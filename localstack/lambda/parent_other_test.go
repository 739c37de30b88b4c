//go:build !linux

package lambda_test

const diesWithParent = false
