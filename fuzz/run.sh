#!/usr/bin/env bash
# Runs each fuzz target, or the named ones, for SECONDS, 10 by default: fuzz/run.sh [SECONDS [TARGET…]]
#
# Needs a C++ compiler for libFuzzer, and neither cargo-fuzz nor a nightly compiler. Interesting inputs
# are kept in fuzz/corpus, which git ignores; an input that fails is written to fuzz/artifacts. Targets start
# from the inputs in the repository, and from what the tests have: parsers from the malformed frames, readers
# of documents from profiles and results (apps has the frames built in).
#
# The repository has one file for each target, a line in hex for each input, and `cargo test --package
# kpps-fuzz` repeats them. Those of fuzz/failed once made a target fail. Those of fuzz/inputs are few, and
# reach together every edge that any known input reaches: `fuzz/run.sh choose [TARGET…]` chooses them anew,
# also from inputs of later runs.
set -euo pipefail
cd "$(dirname "$0")"
seconds=${1:-10}
shift || true
targets=("$@")
[ ${#targets[@]} -gt 0 ] || mapfile -t targets < <(ls inputs)
host=$(rustc -vV | sed -n 's/^host: //p')
# What cargo-fuzz asks for, but for the address sanitizer: there is hardly any unsafe code to watch.
export RUSTFLAGS="--cfg fuzzing -Ccodegen-units=1 -Cpasses=sancov-module \
-Cllvm-args=-sanitizer-coverage-level=4 -Cllvm-args=-sanitizer-coverage-inline-8bit-counters \
-Cllvm-args=-sanitizer-coverage-pc-table -Cllvm-args=-sanitizer-coverage-trace-compares"
built=${CARGO_TARGET_DIR:-$PWD/../target}/fuzz
seeds=$(mktemp -d)
trap 'rm -rf "$seeds"' EXIT
for target in "${targets[@]}" frames documents arguments systems; do mkdir -p "$seeds/$target"; done
for file in ../crates/tester/apps/tests/corpus/*.hex; do
    # The frame is what follows the empty line.
    hex=$(sed '1,/^$/d' "$file" | tr -d ' \n' | sed 's/../\\x&/g')
    printf '%b' "$hex" > "$seeds/frames/$(basename "$file" .hex)"
done
head -c 40000 /sys/kernel/btf/vmlinux > "$seeds/systems/btf" 2> /dev/null || true
cat /proc/net/snmp > "$seeds/systems/snmp"
cat /proc/stat > "$seeds/systems/stat"
printf '{"QMP": {}}\n{"return": {}}\n{"return": {"qemu": {"major": 7}}}\n' > "$seeds/systems/monitor"
printf 'login:\0011 0\n' > "$seeds/systems/console"
printf 'IRQ raise 1\nOK\nOK 0x2a\n' > "$seeds/systems/qtest"
head -c 4096 /bin/true > "$seeds/systems/elf"
# Captures of one frame: pcap, and pcapng with a section, an interface and a packet.
printf '\xd4\xc3\xb2\xa1\x02\0\x04\0\0\0\0\0\0\0\0\0\xff\xff\0\0\x01\0\0\0\0\0\0\0\0\0\0\0\x04\0\0\0\x04\0\0\0abcd' \
    > "$seeds/frames/pcap"
printf '\x0a\x0d\x0d\x0a\x1c\0\0\0\x4d\x3c\x2b\x1a\x01\0\0\0\xff\xff\xff\xff\xff\xff\xff\xff\x1c\0\0\0' \
    > "$seeds/frames/pcapng"
printf '\x01\0\0\0\x14\0\0\0\x01\0\0\0\0\0\0\0\x14\0\0\0' >> "$seeds/frames/pcapng"
printf '\x06\0\0\0\x24\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\x04\0\0\0\x04\0\0\0abcd\x24\0\0\0' >> "$seeds/frames/pcapng"
for word in 100kpps 10%..100%/10% 1Mpps..2Mpps packet:eth0 vfio:00:10.0 udp:127.0.0.1:9 imix-linux 64,1518 \
    ramp:10kpps/2s 10.0.0.0/8=10.0.0.1 packet:a@10=10.0.0.1/24 'm.x > 3 && m.y == 2.0'; do
    printf '%s' "$word" > "$seeds/arguments/$(md5sum <<< "$word" | cut -c1-8)"
done
cp ../profiles/*/*.toml ../studies/*.toml ../crates/shared/rendering/tests/report/fixtures/*.json "$seeds/documents"
# The target is named so that build scripts are not instrumented.
cargo build --quiet --profile fuzz --package kpps-fuzz --features libfuzzer --target "$host" --target-dir "$built"
# Writes inputs in hex, a line each, as files with the names that libFuzzer gives: unpack FOLDER < INPUTS
unpack() {
    sed 's/../\\x&/g' | while read -r escaped; do
        printf '%b' "$escaped" > "$1/new"
        mv "$1/new" "$1/$(sha1sum "$1/new" | cut -d ' ' -f 1)"
    done
}
# The other way, smallest first: pack FOLDER > INPUTS
pack() {
    for file in "$1"/*; do
        od -A n -v -t x1 "$file" | tr -d ' \n'
        echo
    done | awk '{ print length, $0 }' | sort -k 1,1n -k 2 | cut -d ' ' -f 2
}
for target in "${targets[@]}"; do
    mkdir -p "corpus/$target" "artifacts/$target" "$seeds/new/$target"
    cat "failed/$target" > "$seeds/failed" 2> /dev/null || true
    cat "inputs/$target" "$seeds/failed" | unpack "corpus/$target"
    export KPPS_FUZZ=$target
    fuzz=("$built/$host/fuzz/kpps-fuzz" -rss_limit_mb=2048 -timeout=10 "-artifact_prefix=artifacts/$target/")
    if [ "$seconds" = choose ]; then
        unpack "$seeds/new/$target" < "$seeds/failed"
        # Hash tables are random: an edge of theirs may need another round.
        for _ in {1..8}; do
            "${fuzz[@]}" -set_cover_merge=1 -use_counters=0 "$seeds/new/$target" "corpus/$target" 2>&1 | tail -1
        done
        pack "$seeds/new/$target" | grep -vxFf "$seeds/failed" > "inputs/$target"
        continue
    fi
    echo "$target: $seconds s"
    "${fuzz[@]}" -max_total_time="$seconds" -print_final_stats=1 -verbosity=0 "corpus/$target" "$seeds/$target" 2>&1 |
        grep -v -e '^INFO' -e '^"' -e '^###' -e new_units -e slowest -e average || test "${PIPESTATUS[0]}" = 0
done
