# `make run` shows the main job, `make test` passes the tests. Each installs what it needs on a Debian machine
# with Rust.

.PHONY: run quick test test-built machines faults planted mutants branches deb container crate-docs dependencies advisories \
	docs lab bench peers systems miri loom sanitizers abuse fuzz protocol lint other-systems release \
	formatting install-build-tools install-test-tools install-lab install-peers install-python wheel overheads fit package msrv

# Where cargo builds.
TARGET = $(abspath $(or $(CARGO_TARGET_DIR),target))

# The receive curve of study morris2000: all driver presets, from 100 kpps to line rate. Only the simulator is
# built; `cargo build --release` builds everything.
run: install-build-tools
	cargo run --release --quiet --package kpps --no-default-features -- curve --results results.json --report report.html

# Before each commit: format, wording, clippy and unit tests of the crates that differ from origin/main.
quick:
	tests/quick.sh

# Tests that cannot run here, for want of root or of a program, write into this file that they were skipped.
export KPPS_SKIPPED = $(TARGET)/skipped

# All tests.
test: install-build-tools install-test-tools install-lab install-python formatting
	tests/all.sh

# The part of `test` that needs the built command, after `cargo test --workspace --no-run`.
test-built:
	tests/built.sh $(TARGET)

# Our driver on all hundred machines: for changes to it. `test` takes the first twenty-five, and seven that
# were the worst of the hundred in something.
machines: install-build-tools
	cargo build --release --package kpps
	tests/random-machines.sh $(TARGET)/release/kpps

# Ten minutes of worlds of faults that were not tried before.
faults: install-build-tools
	cargo build --release --package kpps --no-default-features --features faults
	tests/faults.sh $(TARGET)/release/kpps 600s

# Thirteen defects, planted one at a time into a copy of the driver: the simulation of faults must find each.
planted: install-build-tools
	tests/planted.sh

# Small changes of the driver's packet paths and of the pool of buffers, one at a time: the simulation of
# faults must notice nine of ten. MUTANTS="--share 0/8" is a sample. All are compiled in one build.
CARGO_MUTANTS = $(TARGET)/tools/bin/cargo-mutants
mutants: install-build-tools $(CARGO_MUTANTS)
	PATH=$(TARGET)/tools/bin:$$PATH tests/mutants.py --worlds $(MUTANTS)

# Which branches of the driver do the worlds of faults take?
branches: install-build-tools
	KPPS_WORLDS=500 tests/branches.py

$(CARGO_MUTANTS): | install-build-tools
	cargo install --quiet --locked --version 27.1.0 --root $(TARGET)/tools cargo-mutants

# A Debian package, beside the built command: the command, its manual pages and completions, the guide, and
# the agent as a service.
deb: install-build-tools
	@$(call install,dpkg-deb:dpkg objdump:binutils)
	cargo build --release --package kpps
	packaging/deb.sh $(TARGET)/release/kpps

# The Python package as a wheel, in $(TARGET)/dist.
wheel: install-build-tools install-python
	$(TARGET)/python/bin/uv build --quiet --wheel --out-dir $(TARGET)/dist python

# The overheads of Python over the command: the size of the wheel, a call, engines for many small cells.
overheads: wheel
	cargo build --release --package kpps
	rm -rf $(TARGET)/overheads
	$(TARGET)/python/bin/uv pip install --quiet --no-deps --target $(TARGET)/overheads $(TARGET)/dist/kpps-*.whl
	du -h $(TARGET)/dist/kpps-*.whl
	KPPS_COMMAND=$(TARGET)/release/kpps PYTHONPATH=$(TARGET)/overheads $(TARGET)/python/bin/python python/benches/overheads.py

# The crates that other programs take, as packages in $(TARGET)/package, each compiled from its package. A
# working copy with changes will do. Cargo never looks at a package of the same version again, so what an
# earlier call unpacked and compiled is removed.
PACKAGED = datasheet platform driver netstack frames card
package: install-build-tools
	@rm -rf $(TARGET)/package $(TARGET)/packaging $${CARGO_HOME:-$$HOME/.cargo}/registry/src/-*/kpps-*
	@cargo fetch --quiet --locked --target "$$(rustc -vV | sed -n 's/^host: //p')"
	cargo package --quiet --offline --allow-dirty --target-dir $(TARGET)/packaging $(PACKAGED:%=--package kpps-%)
	@mv $(TARGET)/packaging/package $(TARGET)/package
	@rm -r $(TARGET)/packaging

