//! `kpps lab`: the drivers of kpps, Linux and DPDK on the same card in the same run.

use crate::error::Failure;
use crate::output::Outputs;
use clap::Args;
use kpps_measure::units;
use kpps_qemu::lab::workload::{Backend, Driver, Setting, Settings, Work};
use kpps_qemu::lab::{Clock, Error, Model, Plan, failure, load, program};
use kpps_report::Session;
use kpps_report::live::Progress;
use std::path::PathBuf;
use std::time::Duration;

/// Arguments of `kpps lab`.
#[derive(Args)]
#[command(after_help = "Examples:
  kpps lab --quick                                  takes at most three minutes
  kpps lab --device e1000e --workload transmit,loop
  kpps lab --under-test linux --kernel linux-5.10 --set linux.RxIntDelay=100 --workload receive
  kpps lab --under-test linux --set napi.defer_hard_irqs=2 --set napi.gro_flush_timeout=20000
  kpps lab --json | jq '.ratios[]'
  kpps lab --under-test linux --device e1000 --driver-module ./e1000.ko      your own driver

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
    #[arg(long, value_delimiter = ',', value_name = "BACKEND,…", default_value = "uio,vfio", value_parser = Backend::of_user_space)]
    backend: Vec<Backend>,
    /// Drivers that are compared: kpps, linux, dpdk
    #[arg(long, value_delimiter = ',', value_name = "NAME,…", default_value = "kpps,linux,dpdk")]
    under_test: Vec<Driver>,
    /// Workloads: transmit, receive, loop, forward, bridge
    #[arg(long, value_delimiter = ',', value_name = "WORKLOAD,…", default_value = Work::NAMES)]
    workload: Vec<Work>,
    /// The guest's kernel: linux-6.1, linux-5.10, linux-6.12, linux-backports, or a folder with your own
    #[arg(long, value_name = "NAME|FOLDER", default_value = "linux-6.1")]
    kernel: String,
    /// Load this e1000.ko or e1000e.ko in place of the kernel's own
    #[arg(long, value_name = "FILE.ko")]
    driver_module: Option<PathBuf>,
    /// Use the DPDK in this folder, where it was built or installed, in place of Debian's
    #[arg(long, value_name = "FOLDER")]
    dpdk: Option<PathBuf>,
    /// The guest's clock: instructions, a nanosecond for each one that it executes, or wall
    #[arg(long, value_name = "CLOCK", default_value = "instructions")]
    clock: Clock,
    /// Number of rounds; each driver is started anew in each [default: 1; by the wall clock 5]
    #[arg(long, value_name = "ROUNDS", value_parser = clap::value_parser!(u32).range(1..1000))]
    rounds: Option<u32>,
    /// How long each workload is measured [default: 200ms; by the wall clock 1s]
    #[arg(long, value_name = "TIME", value_parser = units::duration)]
    duration: Option<Duration>,
    /// Load that is offered for receive, forward and bridge: 400kpps, …, or max
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
    let by_wall = arguments.clock == Clock::Wall;
    let plan = Plan {
        kernel: arguments.kernel.clone(),
        driver_module: arguments.driver_module.clone(),
        dpdk: arguments.dpdk.clone(),
        models: arguments.device.clone(),
        backends: arguments.backend.clone(),
        drivers: arguments.under_test.clone(),
        works: arguments.workload.clone(),
        clock: arguments.clock,
        rounds: arguments.rounds.unwrap_or(if by_wall { 5 } else { 1 }),
        windows: 1,
        window: arguments.duration.unwrap_or(Duration::from_millis(if by_wall { 1000 } else { 200 })),
        rate: arguments.load,
        settings: Settings(arguments.set.clone()),
        at_most: None,
        kpps: program()?,
    };
    let plan = if arguments.quick { plan.quick() } else { plan };
    let mut files = arguments.outputs.open(session, "lab")?;
    kpps_tester::provenance::begin();
    session.watch();
    let progress = Progress::default();
    let view = session.line(progress.clone());
    let results = {
        let session = session.clone();
        plan.run(&progress, move || session.goes_on())
    };
    drop(view);
    let results = results?;
    files.publish(&results, "")?;
    if session.is_interrupted() {
        return Err(Failure::Interrupted(format!("interrupted: {} rows measured", results.rows.len())));
    }
    failure(&results).map_or(Ok(()), |what| Err(Failure::Check(what)))
}
