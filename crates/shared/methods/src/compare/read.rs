//! Results from files, as samples of quantities.

use kpps_documents::comparison::Better;
use kpps_documents::detail::DetailedTrial;
use kpps_documents::grid::Grid;
use kpps_documents::lab::{Clock, Lab};
use kpps_documents::ndr::Ndr;
use kpps_documents::rfc2544::Sizes;
use kpps_documents::{Curve, Schema, Trial};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use std::collections::{BTreeSet, HashMap};
use std::path::{Path, PathBuf};

/// The values of a quantity at one size and load.
#[derive(Clone, Debug)]
pub struct Values {
    /// The measured system: a driver, two ports.
    pub of: String,
    /// The size and the load.
    pub what: String,
    /// The quantity.
    pub quantity: String,
    /// Its unit.
    pub unit: &'static str,
    /// The better direction.
    pub better: Better,
    /// One value for each measurement.
    pub values: Vec<f64>,
    /// A count that repeats: how much of it is nothing, in its unit. `None` for what scatters.
    pub repeats: Option<f64>,
}

impl Values {
    /// Whether both are the same quantity, of the same system if names matter.
    pub fn is_like(&self, other: &Self, named: bool) -> bool {
        self.what == other.what && self.quantity == other.quantity && (!named || self.of == other.of)
    }

    /// Its name in a message.
    pub fn title(&self, named: bool) -> String {
        let of = if named { format!("{}, ", self.of) } else { String::new() };
        format!("{of}{}: {}", self.what, self.quantity)
    }
}

/// All results of one side.
pub struct Results {
    /// The name of the side.
    pub name: String,
    /// The kind of all documents.
    pub kind: String,
    /// The number of documents.
    pub documents: usize,
    all: Vec<Values>,
    places: HashMap<[String; 3], usize>,
}

impl Results {
    /// Reads the documents of a side: files with commas between them, or folders.
    ///
    /// # Errors
    /// A file that cannot be read, or has no comparable results; in one line.
    pub fn read(name: &str) -> Result<Self, String> {
        let mut results = Self::none(name);
        for path in files(name)? {
            let cannot =
                |e: &dyn std::fmt::Display| format!("cannot read results of {}: {e}", path.display());
            let text = std::fs::read_to_string(&path).map_err(|e| cannot(&e))?;
            results.add_all(&text).map_err(|e| cannot(&e))?;
        }
        results.not_empty()
    }

    /// Reads the documents of a side from a text, one after another.
    ///
    /// # Errors
    /// As [`read`](Self::read).
    pub fn parse(name: &str, text: &str) -> Result<Self, String> {
        let mut results = Self::none(name);
        results.add_all(text)?;
        results.not_empty()
    }

    fn none(name: &str) -> Self {
        let (name, kind) = (name.to_owned(), String::new());
        Self { name, kind, documents: 0, all: Vec::new(), places: HashMap::new() }
    }

    fn not_empty(self) -> Result<Self, String> {
        if self.all.is_empty() { Err(format!("{} has no results", self.name)) } else { Ok(self) }
    }

    fn add_all(&mut self, text: &str) -> Result<(), String> {
        let mut documents = serde_json::Deserializer::from_str(text).into_iter::<Value>();
        documents.try_for_each(|document| self.add(document.map_err(|e| e.to_string())?))
    }

    /// The systems that were measured.
    pub fn of(&self) -> BTreeSet<&str> {
        self.all.iter().map(|it| it.of.as_str()).collect()
    }

    /// All quantities, in the order of their first occurrence.
    pub fn measured(&self) -> impl Iterator<Item = &Values> {
        self.all.iter()
    }

    fn add(&mut self, document: Value) -> Result<(), String> {
        let text = |name: &str| document.get(name).and_then(Value::as_str).unwrap_or_default().to_owned();
        let Some(schema) = document.get("schema") else {
            return Err("this is no document of kpps, because it has no \"schema\"".into());
        };
        Schema::deserialize(schema).map_err(|e| e.to_string())?;
        possible("", &document)?;
        let kind = text("kind");
        if self.documents == 0 {
            self.kind.clone_from(&kind);
        } else if kind != self.kind {
            return Err(format!(
                "one side has documents of the kinds {} and {kind}: give documents of one kind",
                self.kind
            ));
        }
        self.documents += 1;
        match kind.as_str() {
            "trial" => self.trial(&of_kind(document)?),
            "curve" => self.curve(&of_kind(document)?),
            "grid" => self.grid(&of_kind(document)?),
            "ndr" => self.search(&of_kind(document)?),
            "sizes" => of_kind::<Sizes>(document)?.sizes.iter().try_for_each(|search| self.search(search)),
            "lab" => self.lab(of_kind(document)?),
            _ => Err(format!(
                "documents of kind {kind:?} cannot be compared; these kinds can: trial, curve, grid, ndr, sizes, lab"
            )),
        }
    }

