//! `kpps curve`: the main job.

use crate::error::{Failure, print};
use crate::interrupt;
use crate::live::{self, Live};
use crate::output::Output;
use crate::room::Room;
use crate::units::{self, Loads};
use clap::Args;
use kpps_bench::{Load, Testbed, TrialError, curve, default_loads};
use kpps_frames::{Size, rate};
use kpps_lab::workload::{Setting, Settings};
use kpps_lab::{Bed, BedSpec};
use kpps_live::Progress;
use kpps_report::{Curve, Environment, Point, Series, csv, html, text};
use kpps_testbed::Setup;
use std::io::IsTerminal;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Time under load before measuring begins: enough for a slight overload to fill the FIFO, which hides it until then.
const WARMUP_MS: u32 = 50;

/// How long a trial is measured if nothing else is asked for: in virtual time, and in real time.
const DURATION: Duration = Duration::from_millis(50);
const REAL_DURATION: Duration = Duration::from_secs(1);
/// The loads of a guest's curve, in frames per second: kernels in QEMU give up early.
const LAB_LOADS: [f64; 12] = [1e4, 2e4, 4e4, 6e4, 8e4, 1e5, 1.5e5, 2e5, 3e5, 4e5, 6e5, 8e5];

/// Arguments of `kpps curve`.
#[derive(Args)]
pub struct Arguments {
    /// Guests in QEMU instead of the machine room, in real time: lab:KERNEL/DEVICE (the kernel's driver), or
    /// lab:KERNEL/DEVICE/DRIVER-BACKEND as lab:linux-6.1/e1000/dpdk-uio
    #[arg(long, value_delimiter = ',', value_parser = guest, conflicts_with_all = ["app", "machine", "chip", "driver", "seed"])]
    testbed: Vec<BedSpec>,
    /// A setting of a guest's kernel: see `kpps lab --help`
    #[arg(long, value_name = "SETTING", requires = "testbed")]
    set: Vec<Setting>,
    #[command(flatten)]
    room: Room,
    /// The machine: a name (`kpps list machines`) or a .toml file [default: morris2000; with --app lunz2003]
    #[arg(long)]
    machine: Option<String>,
    /// The chip, if not the machine's own: a name (`kpps list chips`) or a .toml file
    #[arg(long)]
    chip: Option<String>,
    /// Driver presets to compare: names (`kpps list drivers`) or .toml files
    #[arg(
        long,
        value_delimiter = ',',
        default_values = ["intel-2.5.11", "intel-2.5.11-tuned", "click-polling", "intel-5.7.6", "kpps"]
    )]
    driver: Vec<String>,
    /// Frame size in bytes with FCS [default: 64; with --app vlan-route 68]
    #[arg(long, value_parser = units::size)]
    size: Option<Size>,
    /// Offered loads: `100kpps,80%,100%` or `FROM..TO/STEP` [default: 100kpps..100%/100kpps]
    #[arg(long)]
    load: Option<Loads>,
    /// How long each trial is measured, after 50 ms of warm-up [default: 50ms of virtual time; with --testbed 1s]
    #[arg(long, value_parser = units::duration)]
    duration: Option<Duration>,
    /// Shifts the frames against the machine's clock; equal seeds give equal results
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Print the results as one JSON document, and write files only where asked to
    #[arg(long)]
    json: bool,
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
    live: Live,
}

fn guest(text: &str) -> Result<BedSpec, String> {
    let Some(name) = text.strip_prefix("lab:") else {
        return Err(format!("'{text}' is no testbed: give lab:KERNEL/DEVICE, as lab:linux-6.1/e1000"));
    };
    name.parse()
}

/// A testbed and the name of its series.
struct Named {
    name: String,
    testbed: Box<dyn Testbed>,
}

