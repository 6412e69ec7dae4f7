#!/bin/sh
# Runs the tests of Linux's interfaces, of ports and of the tester under ThreadSanitizer and AddressSanitizer,
# or one of them:
# tests/sanitizers.sh [thread|address]
set -eu
cd "$(dirname "$0")/.."
host=$(rustc -vV | sed -n 's/^host: //p')
target=${CARGO_TARGET_DIR:-target}
for sanitizer in "${@:-thread address}"; do
    for one in $sanitizer; do
        echo "$one"
        # Memory that the kernel is given back at the end of a process is no leak worth a failure.
        RUSTFLAGS="-Zsanitizer=$one" ASAN_OPTIONS=detect_leaks=0 TSAN_OPTIONS=halt_on_error=1 \
            cargo +nightly test --quiet -Zbuild-std --target "$host" --target-dir "$target/$one" \
            --package kpps-linux --package kpps-ports --package kpps-tester --lib --tests
    done
done
