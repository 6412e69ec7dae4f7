//! `kpps curve`: the main job.

use crate::error::{Failure, print};
use crate::interrupt;
use crate::journal::Journal;
#[cfg(target_os = "linux")]
use crate::linux::guests;
use crate::live;
use crate::output::Output;
use crate::points::{Points, of_frames};
use crate::room::Room;
use crate::search;
use crate::testbed::{Elsewhere, REAL_TRIAL, VIRTUAL_TRIAL, WARMUP_MS};
use crate::traffic;
use crate::units::{self, Loads};
use clap::Args;
use kpps_frames::{Mix, Size};
use kpps_live::{Progress, Source};
use kpps_measure::{Load, curve, default_loads};
use kpps_report::{Curve, Environment, Point, Series, csv, html, remarks, text};
use kpps_sim::Setup;
use std::collections::BTreeMap;
use std::io::IsTerminal;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// The loads of a curve in real time, in frames per second.
const REAL_LOADS: [f64; 20] =
    [1e4, 2e4, 4e4, 6e4, 8e4, 1e5, 1.5e5, 2e5, 3e5, 4e5, 6e5, 8e5, 1e6, 1.5e6, 2e6, 3e6, 4e6, 6e6, 8e6, 1e7];
/// How many of them for a guest: kernels in QEMU give up early.
const LAB_LOADS: usize = 12;

/// Arguments of `kpps curve`.
#[derive(Args)]
#[command(after_help = "Examples:
  kpps curve --driver kpps --load 50%..100%/10%                        in the machine room
  kpps curve --testbed packet:A,packet:B --load 100kpps..1Mpps/100kpps --trials curve.jsonl    goes on there if interrupted
  kpps curve --testbed packet:A,packet:B --size imix-csit --both --flows 1000
  kpps curve --testbed lab:linux-6.1/e1000,lab:linux-6.1/e1000/dpdk-uio

Guests in QEMU may be several, each with the kernel's driver (lab:KERNEL/DEVICE) or another (lab:KERNEL/DEVICE/DRIVER-BACKEND).
With --both, loads are those of each direction, and results of both together.")]
pub struct Arguments {
    /// A setting of a guest's kernel: see `kpps lab --help`
    #[cfg(target_os = "linux")]
    #[arg(long, value_name = "SETTING", requires = "testbed")]
    set: Vec<guests::Setting>,
    #[command(flatten)]
    room: Room,
    /// The machine: a name (`kpps list machines`) or a .toml file [default: morris2000; with --app lunz2003]
    #[arg(long)]
    machine: Option<String>,
    /// The chip, if not the machine's own: a name (`kpps list chips`) or a .toml file
    #[arg(long, conflicts_with = "testbed")]
    chip: Option<String>,
    /// Driver presets to compare: names (`kpps list drivers`) or .toml files
    #[arg(
        long,
        value_delimiter = ',',
        default_values = ["intel-2.5.11", "intel-2.5.11-tuned", "click-polling", "intel-5.7.6", "kpps"]
    )]
    driver: Vec<String>,
    /// Frame size in bytes with FCS; between two ports a mix, too: imix-csit, imix-trex, imix-linux, or sizes with weights as
    /// 64:7,570:4,1518:1 [default: 64; with --app vlan-route 68]
    #[arg(long, value_parser = traffic::any_sizes)]
    size: Option<Mix>,
    /// Offered loads: `100kpps,80%,100%` or `FROM..TO/STEP` [default: 100kpps..100%/100kpps; with --testbed from 10kpps up in
    /// growing steps, between two ports to the first that is more than the sender can send]
    #[arg(long)]
    load: Option<Loads>,
    /// How long each trial is measured [default: 50ms of virtual time after as much of warm-up; with --testbed 1s]
    #[arg(long, value_parser = units::duration)]
    duration: Option<Duration>,
    /// Shifts the frames against the machine's clock; equal seeds give equal results
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Keep every point in this file, and go on from those in it that are of the same measurement
    #[arg(long, value_name = "FILE")]
    trials: Option<PathBuf>,
    /// Print the results as CSV, and write files only where asked to
    #[arg(long, conflicts_with = "json")]
    csv: bool,
    /// Where to write the results [default: results.json]
    #[arg(long, value_name = "FILE")]
    results: Option<PathBuf>,
    /// Where to write the HTML report [default: report.html]
    #[arg(long, value_name = "FILE")]
    report: Option<PathBuf>,
    #[command(flatten)]
    elsewhere: Elsewhere,
}

impl Arguments {
    fn json(&self) -> bool {
        self.elsewhere.common.json
    }
}

/// A testbed and the name of its series.
struct Named {
    name: String,
    points: Points,
}

/// What a curve is measured on.
struct Ready {
    testbeds: Vec<Named>,
    source: Box<dyn Source>,
    environment: Environment,
}

