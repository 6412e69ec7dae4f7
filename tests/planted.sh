#!/usr/bin/env bash
# Plants thirteen defects, one at a time, into a copy of the sources, and asks the simulation of faults to
# find each in one of the first thirty worlds. A defect is a line of one file and what stands there instead; a
# line that is not there exactly once is an error here.
# usage: tests/planted.sh [NUMBER…], or tests/planted.sh --lines: are the lines there?
set -euo pipefail
cd "$(dirname "$0")/.."
only_lines=
[ "${1:-}" != --lines ] || { only_lines=1; shift; }
copy=$(mktemp -d)
trap 'rm -rf "$copy"' EXIT
if [ -n "$only_lines" ]; then
    mkdir -p "$copy/crates/driver" && cp -r crates/driver/driver "$copy/crates/driver"
else
    git archive HEAD | tar -x -C "$copy"
fi
export CARGO_TARGET_DIR=${CARGO_TARGET_DIR:-$PWD/target}/planted
worlds=30
missed=0
number=0
wanted=" $* "

# Without a defect no world fails: otherwise a failure would prove nothing.
test=(cargo test --quiet --release --manifest-path "$copy/Cargo.toml" --package kpps-faults --test worlds)
if [ -z "$only_lines" ]; then
    KPPS_WORLDS=$worlds "${test[@]}" -- --ignored --exact no_world_fails --nocapture > "$copy/said" 2>&1 ||
        { cat "$copy/said"; echo "worlds fail without a defect"; exit 1; }
    echo "without a defect: $(grep -o "[0-9]* frames in $worlds worlds" "$copy/said")"
fi

# plant NAME FILE LINE INSTEAD
plant() {
    number=$((number + 1))
    [ "$wanted" = "  " ] || [[ "$wanted" == *" $number "* ]] || return 0
    local file=$copy/crates/driver/driver/src/$2 times
    cp "$file" "$copy/kept"
    times=$(grep -cF -- "$3" "$file" || true)
    if [ "$times" != 1 ]; then
        echo "$number $1: the line is there $times times in $2: $3"
        exit 1
    fi
    [ -z "$only_lines" ] || return 0
    LINE=$3 INSTEAD=$4 awk 'index($0, ENVIRON["LINE"]) { print ENVIRON["INSTEAD"]; next } { print }' "$copy/kept" > "$file"
    "${test[@]}" --no-run 2> "$copy/said" || { cat "$copy/said"; exit 1; }
    if told=$(KPPS_WORLDS=$worlds "${test[@]}" -- --ignored --exact no_world_fails 2>&1); then
        echo "$number $1: NOT FOUND in $worlds worlds"
        missed=$((missed + 1))
    elif found=$(grep -m 1 -o 'after [0-9]* frames: seed [0-9]*' <<< "$told"); then
        echo "$number $1: found $found: $(grep -m 1 'left: ' <<< "$told")"
    else
        echo "$number $1: NOT FOUND, as no world failed, but the test: $told"
        missed=$((missed + 1))
    fi
    cp "$copy/kept" "$file"
}

plant "the tail before the descriptor: what a missing barrier does" rx.rs \
    '        self.ring.store(slot, desc::rx_read(buffer.bus()));' \
    '        self.bell.ring(self.ring.after(slot)); self.ring.store(slot, desc::rx_read(buffer.bus()));'
plant "one slot too many for the device" rx.rs \
    '            (false, fill) => fill,' \
    '            (false, fill) => (fill + 1) % size,'
plant "the ring wraps one slot late" ring.rs \
    '        if next == self.size { 0 } else { next }' \
    '        if next > self.size { 0 } else { next }'
plant "a sent buffer is taken back too early" tx/report.rs \
    '        self.done = self.ring.distance(self.clean, index) + 1;' \
    '        self.done = (self.ring.distance(self.clean, index) + 3).min(self.pending());'
plant "a received descriptor is not cleared" rx.rs \
    '                ring.store_in(pair, slot, desc::rx_read(buffer.bus()));' \
    '                let _ = (pair, slot);'
plant "interrupts stay masked after a poll" service/napi.rs \
    '                        control.unmask();' \
    '                        let _ = control;'
plant "the timer of the watchdog is not restarted" control.rs \
    '        self.progress = Some((transmit, since));' \
    '        self.progress = None; let _ = since;'
plant "a length of 0 is a frame" rx/check.rs \
    '        let nonsense = bytes == 0 || !fits || total > self.max_frame_bytes || short;' \
    '        let nonsense = !fits || total > self.max_frame_bytes || short && bytes > 0;'
plant "a length beyond the buffer is a frame" rx/format.rs \
    '        let good = is_whole && u32::from(length).wrapping_sub(self.least) < self.lengths;' \
    '        let good = is_whole;'
plant "a reset forgets the buffers that were being sent" tx.rs \
    '                self.counters.abandoned += 1;' \
    '                if true { core::mem::forget(buffer); continue; }'
plant "the receiver is never looked after" rx.rs \
    '        core::mem::replace(&mut self.doubted, doubts) && doubts' \
    '        self.doubted = doubts; false'
plant "a reset of a partly filled ring gives one buffer to two descriptors" rx.rs \
    '            if let Some(buffer) = &self.buffers[slot] {' \
    '            let shared = kept < self.ring.size() && slot + 1 == kept;
            if let Some(buffer) = &self.buffers[if shared { 0 } else { slot }] {'
plant "a context is believed after a reset" tx.rs \
    '        (self.tail_written, self.reports_delayed, self.context) = (0, 0, None);' \
    '        (self.tail_written, self.reports_delayed) = (0, 0);'
[ "$missed" = 0 ] || { echo "$missed not found"; exit 1; }
