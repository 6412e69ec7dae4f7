#!/usr/bin/env bash
# Makes a Debian package of a built kpps, in the folder that it is in.
# usage: packaging/deb.sh KPPS, as packaging/deb.sh target/release/kpps. Prints the package's name.
set -euo pipefail
kpps=$(realpath "$1")
cd "$(dirname "$0")"
root=$(mktemp -d)
trap 'rm -rf "$root"' EXIT
chmod 755 "$root"
./install.sh "$kpps" "$root" usr
# The agent as a service, which is not started unasked, and its options, which are the administrator's.
install -D --mode 644 kpps-agent.service "$root/usr/lib/systemd/system/kpps-agent.service"
install -D --mode 644 kpps-agent.default "$root/etc/default/kpps-agent"
version=$("$kpps" --version | cut -d ' ' -f 2)
architecture=$(dpkg --print-architecture)
# The newest symbol of the C library that the command uses says which one it needs.
libc=$(objdump -T "$kpps" | grep -o 'GLIBC_[0-9.]*' | sort -uV | tail -1 | cut -d _ -f 2)
mkdir "$root/DEBIAN"
echo /etc/default/kpps-agent > "$root/DEBIAN/conffiles"
cat > "$root/DEBIAN/control" <<END
Package: kpps
Version: $version
Architecture: $architecture
Maintainer: The kpps project <kpps@localhost>
Installed-Size: $(du -sk --exclude DEBIAN "$root" | cut -f 1)
Depends: libc6 (>= $libc), libgcc-s1
Recommends: iproute2, ethtool
Suggests: qemu-system-x86
Section: net
Priority: optional
Description: Small-packet performance of network cards, drivers and hosts
 kpps tells how many small packets a network card, its driver and the host
 around it can handle, and why the rest are lost: in a simulator, between two
 ports of a real system, and in guests with stock kernels.
END
package=$(dirname "$kpps")/kpps_${version}_$architecture.deb
dpkg-deb --root-owner-group --build "$root" "$package" > /dev/null
echo "$package"
