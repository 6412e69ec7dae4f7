//! Takes the measurements of claims and figures, each once, on all CPUs.

use crate::metric::{self, Context, Value, Values};
use crate::{Claim, Figure, Map, Measurement, Study};
use indexmap::IndexMap;
use kpps_documents::study as documents;
use kpps_documents::study::Verdict;
use kpps_methods::finished::{Finished, digest};
use kpps_methods::workers::on_all_cpus;
use kpps_profiles::{Change, To};
use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Called when a measurement ends: how many have ended, of how many.
pub type Progress<'a> = &'a (dyn Fn(usize, usize) + Sync);

/// A hash of the texts of own profiles that these changes name by their files; empty if they name none.
fn texts(changes: &[Change]) -> String {
    let files = changes.iter().filter_map(|change| match &change.to {
        To::Set(toml::Value::String(path)) => std::fs::read(path).ok(),
        _ => None,
    });
    let files: Vec<_> = files.collect();
    if files.is_empty() { String::new() } else { digest(&files.concat()) }
}

/// The outcomes: a result, or the reason why there is none, for each measurement.
#[derive(Debug, Default)]
pub struct Outcomes(BTreeMap<String, Result<Values, String>>);

/// Takes each wanted measurement once, in this order, on all CPUs. If `context` interrupts the run, the
/// remaining ones are absent.
pub fn measure<'a>(
    wanted: impl IntoIterator<Item = &'a Measurement>,
    context: &Context,
    progress: Progress,
) -> Outcomes {
    measure_or_find(wanted, context, progress, &Finished::default())
}

/// The same, but measurements that are `kept` already are not taken again.
pub fn measure_or_find<'a>(
    wanted: impl IntoIterator<Item = &'a Measurement>,
    context: &Context,
    progress: Progress,
    kept: &Finished<Values>,
) -> Outcomes {
    let distinct: IndexMap<String, &Measurement> =
        wanted.into_iter().map(|measurement| (measurement.key(), measurement)).collect();
    let work: Vec<(&String, Measurement)> = distinct
        .iter()
        .flat_map(|(key, whole)| whole.parts().into_iter().map(move |part| (key, part)))
        .collect();
    let (next, ended) = (AtomicUsize::new(0), AtomicUsize::new(0));
    let taken = Mutex::new(BTreeMap::new());
    let worker = || {
        while (context.go_on)() {
            let index = next.fetch_add(1, Ordering::Relaxed);
            let Some((_, measurement)) = work.get(index) else { break };
            let name = match &context.changes[..] {
                [] => measurement.key(),
                changes => format!("{} {changes:?} {}", measurement.key(), texts(changes)),
            };
            // A file may have changed since.
            let is_kept = !measurement.names_files();
            let result = match kept.find(&name).filter(|_| is_kept) {
                Some(values) => Ok(values),
                None => {
                    let result = metric::take(measurement, context);
                    if !(context.go_on)() {
                        break; // ended early: no result
                    }
                    if let (Ok(values), true) = (&result, is_kept) {
                        kept.keep(&name, values);
                    }
                    result
                }
            };
            if let Ok(mut taken) = taken.lock() {
                taken.insert(index, result);
            }
            progress(ended.fetch_add(1, Ordering::Relaxed) + 1, work.len());
        }
    };
    on_all_cpus(work.len(), worker);
    let mut taken = taken.into_inner().unwrap_or_default();
    let mut outcomes: BTreeMap<String, Vec<_>> = BTreeMap::new();
    for (index, (key, _)) in work.iter().enumerate() {
        outcomes.entry((*key).clone()).or_default().push(taken.remove(&index));
    }
    // A measurement with a missing part is missing.
    let whole = |key: &String, parts: Vec<Option<_>>| {
        let listed = distinct.get(key)?.has_seeds();
        Some(joined(parts.into_iter().collect::<Option<Vec<_>>>()?, listed))
    };
    let outcomes =
        outcomes.into_iter().filter_map(|(key, parts)| whole(&key, parts).map(|whole| (key, whole)));
    Outcomes(outcomes.collect())
}