/// Runs `kpps curve`.
pub fn run(mut arguments: Arguments) -> Result<(), Failure> {
    if let Some(driver) = arguments.elsewhere.take_room(&mut arguments.machine, &mut arguments.room)? {
        arguments.driver = vec![driver];
    }
    let arguments = &arguments;
    let sizes = arguments.size.clone().unwrap_or_else(|| Mix::fixed(arguments.room.size(None)));
    let mut outputs = Outputs::open(arguments)?;
    let mut kept = arguments.trials.as_deref().map(Journal::<Point>::open).transpose()?;
    let in_real_time = arguments.elsewhere.is_given();
    let Ready { mut testbeds, source, environment } = match in_real_time {
        false => simulated(arguments)?,
        #[cfg(target_os = "linux")]
        true if guests::are_meant(&arguments.elsewhere.testbed) => {
            let (testbeds, environment) = guests::open(&arguments.elsewhere.testbed, &arguments.set)?;
            let named = |(name, testbed)| Named { name, points: Points::new(testbed, false) };
            Ready { testbeds: testbeds.into_iter().map(named).collect(), source: Box::new(()), environment }
        }
        true => elsewhere(arguments, &sizes)?,
    };
    crate::error::refuse_twice(testbeds.iter().map(|it| it.name.as_str()))?;
    interrupt::watch();
    let Some(first) = testbeds.first_mut() else { return Err(Failure::Input("there is no testbed".into())) };
    let line_pps = first.points.line_rate_pps(&sizes)?;
    let usual = if in_real_time { REAL_TRIAL } else { VIRTUAL_TRIAL };
    let duration = arguments.duration.unwrap_or(usual);
    let loads = match &arguments.load {
        Some(loads) => loads.pps(line_pps, sizes.mean_bytes_with_fcs()).map_err(Failure::Input)?,
        None if in_real_time => {
            let (most, count) = match first.points.ceiling_pps(&sizes)? {
                Some(ceiling_pps) => (ceiling_pps, REAL_LOADS.len()),
                None => (line_pps, LAB_LOADS),
            };
            let below = REAL_LOADS.into_iter().take(count).filter(|pps| *pps < line_pps).collect::<Vec<_>>();
            let above = below.iter().position(|pps| *pps > most).map_or(below.len(), |at| at + 1);
            below[..above].to_vec()
        }
        None => default_loads(line_pps),
    };
    if let Some(pps) = loads.iter().find(|pps| *pps * duration.as_secs_f64() < 1.0) {
        let millis = duration.as_millis();
        return Err(Failure::Input(format!(
            "a load of {pps} pps sends no frame in {millis} ms: measure longer"
        )));
    }
    let load = Load {
        offered_pps: line_pps,
        size: sizes.only().unwrap_or(Size::MIN),
        warmup_ms: if in_real_time { arguments.elsewhere.warmup_ms() } else { WARMUP_MS },
        duration_ms: u32::try_from(duration.as_millis()).unwrap_or(u32::MAX),
        seed: arguments.seed,
    };
    let environment = of_frames(environment, &sizes, &load, line_pps);
    // One more preset beside it changes no point.
    let same = Environment { presets: BTreeMap::new(), ..environment.clone() };
    let wanted = testbeds.len() * loads.len();

    let began = Instant::now();
    let what = [&environment.chip, &environment.machine].map(String::as_str);
    let what = what.into_iter().filter(|name| !name.is_empty()).collect::<Vec<_>>().join(" on ");
    let progress = Progress::of(format!("kpps curve: {what}"));
    progress.wants(wanted);
    let quiet = arguments.json() || arguments.csv;
    let view = arguments.elsewhere.common.live.view(progress.clone(), source, quiet)?;
    let mut series: Vec<Series> = Vec::with_capacity(testbeds.len());
    let mut end = Ok(());
    for Named { name, mut points } in testbeds {
        progress.begins(&*name, None);
        let measure = |load: &Load| {
            let key = serde_json::to_string(&(&same, &name, load.offered_pps))
                .map_err(|error| Failure::Check(error.to_string()))?;
            let known = kept.as_ref().and_then(|kept| kept.of(&key).last().cloned());
            if in_real_time && known.is_none() {
                let words = search::in_words(&sizes, Some(load.offered_pps), duration.as_secs_f64());
                progress.begins(words, Some(load.offered_pps));
            }
            let point = match known {
                Some(point) => point,
                None => {
                    let point = points.measure(&sizes, load)?;
                    if let Some(kept) = &mut kept {
                        kept.keep(&key, &point)?;
                    }
                    point
                }
            };
            progress.ended(live::ended(&point));
            Ok::<_, Failure>(point)
        };
        let (curve, ended) = curve(&name, &load, &loads, &|| !interrupt::asked(), measure);
        series.push(curve);
        end = ended;
        if end.is_err() {
            break;
        }
    }
    drop(view);

    let points: usize = series.iter().map(|s| s.points.len()).sum();
    let results = Curve::new(environment, series, points == wanted);
    outputs.write(&results)?;
    if arguments.json() {
        print(&to_json(&results)?)?;
    } else if arguments.csv {
        print(&csv(&results))?;
    } else {
        print(&screen(&results, &outputs, began.elapsed()))?;
    }
    let measured = format!("{points} of {wanted} points measured{}", outputs.kept());
    match end {
        Ok(()) => Ok(()),
        Err(Failure::Interrupted(_)) => Err(Failure::Interrupted(format!("interrupted: {measured}"))),
        Err(Failure::Input(why)) => Err(Failure::Input(format!("{why}; {measured}"))),
        Err(error) => Err(Failure::Check(format!("{error}; {measured}"))),
    }
}

