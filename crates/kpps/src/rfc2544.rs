//! `kpps rfc2544`: the tests of RFC 2544, with the corrections of later RFCs.

use crate::error::Failure;
use crate::interrupt;
use crate::output::{Forms, PageOutputs};
use crate::search::{Bench, Range, tenths, trouble};
use crate::testbed::{SIZES, Target, distinct};
use crate::units;
use clap::{Args, ValueEnum};
use kpps_frames::Mix;
use kpps_measure::rfc2544::{Ask, corrected_buffer_s, frame_loss, longest_burst, mean};
use kpps_measure::search::Goal;
use kpps_report::rfc2544::{page, screen};
use kpps_report::rows_csv;
use kpps_results::Latency;
use kpps_results::ndr::SearchTrial;
use kpps_results::rfc2544::{BackToBack, LatencyAt, Rfc2544, SizeTests, Times};
use std::time::Duration;

/// Loads at which latency is measured, over the throughput.
const SHARES: [f64; 4] = [0.1, 0.5, 0.9, 1.0];
/// How long bursts are at most, in s (RFC 2544, 26.4: at least 2 s).
const BURST_S: f64 = 2.0;
/// How often a burst is tried that the generator could not send whole, because something else may have used its CPU: long bursts,
/// which take time, and short ones.
const BURST_TRIES: (u64, u64) = (3, 30);
/// Overload, over the throughput, and what it is lowered to, over the overload (26.5).
const OVERLOAD: f64 = 1.1;
const AFTER_OVERLOAD: f64 = 0.5;

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Test {
    Throughput,
    Latency,
    FrameLoss,
    BackToBack,
    Recovery,
    Reset,
}

/// Arguments of `kpps rfc2544`.
#[derive(Args)]
#[command(after_help = "Examples:
  kpps rfc2544 --ports packet:A,packet:B --resume rfc2544.jsonl         takes hours; can be resumed
  kpps rfc2544 --ports packet:A,packet:B --quick --size 64,1518
  kpps rfc2544 --ports packet:A,packet:B --quick --reset 'ip link set br0 down; ip link set br0 up'
  kpps rfc2544 --quick                                                  in the simulator

The tests, with their sections of RFC 2544:
  throughput    the highest load at which one trial loses nothing (26.1)
  latency       of all frames, at 10, 50, 90 and 100 % of the throughput (26.2)
  frame-loss    loss in steps of a tenth of the highest load (26.3)
  back-to-back  the longest burst without loss, with the corrected buffer time of RFC 9004 (26.4)
  recovery      from 110 % of the throughput to half of that: time until the last frame is lost (26.5)
  reset         time of lost frames when --reset resets the device under test (26.6, RFC 6201)
The results name each test that the testbed cannot do, and each trial that was shorter than RFC 2544 asks for. If the system
loses single frames now and then, use `kpps sizes` instead.")]
pub struct Arguments {
    /// Frame sizes in bytes with FCS; on two ports also imix-csit, imix-trex and imix-linux
    #[arg(long, value_name = "SIZE,…", value_delimiter = ',', default_values = SIZES, value_parser = units::sizes)]
    size: Vec<Mix>,
    /// Only these tests; throughput is always measured, because the others need it [default: all]
    #[arg(long, value_enum, value_delimiter = ',')]
    test: Vec<Test>,
    /// Trials of 1 s, and three of each
    #[arg(long)]
    quick: bool,
    /// Length of one trial [default: 60s; with --quick 1s; in the simulator 50ms of virtual time]
    #[arg(long, value_name = "TIME", value_parser = units::duration)]
    duration: Option<Duration>,
    /// Repetitions of each test of latency, back-to-back, recovery and reset [default: 20, of back-to-back 50; with --quick 3]
    #[arg(long, value_name = "TIMES")]
    repeat: Option<u32>,
    /// Command for the shell that resets the device under test
    #[arg(long, value_name = "COMMAND")]
    reset: Option<String>,
    #[command(flatten)]
    outputs: PageOutputs,
    #[command(flatten)]
    range: Range,
    #[command(flatten)]
    target: Target,
}

/// Lengths and numbers of trials.
struct Extent {
    trial_s: f64,
    latency_s: f64,
    repeat: u32,
    bursts: u32,
}

impl Extent {
    fn of(arguments: &Arguments) -> Self {
        let usual = match (arguments.target.is_simulated(), arguments.quick) {
            (true, _) => 0.05,
            (false, true) => 1.0,
            (false, false) => 60.0,
        };
        let trial_s = arguments.duration.map_or(usual, |duration| duration.as_secs_f64());
        let whole = !arguments.quick && arguments.duration.is_none() && !arguments.target.is_simulated();
        let repeat = |usual| arguments.repeat.unwrap_or(if arguments.quick { 3 } else { usual });
        Self {
            trial_s,
            latency_s: if whole { 120.0 } else { trial_s },
            repeat: repeat(20),
            bursts: repeat(50),
        }
    }