/// The values of a measurement from those of its parts: lists if it is `listed`, or else as they are.
fn joined(parts: Vec<Result<Values, String>>, listed: bool) -> Result<Values, String> {
    let parts = parts.into_iter().collect::<Result<Vec<_>, _>>()?;
    if let ([one], false) = (&parts[..], listed) {
        return Ok(one.clone());
    }
    let mut lists: BTreeMap<String, Vec<Option<f64>>> = BTreeMap::new();
    for (name, value) in parts.into_iter().flatten() {
        let list = lists.entry(name).or_default();
        match value {
            Value::Number(number) => list.push(number),
            Value::List(numbers) => list.extend(numbers),
        }
    }
    Ok(lists.into_iter().map(|(name, list)| (name, Value::List(list))).collect())
}

/// A value of a configuration as a name.
fn word(value: &toml::Value) -> String {
    match value {
        toml::Value::String(text) => text.clone(),
        toml::Value::Float(number) => number.to_string(),
        other => other.to_string(),
    }
}

/// The measurements of these studies: all, or those of claims only.
pub fn wanted(studies: &[Study], claims_only: bool) -> Vec<&Measurement> {
    let mut all = Vec::new();
    for study in studies {
        match claims_only {
            false => all.extend(study.measurements(None)),
            true => all.extend(study.claims.values().flat_map(|claim| claim.measure.values())),
        }
    }
    all
}

impl Study {
    /// Replaces the seeds of all measurements that have any.
    pub fn reseed(&mut self, from: i64, to: i64) {
        let measurements = self.claims.values_mut().flat_map(|claim| claim.measure.values_mut());
        measurements.for_each(|measurement| measurement.reseed(from, to));
    }

    /// Every measurement of the study, or of one claim.
    pub fn measurements(&self, only: Option<&str>) -> Vec<&Measurement> {
        let claims = self.claims.iter().filter(|(id, _)| only.is_none_or(|only| *id == only));
        let of_claims = claims.flat_map(|(_, claim)| claim.measure.values());
        let of_figures = self.figures.iter().flat_map(|figure| figure.lines.iter().map(|line| &line.measure));
        let of_maps = self.maps.iter().map(|map| &map.measure);
        of_claims.chain(of_figures.chain(of_maps).filter(|_| only.is_none())).collect()
    }
}

impl Outcomes {
    /// These, and those of `others` that these lack.
    pub(crate) fn or(mut self, others: &Self) -> Self {
        for (key, outcome) in &others.0 {
            self.0.entry(key.clone()).or_insert_with(|| outcome.clone());
        }
        self
    }

    /// The verdict on a claim; `None` if a measurement that it needs is missing.
    pub fn verdict(&self, study: &Study, id: &str, claim: &Claim) -> Option<documents::Claim> {
        let mut measured = BTreeMap::new();
        let mut problem = None;
        for (name, measurement) in &claim.measure {
            match self.0.get(&measurement.key())? {
                Ok(values) => {
                    measured.insert(name.clone(), values.clone());
                }
                Err(error) => problem = Some(format!("{}: {error}", measurement.metric)),
            }
        }
        let (mut verdict, mut values, mut results) = (Verdict::Failed, BTreeMap::new(), Vec::new());
        if problem.is_none() {
            match judged(claim, &measured) {
                Ok(judged) => (verdict, values, results) = judged,
                Err(error) => problem = Some(error),
            }
        }
        let figures = |of: &IndexMap<String, f64>| of.iter().map(|(name, v)| (name.clone(), *v)).collect();
        Some(documents::Claim {
            study: study.name.clone(),
            id: id.to_owned(),
            says: claim.says.clone(),
            kind: claim.kind.word().to_owned(),
            expected: claim.expected.clone(),
            verdict,
            values,
            values_p5_p95: BTreeMap::new(),
            value_document: figures(&claim.document),
            values_blind: figures(&claim.blind),
            results,
            why: problem.unwrap_or_else(|| claim.why.clone()),
        })
    }

