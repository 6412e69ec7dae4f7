#!/usr/bin/env bash
# What our driver promises holds on all hundred machines of `kpps study beyond`; the tests in Rust have the
# worst of them.
# usage: tests/hundred-machines.sh KPPS
set -euo pipefail
told=$("$1" study beyond)
if ! grep -Eq '^([0-9]+) claims: \1 pass$' <<< "$told"; then
    echo "$told"
    exit 1
fi
tail -1 <<< "$told" | sed 's/^/kpps study beyond: /'
