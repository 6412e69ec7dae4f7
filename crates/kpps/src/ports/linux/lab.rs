//! `kpps lab`: the drivers of kpps, Linux and DPDK on the same card in the same run.

use crate::error::Failure;
use crate::output::Outputs;
use clap::Args;
use kpps_measure::units;
use kpps_qemu::lab::workload::{Backend, Driver, Setting, Settings, Work};
use kpps_qemu::lab::{Error, Model, Plan, Progress, load, program};
use kpps_report::Session;
use std::time::Duration;

/// Arguments of `kpps lab`.
#[derive(Args)]
#[command(after_help = "Examples:
  kpps lab --quick                                  takes at most three minutes
  kpps lab --device e1000e --workload transmit,loop
  kpps lab --under-test linux --kernel linux-5.10 --set linux.RxIntDelay=100 --workload receive
  kpps lab --under-test linux --set napi.defer_hard_irqs=2 --set napi.gro_flush_timeout=20000
  kpps lab --json | jq '.ratios[]'

kpps boots stock Debian kernels in QEMU with four cards; inside, the drivers take turns. It needs neither
KVM nor root. It fetches kernels and packages with apt once and keeps them in ~/.cache/kpps/lab
(KPPS_LAB_CACHE). QEMU's cards have no wire limit: rates above line rate are those of the emulation.")]
pub struct Arguments {
    /// Take at most three minutes: one round, short windows; whatever does not fit is left out
    #[arg(long)]
    quick: bool,
    /// QEMU's cards: e1000 (82540EM), e1000e (82574L)
    #[arg(long, value_delimiter = ',', value_name = "DEVICE,…", default_value = "e1000,e1000e")]
    device: Vec<Model>,
    /// How kpps' and DPDK's drivers access the cards: uio, vfio
    #[arg(long, value_delimiter = ',', value_name = "BACKEND,…", default_value = "uio,vfio", value_parser = backend)]
    backend: Vec<Backend>,
    /// Drivers that are compared: kpps, linux, dpdk
    #[arg(long, value_delimiter = ',', value_name = "NAME,…", default_value = "kpps,linux,dpdk")]
    under_test: Vec<Driver>,
    /// Workloads: transmit, receive, loop, forward, bridge
    #[arg(
        long,
        value_delimiter = ',',
        value_name = "WORKLOAD,…",
        default_value = "transmit,receive,loop,forward,bridge"
    )]
    workload: Vec<Work>,
    /// The guest's kernel: linux-6.1, linux-5.10 or linux-6.12
    #[arg(long, default_value = "linux-6.1")]
    kernel: String,
    /// Number of rounds; each driver is started anew in each
    #[arg(long, value_name = "ROUNDS", default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..1000))]
    rounds: u32,
    /// How long each workload is measured
    #[arg(long, value_name = "TIME", default_value = "1s", value_parser = units::duration)]
    duration: Duration,
    /// Load that the host offers for receive, forward and bridge: 400kpps, …, or max
    #[arg(long, value_name = "LOAD", default_value = "max")]
    load: load::Rate,
    /// Give a setting of the guest another value: linux.RxDescriptors=80 (a parameter of Linux's driver),
    /// sysctl.net.core.netdev_budget=64, napi.defer_hard_irqs=2, napi.gro_flush_timeout=20000, kpps.ring=256,
    /// dpdk.ring=256 [default of both rings: 2048]
    #[arg(long, value_name = "PATH=VALUE")]
    set: Vec<Setting>,
    #[command(flatten)]
    outputs: Outputs,
}

fn backend(text: &str) -> Result<Backend, String> {
    match text.parse() {
        Ok(Backend::Kernel) => Err("the kernel's own driver is --under-test linux".into()),
        other => other,
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

/// Runs `kpps lab`.
pub fn run(arguments: &Arguments, session: &Session) -> Result<(), Failure> {
    let plan = Plan {
        kernel: arguments.kernel.clone(),
        models: arguments.device.clone(),
        backends: arguments.backend.clone(),
        drivers: arguments.under_test.clone(),
        works: arguments.workload.clone(),
        rounds: arguments.rounds,
        windows: 1,
        window: arguments.duration,
        rate: arguments.load,
        settings: Settings(arguments.set.clone()),
        at_most: None,
        kpps: program()?,
    };
    let plan = if arguments.quick { plan.quick() } else { plan };
    let mut files = arguments.outputs.open(session, "lab")?;
    kpps_tester::provenance::begin();
    session.watch();
    let mut progress = Jobs(kpps_report::live::Progress::default());
    let view = session.line(progress.0.clone());
    let results = {
        let session = session.clone();
        plan.run(&mut progress, move || session.goes_on())
    };
    drop(view);
    let results = results?;
    files.publish(&results, "")?;
    if session.is_interrupted() {
        return Err(Failure::Interrupted(format!("interrupted: {} rows measured", results.rows.len())));
    }
    let broken: Vec<_> = results.failures.iter().filter(|what| !what.ends_with("no time left")).collect();
    match broken.first() {
        None => Ok(()),
        Some(first) => Err(Failure::Check(format!("{} could not be measured; {first}", broken.len()))),
    }
}

/// The jobs of a plan as a run shows them.
struct Jobs(kpps_report::live::Progress);

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
