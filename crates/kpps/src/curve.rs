//! `kpps curve`: the main job.

use crate::error::{Failure, print};
use crate::interrupt;
use crate::output::Output;
use crate::units::{self, Loads};
use clap::Args;
use indicatif::{ProgressBar, ProgressStyle};
use kpps_bench::{Load, Testbed, TrialError, curve, default_loads};
use kpps_frames::Size;
use kpps_report::{Curve, Environment, Series, csv, html, text};
use kpps_testbed::{Setup, Simulated};
use std::io::IsTerminal;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Time under load before measuring begins: enough for a slight overload to fill the FIFO, which hides it until then.
const WARMUP_MS: u32 = 50;

/// Arguments of `kpps curve`.
#[derive(Args)]
pub struct Arguments {
    /// The machine: a name (`kpps list machines`) or a .toml file
    #[arg(long, default_value = "morris2000")]
    machine: String,
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
    /// Frame size in bytes with FCS
    #[arg(long, default_value = "64", value_parser = units::size)]
    size: Size,
    /// Offered loads: `100kpps,80%,100%` or `FROM..TO/STEP` [default: 100kpps..100%/100kpps]
    #[arg(long)]
    load: Option<Loads>,
    /// How long each trial is measured, in virtual time, after 50 ms of warm-up
    #[arg(long, default_value = "50ms", value_parser = units::duration)]
    duration: Duration,
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
}

/// Runs `kpps curve`.
pub fn run(arguments: &Arguments) -> Result<(), Failure> {
    let mut testbeds: Vec<Simulated> = arguments
        .driver
        .iter()
        .map(|driver| {
            Ok(Simulated::new(Setup::named(&arguments.machine, arguments.chip.as_deref(), driver)?))
        })
        .collect::<Result<_, Failure>>()?;
    crate::error::refuse_twice(testbeds.iter().map(|t| t.setup().driver.as_str()))?;
    let Some(first) = testbeds.first() else { return Err(Failure::Input("no driver preset given".into())) };
    let line_pps = first.line_rate_pps(arguments.size);
    let loads = match &arguments.load {
        Some(loads) => loads.pps(line_pps).map_err(Failure::Input)?,
        None => default_loads(line_pps),
    };
    if let Some(pps) = loads.iter().find(|pps| *pps * arguments.duration.as_secs_f64() < 1.0) {
        let millis = arguments.duration.as_millis();
        return Err(Failure::Input(format!(
            "a load of {pps} pps sends no frame in {millis} ms: measure longer"
        )));
    }
    let load = Load {
        offered_pps: line_pps,
        size: arguments.size,
        warmup_ms: WARMUP_MS,
        duration_ms: u32::try_from(arguments.duration.as_millis()).unwrap_or(u32::MAX),
        seed: arguments.seed,
    };
    let mut outputs = Outputs::open(arguments)?;
    let environment = environment(&testbeds, &load, line_pps);

    interrupt::watch();
    let began = Instant::now();
    let progress = progress(testbeds.len() * loads.len());
    let mut series: Vec<Series> = Vec::with_capacity(testbeds.len());
    let mut end = Ok(());
    for testbed in &mut testbeds {
        let name = testbed.setup().driver.clone();
        progress.set_message(name.clone());
        let (curve, ended) =
            curve(&name, testbed, &load, &loads, &|| !interrupt::asked(), || progress.inc(1));
        series.push(curve);
        end = ended;
        if end.is_err() {
            break;
        }
    }
    progress.finish_and_clear();

    let points: usize = series.iter().map(|s| s.points.len()).sum();
    let wanted = arguments.driver.len() * loads.len();
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

fn environment(testbeds: &[Simulated], load: &Load, line_pps: f64) -> Environment {
    let presets = testbeds.iter().map(|t| (t.setup().driver.clone(), t.setup().driver_description.clone()));
    let Some(setup) = testbeds.first().map(Simulated::setup) else { return Environment::default() };
    Environment {
        kpps_version: env!("CARGO_PKG_VERSION").into(),
        testbed: "sim".into(),
        machine: setup.machine.clone(),
        chip: setup.chip.clone(),
        bus: setup.bus.clone(),
        host: setup.host.clone(),
        stack: setup.stack.clone(),
        size_bytes_without_fcs: load.size.bytes_without_fcs(),
        frame_bytes_with_fcs: load.size.bytes_with_fcs(),
        line_rate_pps: line_pps,
        duration_ms: load.duration_ms.into(),
        warmup_ms: load.warmup_ms.into(),
        seed: load.seed,
        profiles_hash: kpps_profiles::hash(testbeds.iter().flat_map(|t| &t.setup().own_profiles)),
        presets: presets.collect(),
    }
}

/// A bar on the terminal's error stream; nothing where nobody looks.
fn progress(trials: usize) -> ProgressBar {
    if !std::io::stderr().is_terminal() {
        return ProgressBar::hidden();
    }
    let style = ProgressStyle::with_template("{bar:40} {pos}/{len} trials  {msg}  {eta} left");
    ProgressBar::new(trials as u64).with_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()))
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
        "{machine}: {chip} on {bus}, {host}, {stack}\n\
         frames of {with} B ({without} B without FCS), line rate {line:.0} pps\n\n\
         {plot}\n{table}\n{first}\n{second}\n\n{trials} trials in {took:.1} s{files}\n",
        machine = environment.machine,
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
