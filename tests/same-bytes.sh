#!/usr/bin/env bash
# The same inputs give the same bytes: run after run, and from a debug and a release build.
set -euo pipefail
cd "$(dirname "$0")/.."
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cargo build --quiet --package kpps
cargo build --quiet --release --package kpps
target=${CARGO_TARGET_DIR:-target}
run() { # build, file
    "$target/$1/kpps" curve --json --load 100kpps,700kpps,100% --duration 10ms > "$dir/$2"
}
run release first
run release second
run debug debug
cmp "$dir/first" "$dir/second"
cmp "$dir/first" "$dir/debug"
test -s "$dir/first"
echo "kpps curve --json: $(wc -c < "$dir/first") bytes, the same from two runs and from both builds"
