#!/usr/bin/env bash
# Checks a crate with clippy, without a warning, and compiles it: cargo calls this instead of the compiler
# (RUSTC_WORKSPACE_WRAPPER). `cargo clippy` would have to read all libraries once more; this uses the
# compiled libraries. Clippy's own compiler is not used to compile: it leaves out checks of pointers.
#
# Clippy checks a library once: with its unit tests. As it is without them, the compiler's own lints check it.
# usage: tests/with-clippy.sh RUSTC ARGUMENT…
set -euo pipefail
rustc=$1
shift
checked=()
is_test=
is_library=
compiles= # cargo also asks the compiler for its version and its targets
skip=
for argument in "$@"; do
    if [ -n "$skip" ]; then
        skip=
        continue
    fi
    case $argument in
        # Cargo must not take what clippy writes for the compiler's output.
        --emit=*) compiles=1 ;;
        --json=* | --error-format=*) ;;
        --out-dir) skip=1 ;;
        --test) is_test=1 && checked+=("$argument") ;;
        lib) is_library=1 && checked+=("$argument") ;;
        incremental=*) unset 'checked[-1]' ;; # and the -C before it
        *) checked+=("$argument") ;;
    esac
done
if [ -n "$compiles" ] && [ -n "$is_library" ] && [ -z "$is_test" ] && ! grep -q '^test = false' "$CARGO_MANIFEST_DIR/Cargo.toml"; then
    exec "$rustc" "$@" --deny warnings
fi
if [ -n "$compiles" ]; then
    thrown_away=$(mktemp -d)
    trap 'rm -rf "$thrown_away"' EXIT
    clippy-driver "$rustc" "${checked[@]}" --emit=metadata --out-dir "$thrown_away" --deny warnings
fi
"$rustc" "$@"
