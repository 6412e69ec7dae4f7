//! `kpps profile`: where CPU time goes, by function and level, and what each frame costs.

use crate::error::Failure;
use crate::interrupt;
use crate::output::{Forms, Outputs};
use crate::simulator::{Constants, OnTop};
use clap::Args;
use kpps_frames::{Size, rate};
use kpps_measure::Load;
use kpps_measure::units::{self, Rate};
use kpps_report::{rows_csv, simulation};
use kpps_results::{rounded, simulation as report};
use kpps_sim::{Forwarding, Function, Level, PerFrame, Profile, Receiving, Setup};
use std::time::Duration;

/// Time under load before measuring begins.
const WARMUP_MS: u32 = 20;

/// Arguments of `kpps profile`.
#[derive(Args)]
#[command(after_help = "Examples:
  kpps profile                                       the time of Intel's driver at line rate
  kpps profile --driver rdr --load 300kpps           recycled buffers: no time for the allocator
  kpps profile --app bridge --machine lunz2003 --load 100kpps --csv bridge.csv")]
pub struct Arguments {
    /// The machine: a name (`kpps list machines`) or a .toml file
    #[arg(long, default_value = "rdr2007")]
    machine: String,
    /// The chip, if not the machine's own: a name (`kpps list chips`) or a .toml file
    #[arg(long)]
    chip: Option<String>,
    /// The driver preset: a name (`kpps list drivers`) or a .toml file
    #[arg(long, default_value = "intel-5.7.6")]
    driver: String,
    #[command(flatten)]
    constants: Constants,
    #[command(flatten)]
    top: OnTop,
    /// Frame size in bytes with FCS [default: 64; with --app vlan-route: 68]
    #[arg(long, value_parser = units::size)]
    size: Option<Size>,
    /// The offered load
    #[arg(long, default_value = "100%")]
    load: Rate,
    /// How long to measure, in virtual time
    #[arg(long, value_name = "TIME", default_value = "50ms", value_parser = units::duration)]
    duration: Duration,
    #[command(flatten)]
    outputs: Outputs,
}

/// What was profiled.
struct Outcome {
    setup: Setup,
    offered_pps: f64,
    delivered_pps: f64,
    frames: u64,
    seconds: f64,
    profile: Profile,
    per_frame: PerFrame,
}

impl Outcome {
    fn ns_per_frame(&self, ps: u64) -> f64 {
        ps as f64 / 1e3 / self.frames.max(1) as f64
    }

    /// What was counted for each frame that the driver took, by name.
    fn counts(&self) -> [(&'static str, f64); 8] {
        let each = self.per_frame;
        [
            ("interrupts", each.interrupts),
            ("register_reads", each.register_reads),
            ("register_writes", each.register_writes),
            ("bus_transactions", each.bus_transactions),
            ("allocations", each.allocations),
            ("allocated_bytes", each.allocated_bytes),
            ("cache_misses", each.cache_misses),
            ("line_transfers", each.line_transfers),
        ]
    }
}

/// Runs `kpps profile`.
pub fn run(arguments: &Arguments) -> Result<(), Failure> {
    interrupt::watch();
    let changes = arguments.constants.changes()?;
    let setup = Setup::changed(&arguments.machine, arguments.chip.as_deref(), &arguments.driver, &changes)?;
    let duration_ms = u32::try_from(arguments.duration.as_millis()).unwrap_or(u32::MAX);
    let go_on = || !interrupt::asked();
    let mut files = arguments.outputs.open()?;
    let top = arguments.top;
    let size = top.size(arguments.size);
    let offered_pps = arguments.load.pps(top.line_rate_pps(size), size.bytes_with_fcs().into());
    let load = Load { offered_pps, size, warmup_ms: WARMUP_MS, duration_ms, seed: 1 };
    let (trial, profile, per_frame) = match top.app {
        Some(app) => {
            let forwarded = Forwarding::new(setup.clone(), app).forwarded(&load, &go_on)?;
            (forwarded.trial, forwarded.profile, forwarded.per_frame)
        }
        None => {
            let profiled = Receiving::new(setup.clone()).profiled(&load, &go_on)?;
            (profiled.trial, profiled.profile, profiled.per_frame)
        }
    };
    let delivered_pps = trial.delivered as f64 / trial.seconds;
    // Zero frames have no time each.
    let (frames, seconds) = (trial.taken.unwrap_or(0), trial.seconds);
    let outcome = Outcome { setup, offered_pps, delivered_pps, frames, seconds, profile, per_frame };
    let document = document(arguments, &outcome);
    files.publish(
        &document,
        &Forms::table(&|| simulation::profile(&document, rate::line_rate_pps(rate::GIGABIT, size)), &|| {
            rows_csv(&document.rows)
        }),
    )
}

fn word(level: Level) -> &'static str {
    match level {
        Level::Process => "process",
        Level::Thread => "thread",
        Level::Softirq => "softirq",
        Level::Hardirq => "interrupt",
    }
}

fn document(arguments: &Arguments, outcome: &Outcome) -> report::Profile {
    let Outcome { setup, profile, .. } = outcome;
    let total = profile.total_ps().max(1) as f64;
    let row = |function: Function, level: Option<Level>, ps: u64| report::ProfileRow {
        function: function.name().into(),
        level: level.map(|level| word(level).into()),
        share: rounded(ps as f64 / total),
        ns_per_frame: rounded(outcome.ns_per_frame(ps)),
    };
    report::Profile {
        environment: report::Room {
            kpps: env!("CARGO_PKG_VERSION").into(),
            testbed: "sim".into(),
            machine: setup.machine.clone(),
            chip: Some(setup.chip.clone()),
            bus: setup.bus.clone(),
            host: setup.host.clone(),
            stack: setup.stack.clone(),
            driver: Some(setup.driver.clone()),
            app: arguments.top.app_name(),
            frame_bytes_with_fcs: arguments.top.size(arguments.size).bytes_with_fcs(),
            duration_ms: arguments.duration.as_millis() as u64,
            profiles_hash: kpps_profiles::hash(&setup.own_profiles),
            ..report::Room::default()
        },
        offered_pps: rounded(outcome.offered_pps),
        delivered_pps: rounded(outcome.delivered_pps),
        cpu_busy: rounded(profile.total_ps() as f64 / outcome.seconds / 1e12),
        per_frame: outcome.counts().iter().map(|&(name, count)| (name.into(), rounded(count))).collect(),
        functions: profile.functions().iter().map(|&(f, ps)| row(f, None, ps)).collect(),
        rows: profile.rows().iter().map(|&(l, f, ps)| row(f, Some(l), ps)).collect(),
        ..report::Profile::default()
    }
}
