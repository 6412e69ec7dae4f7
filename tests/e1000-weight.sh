#!/usr/bin/env bash
# Builds Linux's e1000 driver with another NAPI weight than 64: how many frames one poll may take. With it,
# `kpps lab` and `kpps curve --testbed lab:linux-6.1/e1000` measure what the weight does, by --driver-module.
# The source and the headers are Debian's, fetched with apt, of the version that is in the lab's cache: run
# `kpps lab --driver linux --device e1000` once before. Nothing is installed. It takes 500 MB of disk
# meanwhile, and gcc, make, binutils and xz.
# usage: tests/e1000-weight.sh WEIGHT FILE.ko
set -euo pipefail
[ $# = 2 ] && [[ $1 =~ ^[1-9][0-9]*$ ]] || { sed -n 's/^# usage: /usage: /p' "$0"; exit 2; }
weight=$1
[[ $2 = /* ]] && file=$2 || file=$PWD/$2
cache=${KPPS_LAB_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/kpps/lab}
# "kernels/linux-image-6.1.0-56-amd64_6.1.192-2"
current=$(basename "$(cat "$cache/kernels/linux-6.1.current")")
version=${current##*_}
image=${current%_*}
release=${image#linux-image-}
common=${release%-*}-common
place=$(mktemp -d)
trap 'rm -rf "$place"' EXIT
cd "$place"
apt-get download --quiet=2 -o APT::Sandbox::User=root "linux-source-6.1=$version" "linux-headers-$release=$version" \
    "linux-headers-$common=$version" "linux-kbuild-6.1=$version"
for package in ./*.deb; do dpkg-deb --extract "$package" root; done
driver=drivers/net/ethernet/intel/e1000
tar -xJf root/usr/src/linux-source-6.1.tar.xz "linux-source-6.1/$driver"
headers=$place/root/usr/src/linux-headers-$release
# It names the common headers where they would be if they were installed.
sed -i "s|/usr/src/|$place/root/usr/src/|g" "$headers/Makefile"
old='netif_napi_add(netdev, &adapter->napi, e1000_clean)'
new="netif_napi_add_weight(netdev, \\&adapter->napi, e1000_clean, $weight)"
source=$place/linux-source-6.1/$driver
[ "$(grep -cF "$old" "$source/e1000_main.c")" = 1 ] || { echo "e1000_main.c has no such line: $old"; exit 1; }
sed -i "s/$old/$new/" "$source/e1000_main.c"
make --quiet -C "$headers" M="$source" CONFIG_E1000=m modules > "$place/log" 2>&1 || { tail -20 "$place/log"; exit 1; }
cp "$source/e1000.ko" "$file"
echo "$file: e1000 of Linux $version for $release with weight $weight"
