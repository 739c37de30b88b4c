#!/usr/bin/env bash
# Compares a guarded call with two raw SDK calls: all take turns in one run, on
# one CPU. Fails if the number of requests or the CPU is not what is promised.
set -eu -o pipefail
cd "$(dirname "$0")/.."
GOMAXPROCS=1 go test -run '^$' -bench 'FreshCall|Replay' -benchtime "${BENCHTIME:-5s}" ./middleware/ledger/dynamoledger
GOMAXPROCS=1 go test -run '^$' -bench Guard -benchtime "${BENCHTIME:-1s}" ./middleware/once
