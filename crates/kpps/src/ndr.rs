//! `kpps ndr`: the highest load without loss, and with little, in one search.

use crate::error::{Failure, print};
use crate::interrupt;
use crate::journal::Journal;
use crate::room::Room;
use crate::run::Common;
use crate::trial::Bench;
use crate::units::{self, Rate};
use clap::Args;
use kpps_bench::search::{Bisection, Goal, Known, Measured, Search};
use kpps_bench::{Load, Testbed, TrialError};
use kpps_frames::Size;
use kpps_ports::Spec;
use kpps_report::ndr::{Ndr, PlainBisection, SearchGoal, SearchTrial};
use kpps_testbed::Setup;
use std::fmt::Write as _;
use std::io::IsTerminal;
use std::path::PathBuf;
use std::time::Duration;

/// Arguments of `kpps ndr`.
#[derive(Args)]
#[command(after_help = "Examples:
  kpps ndr --testbed packet:A,packet:B --trials a-b.jsonl     goes on there if it is interrupted
  kpps ndr --driver intel-5.7.6                               in the machine room
  kpps ndr --testbed known:700kpps --noise --bisection        a system whose rate is known, with noise

NDR: no frame lost; PDR: at most 0.5 %. A load is decided by the trials of 21 times one trial's length, most of which
must agree, so that a single disturbed second misleads nobody (MLRsearch, draft-ietf-bmwg-mlrsearch). Frames that could
not be sent at their time count as lost. Loads are those of each direction; with --app those of both together.")]
pub struct Arguments {
    /// The two ports, or known:RATE for a system that delivers so much [default: the machine room]
    #[arg(long, value_delimiter = ',', value_name = "PORT,PORT")]
    testbed: Vec<String>,
    /// With known:RATE: one second in twenty loses up to 2000 frames more
    #[arg(long)]
    noise: bool,
    #[command(flatten)]
    room: Room,
    /// The machine of the machine room [default: morris2000; with --app lunz2003]
    #[arg(long)]
    machine: Option<String>,
    /// The driver preset in the machine room
    #[arg(long, default_value = "kpps")]
    driver: String,
    /// Seed of what is random in the machine room, and of the noise
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Frame size in bytes with FCS [default: 64; with --app vlan-route 68]
    #[arg(long, value_parser = crate::trial::size)]
    size: Option<Size>,
    /// Length of one trial [default: 1s; in the machine room 50ms]
    #[arg(long, value_parser = units::duration)]
    duration: Option<Duration>,
    /// The lowest load to try
    #[arg(long, default_value = "1kpps")]
    min: Rate,
    /// The highest load to try
    #[arg(long, default_value = "100%")]
    max: Rate,
    /// Largest distance of the bounds, relative to the upper one
    #[arg(long, default_value = "0.5%", value_parser = units::share)]
    width: f64,
    /// Loss ratio of the PDR
    #[arg(long, default_value = "0.5%", value_parser = units::share)]
    loss: f64,
    /// The longest time that all trials may take together
    #[arg(long, default_value = "20min", value_parser = units::duration)]
    limit: Duration,
    /// A plain bisection beside it
    #[arg(long)]
    bisection: bool,
    /// Keep every trial in this file, and go on from those in it that are of the same search
    #[arg(long, value_name = "FILE")]
    trials: Option<PathBuf>,
    #[command(flatten)]
    bench: Bench,
    #[command(flatten)]
    common: Common,
}

/// Runs `kpps ndr`.
pub fn run(arguments: &Arguments) -> Result<(), Failure> {
    let (mut testbed, simulated) = testbed(arguments)?;
    let size = arguments.room.size(arguments.size);
    let line_pps = testbed.line_rate_pps(size);
    let (min_pps, max_pps) = (arguments.min.pps(line_pps), arguments.max.pps(line_pps).min(line_pps));
    if min_pps >= max_pps {
        return Err(Failure::Input(format!(
            "from {min_pps:.0} to {max_pps:.0} pps there is nothing to search"
        )));
    }
    let trial = arguments.duration.unwrap_or(Duration::from_millis(if simulated { 50 } else { 1000 }));
    let goal = Goal { width: arguments.width, ..Goal::NDR }.with_trials_of(trial.as_secs_f64());
    let goals = [("NDR", goal), ("PDR", Goal { loss_ratio: arguments.loss, ..goal })];
    let bench = Run { load: load(arguments, trial), testbed: &mut *testbed };
    let mut document = Ndr {
        kpps_version: env!("CARGO_PKG_VERSION").into(),
        testbed: if arguments.testbed.is_empty() {
            let room = arguments.room;
            let app = room.app.map(|app| format!(", {app}")).unwrap_or_default();
            vec![format!("sim: {}, {}{app}", room.machine(arguments.machine.as_deref()), arguments.driver)]
        } else {
            arguments.testbed.clone()
        },
        frame_bytes_with_fcs: size.bytes_with_fcs(),
        both_ways: arguments.bench.both,
        min_pps: tenths(min_pps),
        max_pps: tenths(max_pps),
        ..Ndr::default()
    };
    interrupt::watch();
    let end = search(arguments, &goals, (min_pps, max_pps), bench, &mut document);
    document.trouble =
        end.as_ref().err().filter(|end| !matches!(end, Failure::Interrupted(_))).map(ToString::to_string);
    if arguments.common.json {
        let json = document.to_json().map_err(|e| Failure::Check(format!("no JSON of the results: {e}")))?;
        print(&json)?;
    } else {
        print(&screen(&document))?;
    }
    end
}

