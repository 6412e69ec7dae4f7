//! `kpps lab`: our driver, Linux's and DPDK's on the same card in the same run.

use crate::error::{Failure, print};
use crate::interrupt;
use crate::live;
use crate::units::{self, Rate};
use clap::Args;
use kpps_qemu::lab::workload::{Backend, Driver, Setting, Settings, Work};
use kpps_qemu::lab::{Error, Model, Plan, Progress, load};
use std::path::PathBuf;
use std::time::Duration;

/// All of a quick run, boots included.
const QUICK: Duration = Duration::from_secs(170);
/// Windows for each driver in a quick run, and how long they are.
const QUICK_WINDOWS: (u32, Duration) = (4, Duration::from_millis(200));

/// Arguments of `kpps lab`.
#[derive(Args)]
#[command(after_help = "Examples:
  kpps lab --quick                                  at most three minutes
  kpps lab --device e1000e --workload transmit,loop
  kpps lab --driver linux --kernel linux-5.10 --set linux.RxIntDelay=100 --workload receive
  kpps lab --driver linux --set napi.defer_hard_irqs=2 --set napi.gro_flush_timeout=20000
  kpps lab --json | jq '.ratios[]'

Stock Debian kernels are booted in QEMU (TCG, no KVM and no root needed) with four cards; inside, the
drivers take turns. Kernels and packages are fetched with apt once and kept in ~/.cache/kpps/lab
(KPPS_LAB_CACHE). QEMU's cards have no wire limit: rates above line rate are those of the emulation.")]
pub struct Arguments {
    /// Three minutes at most: one start of each driver, short windows; what there is no time for is left out
    #[arg(long)]
    quick: bool,
    /// Cards: e1000 (82540EM), e1000e (82574L)
    #[arg(long, value_delimiter = ',', default_values = ["e1000", "e1000e"])]
    device: Vec<Model>,
    /// How ours and DPDK's reach them: uio, vfio
    #[arg(long, value_delimiter = ',', default_values = ["uio", "vfio"], value_parser = backend)]
    backend: Vec<Backend>,
    /// Whose drivers: ours, linux, dpdk
    #[arg(long, value_delimiter = ',', default_values = ["ours", "linux", "dpdk"])]
    driver: Vec<Driver>,
    /// What they do: transmit, receive, loop, forward, bridge
    #[arg(long, value_delimiter = ',', default_values = ["transmit", "receive", "loop", "forward", "bridge"])]
    workload: Vec<Work>,
    /// The guest's kernel: linux-6.1, linux-5.10 or linux-6.12
    #[arg(long, default_value = "linux-6.1")]
    kernel: String,
    /// How often each driver is started anew
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..1000))]
    repeat: u32,
    /// How long each of them is measured
    #[arg(long, default_value = "1s", value_parser = units::duration)]
    duration: Duration,
    /// What the host sends for receive, forward and bridge: 400kpps, …, or max
    #[arg(long, default_value = "max", value_parser = load)]
    load: load::Rate,
    /// A setting of a driver: linux.RxDescriptors=80, sysctl.net.core.netdev_budget=64, napi.defer_hard_irqs=2,
    /// napi.gro_flush_timeout=20000; ours.ring=256, dpdk.ring=256 (both have 2048 if nothing is set)
    #[arg(long, value_name = "SETTING")]
    set: Vec<Setting>,
    /// Print the results as one JSON document
    #[arg(long)]
    json: bool,
}

fn backend(text: &str) -> Result<Backend, String> {
    match text.parse() {
        Ok(Backend::Kernel) => Err("the kernel's own driver is --driver linux".into()),
        other => other,
    }
}

fn load(text: &str) -> Result<load::Rate, String> {
    if text == "max" {
        return Ok(load::Rate::Flood);
    }
    match text.parse()? {
        Rate::Pps(pps) => Ok(load::Rate::Pps(pps)),
        Rate::L1(_) | Rate::L2(_) => Err(format!("'{text}': give frames per second, or max")),
        Rate::Percent(_) => {
            Err(format!("'{text}': QEMU's wire has no line rate; give frames per second, or max"))
        }
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        match error {
            Error::Input(_) | Error::NotInstalled { .. } => Self::Input(error.to_string()),
            Error::Interrupted => Self::Interrupted("interrupted".into()),
            _ => Self::Check(error.to_string()),
        }
    }
}

/// The program that is to be kpps in the guest: this one.
pub fn program() -> Result<PathBuf, Failure> {
    match std::env::var_os("KPPS_LAB_BINARY") {
        Some(path) => Ok(path.into()),
        None => std::env::current_exe().map_err(|e| Failure::Check(format!("where is this program? {e}"))),
    }
}

/// Runs `kpps lab`.
pub fn run(arguments: &Arguments) -> Result<(), Failure> {
    let (rounds, windows, window) = match arguments.quick {
        true => (1, QUICK_WINDOWS.0, QUICK_WINDOWS.1),
        false => (arguments.repeat, 1, arguments.duration),
    };
    let plan = Plan {
        kernel: arguments.kernel.clone(),
        models: arguments.device.clone(),
        backends: arguments.backend.clone(),
        drivers: arguments.driver.clone(),
        works: arguments.workload.clone(),
        rounds,
        windows,
        window,
        rate: arguments.load,
        settings: Settings(arguments.set.clone()),
        at_most: arguments.quick.then_some(QUICK),
        kpps: program()?,
    };
    interrupt::watch();
    let mut progress = Jobs(kpps_live::Progress::default());
    let view = live::line(progress.0.clone());
    let results = plan.run(&mut progress, || !interrupt::asked());
    drop(view);
    let results = results?;
    let json = || results.to_json().map_err(|e| Failure::Check(format!("no JSON of the results: {e}")));
    print(&if arguments.json { json()? } else { results.table() })?;
    if interrupt::asked() {
        return Err(Failure::Interrupted(format!("interrupted: {} rows measured", results.rows.len())));
    }
    let broken: Vec<_> = results.failures.iter().filter(|what| !what.ends_with("no time left")).collect();
    match broken.first() {
        None => Ok(()),
        Some(first) => Err(Failure::Check(format!("{} could not be measured; {first}", broken.len()))),
    }
}

/// The jobs of a plan as a run shows them.
struct Jobs(kpps_live::Progress);

impl Progress for Jobs {
    fn jobs(&mut self, count: usize) {
        self.0.wants(count);
    }
    fn now(&mut self, what: &str) {
        self.0.begins(what, None);
    }
    fn done(&mut self) {
        self.0.done();
    }
}