    fn value(&mut self, of: (&str, &str), quantity: Quantity<'_>, value: f64) {
        self.add_value(of, quantity, None, value);
    }

    fn add_value(
        &mut self,
        (of, what): (&str, &str),
        (quantity, unit, better): Quantity<'_>,
        repeats: Option<f64>,
        value: f64,
    ) {
        let key = [of.to_owned(), what.to_owned(), quantity.to_owned()];
        let at = *self.places.entry(key).or_insert_with(|| {
            let (of, what, quantity) = (of.to_owned(), what.to_owned(), quantity.to_owned());
            self.all.push(Values { of, what, quantity, unit, better, values: Vec::new(), repeats });
            self.all.len() - 1
        });
        self.all[at].values.push(value);
    }

    fn latency(&mut self, of: (&str, &str), latency: kpps_documents::Latency) {
        for (quantity, ns) in [("latency p50", latency.p50), ("latency p99", latency.p99)] {
            if let Some(ns) = ns {
                self.value(of, (quantity, "us", Better::Lower), ns as f64 / 1e3);
            }
        }
    }

    fn trial(&mut self, trial: &DetailedTrial) -> Result<(), String> {
        if !trial.complete {
            return Err("a trial was interrupted: leave out its document".into());
        }
        let load = trial.load_pps.map_or("the highest load".into(), |pps| format!("{:.1} kpps", pps / 1e3));
        let what = format!(
            "{} B{}, {load}{}{}, {} s",
            trial.sizes_name(),
            trial.traffic.as_ref().map(|traffic| format!(" {traffic}")).unwrap_or_default(),
            trial.shape.as_ref().map(|shape| format!(" {shape}")).unwrap_or_default(),
            if trial.directions.len() > 1 { " per direction" } else { "" },
            trial.duration_s
        );
        let testbed = trial.testbed.join(" and ");
        let of = (&testbed[..], &what[..]);
        let whole = trial.result.delivered;
        self.value(of, DELIVERED, trial.result.delivered_pps / 1e3);
        self.latency(of, trial.result.latency_ns);
        let busy: f64 = trial.cpus.iter().map(|p| p.user_s + p.system_s + p.irq_s + p.softirq_s).sum();
        if whole > 0 && !trial.cpus.is_empty() {
            self.value(of, CPU_TIME, busy * 1e9 / whole as f64);
        } else if let Some(cpu) = trial.result.cpu
            && whole > 0
        {
            self.value(of, CPU_TIME, cpu.used() * 1e9 / trial.result.delivered_pps);
        }
        Ok(())
    }

    fn point(&mut self, of: (&str, &str), point: &Trial) {
        self.value(of, DELIVERED, point.delivered_pps / 1e3);
        self.latency(of, point.latency_ns);
        if let Some(busy) = point.cpu_busy
            && point.delivered_pps > 0.0
        {
            let idle_polls = point.cpu.and_then(|cpu| cpu.idle_polls).unwrap_or(0.0);
            let busy = (busy - idle_polls).max(0.0);
            self.value(of, CPU_TIME, busy * 1e9 / point.delivered_pps);
        }
    }

    fn curve(&mut self, curve: &Curve) -> Result<(), String> {
        let e = &curve.environment;
        for series in &curve.series {
            for point in &series.points {
                let load = point.offered_pps / 1e3;
                let what = format!("{} B, {load:.1} kpps, {} ms", e.frame_bytes_with_fcs, e.duration_ms);
                self.point((&series.name, &what), point);
            }
        }
        Ok(())
    }

    fn grid(&mut self, grid: &Grid) -> Result<(), String> {
        for cell in &grid.cells {
            let values = grid.axes.iter().zip(grid.values(cell));
            let names: Vec<_> = values.map(|(axis, value)| format!("{} {value}", axis.parameter)).collect();
            if let Some(point) = &cell.point {
                self.point((&grid.environment.machine, &names.join(", ")), point);
            }
        }
        Ok(())
    }

