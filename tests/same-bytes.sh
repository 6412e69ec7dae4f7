#!/usr/bin/env bash
# The same inputs give the same bytes: run after run, and from all builds of kpps that are given.
# usage: tests/same-bytes.sh BUILD…
set -euo pipefail
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
run() { # build, file
    "$1" curve --json --load 100kpps,700kpps,100% --duration 10ms > "$dir/$2"
}
run "$1" first
for build in "$@"; do
    run "$build" again
    cmp "$dir/first" "$dir/again"
done
test -s "$dir/first"
echo "kpps curve --json: $(wc -c < "$dir/first") bytes, the same from two runs and from builds: $#"
