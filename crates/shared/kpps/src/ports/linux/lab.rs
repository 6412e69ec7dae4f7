//! `kpps lab`: the drivers of kpps, Linux and DPDK on the same card in the same run.

use crate::error::Failure;
use crate::heading;
use crate::output::{Outputs, Resume};
use crate::session::Session;
use clap::Args;
use kpps_frames::rate::Rate;
use kpps_methods::units;
use kpps_qemu::lab::workload::{Backend, Driver, Setting, Settings, Work};
use kpps_qemu::lab::{Clock, Error, LabPlan, Model, failure, load, program};
use kpps_rendering::Forms;
use kpps_rendering::live::Progress;
use std::path::PathBuf;
use std::time::Duration;

/// Arguments of `kpps lab`.
#[derive(Args)]
#[command(after_help = "Examples:
  kpps lab --quick                                  takes at most three minutes
  kpps lab --driver linux --kernel linux-5.10 --set linux.RxIntDelay=100 --workload receive
  kpps lab --profile --workload transmit --report lab.html    where the instructions go
  kpps lab --driver linux --device e1000 --driver-module ./e1000.ko      your own driver

kpps boots stock Debian kernels in QEMU with four cards. In each guest the drivers take turns. Neither KVM nor
root is needed. kpps fetches kernels and packages with apt once and keeps them in ~/.cache/kpps/lab
(KPPS_LAB_CACHE). QEMU's cards have no line rate, so a guest can be faster than a real card.")]
pub struct Arguments {
    /// Measure for at most three minutes: one round, short windows. Drivers and workloads for which no time
    /// is left are left out
    #[arg(long, help_heading = heading::SEARCH)]
    quick: bool,
    /// QEMU's cards: e1000 (82540EM), e1000e (82574L); for Linux and DPDK only, igb, virtio-net, vmxnet3
    #[arg(long, value_delimiter = ',', value_name = "DEVICE,…", default_value = "e1000,e1000e")]
    device: Vec<Model>,
    /// How kpps' and DPDK's drivers access the cards: uio, vfio
    #[arg(long, value_delimiter = ',', value_name = "BACKEND,…", default_value = "uio,vfio", value_parser = Backend::of_user_space)]
    backend: Vec<Backend>,
    /// Report the share of the instructions of each function; --report draws flame graphs
    #[arg(long)]
    profile: bool,
    /// Use the DPDK in this folder, where it was built or installed, in place of Debian's
    #[arg(long, value_name = "FOLDER")]
    dpdk: Option<PathBuf>,
    /// The clock of the guest. `instructions`: each executed instruction takes one nanosecond of the guest's
    /// time; `wall`: real time
    #[arg(long, value_name = "CLOCK", default_value = "instructions", help_heading = heading::TESTBED)]
    clock: Clock,
    /// Number of rounds. Each round starts each driver again [default: 1; with --clock wall: 5]
    #[arg(long, value_name = "ROUNDS", value_parser = clap::value_parser!(u32).range(1..1000))]
    rounds: Option<u32>,
    /// How long each workload is measured [default: 200ms; with --clock wall: 1s]
    #[arg(long, value_name = "TIME", value_parser = units::duration, help_heading = heading::TIME)]
    duration: Option<Duration>,
    #[command(flatten)]
    guests: GuestSoftware,
    #[command(flatten)]
    resume: Resume,
    #[command(flatten)]
    outputs: Outputs,
}