    fn search(&mut self, search: &Ndr) -> Result<(), String> {
        if !search.complete {
            return Err("a search is not finished: continue it first".into());
        }
        let testbed = search.testbed.join(" and ");
        let both = if search.bidirectional { ", bidirectional" } else { "" };
        let traffic = search.traffic.as_ref().map(|traffic| format!(" {traffic}")).unwrap_or_default();
        let what = format!("{} B{traffic}{both}", search.sizes_name());
        let of = (&testbed[..], &what[..]);
        for goal in &search.goals {
            if let Some(pps) = goal.lower_pps {
                self.value(of, (&goal.name, "kpps", Better::Higher), pps / 1e3);
            }
        }
        let most = search.trials.iter().map(|trial| search.load_pps(trial)).fold(0.0, f64::max);
        for trial in search.trials.iter().filter(|trial| search.load_pps(trial) == most) {
            let mrr_pps = most * (1.0 - trial.exact_loss_ratio());
            self.value(of, ("MRR", "kpps", Better::Higher), mrr_pps / 1e3);
        }
        Ok(())
    }

    fn lab(&mut self, lab: Lab) -> Result<(), String> {
        for row in lab.rows {
            let of = format!("{} by {}", row.driver, row.backend);
            let what = format!("{} on {}", row.workload, row.device);
            let of = (&of[..], &what[..]);
            if lab.clock == Clock::Wall {
                row.pps.iter().for_each(|pps| self.value(of, DELIVERED, pps / 1e3));
                continue;
            }
            for instructions in &row.instructions_per_frame {
                let quantity = ("instructions", "a frame", Better::Lower);
                self.add_value(of, quantity, Some(FEW_INSTRUCTIONS), *instructions);
            }
            let registers = row.registers_per_frame;
            let interrupts = row.interrupts_per_s.zip(row.median_pps.filter(|pps| *pps > 0.0));
            let counts = [
                ("register reads", registers.map(|each| each.read)),
                ("register writes", registers.map(|each| each.write)),
                ("interrupts", interrupts.map(|(each, pps)| each / pps)),
            ];
            for (name, count) in counts {
                if let Some(count) = count {
                    self.add_value(of, (name, "a frame", Better::Lower), Some(FEW), count);
                }
            }
        }
        Ok(())
    }
}

/// A difference below this counts as none, whatever its share: instructions for a frame, other events for a
/// frame. Two runs of one driver on a busy host had 0.034 and 0.036 register writes for a frame, in bursts of
/// up to 32.
const FEW_INSTRUCTIONS: f64 = 1.0;
const FEW: f64 = 0.005;

/// A name, a unit, and the better direction.
type Quantity<'q> = (&'q str, &'static str, Better);
const DELIVERED: Quantity<'_> = ("delivered", "kpps", Better::Higher);
const CPU_TIME: Quantity<'_> = ("CPU time", "ns a frame", Better::Lower);

/// Whether all shares in a document are shares, and no rate or time is below 0. Other numbers mean different
/// things in different documents.
///
/// # Errors
/// The first number that is impossible, in one line.
fn possible(name: &str, value: &Value) -> Result<(), String> {
    match value {
        Value::Object(fields) => fields.iter().try_for_each(|(name, value)| possible(name, value)),
        Value::Array(values) => values.iter().try_for_each(|value| possible(name, value)),
        Value::Number(number) => {
            let number = number.as_f64().unwrap_or(f64::NAN);
            let ends = |with: &[&str]| with.iter().any(|end| name.ends_with(end));
            // Published numbers are rounded.
            if ends(&["_ratio", "_busy"]) && !(0.0..=1.001).contains(&number) {
                return Err(format!("{name} is {number}, and a share is 0 to 1: was the file changed?"));
            }
            if ends(&["_pps", "seconds", "duration_s", "duration_ms"]) && (number.is_nan() || number < 0.0) {
                return Err(format!("{name} is {number}, below 0: was the file changed?"));
            }
            Ok(())
        }
        _ => Ok(()),
    }
}

fn of_kind<T: DeserializeOwned>(document: Value) -> Result<T, String> {
    serde_json::from_value(document).map_err(|e| e.to_string())
}

/// The files that a side's name stands for.
fn files(name: &str) -> Result<Vec<PathBuf>, String> {
    let mut files = Vec::new();
    for part in name.split(',') {
        let path = Path::new(part);
        if !path.is_dir() {
            files.push(path.to_owned());
            continue;
        }
        let cannot = |e: std::io::Error| format!("cannot read {part}: {e}");
        let mut within = Vec::new();
        for entry in std::fs::read_dir(path).map_err(cannot)? {
            within.push(entry.map_err(cannot)?.path());
        }
        within.retain(|path| path.extension().is_some_and(|extension| extension == "json"));
        within.sort();
        files.append(&mut within);
    }
    Ok(files)
}
