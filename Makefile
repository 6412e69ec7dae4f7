# `make run` shows the main job, `make test` passes the tests. Each installs what it needs on a Debian machine with Rust.

.PHONY: run test lab bench peers systems fuzz lint other-systems install-build-tools install-test-tools install-lab install-peers

# The receive curve of study morris2000: all driver presets, from 100 kpps to line rate. The simulator alone is built: `cargo build
# --release` builds everything.
run: install-build-tools
	cargo run --release --quiet --package kpps -- curve --results results.json --report report.html

# Tests that cannot run here, for want of root or of a program, write into this file that they were skipped.
export KPPS_SKIPPED = $(abspath $(or $(CARGO_TARGET_DIR),target))/skipped

test: install-build-tools install-test-tools install-lab lint
	@mkdir -p $(dir $(KPPS_SKIPPED)) && rm -f $(KPPS_SKIPPED)
	cargo test --workspace --all-targets
	cargo test --workspace --doc
	cargo build --release --quiet --package kpps
	tests/same-bytes.sh
	tests/hundred-machines.sh
	@tests/skipped.sh

# What can only be tried in guests, told line by line: the functional suite on the real PCI path, traffic against the kernel's
# driver, faults, interrupts. `test` runs the suite on e1000 through UIO and on e1000e through VFIO, traffic and bad input. Kernel and packages are fetched
# with apt on the first run and kept in ~/.cache/kpps/lab; KPPS_NO_LAB=1 leaves it out.
lab: install-build-tools install-test-tools install-lab
	cargo build --profile test --package kpps
	cargo test --package kpps-qemu --test guest -- --include-ignored --nocapture
	cargo build --profile test --package kpps-netstack --examples
	cargo test --package kpps-netstack --test lab -- --include-ignored --nocapture

# Every fuzz target for 20 seconds.
fuzz: install-build-tools
	fuzz/run.sh 20

# Instructions per packet (valgrind) and simulated packets per second.
bench: install-build-tools install-test-tools
	cargo bench --package kpps-driver --package kpps-sim

# Our ports and what others send with, taking turns over a virtual cable. Takes root.
peers: install-build-tools install-peers
	cargo bench --package kpps-ports --bench peers -- 5

# Linux's bridge and router as devices under test, frames of all sizes, every lost one accounted for: a quarter of an hour. Takes root.
systems: install-build-tools
	@$(call install,ip:iproute2 ethtool:ethtool)
	cargo bench --package kpps --bench systems

lint: other-systems
	cargo fmt --all --check
	cargo clippy --workspace --all-targets -- --deny warnings

# UDP sockets, trials on them and agents must not assume Linux. Rust's libraries for other systems come by rustup; what they need of
# C is not compiled (`true`), for nothing is linked here.
OTHER_SYSTEMS = x86_64-pc-windows-gnu x86_64-apple-darwin
other-systems:
	@for system in $(OTHER_SYSTEMS); do \
		rustup --quiet target add $$system || { echo "skipped: no Rust library for $$system"; continue; }; \
		TARGET_CC=true TARGET_AR=true cargo clippy --quiet --target $$system --package kpps-ports --package kpps-tester --package kpps -- --deny warnings || exit 1; \
	done

# A linker: Rust brings everything else.
install-build-tools:
	@$(call install,cc:build-essential)

# QEMU is the device that nobody here wrote; valgrind counts instructions; nft makes a NAT of Linux; Chromium shows the pages
# as readers see them (KPPS_NO_BROWSER=1 leaves that out).
install-test-tools:
	@rustup --quiet target add x86_64-unknown-none || true
	@$(call install,qemu-system-x86_64:qemu-system-x86 valgrind:valgrind ip:iproute2 ethtool:ethtool nft:nftables setsid:util-linux \
		$(if $(KPPS_NO_BROWSER),,chromium:chromium))

# Other generators: DPDK's, netsniff-ng's, iperf3.
install-peers:
	@$(call install,dpdk-testpmd:dpdk-dev trafgen:netsniff-ng iperf3:iperf3 ip:iproute2 ethtool:ethtool nsenter:util-linux)
	@test -n "$$(find /usr/lib -name 'librte_net_af_xdp.so*' -print -quit)" || \
		$(call install,no-such-program:librte-net-af-xdp23 no-such-program:librte-net-af-packet23 no-such-program:librte-mempool-ring23)

# The lab's guests are made of Debian's packages.
install-lab:
	@$(call install,dpkg-deb:dpkg apt-get:apt)
	@test -e /usr/share/keyrings/debian-archive-keyring.gpg || $(call install,debian-archive-keyring:debian-archive-keyring)

# Installs the packages of those programs (program:package) that are missing.
define install
for tool in $(1); do \
	command -v $${tool%%:*} >/dev/null || missing="$$missing $${tool##*:}"; \
done; \
if [ -n "$$missing" ]; then \
	[ "$$(id -u)" = 0 ] || sudo=sudo; \
	$$sudo apt-get update -qq && $$sudo apt-get install -y --no-install-recommends $$missing; \
fi
endef
