//! `kpps audit`: drivers on our model of a card, those of stock kernels or that of a foreign guest.

use super::lab::{GuestSoftware, measure};
use crate::error::Failure;
use crate::heading;
use crate::output::Outputs;
use crate::session::Session;
use clap::Args;
use kpps_audit::{Bound, Faults, GuestPlan, Quirk, Stimulus, Typed};
use kpps_datasheet::Chip;
use kpps_methods::units;
use kpps_qemu::lab::foreign::Setup;
use kpps_qemu::lab::workload::Settings;
use kpps_qemu::lab::{Arch, program};
use kpps_rendering::guest_audit::junit;
use std::net::Ipv4Addr;
use std::path::PathBuf;
use std::time::Duration;

/// Arguments of `kpps audit`.
#[derive(Args)]
#[command(
    mut_arg("load", |load| load.default_value("1kpps")),
    after_help = "Examples:
  kpps audit --guest -- -kernel kernel.elf -m 128M                an operating system of your own
  kpps audit --guest --beside qemu --max must=0 --junit audit.xml -- -cdrom os.iso
  kpps audit --guest --faults 7 --max missed=0 -- -kernel kernel.elf    five faults, of the seed 7
  kpps audit --guest --chip 82574l --beside qemu -- -M q35 -cdrom os.iso      a driver of the e1000e
  kpps audit --guest --arch riscv64 --quirk swsm --stimulus dhcp,tftp -- -bios u-boot.bin
  kpps audit --workload transmit,receive           Linux's driver, ours and DPDK's on our model
  kpps audit --driver linux --driver-module ./e1000.ko --max reads-per-frame=0.1
  kpps audit --driver linux --workload bridge --count 1000000 --load max --max lost=0

kpps boots a guest in QEMU, whose card is kpps' model of an 8254x or 82574L (vfio-user). With --guest it is any
operating system with an e1000 or e1000e driver, started with the QEMU options after `--`. kpps is the host at the
other end of its cable: 10.0.2.2, which answers ARP, ping, DHCP, TFTP, HTTP and UDP echo, and sends what --stimulus
names. It reports how far the guest gets, and what its driver does against the manual. Neither root nor KVM is needed.

Without --guest it boots a stock kernel with the drivers of Linux, kpps and DPDK. For each frame kpps
counts register accesses by name, bursts for descriptors and data, interrupts and bus time. Guest and card do not
share a clock: load and interrupts depend on the speed of the emulation on this host. The workload bridge sends
numbered frames of all sizes, which must come back unchanged. QEMU is fetched once (36 MB)."
)]
pub struct Arguments {
    /// The profile of the chip (`kpps list chips`); the 82542 cannot be audited, and the 82574L (e1000e,
    /// MSI-X) only with --guest
    #[arg(long, default_value = "82540em", help_heading = heading::MACHINE)]
    chip: String,
    /// The bus's profile (`kpps list buses`) [default: pci-32-33, or pcie-x1 for the 82574L]
    #[arg(long)]
    bus: Option<String>,
    /// How long each workload is counted
    #[arg(long, value_name = "TIME", value_parser = units::duration, default_value = "2s", conflicts_with = "guest", help_heading = heading::TIME)]
    duration: Duration,
    /// Count this number of frames, in place of --duration
    #[arg(long, value_name = "FRAMES", conflicts_with_all = ["duration", "guest"], value_parser = clap::value_parser!(u64).range(1..), help_heading = heading::LOAD)]
    count: Option<u64>,
    /// End with exit code 1 if this is exceeded: must=0, missed=0, reads-per-frame=0.1, violations=0, …
    #[arg(long, value_name = "NAME=VALUE", help_heading = heading::BOUNDS)]
    max: Vec<Bound>,
    #[command(flatten)]
    foreign: Foreign,
    #[command(flatten)]
    guests: GuestSoftware,
    #[command(flatten)]
    outputs: Outputs,
}

