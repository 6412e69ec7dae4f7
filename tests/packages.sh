#!/usr/bin/env bash
# The Debian package can be installed and has what it should have; the container's recipe names what there is.
# usage: tests/packages.sh KPPS. Installing takes root; without it the package is only unpacked.
set -euo pipefail
kpps=$(realpath "$1")
cd "$(dirname "$0")/.."
# The development build is large, and its package is not kept.
export DPKG_DEB_COMPRESSOR_TYPE=gzip DPKG_DEB_COMPRESSOR_LEVEL=1
root=$(mktemp -d)
trap 'rm -rf "$root"' EXIT
package=$(packaging/deb.sh "$kpps")
if [ "$(id -u)" = 0 ]; then
    mkdir -p "$root/var/lib/dpkg/updates" "$root/var/lib/dpkg/info"
    touch "$root/var/lib/dpkg/status"
    dpkg --root "$root" --log /dev/null --force-depends --install "$package" > "$root/log" 2>&1 || { cat "$root/log"; exit 1; }
    dpkg --root "$root" --status kpps | grep -q '^Status: install ok installed'
else
    dpkg-deb --extract "$package" "$root"
fi
# The installed command runs, and there is a manual page of each of its commands.
test "$("$root/usr/bin/kpps" --version)" = "$("$kpps" --version)"
commands=$("$kpps" --help | grep -E '^  [a-z0-9]+ +[A-Z]' | awk '{print $1}')
test "$(wc -l <<< "$commands")" -gt 20
for page in kpps $(sed 's/^/kpps-/' <<< "$commands"); do
    gzip --test "$root/usr/share/man/man1/$page.1.gz"
done
bash -n "$root/usr/share/bash-completion/completions/kpps"
for file in zsh/vendor-completions/_kpps fish/vendor_completions.d/kpps.fish doc/kpps/README.md doc/kpps/copyright; do
    test -s "$root/usr/share/$file"
done
# The guide is there, and each page that its contents name; and the agent's service with what it reads.
for page in $(grep -o '([a-z0-9-]*\.md)' docs/src/SUMMARY.md | tr -d '()'); do
    test -s "$root/usr/share/doc/kpps/guide/$page"
done
unit=$root/usr/lib/systemd/system/kpps-agent.service
program=$(sed -n 's/^ExecStart=\([^ ]*\) .*/\1/p' "$unit")
test -x "$root$program"
test -s "$root$(sed -n 's/^EnvironmentFile=//p' "$unit")"
if command -v systemd-analyze > /dev/null; then
    systemd-analyze verify --root "$root" kpps-agent.service 2>&1 | grep kpps-agent && exit 1
fi
# Files that the image's recipe copies and runs exist, and files that it does not need stay out.
grep -q '^COPY . .$' packaging/Containerfile
for program in $(grep -o 'packaging/[a-z.]*sh' packaging/Containerfile); do test -x "$program"; done
grep -qx target .dockerignore
echo "$(basename "$package"): $(stat -c %s "$package") bytes, $(wc -w <<< "$commands") commands with manual pages"
rm "$package"
