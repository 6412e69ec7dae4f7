//! `kpps audit`: drivers on our model of a card, those of stock kernels or that of a foreign guest.

use super::lab::{GuestSoftware, measure, watched};
use crate::error::Failure;
use crate::heading;
use crate::output::Outputs;
use crate::session::Session;
use crate::typed::Typed as Options;
use clap::Args;
use kpps_audit::{Beside, Bound, Faults, GuestPlan, Quirk, SetupFile, Stimulus, Typed};
use kpps_datasheet::Chip;
use kpps_methods::units;
use kpps_qemu::lab::foreign::Setup;
use kpps_qemu::lab::workload::Settings;
use kpps_qemu::lab::{Arch, program};
use kpps_rendering::guest_audit::junit as as_junit;
use kpps_rendering::live::Progress;
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
  kpps audit --guest --setup audit.toml            all of this in a file
  kpps audit --guest --arch riscv64 --quirk swsm --stimulus dhcp,tftp -- -bios u-boot.bin
  kpps audit --workload transmit,receive           Linux's driver, ours and DPDK's on our model
  kpps audit --driver linux --driver-module ./e1000.ko --max reads-per-frame=0.1
  kpps audit --driver linux --workload bridge --count 1000000 --load max --max lost=0

kpps boots a guest in QEMU, whose card is kpps' model of an 8254x or 82574L (vfio-user). With --guest it is any
operating system with an e1000 or e1000e driver, started with the QEMU options after `--`. kpps is the host at the
other end of its cable: 10.0.2.2, which answers ARP, ping, DHCP, TFTP, HTTP and UDP echo, and sends what --stimulus
names. It reports how far the guest gets, and what its driver does against the manual. Neither root nor KVM is needed.
--setup reads the set-up from a file, whose keys the guide describes (docs/src/audit.md); an option that is
typed takes the place of the file's.

Without --guest it boots a stock kernel with the drivers of Linux, kpps and DPDK. For each frame kpps
counts register accesses by name, bursts for descriptors and data, interrupts and bus time. Guest and card do not
share a clock: load and interrupts depend on the speed of the emulation on this host. The workload bridge sends
numbered frames of all sizes, which must come back unchanged. QEMU is fetched once (36 MB)."
)]
pub struct Arguments {
    #[command(flatten)]
    card: Options<Card>,
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
    foreign: Options<Foreign>,
    #[command(flatten)]
    guests: GuestSoftware,
    #[command(flatten)]
    outputs: Outputs,
}

/// The model of the card.
#[derive(Args)]
struct Card {
    /// The profile of the chip (`kpps list chips`); the 82542 cannot be audited, and the 82574L (e1000e,
    /// MSI-X) only with --guest
    #[arg(long, default_value = "82540em", help_heading = heading::MACHINE)]
    chip: String,
    /// The bus's profile (`kpps list buses`) [default: pci-32-33, or pcie-x1 for the 82574L]
    #[arg(long)]
    bus: Option<String>,
}

