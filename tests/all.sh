#!/usr/bin/env bash
# All tests, after `make test` has installed what they need. Each group runs to its end, also after a failure;
# the exit code is 1 if any test failed.
#
# Four groups run at the same time on the processors of this machine:
#   guests   tests that boot guests in QEMU, two at a time, and those of the Python package: two long programs
#   built    tests of the built command and of packages
#   docs     examples in the documentation of crates, most of whose time is compiling
#   others   all other tests: two threads for each processor, because tests of ports and agents wait, too
set -uo pipefail
cd "$(dirname "$0")/.." || exit 1
target=$(realpath -m "${CARGO_TARGET_DIR:-target}")
# Tests that cannot run here, for want of root or of a program, write into this file that they were skipped.
export KPPS_SKIPPED=$target/skipped
mkdir -p "$target" || exit 1
rm -f "$KPPS_SKIPPED"
# Each of our crates is checked by clippy before it is compiled.
export RUSTC_WORKSPACE_WRAPPER=$PWD/tests/with-clippy.sh

# run THREADS CHOICE…: tests of all crates.
run() {
    local threads=$1
    shift
    RUST_TEST_THREADS=$threads cargo test --workspace --no-fail-fast "$@"
}

cargo test --workspace --no-run || exit 1
# The README's first command builds the simulator without ports.
cargo check --quiet --package kpps --no-default-features || exit 1
# Benchmarks are only compiled.
cargo test --workspace --benches --no-run || exit 1

failed=()
# Ctrl-C ends all groups: a shell starts what runs in the background without that signal.
trap 'trap - INT TERM; kill -TERM 0' INT TERM
run 1 --doc > "$target/test-docs.log" 2>&1 & docs=$!
tests/built.sh "$target" > "$target/test-built.log" 2>&1 & built=$!
run 2 --test python --test qemu > "$target/test-guests.log" 2>&1 & guests=$!
run $((2 * $(nproc))) --lib --bins --test '[!pq]*' --test ports --bench instructions || failed+=("others, above")
wait $docs || failed+=("docs: $target/test-docs.log")
cat "$target/test-docs.log"
wait $guests || failed+=("guests: $target/test-guests.log")
cat "$target/test-guests.log"
wait $built || failed+=("built: $target/test-built.log")
cat "$target/test-built.log"
tests/skipped.sh
for group in "${failed[@]}"; do echo "failed: $group"; done
[ ${#failed[@]} = 0 ]
