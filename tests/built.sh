#!/usr/bin/env bash
# The command, after the tests were compiled: it writes the same bytes twice, the packages can be
# installed and used, and our driver keeps its promises on twenty-five machines and under ten seconds of
# faults not tried before. `make release` and `make other-systems` check other builds of it.
# usage: tests/built.sh TARGET, cargo's folder.
set -euo pipefail
cd "$(dirname "$0")/.."
target=$1
unset RUSTC_WORKSPACE_WRAPPER
step() { echo "$*"; "$@"; }
step tests/same-bytes.sh "$target/debug/kpps"
step make --no-print-directory package
step tests/packaged.sh "$target/package"
step tests/packages.sh "$target/debug/kpps"
step tests/lab2026.py check lab/lab2026/predicted-2026-11-26.csv --kpps "$target/debug/kpps"
step tests/planted.sh --lines
# What uses all processors comes last, so that they are used to the end.
step nice -n 5 tests/random-machines.sh "$target/debug/kpps" 1..25
step nice -n 5 tests/faults.sh "$target/debug/kpps" 10s