/// Arguments for a foreign guest.
#[derive(Args)]
#[command(next_help_heading = heading::FOREIGN_GUEST)]
struct Foreign {
    /// Audit a guest of your own, which the QEMU options describe, without a network card. To place the
    /// card, write `-device @CARD@,addr=3` among them
    #[arg(long, conflicts_with_all = ["driver", "workload", "kernel", "driver_module", "load", "set"])]
    guest: bool,
    /// Read the set-up from this file (TOML); its relative paths start at its folder. Options that are typed
    /// take the place of the file's
    #[arg(long, value_name = "FILE", requires = "guest")]
    setup: Option<PathBuf>,
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
    /// link-flap, bad-fcs, slow-reset, slow-access, late-write-back, late-reports, spurious-interrupts,
    /// late-interrupts, pause-flood, odd-frames, partner-100, partner-10, partner-half, master-abort. A
    /// request each 100 ms shows whether the guest bears them
    #[arg(long, value_name = "SEED|FAULT,…", requires = "guest")]
    faults: Option<Faults>,
    /// Give the card a property beyond the manual: swsm (a register of QEMU's card that U-Boot needs),
    /// mpe-passes-broadcasts, slu (the EEPROM sets CTRL.SLU: what else does a driver that forgets it?)
    #[arg(long, value_delimiter = ',', value_name = "QUIRK,…", requires = "guest")]
    quirk: Vec<Quirk>,
    /// The guest's address; kpps offers it by DHCP. If the guest uses another one, kpps takes that
    #[arg(long, value_name = "IPV4", default_value = "10.0.2.15", requires = "guest")]
    address: Ipv4Addr,
    /// Type LINE and Enter when PROMPT appears on the guest's serial console; several in their order. The
    /// last => ends PROMPT. Escapes in both: \n, \r, \t, \\, \x1b
    #[arg(long, value_name = "PROMPT=>LINE", requires = "guest")]
    send: Vec<Typed>,
    /// End only after this text has appeared on the console
    #[arg(long, value_name = "TEXT", requires = "guest")]
    until: Option<String>,
    /// End after this time in any case [default: 60s, and 15s for each fault]
    #[arg(long, value_name = "TIME", value_parser = units::duration, requires = "guest")]
    at_most: Option<Duration>,
    /// Compare with: qemu, the guest on QEMU's own card; linux, the counts for each frame of Linux's driver
    /// on our model under the same stimuli, as far as a kernel answers them: arp, ping, flood, overrun,
    /// link-flap
    #[arg(long, value_delimiter = ',', value_name = "SYSTEM,…", requires = "guest")]
    beside: Vec<Beside>,
    /// Write a JUnit report for CI to this file
    #[arg(long, value_name = "FILE", requires = "guest")]
    junit: Option<PathBuf>,
    /// QEMU's options for the guest
    #[arg(last = true, value_name = "QEMU OPTIONS", requires = "guest")]
    options: Vec<String>,
}

