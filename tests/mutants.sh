#!/usr/bin/env bash
# Changes one expression at a time in the driver's packet paths and in the pool of buffers, and asks the
# simulation of faults, and nothing else, whether it notices. `.cargo/mutants.toml` says what is changed.
# usage: tests/mutants.sh [OPTION OF cargo mutants…], such as `--shard 0/8 --sharding round-robin`
set -euo pipefail
cd "$(dirname "$0")/.."
target=${CARGO_TARGET_DIR:-$PWD/target}
export PATH=$target/tools/bin:$PATH
export CARGO_MUTANTS_OUTPUT=${CARGO_MUTANTS_OUTPUT:-$target}
# A mutant that never ends is killed after so many seconds of processor time, however busy the machine is.
ulimit -t 40
decides=(--ignored --exact no_world_fails)
cargo test --quiet --profile mutants --package kpps-faults --test worlds -- "${decides[@]}"
# Mutants are built elsewhere: what is left of the last one must not be taken for the driver.
export CARGO_TARGET_DIR=$target/mutants-build
status=0
cargo mutants --baseline skip --timeout 600 --profile mutants --test-package kpps-faults \
    --cargo-arg=--test=worlds "$@" -- -- "${decides[@]}" || status=$?
# 2: mutants were missed; 3: some ran into the timeout.
[[ $status = [023] ]]
