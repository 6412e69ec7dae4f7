#!/usr/bin/env bash
# A program outside the repository receives frames with the packaged crates, made from the guide's text alone:
# on the card without hardware, and on QEMU's. Unit tests and doc tests of the packages of platform and driver
# pass.
# usage: tests/packaged.sh FOLDER, with what `make package` wrote.
set -euo pipefail
packages=$(realpath "$1")
cd "$(dirname "$0")/.."
root=$PWD
outside=$(mktemp -d)
trap 'rm -rf "$outside"' EXIT
export CARGO_TARGET_DIR=$outside/target CARGO_INCREMENTAL=0 CARGO_PROFILE_DEV_DEBUG=0
# The blocks of the guide's page with this language.
blocks() { awk -v fence="\`\`\`$1" '$0 == fence { inside = 1; next } /^```$/ { inside = 0 } inside' docs/src/driver.md; }
commands=$(blocks 'sh skip: builds the packages' | sed "1d; s#~/outside#$outside/guide#g")
blocks rust,ignore > "$outside/main.rs"
blocks toml > "$outside/dependencies.toml"
eval "$commands" # but for `make package`; they change to the folder that they make
diff ../main.rs kpps-driver-0.1.0/examples/receive.rs || { echo "the guide's program is not the package's example"; exit 1; }

sed -i '/^\[dependencies\]$/d' receiver/Cargo.toml
cat ../dependencies.toml >> receiver/Cargo.toml
# The versions that the repository uses are on this machine.
cp "$root/Cargo.lock" receiver
mv ../main.rs receiver/src
cd receiver
cargo run --quiet --offline > receive.txt
tail -1 receive.txt
test "$(tail -1 receive.txt)" = "10 frames reaped, doorbell rung 1 times"
cp ../kpps-driver-0.1.0/examples/qemu.rs src/main.rs
cargo build --quiet --offline
if command -v qemu-system-x86_64 > /dev/null; then
    # The program looks for a free port and hands it to QEMU: another program may take it in between.
    cargo run --quiet --offline > qemu.txt || cargo run --quiet --offline > qemu.txt
    echo "QEMU: $(tail -1 qemu.txt)"
    grep -q '^10 of 10 frames, ' qemu.txt
elif [ -n "${KPPS_REQUIRE_ALL-}" ]; then
    echo "needs QEMU"
    exit 1
else
    echo "skipped: packaged: needs QEMU" | tee -a "${KPPS_SKIPPED:-/dev/null}"
fi

patch() { echo "patch.crates-io.kpps-$1.path='$outside/guide/kpps-$1-0.1.0'"; }
for crate in platform:std driver:fake,serde; do
    cd "$outside/guide/kpps-${crate%%:*}-0.1.0"
    cp "$root/Cargo.lock" .
    test=(cargo --config "$(patch datasheet)" --config "$(patch platform)" test --quiet --offline --features "${crate##*:}")
    "${test[@]}" --lib > "$outside/tests.txt" && "${test[@]}" --doc >> "$outside/tests.txt" || { cat "$outside/tests.txt"; exit 1; }
    echo "${crate%%:*}: $(grep -c '^test result: ok' "$outside/tests.txt") runs of tests passed"
done