# These crates on the oldest Rust that their manifests name, with all features. smoltcp 0.14 needs 1.91.
msrv: install-build-tools
	@for version in 1.88 1.91; do \
		rustup toolchain list | grep -q "^$$version" || \
			rustup --quiet toolchain install $$version --profile minimal --no-self-update || \
			{ echo "skipped: msrv: needs Rust $$version" | tee -a $(KPPS_SKIPPED); test -z "$$KPPS_REQUIRE_ALL"; exit; }; \
	done; \
	set -e; export CARGO_TARGET_DIR=$(TARGET)/msrv; \
	cargo +1.88 check --quiet --locked $(filter-out kpps-netstack,$(PACKAGED:%=--package kpps-%)) --all-features; \
	cargo +1.88 check --quiet --locked --package kpps-netstack --features embassy; \
	cargo +1.91 check --quiet --locked --package kpps-netstack --all-features

# A container's image with kpps in it.
container:
	@engine=$$(command -v podman || command -v docker) || { echo "make container takes podman or docker"; exit 1; }; \
		$$engine build --tag kpps --file packaging/Containerfile .

# The documentation of all crates, without a warning.
crate-docs: install-build-tools
	RUSTDOCFLAGS="--deny warnings" cargo doc --workspace --no-deps --quiet

# Licences and sources of all dependencies, and bans (deny.toml).
CARGO_DENY = $(TARGET)/tools/bin/cargo-deny
dependencies: $(CARGO_DENY)
	$(CARGO_DENY) --all-features check bans licenses sources

# Known flaws of dependencies. Takes the database of rustsec.org.
advisories: $(CARGO_DENY)
	$(CARGO_DENY) --all-features check advisories

$(CARGO_DENY): | install-build-tools
	cargo install --quiet --locked --root $(TARGET)/tools cargo-deny

# The guide as pages, in docs/book.
MDBOOK = $(TARGET)/tools/bin/mdbook
docs: $(MDBOOK)
	$(MDBOOK) build docs

$(MDBOOK): | install-build-tools
	cargo install --quiet --locked --version 0.5.4 --no-default-features --features search --root $(TARGET)/tools mdbook

# Tests that need guests, with their output: the functional suite on the real PCI path, traffic
# against the kernel's driver, faults, interrupts, bad input. `test` boots one of these guests, for the suite
# on e1000e through VFIO. Kernel and packages are fetched with apt on the first run and kept in
# ~/.cache/kpps/lab; KPPS_NO_LAB=1 leaves it out.
lab: install-build-tools install-test-tools install-lab
	cargo build --package kpps
	cargo test --package kpps-qemu --test qemu guest:: -- --include-ignored --nocapture
	cargo test --package kpps-conformance --test suite qemu_82576 -- --include-ignored
	@rustup --quiet target add x86_64-unknown-none riscv64gc-unknown-none-elf || \
		echo "no Rust libraries for the bench of bugs: its tests need them, unless they are installed"
	cargo test --package kpps-audit --test audit --test guest -- --include-ignored --nocapture --test-threads 1
	cargo build --package kpps-netstack --examples
	cargo test --package kpps-netstack --test netstack lab:: -- --include-ignored --nocapture

# Code with `unsafe`, rings that are shared with the kernel (over plain memory), and the driver, under Miri:
# it finds undefined behaviour. Tests that take it minutes are left out: limits of queues over virtual time,
# starts of all chips, and tests of the driver that fill rings many times.
miri: export MIRIFLAGS = -Zmiri-disable-isolation
miri: export PROPTEST_CASES = 8
miri: install-build-tools
	rustup --quiet toolchain install nightly --profile minimal --component miri,rust-src
	cargo +nightly miri test --package kpps-host --lib memory
	cargo +nightly miri test --package kpps-platform --lib
	cargo +nightly miri test --package kpps-linux --lib -- ring::
	cargo +nightly miri test --package kpps-driver --lib -- --skip queue_limit
	cargo +nightly miri test --package kpps-driver --test driver -- bring_up::a_single bring_up::a_vanished \
		queues::a_buffer queues::a_burst_ends

# All orders in which threads see each other's writes, of what several share: tests called `orders`. Libraries
# of others know `--cfg loom`, and do not compile with it, so it has another name.
loom: install-build-tools
	RUSTFLAGS="--cfg kpps_loom" cargo test --target-dir $(TARGET)/loom --lib --package kpps-platform --package kpps-ports \
		--package kpps-tester --package kpps-netstack -- orders

# The tests of Linux's interfaces, of ports and of the tester under ThreadSanitizer and AddressSanitizer, with
# a standard library that is compiled for them. Takes root, or most are skipped.
sanitizers: install-build-tools
	rustup --quiet toolchain install nightly --profile minimal --component rust-src
	tests/sanitizers.sh

# The most memory that testers can make an agent take: what is too long for `test`.
abuse: install-build-tools
	cargo test --package kpps-agent --lib -- --ignored --skip an_agent_alone --nocapture --test-threads 1 abuse::

# Every fuzz target for 20 seconds.
fuzz: install-build-tools
	fuzz/run.sh 20