    /// A map, if it was measured.
    pub fn map(&self, map: &Map) -> Option<documents::Map> {
        let Value::List(values) = self.0.get(&map.measure.key())?.as_ref().ok()?.get(&map.value)? else {
            return None;
        };
        let columns: Vec<String> = map.measure.of.get("offered")?.as_array()?.iter().map(word).collect();
        let mut names = vec![String::new()];
        for (_, axis) in map.measure.of.get("vary")?.as_table()? {
            let axis = axis.as_array()?;
            let longer = |name: &String| {
                let gap = if name.is_empty() { "" } else { ", " };
                axis.iter().map(|value| format!("{name}{gap}{}", word(value))).collect::<Vec<_>>()
            };
            names = names.iter().flat_map(longer).collect();
        }
        let rows = names.into_iter().zip(values.chunks(columns.len().max(1)));
        Some(documents::Map {
            title: map.title.clone(),
            cell: map.cell.clone(),
            columns_of: "offered, frames/s".into(),
            rows: rows.map(|(name, cells)| documents::Row { name, cells: cells.to_vec() }).collect(),
            columns,
        })
    }

    /// A figure with the lines that were measured.
    pub fn figure(&self, figure: &Figure) -> documents::Figure {
        let line = |line: &crate::Line| {
            let values = self.0.get(&line.measure.key())?.as_ref().ok()?;
            let list = |name: &str, scale: f64| match values.get(name)? {
                Value::List(list) => Some(list.iter().map(|v| Some((*v)? * scale)).collect::<Vec<_>>()),
                Value::Number(number) => Some(vec![number.map(|v| v * scale)]),
            };
            let points = list(&line.x, figure.x_scale)?.into_iter().zip(list(&line.y, figure.y_scale)?);
            let points = points.filter_map(|(x, y)| x.zip(y));
            Some(documents::Line { name: line.name.clone(), points: points.collect() })
        };
        documents::Figure {
            title: figure.title.clone(),
            x: figure.x.clone(),
            y: figure.y.clone(),
            lines: figure.lines.iter().filter_map(line).collect(),
            stated: figure.stated.clone(),
        }
    }
}

type Judged = (Verdict, BTreeMap<String, f64>, Vec<documents::Foretold>);

/// The figures of a claim, and the document's, as its conditions name them.
fn scope(claim: &Claim, values: &BTreeMap<String, f64>) -> BTreeMap<String, Values> {
    let values = values.iter().map(|(name, v)| (name.clone(), (*v).into())).collect();
    let document = claim.document.iter().map(|(name, v)| (name.clone(), (*v).into())).collect();
    [("values".to_owned(), values), ("document".to_owned(), document)].into()
}

/// For each predicted result of a claim, whether it holds for these figures alone.
fn hits(claim: &Claim, values: &BTreeMap<String, f64>) -> Result<Vec<bool>, String> {
    let scope = scope(claim, values);
    claim.results.values().map(|condition| crate::judge(std::slice::from_ref(condition), &scope)).collect()
}

/// For each predicted result of a claim, whether the values that were predicted blind are right.
///
/// # Errors
/// If a condition is malformed, or uses a value that was not predicted.
pub fn judge_blind(claim: &Claim) -> Result<Vec<bool>, String> {
    hits(claim, &claim.blind.iter().map(|(name, v)| (name.clone(), *v)).collect())
}

/// The verdict on a claim, its figures, and which of its predicted results they are within.
fn judged(claim: &Claim, measured: &BTreeMap<String, Values>) -> Result<Judged, String> {
    let values: BTreeMap<String, f64> = claim
        .values
        .iter()
        .map(|(name, expression)| Ok((name.clone(), crate::judge::figure(expression, measured)?)))
        .collect::<Result<_, String>>()?;
    let both = judge_blind(claim)?.into_iter().zip(hits(claim, &values)?);
    let results: Vec<_> = claim
        .results
        .iter()
        .zip(both)
        .map(|((name, holds), (blind, revised))| documents::Foretold {
            name: name.clone(),
            holds: holds.clone(),
            blind,
            revised,
        })
        .collect();
    let mut holds = claim.kind != crate::Kind::KeptBack || results.iter().all(|result| result.revised);
    if claim.holds.is_empty() && claim.kind != crate::Kind::KeptBack {
        return Err("nothing is checked: the claim has no conditions".into());
    }
    let mut all = scope(claim, &values);
    all.extend(measured.iter().map(|(name, values)| (name.clone(), values.clone())));
    holds &= crate::judge(&claim.holds, &all)?;
    let verdict = match holds {
        _ if claim.kind == crate::Kind::KeptBack && results.is_empty() => Verdict::Predicted,
        true => Verdict::Pass,
        false => Verdict::Miss,
    };
    Ok((verdict, values, results))
}
