//! `kpps ndr`: the highest load without loss, and with little, in one search.

use crate::error::{Failure, print};
use crate::interrupt;
use crate::output::Output;
use crate::search::{self, Bench, Range, measured, tenths};
use crate::testbed::Target;
use crate::units;
use clap::Args;
use kpps_frames::Mix;
use kpps_measure::rfc2544::Ask;
use kpps_measure::search::{Bisection, Goal};
use kpps_report::ndr::{Ndr, PlainBisection, page};
use std::fmt::Write as _;
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
    /// Frame size in bytes with FCS; between two ports a mix, too: imix-csit, imix-trex, imix-linux, or sizes with weights as
    /// 64:7,570:4,1518:1 [default: 64; with --app vlan-route 68]
    #[arg(long, value_parser = crate::traffic::sizes)]
    size: Option<Mix>,
    /// A plain bisection beside it
    #[arg(long)]
    bisection: bool,
    /// Write a page to look at, too
    #[arg(long, value_name = "FILE")]
    report: Option<PathBuf>,
    #[command(flatten)]
    goals: Goals,
    #[command(flatten)]
    range: Range,
    #[command(flatten)]
    target: Target,
}

/// What is searched for.
#[derive(Args)]
pub struct Goals {
    /// Length of one trial [default: 1s; in the machine room 50ms]
    #[arg(long, value_parser = units::duration)]
    duration: Option<Duration>,
    /// Loss ratio of the PDR
    #[arg(long, default_value = "0.5%", value_parser = units::share)]
    loss: f64,
}

impl Goals {
    /// NDR and PDR.
    pub fn both(&self, target: &Target, range: &Range) -> [(&'static str, Goal); 2] {
        let trial = self.duration.unwrap_or(target.usual_trial());
        let goal = Goal { width: range.width, ..Goal::NDR }.with_trials_of(trial.as_secs_f64());
        [("NDR", goal), ("PDR", Goal { loss_ratio: self.loss, ..goal })]
    }
}

/// Runs `kpps ndr`.
pub fn run(mut arguments: Arguments) -> Result<(), Failure> {
    arguments.target.resolve()?;
    let arguments = &arguments;
    let goals = arguments.goals.both(&arguments.target, &arguments.range);
    let mut report = arguments.report.as_deref().map(Output::open).transpose()?;
    let mut bench = Bench::open("ndr", &arguments.target, &arguments.range)?;
    interrupt::watch();
    let sizes = arguments.size.clone().unwrap_or_else(|| Mix::fixed(arguments.target.room.size(None)));
    let (mut document, mut end) = bench.search(&sizes, &goals, &arguments.range)?;
    if end.is_ok() && arguments.bisection {
        let (plain, ended) = bisection(&mut bench, &sizes, &goals[0].1, &document);
        document.bisection = Some(plain);
        end = ended;
        document.trouble = search::trouble(&end);
    }
    drop(bench);
    if let Some(report) = &mut report {
        report.write(&page(&document))?;
    }
    if arguments.target.elsewhere.common.json {
        let json = document.to_json().map_err(|e| Failure::Check(format!("no JSON of the results: {e}")))?;
        print(&json)?;
    } else {
        print(&screen(&document))?;
    }
    end
}

/// A plain bisection over the range of a search.
fn bisection(bench: &mut Bench, sizes: &Mix, goal: &Goal, of: &Ndr) -> (PlainBisection, Result<(), Failure>) {
    let mut plain = Bisection::new(goal, of.min_pps, of.max_pps);
    let mut trials = Vec::new();
    let name = format!("bisection, {} to {} pps, {} ms", of.min_pps, of.max_pps, goal.trial_s * 1e3);
    let mut end = Ok(());
    while end.is_ok()
        && let Some(load_pps) = plain.next()
    {
        end = bench.trial(&name, sizes, Ask::Rate(load_pps, goal.trial_s)).map(|trial| {
            plain.add(measured(&trial));
            trials.push(trial);
        });
    }
    (PlainBisection { lower_pps: plain.lower_pps().map(tenths), trials }, end)
}

/// What a person sees.
fn screen(document: &Ndr) -> String {
    let mut text = String::new();
    let kpps = |pps: Option<f64>| pps.map_or("-".into(), |pps| format!("{:.1}", pps / 1e3));
    let _ = writeln!(
        text,
        "{}: frames of {} B with FCS, {:.1} to {:.1} kpps{}\n",
        document.testbed.join(" and "),
        document.sizes_name(),
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
    if let Some(ceiling) = document.ceiling_pps {
        let _ =
            writeln!(text, "the sender can send {:.1} kpps here{}", ceiling / 1e3, limits(document, ceiling));
    }
    if let Some(limit) = document.sender_limit() {
        let _ = writeln!(text, "{limit}");
    }
    if let Some(clocks) = document.clock_error() {
        let _ = writeln!(text, "{clocks}");
    }
    text
}

/// Whether a search found the sender and not what it looked for.
fn limits(document: &Ndr, ceiling: f64) -> &'static str {
    let bounds = document.goals.iter().filter_map(|goal| goal.upper_pps);
    match bounds.reduce(f64::max).is_some_and(|upper| upper > ceiling) {
        true => ": it is the limit of what was found, not what is between the ports",
        false => "",
    }
}