fn testbed(arguments: &Arguments) -> Result<(Box<dyn Testbed>, bool), Failure> {
    if arguments.testbed.is_empty() {
        let machine = arguments.room.machine(arguments.machine.as_deref());
        let setup = Setup::named(machine, None, &arguments.driver)?;
        return Ok((arguments.room.testbed(setup), true));
    }
    if let [known] = &arguments.testbed[..]
        && let Some(pps) = known.strip_prefix("known:")
    {
        let Rate::Pps(pps) = pps.parse().map_err(Failure::Input)? else {
            return Err(Failure::Input("give the known rate in frames per second: known:700kpps".into()));
        };
        let known = if arguments.noise { Known::noisy(pps, arguments.seed) } else { Known::quiet(pps) };
        return Ok((Box::new(known), false));
    }
    let specs: Vec<Spec> = arguments
        .testbed
        .iter()
        .map(|text| text.parse().map_err(|e: kpps_ports::Error| Failure::Input(e.to_string())))
        .collect::<Result<_, _>>()?;
    let tester = arguments.bench.open(&specs, &arguments.common)?;
    let bed = kpps_tester::Bed { tester, settle: arguments.bench.settle, both_ways: arguments.bench.both };
    Ok((Box::new(bed), false))
}

fn load(arguments: &Arguments, trial: Duration) -> Load {
    Load {
        offered_pps: 0.0,
        size: arguments.room.size(arguments.size),
        warmup_ms: 50,
        duration_ms: u32::try_from(trial.as_millis()).unwrap_or(u32::MAX),
        seed: arguments.seed,
    }
}

/// What is measured, and how.
struct Run<'t> {
    load: Load,
    testbed: &'t mut dyn Testbed,
}

impl Run<'_> {
    fn trial(&mut self, load_pps: f64) -> Result<SearchTrial, TrialError> {
        let load = Load { offered_pps: load_pps, ..self.load };
        let trial = self.testbed.trial_while(&load, &|| !interrupt::asked())?;
        Ok(SearchTrial {
            load_pps,
            seconds: trial.seconds,
            sent: trial.sent,
            unsent: trial.unsent,
            delivered: trial.delivered,
            loss_ratio: trial.loss_ratio(),
        })
    }
}

fn measured(trial: &SearchTrial) -> Measured {
    Measured { load_pps: trial.load_pps, seconds: trial.seconds, loss_ratio: trial.loss_ratio }
}

fn tenths(pps: f64) -> f64 {
    (pps * 10.0).round() / 10.0
}