/// The software of guests, whatever their cards are.
#[derive(Args)]
pub(super) struct GuestSoftware {
    /// Drivers to compare: kpps, linux (the kernel's own), dpdk
    #[arg(
        long,
        alias = "under-test",
        value_delimiter = ',',
        value_name = "DRIVER,…",
        default_value = "kpps,linux,dpdk"
    )]
    pub(super) driver: Vec<Driver>,
    /// Workloads: transmit, receive, loop, forward, bridge
    #[arg(long, value_delimiter = ',', value_name = "WORKLOAD,…", default_value = Work::NAMES)]
    pub(super) workload: Vec<Work>,
    /// The guest's kernel: linux-6.1, linux-5.10, linux-6.12, linux-backports (the newest), or a folder
    /// with your own vmlinux and modules
    #[arg(long, value_name = "NAME|FOLDER", default_value = "linux-6.1")]
    pub(super) kernel: String,
    /// Load this module of the cards' driver in place of the kernel's own: e1000.ko, e1000e.ko, …
    #[arg(long, value_name = "FILE.ko", help_heading = heading::TESTBED)]
    pub(super) driver_module: Option<PathBuf>,
    /// The load that is offered in the workloads receive, forward and bridge: frames per second as 400kpps,
    /// or max
    #[arg(long, value_name = "LOAD", default_value = "max", value_parser = load::rate, help_heading = heading::LOAD)]
    pub(super) load: Rate,
    /// Change a setting of the guest: linux.RxDescriptors=80 (a parameter of Linux's driver),
    /// sysctl.net.core.netdev_budget=64, napi.defer_hard_irqs=2, napi.gro_flush_timeout=20000, kpps.ring=256,
    /// dpdk.ring=256 [default of both rings: 2048]
    #[arg(long, value_name = "PATH=VALUE", help_heading = heading::MACHINE)]
    pub(super) set: Vec<Setting>,
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        match error {
            Error::Input(_) | Error::NotInstalled { .. } => Self::Input(error.to_string()),
            Error::Interrupted => Self::Interrupted("interrupted".into()),
            _ => Self::Failed(error.to_string()),
        }
    }
}

/// Runs `kpps lab`.
pub fn run(arguments: &Arguments, session: &Session) -> Result<(), Failure> {
    let guests = &arguments.guests;
    let by_wall = arguments.clock == Clock::Wall;
    let plan = LabPlan {
        kernel: guests.kernel.clone(),
        driver_module: guests.driver_module.clone(),
        dpdk: arguments.dpdk.clone(),
        models: arguments.device.clone(),
        backends: arguments.backend.clone(),
        drivers: guests.driver.clone(),
        works: guests.workload.clone(),
        clock: arguments.clock,
        rounds: arguments.rounds.unwrap_or(if by_wall { 5 } else { 1 }),
        windows: 1,
        window: arguments.duration.unwrap_or(Duration::from_millis(if by_wall { 1000 } else { 200 })),
        rate: guests.load,
        settings: Settings(guests.set.clone()),
        profile: arguments.profile,
        at_most: None,
        kpps: program()?,
    };
    let plan = if arguments.quick { plan.quick() } else { plan };
    let finished = arguments.resume.finished(session)?;
    let lab = |progress: &Progress, go_on| plan.run(progress, go_on, &finished);
    let results = measure(&arguments.outputs, session, "lab", &arguments.resume.kept(), lab);
    finished.close()?;
    let results = results?;
    failure(&results).map_or(Ok(()), |what| Err(Failure::Check(what)))
}

/// Measures in guests, with a line on the screen meanwhile, and publishes the results. An interrupted run
/// says which results are `kept`.
pub(super) fn measure<D: Forms>(
    outputs: &Outputs,
    session: &Session,
    name: &str,
    kept: &str,
    measure: impl FnOnce(&Progress, Box<dyn Fn() -> bool + Send + Sync>) -> Result<D, Error>,
) -> Result<D, Failure> {
    let mut files = outputs.open(session, name)?;
    let results = watched(session, measure)?;
    files.publish(&results, "")?;
    let rows = results.rows().rows.len();
    match session.is_interrupted() {
        true => Err(Failure::Interrupted(format!("interrupted: {rows} rows measured{kept}"))),
        false => Ok(results),
    }
}

/// Measures in guests, with a line on the screen meanwhile, until the user interrupts.
pub(super) fn watched<D>(
    session: &Session,
    measure: impl FnOnce(&Progress, Box<dyn Fn() -> bool + Send + Sync>) -> Result<D, Error>,
) -> Result<D, Error> {
    kpps_tester::provenance::begin();
    session.watch();
    let progress = Progress::default();
    let _view = session.line(progress.clone());
    let goes_on = session.clone();
    measure(&progress, Box::new(move || goes_on.goes_on()))
}