    /// Where RFC 2544 asks for more.
    fn departures(&self) -> Vec<String> {
        let mut departures = Vec::new();
        if self.trial_s < 60.0 {
            departures
                .push(format!("trials of {} s: RFC 2544 asks for 60 s (120 s for latency)", self.trial_s));
        }
        if self.repeat < 20 || self.bursts < 50 {
            departures.push(format!(
                "{} trials of a latency and {} bursts: RFC 2544 asks for 20 and 50",
                self.repeat, self.bursts
            ));
        }
        departures
    }
}

/// Runs `kpps rfc2544`.
pub fn run(mut arguments: Arguments) -> Result<(), Failure> {
    arguments.target.resolve()?;
    let arguments = &arguments;
    distinct(&arguments.size)?;
    let extent = Extent::of(arguments);
    let mut files = arguments.outputs.open("rfc2544")?;
    let quiet = arguments.outputs.for_machines();
    let mut bench = Bench::open("rfc2544", &arguments.target, &arguments.range, quiet)?;
    bench.reset.clone_from(&arguments.reset);
    interrupt::watch();
    let mut document = Rfc2544 {
        kpps_version: env!("CARGO_PKG_VERSION").into(),
        testbed: arguments.target.name(),
        both_ways: arguments.target.pair.bidirectional,
        departures: extent.departures(),
        ..Rfc2544::default()
    };
    let mut end = Ok(());
    for sizes in &arguments.size {
        let mut tests = SizeTests {
            frame_bytes_with_fcs: sizes.mean_bytes_with_fcs().round() as u32,
            max_pps: tenths(bench.sizes(sizes)?.0),
            ..SizeTests::default()
        };
        let mut at = Tests { arguments, extent: &extent, bench: &mut bench, sizes, found: &mut tests };
        let ended = at.run(&mut document.departures);
        document.sizes.push(tests);
        if let Err(stopped) = ended {
            end = Err(stopped);
            break;
        }
    }
    drop(bench);
    document.complete = end.is_ok();
    document.trouble = trouble(&end);
    if let Err(Failure::Interrupted(why)) = &mut end {
        *why = format!("interrupted: what was measured is above{}", arguments.range.resume.kept());
    }
    files.publish(
        &document,
        &Forms {
            screen: &|| screen(&document),
            csv: &|| rows_csv(&document.sizes),
            page: &|_| page(&document),
        },
    )?;
    end
}

/// All tests at one size.
struct Tests<'t> {
    arguments: &'t Arguments,
    extent: &'t Extent,
    bench: &'t mut Bench,
    sizes: &'t Mix,
    found: &'t mut SizeTests,
}