/// The bus's profile for a chip, unless one was chosen: PCI Express for a chip that is on it.
fn bus_of(chip: &str, chosen: Option<&str>) -> String {
    let is_express = chip.parse::<Chip>().is_ok_and(Chip::is_pci_express);
    chosen.unwrap_or(if is_express { "pcie-x1" } else { "pci-32-33" }).to_owned()
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
        chip: arguments.card.chip.clone(),
        bus: bus_of(&arguments.card.chip, arguments.card.bus.as_deref()),
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

/// The chosen set-up of a foreign guest: the options, and the values of its file where no option was typed.
struct Chosen {
    plan: GuestPlan,
    max: Vec<Bound>,
    junit: Option<PathBuf>,
}

/// Reads the file of the set-up, if there is one.
fn chosen(arguments: &Arguments) -> Result<Chosen, Failure> {
    let Arguments { card, foreign, max, .. } = arguments;
    let path = foreign.setup.as_deref();
    let file = path.map(SetupFile::read).transpose().map_err(Failure::Input)?.unwrap_or_default();
    let typed: Vec<_> = card.names().chain(foreign.names()).collect();
    let is_typed = |name: &str| typed.contains(&name);
    macro_rules! pick {
        ($name:literal, $of:ident.$option:ident, $key:ident) => {
            match file.$key {
                Some(value) if !is_typed($name) => value.into(),
                _ => $of.$option.clone(),
            }
        };
    }
    // The options for QEMU have no name.
    let (options, folder) = match (file.options, path) {
        (Some(options), Some(path)) if foreign.options.is_empty() => (options, Some(SetupFile::folder(path))),
        _ => (foreign.options.clone(), None),
    };
    let faults: Option<Faults> = pick!("faults", foreign.faults, faults);
    let faults = faults.unwrap_or_default();
    let at_most: Option<Duration> = pick!("at-most", foreign.at_most, at_most);
    let beside: Vec<Beside> = pick!("beside", foreign.beside, beside);
    let chip: String = pick!("chip", card.chip, chip);
    let bus: Option<String> = pick!("bus", card.bus, bus);
    let plan = GuestPlan {
        setup: Setup {
            arch: pick!("arch", foreign.arch, arch),
            qemu: pick!("qemu", foreign.qemu, qemu),
            options,
            folder,
        },
        bus: bus_of(&chip, bus.as_deref()),
        chip,
        quirks: pick!("quirk", foreign.quirk, quirks),
        stimuli: pick!("stimulus", foreign.stimulus, stimuli),
        at_most: at_most.unwrap_or_else(|| GuestPlan::usual_time(&faults)),
        faults,
        address: pick!("address", foreign.address, address),
        typed: pick!("send", foreign.send, send),
        until: pick!("until", foreign.until, until),
        beside_qemu: beside.contains(&Beside::Qemu),
        beside_linux: beside.contains(&Beside::Linux),
    };
    let max = if max.is_empty() { file.max.unwrap_or_default() } else { max.clone() };
    max.iter().try_for_each(Bound::check_of_guest).map_err(Failure::Input)?;
    Ok(Chosen { plan, max, junit: pick!("junit", foreign.junit, junit) })
}

/// A foreign guest.
fn run_foreign(arguments: &Arguments, session: &Session) -> Result<(), Failure> {
    let Chosen { plan, max, junit } = chosen(arguments)?;
    plan.setup.check()?;
    let mut files = arguments.outputs.open(session, "audit")?;
    let report = files.open(junit.as_deref())?;
    let run = |progress: &Progress, go_on| plan.run(progress, go_on);
    let results = watched(session, run)?;
    if let Some(report) = report {
        files.attach(report, Ok(as_junit(&results).into_bytes()));
    }
    files.publish(&results, "")?;
    if session.is_interrupted() {
        let (seconds, findings) = (results.seconds, results.findings.len());
        let kept = files.kept();
        return Err(Failure::Interrupted(format!(
            "interrupted: the guest ran for {seconds:.1} s; findings so far: {findings}{kept}"
        )));
    }
    let exceeded = max.iter().find_map(|bound| bound.exceeded_by_guest(&results));
    results.failure.clone().or(exceeded).map_or(Ok(()), |what| Err(Failure::Check(what)))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use clap::{Command, FromArgMatches};

    fn with(words: &[&str]) -> Chosen {
        let command = Arguments::augment_args(Command::new("audit"));
        let matches = command.try_get_matches_from([&["audit", "--guest"], words].concat()).unwrap();
        chosen(&Arguments::from_arg_matches(&matches).unwrap()).ok().unwrap()
    }

    #[test]
    fn a_typed_option_takes_the_place_of_the_file_s_value() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("audit.toml");
        std::fs::write(
            &path,
            "arch = 'riscv64'\nchip = '82544ei'\nstimuli = ['udp']\noptions = ['-bios', 'b']\nat_most = '9s'\n\
             max = { must = 0 }\njunit = 'a.xml'\nfaults = 7\nbeside = ['qemu']\n\
             send = [{ prompt = 'a', line = 'b' }]",
        )
        .unwrap();
        let path = path.to_str().unwrap();
        let Chosen { plan, max, junit } = with(&["--setup", path]);
        assert_eq!((plan.setup.arch, &*plan.chip, &*plan.bus), (Arch::Riscv64, "82544ei", "pci-32-33"));
        assert_eq!((plan.setup.options.len(), plan.setup.folder.as_deref()), (2, Some(folder.path())));
        assert_eq!((plan.at_most, max.len(), plan.faults), (Duration::from_secs(9), 1, Faults::drawn(7)));
        assert_eq!((junit, plan.stimuli.len()), (Some(folder.path().join("a.xml")), 1));
        assert_eq!((plan.beside_qemu, plan.typed.len()), (true, 1));
        // A default that is typed counts as typed.
        let typed = ["--setup", path, "--arch", "x86_64", "--chip", "82540em", "--stimulus", "arp,ping"];
        let more = ["--max", "must=1", "--max", "should=0", "--junit", "b.xml", "--send", "c=>d", "--", "-S"];
        let Chosen { plan, max, junit } = with(&[&typed[..], &more].concat());
        assert_eq!((plan.setup.arch, &*plan.chip, plan.stimuli.len()), (Arch::X86_64, "82540em", 2));
        assert_eq!((plan.setup.options, plan.setup.folder), (vec!["-S".to_owned()], None));
        assert_eq!((max.len(), junit, plan.typed.len()), (2, Some("b.xml".into()), 1));
        assert_eq!(plan.typed, ["c=>d".parse().unwrap()]);
        let Chosen { plan, .. } = with(&[]);
        assert_eq!((plan.at_most, plan.stimuli.len()), (Duration::from_secs(60), 3));
        let Chosen { plan, .. } = with(&["--faults", "bad-fcs,partner-10", "--", "-S"]);
        assert_eq!(plan.at_most, Duration::from_secs(90));
    }
}