fn to_json(results: &Curve) -> Result<String, Failure> {
    results.to_json().map_err(|e| Failure::Check(format!("the results cannot be written as JSON: {e}")))
}

/// A driver preset each, in the machine room.
fn simulated(arguments: &Arguments) -> Result<Ready, Failure> {
    let room = arguments.room;
    let machine = room.machine(arguments.machine.as_deref());
    let setups: Vec<Setup> = arguments
        .driver
        .iter()
        .map(|driver| Ok(Setup::named(machine, arguments.chip.as_deref(), driver)?))
        .collect::<Result<_, Failure>>()?;
    let presets = setups.iter().map(|setup| (setup.driver.clone(), setup.driver_description.clone()));
    let Some(setup) = setups.first() else {
        return Err(Failure::Input("no driver preset given".into()));
    };
    let environment = Environment {
        profiles_hash: kpps_profiles::hash(setups.iter().flat_map(|setup| &setup.own_profiles)),
        presets: presets.collect(),
        ..room.described(setup)
    };
    let named =
        |setup: Setup| Named { name: setup.driver.clone(), points: Points::new(room.testbed(setup), false) };
    Ok(Ready { testbeds: setups.into_iter().map(named).collect(), source: Box::new(()), environment })
}

/// Two ports, or a system whose rate is known: one series.
fn elsewhere(arguments: &Arguments, sizes: &Mix) -> Result<Ready, Failure> {
    traffic::fits(sizes.clone()).map_err(Failure::Input)?;
    let opened = arguments.elsewhere.open(arguments.seed)?;
    let environment = arguments.elsewhere.described(&opened);
    let points = Points::new(opened.testbed, environment.both_ways);
    let name = environment.machine.clone();
    Ok(Ready { testbeds: vec![Named { name, points }], source: opened.source, environment })
}

/// What a person at a terminal sees.
fn screen(results: &Curve, outputs: &Outputs, took: Duration) -> String {
    let environment = &results.environment;
    let look = text::Look {
        colour: std::io::stdout().is_terminal() && std::env::var_os("NO_COLOR").is_none(),
        ..text::Look::default()
    };
    let [first, second] = &results.summary;
    let mut files = String::new();
    for output in [&outputs.results, &outputs.report].into_iter().flatten() {
        files += &format!("\n  {}", output.path().display());
    }
    let parts = environment.parts();
    let remarks = remarks(results.series.iter().flat_map(|series| &series.points));
    format!(
        "{machine}{parts}\n\
         frames of {frames}, line rate {line:.0} pps\n\n\
         {plot}\n{table}\n{first}\n{second}\n{remarks}\n{trials} trials in {took:.1} s{files}\n",
        machine = environment.machine,
        parts = if parts.is_empty() { parts } else { format!(": {parts}") },
        frames = environment.frames(),
        line = environment.line_rate_pps.floor(),
        plot = text::plot(results, look),
        table = text::table(results, look),
        remarks = remarks.iter().map(|remark| format!("{remark}\n")).collect::<String>(),
        trials = results.series.iter().map(|s| s.points.len()).sum::<usize>(),
        took = took.as_secs_f64(),
        files = if files.is_empty() { String::new() } else { format!("; written:{files}") },
    )
}

/// The files to write.
struct Outputs {
    results: Option<Output>,
    report: Option<Output>,
}

impl Outputs {
    fn open(arguments: &Arguments) -> Result<Self, Failure> {
        let quiet = arguments.json() || arguments.csv;
        let open = |given: &Option<PathBuf>, default: &str| match given {
            None if quiet => Ok(None),
            None => Output::open(Path::new(default)).map(Some),
            Some(path) => Output::open(path).map(Some),
        };
        Ok(Self {
            results: open(&arguments.results, "results.json")?,
            report: open(&arguments.report, "report.html")?,
        })
    }

    fn write(&mut self, results: &Curve) -> Result<(), Failure> {
        if let Some(output) = &mut self.results {
            output.write(&to_json(results)?)?;
        }
        if let Some(output) = &mut self.report {
            output.write(&html(results))?;
        }
        Ok(())
    }

    /// Where the results are, for the message of an interrupted run.
    fn kept(&self) -> String {
        self.results
            .as_ref()
            .map(|output| format!(" and kept in {}", output.path().display()))
            .unwrap_or_default()
    }
}
