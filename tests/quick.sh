#!/bin/sh
# Format, wording, clippy and unit tests of the crates with files that differ from a commit: origin/main if
# there is one, otherwise the last commit. Another commit may be given.
set -eu
cd "$(dirname "$0")/.."
make --no-print-directory formatting
base=${1:-$(git rev-parse --verify --quiet origin/main || git rev-parse HEAD)}
packages=$({ git diff --name-only "$base"; git ls-files --others --exclude-standard; } | while read -r file; do
    folder=$(dirname "$file")
    # A deleted folder has no manifest; the root's is that of the workspace.
    while [ "$folder" != . ] && [ ! -f "$folder/Cargo.toml" ]; do folder=$(dirname "$folder"); done
    [ "$folder" = . ] || sed -n 's/^name = "\(.*\)"/\1/p;/^name/q' "$folder/Cargo.toml"
done | sort -u)
if [ -z "$packages" ]; then
    echo "no crate differs from $base"
    exit
fi
echo "crates that differ from $base:" $packages
# As `make test` compiles: each crate is checked by clippy first.
export RUSTC_WORKSPACE_WRAPPER=$PWD/tests/with-clippy.sh
metadata=$(cargo metadata --format-version 1 --no-deps)
for package in $packages; do
    # A crate of programs only has no library to test.
    echo "$metadata" | grep -q "\"kind\":\[\"[a-z]*lib\"\][^}]*\"name\":\"$(echo "$package" | tr - _)\"" || continue
    cargo test --quiet --package "$package" --lib
done
