#!/usr/bin/env bash
# The command, after the tests were compiled: the simulator of `make run` compiles without a warning and
# writes the same bytes, the packages can be installed and used, the command compiles for another system, and
# our driver keeps its promises on twenty-five machines and under ten seconds of faults not tried before.
# usage: tests/built.sh TARGET, cargo's folder.
set -euo pipefail
cd "$(dirname "$0")/.."
target=$1
# The release build is made once, without clippy.
unset RUSTC_WORKSPACE_WRAPPER
if ! said=$(cargo build --release --quiet --package kpps --no-default-features 2>&1) || [ -n "$said" ]; then
    echo "the simulator alone, without a warning: $said"
    exit 1
fi
if ! nm "$target/release/kpps" 2>&1 | grep -q 'no symbols'; then
    echo "the release build has symbols in it"
    exit 1
fi
step() { echo "$*"; "$@"; }
step tests/same-bytes.sh "$target/debug/kpps" "$target/release/kpps"
step make --no-print-directory package
step tests/packaged.sh "$target/package"
step make --no-print-directory other-systems OTHER_SYSTEMS=x86_64-apple-darwin
step tests/packages.sh "$target/debug/kpps"
step tests/lab2026.py check lab/lab2026/predicted-2026-11-26.csv --kpps "$target/debug/kpps"
step tests/planted.sh --lines
# What uses all processors comes last, so that they are used to the end.
step nice -n 5 tests/random-machines.sh "$target/debug/kpps" 1..25
step nice -n 5 tests/faults.sh "$target/debug/kpps" 10s
