#!/bin/sh
# Builds the guest for both architectures into lab/bugs/target. Prints one line for each image: its path.
set -eu
cd "$(dirname "$0")"
for target in x86_64-unknown-none riscv64gc-unknown-none-elf; do
    cargo build --quiet --release --locked --target "$target" --target-dir target
    echo "$PWD/target/$target/release/kpps-bugs"
done
