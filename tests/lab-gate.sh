#!/usr/bin/env bash
# Does the lab find a driver that takes more instructions? Plants two changes, one at a time, into a copy of
# the sources, measures each in a guest by the clock of instructions, and compares with the driver as it is:
# `kpps compare` must end with 1. The driver against itself must end with 0. Takes a quarter of an hour.
# usage: tests/lab-gate.sh
set -euo pipefail
cd "$(dirname "$0")/.."
copy=$(mktemp -d)
trap 'rm -rf "$copy"' EXIT
git archive HEAD | tar -x -C "$copy"
export CARGO_TARGET_DIR=${CARGO_TARGET_DIR:-$PWD/target}/lab-gate
kpps=$CARGO_TARGET_DIR/release/kpps
missed=0

# measure NAME: into the file of that name
measure() {
    cargo build --quiet --release --manifest-path "$copy/Cargo.toml" --package kpps
    "$kpps" lab --clock instructions --device e1000 --backend uio --driver kpps --workload transmit,receive --results "$copy/$1.json"
}

# compare NAME CODE: with the driver as it is
compare() {
    local code=0
    "$kpps" compare "$copy/before.json" "$copy/$1.json" || code=$?
    [ "$code" = "$2" ] || { echo "$1: kpps compare ended with $code, not with $2"; missed=$((missed + 1)); }
}

# plant NAME FILE LINE INSTEAD
plant() {
    local file=$copy/crates/driver/driver/src/$2
    cp "$file" "$copy/kept"
    [ "$(grep -cF -- "$3" "$file")" = 1 ] || { echo "$1: the line is not there once in $2: $3"; exit 1; }
    LINE=$3 INSTEAD=$4 awk 'index($0, ENVIRON["LINE"]) { print ENVIRON["INSTEAD"]; next } { print }' "$copy/kept" > "$file"
    measure "$1"
    compare "$1" 1
    cp "$copy/kept" "$file"
}

measure before
measure again
compare again 0
plant read-per-burst tx/report.rs \
    '        self.regs.write(self.tail, self.next as u32);' \
    '        self.regs.write(self.tail, self.next as u32); let _ = self.regs.read(self.tail);'
plant allocation-per-frame rx/format.rs \
    '        let good = is_whole && u32::from(length).wrapping_sub(self.least) < self.lengths;' \
    '        core::hint::black_box(alloc::boxed::Box::new(length)); let good = is_whole && u32::from(length).wrapping_sub(self.least) < self.lengths;'
[ "$missed" = 0 ] || { echo "$missed wrong"; exit 1; }
