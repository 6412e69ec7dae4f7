//! `kpps ndr`: the highest load without loss, and with little, in one search.

use crate::error::Failure;
use crate::interrupt;
use crate::output::{Forms, PageOutputs};
use crate::search::{self, Bench, Range, measured, tenths};
use crate::testbed::Target;
use crate::units;
use clap::Args;
use kpps_frames::Mix;
use kpps_measure::rfc2544::Ask;
use kpps_measure::search::{Bisection, Goal};
use kpps_report::ndr::{clock_error, page, sender_limit};
use kpps_report::rows_csv;
use kpps_results::ndr::{Ndr, PlainBisection};
use std::fmt::Write as _;
use std::time::Duration;

/// Arguments of `kpps ndr`.
#[derive(Args)]
#[command(after_help = "Examples:
  kpps ndr --ports packet:A,packet:B --resume a-b.jsonl       an interrupted search can be resumed
  kpps ndr --driver intel-5.7.6                               in the simulator
  kpps ndr --testbed known:700kpps --noise --bisection        a system whose rate is known, with noise

NDR is the highest load without loss, PDR the highest load with at most 0.5 % loss. Each load is judged by many trials, 21 times
one trial's length together, and most of them must agree: one disturbed second does not decide (MLRsearch,
draft-ietf-bmwg-mlrsearch). Generator shortfall counts as loss. A load is that of one direction; with --app it is that of both
directions together.")]
pub struct Arguments {
    /// Frame size in bytes with FCS; on two ports also a mix: imix-csit, imix-trex, imix-linux, or sizes with weights as
    /// 64:7,570:4,1518:1 [default: 64; with --app vlan-route: 68]
    #[arg(long, value_name = "SIZE|MIX", value_parser = units::sizes)]
    size: Option<Mix>,
    /// Search by plain bisection, too
    #[arg(long)]
    bisection: bool,
    #[command(flatten)]
    outputs: PageOutputs,
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
    /// Length of one trial [default: 1s; in the simulator 50ms of virtual time]
    #[arg(long, value_name = "TIME", value_parser = units::duration)]
    duration: Option<Duration>,
    /// Loss ratio of the PDR
    #[arg(long, value_name = "SHARE", default_value = "0.5%", value_parser = units::share)]
    pdr_loss: f64,
}

impl Goals {
    /// NDR and PDR.
    pub fn both(&self, target: &Target, range: &Range) -> [(&'static str, Goal); 2] {
        let trial = self.duration.unwrap_or(target.trial_time());
        let goal = Goal { width: range.precision, ..Goal::NDR }.with_trials_of(trial.as_secs_f64());
        [("NDR", goal), ("PDR", Goal { loss_ratio: self.pdr_loss, ..goal })]
    }
}

/// Runs `kpps ndr`.
pub fn run(mut arguments: Arguments) -> Result<(), Failure> {
    arguments.target.resolve()?;
    let arguments = &arguments;
    let goals = arguments.goals.both(&arguments.target, &arguments.range);
    let mut files = arguments.outputs.open("ndr")?;
    let quiet = arguments.outputs.for_machines();
    let mut bench = Bench::open("ndr", &arguments.target, &arguments.range, quiet)?;
    interrupt::watch();
    let sizes = arguments.size.clone().unwrap_or_else(|| Mix::fixed(arguments.target.top.size(None)));
    let (mut document, mut end) = bench.search(&sizes, &goals, &arguments.range)?;
    if end.is_ok() && arguments.bisection {
        let (plain, ended) = bisection(&mut bench, &sizes, &goals[0].1, &document);
        document.bisection = Some(plain);
        end = ended;
        document.trouble = search::trouble(&end);
    }
    drop(bench);
    files.publish(
        &document,
        &Forms {
            screen: &|| screen(&document),
            csv: &|| rows_csv(&document.goals),
            page: &|_| page(&document),
        },
    )?;
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
        let _ = writeln!(
            text,
            "the generator can send {:.1} kpps here{}",
            ceiling / 1e3,
            limits(document, ceiling)
        );
    }
    if let Some(limit) = sender_limit(document) {
        let _ = writeln!(text, "{limit}");
    }
    if let Some(clocks) = clock_error(document) {
        let _ = writeln!(text, "{clocks}");
    }
    text
}

/// Whether a search found the limit of the generator and not that of the device under test.
fn limits(document: &Ndr, ceiling: f64) -> &'static str {
    let bounds = document.goals.iter().filter_map(|goal| goal.upper_pps);
    match bounds.reduce(f64::max).is_some_and(|upper| upper > ceiling) {
        true => ": that limits the result, not the device under test",
        false => "",
    }
}