/// Runs `kpps curve`.
pub fn run(arguments: &Arguments) -> Result<(), Failure> {
    let size = arguments.room.size(arguments.size);
    let (testbeds, environment) =
        if arguments.testbed.is_empty() { simulated(arguments)? } else { in_guests(arguments)? };
    // What both wires carry, where there are two.
    let line_pps = testbeds
        .first()
        .map_or(rate::line_rate_pps(rate::GIGABIT, size), |it| it.testbed.line_rate_pps(size));
    crate::error::refuse_twice(testbeds.iter().map(|it| it.name.as_str()))?;
    let in_real_time = !arguments.testbed.is_empty();
    let duration = arguments.duration.unwrap_or(if in_real_time { REAL_DURATION } else { DURATION });
    let loads = match &arguments.load {
        Some(loads) => loads.pps(line_pps, f64::from(size.bytes_with_fcs())).map_err(Failure::Input)?,
        None if in_real_time => LAB_LOADS.into_iter().filter(|pps| *pps < line_pps).collect(),
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
        size,
        warmup_ms: WARMUP_MS,
        duration_ms: u32::try_from(duration.as_millis()).unwrap_or(u32::MAX),
        seed: arguments.seed,
    };
    let mut outputs = Outputs::open(arguments)?;
    let environment = Environment {
        kpps_version: env!("CARGO_PKG_VERSION").into(),
        size_bytes_without_fcs: load.size.bytes_without_fcs(),
        frame_bytes_with_fcs: load.size.bytes_with_fcs(),
        line_rate_pps: line_pps,
        duration_ms: load.duration_ms.into(),
        warmup_ms: load.warmup_ms.into(),
        seed: load.seed,
        ..environment
    };
    let wanted = testbeds.len() * loads.len();

    interrupt::watch();
    let began = Instant::now();
    let progress = Progress::of(format!("kpps curve: {} on {}", environment.chip, environment.machine));
    progress.wants(wanted);
    let quiet = arguments.json || arguments.csv;
    let view = arguments.live.view(progress.clone(), Box::new(()), quiet)?;
    let mut series: Vec<Series> = Vec::with_capacity(testbeds.len());
    let mut end = Ok(());
    for Named { name, mut testbed } in testbeds {
        progress.begins(&*name, None);
        let step = |point: &Point| progress.ended(live::ended(point));
        let (curve, ended) = curve(&name, testbed.as_mut(), &load, &loads, &|| !interrupt::asked(), step);
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
    if arguments.json {
        print(&to_json(&results)?)?;
    } else if arguments.csv {
        print(&csv(&results))?;
    } else {
        print(&screen(&results, &outputs, began.elapsed()))?;
    }
    let kept = outputs.kept();
    match end {
        Ok(()) => Ok(()),
        Err(TrialError::Interrupted) => {
            Err(Failure::Interrupted(format!("interrupted: {points} of {wanted} points measured{kept}")))
        }
        Err(error) => Err(Failure::Check(format!("{error}; {points} of {wanted} points measured{kept}"))),
    }
}

fn to_json(results: &Curve) -> Result<String, Failure> {
    results.to_json().map_err(|e| Failure::Check(format!("the results cannot be written as JSON: {e}")))
}

/// A driver preset each, in the machine room.
fn simulated(arguments: &Arguments) -> Result<(Vec<Named>, Environment), Failure> {
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
        testbed: "sim".into(),
        machine: setup.machine.clone(),
        chip: setup.chip.clone(),
        bus: setup.bus.clone(),
        host: setup.host.clone(),
        stack: setup.stack.clone(),
        app: room.app_name(),
        profiles_hash: kpps_profiles::hash(setups.iter().flat_map(|setup| &setup.own_profiles)),
        presets: presets.collect(),
        ..Environment::default()
    };
    let named = |setup: Setup| Named { name: setup.driver.clone(), testbed: room.testbed(setup) };
    Ok((setups.into_iter().map(named).collect(), environment))
}

/// Guests in QEMU.
fn in_guests(arguments: &Arguments) -> Result<(Vec<Named>, Environment), Failure> {
    let kpps = crate::lab::program()?;
    let specs = &arguments.testbed;
    let names = |each: fn(&BedSpec) -> &str| {
        let names: std::collections::BTreeSet<_> = specs.iter().map(each).collect();
        names.into_iter().collect::<Vec<_>>().join(", ")
    };
    let environment = Environment {
        testbed: "lab".into(),
        machine: "guest".into(),
        chip: names(|spec| spec.model.name()),
        bus: "QEMU's PCI".into(),
        host: "QEMU (TCG, one processor, no wire limit)".into(),
        stack: names(|spec| &spec.kernel),
        presets: specs.iter().map(|spec| (spec.name(), spec.description())).collect(),
        ..Environment::default()
    };
    let settings = Settings(arguments.set.clone());
    let testbeds = specs.iter().map(|spec| Named {
        name: spec.name(),
        testbed: Box::new(Bed::new(spec.clone(), settings.clone(), kpps.clone())),
    });
    Ok((testbeds.collect(), environment))
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
    format!(
        "{machine}: {chip} on {bus}, {host}, {stack}{app}\n\
         frames of {with} B ({without} B without FCS), line rate {line:.0} pps\n\n\
         {plot}\n{table}\n{first}\n{second}\n\n{trials} trials in {took:.1} s{files}\n",
        machine = environment.machine,
        app = environment.app.as_ref().map(|app| format!(", {app} between two cards")).unwrap_or_default(),
        chip = environment.chip,
        bus = environment.bus,
        host = environment.host,
        stack = environment.stack,
        with = environment.frame_bytes_with_fcs,
        without = environment.size_bytes_without_fcs,
        line = environment.line_rate_pps.floor(),
        plot = text::plot(results, look),
        table = text::table(results, look),
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
        let quiet = arguments.json || arguments.csv;
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
