#!/usr/bin/env bash
# The same inputs give the same bytes: run after run, and from a debug and a release build.
# usage: tests/same-bytes.sh DEBUG RELEASE, two builds of kpps
set -euo pipefail
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
run() { # build, file
    "$1" curve --json --load 100kpps,700kpps,100% --duration 10ms > "$dir/$2"
}
run "$2" first
run "$2" second
run "$1" debug
cmp "$dir/first" "$dir/second"
cmp "$dir/first" "$dir/debug"
test -s "$dir/first"
echo "kpps curve --json: $(wc -c < "$dir/first") bytes, the same from two runs and from both builds"