impl Tests<'_> {
    fn wants(&self, test: Test) -> bool {
        self.arguments.test.is_empty() || self.arguments.test.contains(&test)
    }

    fn trial(&mut self, name: &str, ask: Ask) -> Result<SearchTrial, Failure> {
        self.bench.trial(name, self.sizes, ask)
    }

    fn run(&mut self, departures: &mut Vec<String>) -> Result<(), Failure> {
        let Extent { trial_s, .. } = *self.extent;
        let goal = Goal {
            width: self.arguments.range.precision,
            trial_s,
            sum_s: trial_s,
            exceed_ratio: 0.0,
            ..Goal::NDR
        };
        let (search, ended) =
            self.bench.search(self.sizes, &[("throughput", goal)], &self.arguments.range)?;
        let throughput = search.lower_pps("throughput");
        // What is published is rounded, and may be more than the wire carries.
        let max_pps = search.max_pps.min(self.bench.sizes(self.sizes)?.0);
        let met_at_most = search.goals.iter().all(|goal| goal.done && goal.upper_pps.is_none());
        self.found.max_pps = search.max_pps;
        self.found.throughput = Some(search);
        let sizes = self.sizes;
        let mut leave_out = |why: String| departures.push(format!("{sizes} B: {why}"));
        match (ended, throughput) {
            (Ok(()), _) => {}
            (Err(Failure::Check(why)), None) => {
                leave_out(format!("no throughput, and so none of the tests at a share of it: {why}"));
            }
            (Err(failure), _) => return Err(failure),
        }
        if self.wants(Test::FrameLoss) {
            self.frame_loss(max_pps)?;
        }
        let Some(throughput) = throughput.map(|pps| pps.min(max_pps)) else { return Ok(()) };
        if self.wants(Test::Latency) {
            self.latency(throughput)?;
        }
        // What a testbed cannot do is no failure of the rest.
        let mut say = |what: &str, done: Result<(), Failure>| match done {
            Err(Failure::Input(why)) => {
                leave_out(format!("no {what}: {why}"));
                Ok(())
            }
            other => other,
        };
        let never_lost = || Err(Failure::Input("nothing is lost at the highest load".into()));
        if self.wants(Test::BackToBack) {
            let done = if met_at_most { never_lost() } else { self.back_to_back(max_pps, throughput) };
            say("back-to-back frames", done)?;
        }
        if self.wants(Test::Recovery) {
            let done = if met_at_most { never_lost() } else { self.recovery(max_pps, throughput) };
            say("recovery", done)?;
        }
        if self.wants(Test::Reset) {
            let done = self.reset(throughput);
            say("reset", done)?;
        }
        Ok(())
    }

    fn frame_loss(&mut self, max_pps: f64) -> Result<(), Failure> {
        let mut trials = Vec::new();
        let seconds = self.extent.trial_s;
        let name = format!("frame loss, {max_pps} pps, {seconds} s");
        let done = frame_loss(max_pps, seconds, &mut trials, |ask| self.trial(&name, ask));
        self.found.frame_loss = trials;
        done
    }

    fn latency(&mut self, throughput: f64) -> Result<(), Failure> {
        let (seconds, repeat) = (self.extent.latency_s, self.extent.repeat);
        for share in SHARES {
            self.found.latency.push(LatencyAt { share, ..LatencyAt::default() });
            let load_pps = throughput * share;
            let name = format!("latency, {load_pps} pps, {seconds} s");
            for _ in 0..repeat {
                let trial = self.trial(&name, Ask::Rate(load_pps, seconds))?;
                if let Some(at) = self.found.latency.last_mut() {
                    at.trials.push(trial);
                    at.latency_ns = mean_latency(&at.trials);
                }
            }
        }
        Ok(())
    }

    fn back_to_back(&mut self, pps: f64, throughput: f64) -> Result<(), Failure> {
        let most_frames = (pps * BURST_S) as u64;
        let name = format!("burst, {pps} pps");
        let mut found = BackToBack { pps, most_frames, ..BackToBack::default() };
        for _ in 0..self.extent.bursts {
            let burst = longest_burst(pps, most_frames, |ask| {
                let Ask::Burst(_, frames) = ask else { return self.trial(&name, ask) };
                let tries = (most_frames / frames.max(1)).clamp(BURST_TRIES.0, BURST_TRIES.1);
                // A burst that the sender could not send says nothing of a buffer.
                for _ in 0..tries {
                    let trial = self.trial(&name, ask)?;
                    if trial.unsent == 0 || trial.delivered < trial.sent {
                        return Ok(trial);
                    }
                }
                Err(Failure::Input(format!(
                    "the generator cannot sustain {:.1} kpps: give a lower --max",
                    pps / 1e3
                )))
            })?;
            found.frames.push(burst);
            found.mean_frames = mean(found.frames.iter().map(|&frames| frames as f64)).unwrap_or(0.0);
            found.implied_s = found.mean_frames / pps;
            found.corrected_s = corrected_buffer_s(found.mean_frames, pps, throughput);
            self.found.back_to_back = Some(found.clone());
        }
        Ok(())
    }

    fn recovery(&mut self, max_pps: f64, throughput: f64) -> Result<(), Failure> {
        let overload = (throughput * OVERLOAD).min(max_pps);
        let seconds = self.extent.trial_s;
        let ask = Ask::Recovery(overload, overload * AFTER_OVERLOAD, seconds);
        let name = format!("recovery, {overload} pps, {seconds} s");
        let mut times = Times { load_pps: tenths(overload), ..Times::default() };
        for _ in 0..self.extent.repeat {
            let trial = self.trial(&name, ask)?;
            times.seconds.extend(trial.recovery_s);
            times.mean_s = mean(times.seconds.iter().copied()).unwrap_or(0.0);
            self.found.recovery = Some(times.clone());
        }
        Ok(())
    }

    fn reset(&mut self, throughput: f64) -> Result<(), Failure> {
        if self.arguments.target.is_simulated() {
            return Err(Failure::Input("the simulator has no reset".into()));
        }
        let Some(command) = self.arguments.reset.clone() else {
            return Err(Failure::Input("give a command that does it (--reset)".into()));
        };
        let seconds = self.extent.trial_s;
        let name = format!("reset by {command}, {throughput} pps, {seconds} s");
        let mut times = Times { load_pps: throughput, ..Times::default() };
        for _ in 0..self.extent.repeat {
            let trial = self.trial(&name, Ask::Reset(throughput, seconds))?;
            let lost = (trial.sent + trial.unsent).saturating_sub(trial.delivered);
            let ways = if self.arguments.target.pair.bidirectional { 2.0 } else { 1.0 };
            times.seconds.push(lost as f64 / throughput / ways);
            times.mean_s = mean(times.seconds.iter().copied()).unwrap_or(0.0);
            self.found.reset = Some(times.clone());
        }
        Ok(())
    }
}

/// The mean of each percentile over all trials in which something arrived.
fn mean_latency(trials: &[SearchTrial]) -> Latency {
    let of = |percentile: fn(&Latency) -> Option<u64>| {
        mean(trials.iter().filter_map(|trial| percentile(&trial.latency_ns)).map(|ns| ns as f64))
            .map(|ns| ns.round() as u64)
    };
    Latency {
        p50: of(|it| it.p50),
        p99: of(|it| it.p99),
        p999: of(|it| it.p999),
        max: of(|it| it.max),
        error_ns: trials.iter().filter_map(|trial| trial.latency_ns.error_ns).max(),
    }
}