/// Searches, and puts into `document` what was found, whatever the end.
fn search(
    arguments: &Arguments,
    goals: &[(&str, Goal)],
    (min_pps, max_pps): (f64, f64),
    mut bench: Run<'_>,
    document: &mut Ndr,
) -> Result<(), Failure> {
    let what = format!(
        "{:?} {} B both ways: {}, {min_pps} to {max_pps} pps, {} ms",
        document.testbed, document.frame_bytes_with_fcs, document.both_ways, bench.load.duration_ms
    );
    let mut journal = arguments.trials.as_deref().map(Journal::open).transpose()?;
    let mut search = Search::new(goals.iter().map(|(_, goal)| *goal).collect(), min_pps, max_pps);
    let mut trials = journal.as_ref().map(|journal| journal.of(&what).to_vec()).unwrap_or_default();
    for trial in &trials {
        search.add(measured(trial));
    }
    let time = |trials: &[SearchTrial]| trials.iter().map(|trial| trial.seconds).sum::<f64>();
    let mut end = Ok(());
    while end.is_ok()
        && let Some(load_pps) = search.next()
    {
        if time(&trials) >= arguments.limit.as_secs_f64() {
            end = Err(Failure::Check(format!("not found within {:.0} s of trials", time(&trials))));
            break;
        }
        end = bench.trial(load_pps).map_err(Failure::from).and_then(|trial| {
            search.add(measured(&trial));
            trials.push(trial);
            show(&trial, trials.len());
            journal.as_mut().map_or(Ok(()), |journal| journal.keep(&what, &trial))
        });
    }
    clear();
    let at_most: Vec<_> = trials.iter().filter(|trial| trial.load_pps == search.max_pps()).collect();
    let delivered: f64 = at_most.iter().map(|trial| measured(trial).forwarding_pps()).sum();
    document.mrr_pps = (!at_most.is_empty()).then(|| tenths(delivered / at_most.len() as f64));
    document.goals = goals
        .iter()
        .map(|(name, goal)| {
            let found = search.found(goal);
            SearchGoal {
                name: (*name).into(),
                loss_ratio: goal.loss_ratio,
                exceed_ratio: goal.exceed_ratio,
                width: goal.width,
                trial_s: goal.trial_s,
                sum_s: goal.sum_s,
                lower_pps: found.lower_pps.map(tenths),
                upper_pps: found.upper_pps.map(tenths),
                conditional_pps: found.conditional_pps.map(tenths),
                done: found.done,
            }
        })
        .collect();
    document.measured_s = (time(&trials) * 1e3).round() / 1e3;
    document.complete = document.goals.iter().all(|goal| goal.done);
    document.trials = trials;
    if end.is_ok() && arguments.bisection {
        let Some((_, goal)) = goals.first() else { return end };
        let mut plain = Bisection::new(goal, min_pps, max_pps);
        let mut trials = Vec::new();
        while end.is_ok()
            && let Some(load_pps) = plain.next()
        {
            end = bench.trial(load_pps).map_err(Failure::from).map(|trial| {
                plain.add(measured(&trial));
                trials.push(trial);
            });
        }
        document.bisection = Some(PlainBisection { lower_pps: plain.lower_pps().map(tenths), trials });
    }
    match end {
        Ok(()) if !document.complete => {
            Err(Failure::Check(format!("the lowest load, {min_pps:.0} pps, is above what a goal allows")))
        }
        Err(Failure::Interrupted(_)) => {
            let kept = arguments.trials.as_ref().map(|path| format!(" and kept in {}", path.display()));
            let (count, kept) = (document.trials.len(), kept.unwrap_or_default());
            Err(Failure::Interrupted(format!("interrupted: {count} trials measured{kept}")))
        }
        end => end,
    }
}

fn show(trial: &SearchTrial, number: usize) {
    if std::io::stderr().is_terminal() {
        let (kpps, loss) = (trial.load_pps / 1e3, 100.0 * trial.loss_ratio);
        eprint!("\r{number:>5} trials  {kpps:>9.1} kpps  {loss:.4} % lost\x1b[K");
    }
}

fn clear() {
    if std::io::stderr().is_terminal() {
        eprint!("\r\x1b[K");
    }
}

/// What a person sees.
fn screen(document: &Ndr) -> String {
    let mut text = String::new();
    let kpps = |pps: Option<f64>| pps.map_or("-".into(), |pps| format!("{:.1}", pps / 1e3));
    let _ = writeln!(
        text,
        "{}: frames of {} B with FCS, {:.1} to {:.1} kpps{}\n",
        document.testbed.join(" and "),
        document.frame_bytes_with_fcs,
        document.min_pps / 1e3,
        document.max_pps / 1e3,
        if document.both_ways { " each way" } else { "" }
    );
    let _ = writeln!(
        text,
        "{:>12} {:>10} {:>12} {:>12} {:>12}",
        "", "loss", "lower kpps", "upper kpps", "conditional"
    );
    for goal in &document.goals {
        let _ = writeln!(
            text,
            "{:>12} {:>8.3} % {:>12} {:>12} {:>12}{}",
            goal.name,
            goal.loss_ratio * 100.0,
            kpps(goal.lower_pps),
            kpps(goal.upper_pps),
            kpps(goal.conditional_pps),
            if goal.done { "" } else { "  not finished" }
        );
    }
    if let Some(plain) = &document.bisection {
        let _ = writeln!(text, "{:>12} {:>10} {:>12}", "bisection", "", kpps(plain.lower_pps));
    }
    let _ = writeln!(
        text,
        "{:>12} {:>10} {:>12}\n\n{} trials, {:.1} s of load; up to {:.0} % of the time at a load may be disturbed",
        "MRR",
        "",
        kpps(document.mrr_pps),
        document.trials.len(),
        document.measured_s,
        document.goals.first().map_or(0.0, |goal| goal.exceed_ratio * 100.0)
    );
    text
}
