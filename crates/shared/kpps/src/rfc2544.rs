//! `kpps rfc2544`: the tests of RFC 2544, with the corrections of later RFCs.

use crate::error::Failure;
use crate::heading;
use crate::output::Outputs;
use crate::search::SearchArguments;
use crate::session::Session;
use crate::testbed::{SIZES, TestbedArguments};
use clap::Args;
use kpps_frames::Mix;
use kpps_methods::ndr::Range;
use kpps_methods::rfc2544::{self, Rfc2544Plan, Test};
use kpps_methods::units;
use std::time::Duration;

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
  recovery      time until the last loss after 110 % of the throughput falls to half of that (26.5)
  reset         length of the outage when --reset resets the device under test (26.6, RFC 6201)
The results name each test that the testbed cannot do, and each trial that was shorter than RFC 2544 asks
for. If the system loses single frames now and then, use `kpps sizes` instead.")]
pub struct Arguments {
    /// Frame sizes in bytes with FCS
    #[arg(long, value_name = "SIZE|MIX,…", value_delimiter = ',', default_value = SIZES, value_parser = units::sizes, help_heading = heading::TRAFFIC)]
    size: Vec<Mix>,
    /// Run only these tests, by the names below. Throughput is always measured, because the other tests need
    /// it [default: all]
    #[arg(long, value_delimiter = ',', value_name = "TEST,…", help_heading = heading::SEARCH)]
    test: Vec<Test>,
    /// Use trials of 1 s, and repeat each test three times
    #[arg(long, help_heading = heading::SEARCH)]
    quick: bool,
    /// Length of one trial [default: 60s; with --quick 1s; in the simulator 50ms of virtual time]
    #[arg(long, value_name = "TIME", value_parser = units::duration, help_heading = heading::TIME)]
    duration: Option<Duration>,
    /// Number of repetitions of the tests latency, back-to-back, recovery and reset [default: 20;
    /// back-to-back: 50; with --quick: 3]
    #[arg(long, value_name = "TIMES", value_parser = clap::value_parser!(u32).range(1..), help_heading = heading::SEARCH)]
    repeat: Option<u32>,
    /// Shell command that resets the device under test
    #[arg(long, value_name = "COMMAND", help_heading = heading::DEVICE_UNDER_TEST)]
    reset: Option<String>,
    #[command(flatten)]
    outputs: Outputs,
    #[command(flatten)]
    search: SearchArguments,
    #[command(flatten)]
    target: TestbedArguments,
}

/// The tests, their trials and repetitions.
struct Tests {
    sizes: Vec<Mix>,
    tests: Vec<Test>,
    quick: bool,
    duration: Option<Duration>,
    repeat: Option<u32>,
}

impl Tests {
    /// The plan of the tests, with a search over this range.
    fn plan(self, simulated: bool, range: Range) -> Rfc2544Plan {
        let by_default = match (simulated, self.quick) {
            (true, _) => 0.05,
            (false, true) => 1.0,
            (false, false) => 60.0,
        };
        let trial_s = self.duration.map_or(by_default, |duration| duration.as_secs_f64());
        let whole = !self.quick && self.duration.is_none() && !simulated;
        let repeat = |by_default| self.repeat.unwrap_or(if self.quick { 3 } else { by_default });
        Rfc2544Plan {
            trial_s,
            latency_s: if whole { 120.0 } else { trial_s },
            repeat: repeat(20),
            bursts: repeat(50),
            can_reset: !simulated,
            sizes: self.sizes,
            tests: self.tests,
            range,
        }
    }
}

/// Runs `kpps rfc2544`.
pub fn run(arguments: Arguments, session: &Session) -> Result<(), Failure> {
    let Arguments { size: sizes, test: tests, quick, duration, repeat, reset, outputs, search, target } =
        arguments;
    let target = target.resolve()?;
    target.refuse_streams("rfc2544")?;
    target.refuse_several("rfc2544")?;
    kpps_methods::refuse_twice(sizes.iter().map(Mix::name))?;
    if reset.is_some() && target.is_simulated() {
        return Err(Failure::Input(
            "--reset is for two ports: a command cannot reset a simulated machine".into(),
        ));
    }
    let plan = Tests { sizes, tests, quick, duration, repeat }.plan(target.is_simulated(), search.range());
    let mut files = outputs.open(session, "rfc2544")?;
    let (document, end) =
        search.run(session, "rfc2544", &target, reset.as_deref(), outputs.for_machines(), |runner| {
            rfc2544::run(runner, &plan)
        })?;
    files.publish(&document, "")?;
    end.map_err(|error| search.ended(error, "the results so far are above"))
}
