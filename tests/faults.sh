#!/usr/bin/env bash
# Worlds of faults for so long, from a seed that is the time in ms, so that each run tries others. The seed is
# printed: `kpps simulate-faults --seed SEED` repeats them.
# usage: tests/faults.sh KPPS DURATION
set -euo pipefail
seed=$(date +%s%3N)
echo "kpps simulate-faults --seed $seed --duration $2"
if ! told=$("$1" simulate-faults --seed "$seed" --duration "$2"); then
    echo "$told"
    exit 1
fi
head -1 <<< "$told"