/// Arguments for a foreign guest.
#[derive(Args)]
#[command(next_help_heading = heading::FOREIGN_GUEST)]
struct Foreign {
    /// Audit a guest of your own, which the QEMU options describe, without a network card. To place the
    /// card, write `-device @CARD@,addr=3` among them
    #[arg(long, conflicts_with_all = ["driver", "workload", "kernel", "driver_module", "load", "set"])]
    guest: bool,
    /// The guest's architecture: x86_64, aarch64, riscv64
    #[arg(long, value_name = "ARCH", default_value = "x86_64", requires = "guest")]
    arch: Arch,
    /// The QEMU to use [default: that of Debian's backports, which kpps fetches once]
    #[arg(long, value_name = "PROGRAM", requires = "guest")]
    qemu: Option<PathBuf>,
    /// Tasks and faults for the guest: link, arp, ping, flood, udp, dhcp, tftp, http, overrun, link-flap. A
    /// guest gets its address, and loads files, by itself
    #[arg(
        long,
        value_delimiter = ',',
        value_name = "STIMULUS,…",
        default_value = "arp,ping,flood",
        requires = "guest"
    )]
    stimulus: Vec<Stimulus>,
    /// Faults after the stimuli: a number is a seed, from which five are drawn; otherwise names: overrun,
    /// link-flap, bad-fcs, slow-reset, slow-access, late-write-back, late-reports,
    /// spurious-interrupts, pause-flood, odd-frames. A request each 100 ms shows whether the guest bears them
    #[arg(long, value_name = "SEED|FAULT,…", requires = "guest")]
    faults: Option<Faults>,
    /// Give the card a property beyond the manual: swsm (a register of QEMU's card that U-Boot needs),
    /// mpe-passes-broadcasts
    #[arg(long, value_delimiter = ',', value_name = "QUIRK,…", requires = "guest")]
    quirk: Vec<Quirk>,
    /// The guest's address; kpps offers it by DHCP. If the guest uses another one, kpps takes that
    #[arg(long, value_name = "IPV4", default_value = "10.0.2.15", requires = "guest")]
    address: Ipv4Addr,
    /// Type LINE and Enter when PROMPT appears on the guest's serial console; several in their order.
    /// Escapes: \n, \r, \t, \\, \x1b
    #[arg(long, value_name = "PROMPT=>LINE", requires = "guest")]
    send: Vec<Typed>,
    /// End only after this text has appeared on the console
    #[arg(long, value_name = "TEXT", requires = "guest")]
    until: Option<String>,
    /// End after this time in any case
    #[arg(long, value_name = "TIME", value_parser = units::duration, default_value = "60s", requires = "guest")]
    at_most: Duration,
    /// Run the guest on QEMU's own card, too, and show both: qemu
    #[arg(long, value_name = "CARD", value_parser = ["qemu"], requires = "guest")]
    beside: Option<String>,
    /// Write a JUnit report for CI to this file
    #[arg(long, value_name = "FILE", requires = "guest")]
    junit: Option<PathBuf>,
    /// QEMU's options for the guest
    #[arg(last = true, value_name = "QEMU OPTIONS", requires = "guest")]
    options: Vec<String>,
}

impl Arguments {
    /// The bus's profile: PCI Express for a chip that is on it.
    fn bus(&self) -> &str {
        let is_express = self.chip.parse::<Chip>().is_ok_and(Chip::is_pci_express);
        self.bus.as_deref().unwrap_or(if is_express { "pcie-x1" } else { "pci-32-33" })
    }
}

/// Runs `kpps audit`.
pub fn run(arguments: &Arguments, session: &Session) -> Result<(), Failure> {
    if arguments.foreign.guest { run_foreign(arguments, session) } else { run_stock(arguments, session) }
}

/// Drivers of a stock kernel.
fn run_stock(arguments: &Arguments, session: &Session) -> Result<(), Failure> {
    let guests = &arguments.guests;
    let plan = kpps_audit::AuditPlan {
        kernel: guests.kernel.clone(),
        driver_module: guests.driver_module.clone(),
        chip: arguments.chip.clone(),
        bus: arguments.bus().to_owned(),
        drivers: guests.driver.clone(),
        works: guests.workload.clone(),
        rate: guests.load,
        duration: arguments.duration,
        count: arguments.count,
        settings: Settings(guests.set.clone()),
        kpps: program()?,
    };
    let results =
        measure(&arguments.outputs, session, "audit", "", |progress, go_on| plan.run(progress, go_on))?;
    let exceeded = arguments.max.iter().find_map(|bound| bound.exceeded(&results));
    exceeded.or(results.failures.first().cloned()).map_or(Ok(()), |what| Err(Failure::Check(what)))
}

/// A foreign guest.
fn run_foreign(arguments: &Arguments, session: &Session) -> Result<(), Failure> {
    let foreign = &arguments.foreign;
    let plan = GuestPlan {
        setup: Setup { arch: foreign.arch, qemu: foreign.qemu.clone(), options: foreign.options.clone() },
        chip: arguments.chip.clone(),
        bus: arguments.bus().to_owned(),
        quirks: foreign.quirk.clone(),
        stimuli: foreign.stimulus.clone(),
        faults: foreign.faults.clone().unwrap_or_default(),
        address: foreign.address,
        typed: foreign.send.clone(),
        until: foreign.until.clone(),
        at_most: foreign.at_most,
        beside_qemu: foreign.beside.is_some(),
    };
    let results =
        measure(&arguments.outputs, session, "audit", "", |progress, go_on| plan.run(progress, go_on))?;
    if let Some(path) = &foreign.junit {
        std::fs::write(path, junit(&results))
            .map_err(|error| Failure::Failed(format!("{}: {error}", path.display())))?;
    }
    let exceeded = arguments.max.iter().find_map(|bound| bound.exceeded_by_guest(&results));
    results.failure.clone().or(exceeded).map_or(Ok(()), |what| Err(Failure::Check(what)))
}