# Instructions per packet (valgrind) and simulated packets per second.
bench: install-build-tools install-test-tools
	cargo bench --package kpps-driver --package kpps-sim
	cargo bench --package kpps-ports --bench instructions --bench cores

# Our ports and what others send with, taking turns over a veth pair, and on DPDK's software devices. Takes
# root.
peers: install-build-tools install-peers
	cargo bench --package kpps-ports --bench peers -- 5
	cargo bench --package kpps-ports --bench dpdk -- 5

# Linux's bridge and router as devices under test, frames of all sizes, every lost one accounted for: a
# quarter of an hour. Takes root.
systems: install-build-tools
	@$(call install,ip:iproute2 ethtool:ethtool)
	cargo bench --package kpps --bench systems

# The fitted constants, found again from the claims of kind fit: the profiles must hold them. Two minutes.
fit: install-build-tools
	cargo build --release --package kpps
	$(TARGET)/release/kpps study --fit | tee $(TARGET)/fit.txt
	grep -q ', 0 of them not as in the profiles' $(TARGET)/fit.txt

# The code of the agents' protocol, from its definition.
protocol: install-build-tools
	cargo run --quiet --manifest-path crates/tester/agent/generate/Cargo.toml

# Checks that run nothing.
lint: formatting other-systems
	cargo clippy --workspace --all-targets -- --deny warnings
	cargo clippy --package kpps-fuzz --features libfuzzer -- --deny warnings

formatting:
	cargo fmt --all --check
	tests/comment-width.sh
	tests/plain-english.sh

# UDP sockets, trials on them and agents must not assume Linux: the command is checked for other systems,
# without a warning. Rust's libraries for them come by rustup; C is not compiled (`true`), as nothing is
# linked.
OTHER_SYSTEMS = x86_64-pc-windows-gnu x86_64-apple-darwin
other-systems:
	@for system in $(OTHER_SYSTEMS); do \
		rustup --quiet target add $$system && systems="$$systems --target $$system" || echo "skipped: no Rust library for $$system"; \
	done; \
	test -z "$$systems" || { \
		said=$$(TARGET_CC=true TARGET_AR=true cargo check --quiet $$systems --package kpps 2>&1) && test -z "$$said" || \
			{ echo "$$systems: $$said"; exit 1; }; \
	}

# The release build of `make run`: it compiles without a warning, has no symbols in it, and writes the same
# bytes as the debug build.
release: install-build-tools
	cargo build --package kpps
	@said=$$(cargo build --release --quiet --package kpps --no-default-features 2>&1) && test -z "$$said" || { echo "$$said"; exit 1; }
	nm $(TARGET)/release/kpps 2>&1 | grep -q 'no symbols'
	tests/same-bytes.sh $(TARGET)/debug/kpps $(TARGET)/release/kpps

# A linker, and what comes with it: Rust brings everything else.
install-build-tools:
	@$(call install,cc:build-essential)

# QEMU's cards are independent of our models; valgrind counts instructions; nft makes a NAT of Linux, and
# counts its frames; nginx counts our requests; iperf3, trafgen and ifpps measure the same rates; Chromium
# shows the pages as readers see them (KPPS_NO_BROWSER=1 leaves that out); DPDK drives software devices.
install-test-tools:
	@rustup --quiet target add x86_64-unknown-none || true
	@$(call install,qemu-system-x86_64:qemu-system-x86 valgrind:valgrind ip:iproute2 ethtool:ethtool nft:nftables curl:curl iperf3:iperf3 \
		trafgen:netsniff-ng nginx:nginx-light setsid:util-linux arping:iputils-arping tshark:tshark tcpdump:tcpdump zstd:zstd lz4:lz4 \
		$(if $(KPPS_NO_BROWSER),,chromium:chromium))
	@$(call install,pkg-config:pkg-config)
	@pkg-config --exists libdpdk || $(call install,no-such-program:libdpdk-dev)

# A Python with what the tests of the Python package take. Its module is compiled with the tests.
install-python:
	@$(call install,python3:python3-venv)
	@test $(TARGET)/python/ready -nt python/tests/requirements.txt || { \
		python3 -m venv $(TARGET)/python && $(TARGET)/python/bin/pip install --quiet uv && \
		$(TARGET)/python/bin/uv pip install --quiet --python $(TARGET)/python/bin/python -r python/tests/requirements.txt && \
		touch $(TARGET)/python/ready; \
	} || echo "no packages for Python: its tests are skipped"

# Other generators: DPDK's, netsniff-ng's, iperf3.
install-peers:
	@$(call install,dpdk-testpmd:dpdk-dev trafgen:netsniff-ng iperf3:iperf3 ip:iproute2 ethtool:ethtool nsenter:util-linux)
	@$(call install,pkg-config:pkg-config)
	@pkg-config --exists libdpdk || $(call install,no-such-program:libdpdk-dev)

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
