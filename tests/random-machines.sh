#!/usr/bin/env bash
# What our driver promises holds on machines drawn at random: on all hundred of `kpps study beyond`, or on
# those with these seeds. The tests in Rust have the worst of the hundred, and all senders.
# usage: tests/random-machines.sh KPPS [FIRST..LAST]
set -euo pipefail
seeds=${2:-1..100}
told=$("$1" study beyond --seeds "$seeds")
if ! grep -Eq '^([0-9]+) claims: \1 pass$' <<< "$told"; then
    echo "$told"
    exit 1
fi
tail -1 <<< "$told" | sed "s/^/kpps study beyond --seeds $seeds: /"
