//! Finds the fitted constants from the *fit* claims alone.
//!
//! A constant that was fitted names its claims and its bounds, which are the literature's. Constants of
//! several profiles that have the same name, value, claims and bounds are one. Constants that share a claim
//! are found together, all others apart. The fit minimises the sum of squares of the relative errors of the
//! document's figures in those claims, each in units of the claim's tolerance.
//!
//! The procedure is deterministic and does not begin at the committed values: every constant begins in the
//! middle of its bounds, geometrically. One after the other is searched over its bounds in [`POINTS`] steps,
//! then between the neighbours of the best in [`FINER`] steps, until the neighbours are three digits apart
//! that cannot be divided ([`ROUNDS`] times at most); where several values in a row are equally good, the
//! middle one is taken. Constants that depend on each other take turns until all stay the same, at most
//! [`SWEEPS`]. All values have three significant digits.

use crate::metric::Context;
use crate::{Claim, Kind, Outcomes, Progress, Study, measure};
use kpps_documents::study::{CrossValidation, Fit, FittedConstant, PredictedClaim};
use kpps_methods::statistics::median;
use kpps_methods::workers::on_all_cpus;
use kpps_profiles::{Change, Error, Profile, To, names};
use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Values over a constant's bounds in the first round.
pub const POINTS: usize = 9;
/// Values in a later round.
pub const FINER: usize = 7;
/// Later rounds, at most: each divides the remaining range by three.
pub const ROUNDS: usize = 8;
/// Turns of constants that share a claim, at most.
pub const SWEEPS: usize = 4;

/// A constant that is to be found.
#[derive(Clone, Debug, PartialEq)]
pub struct Free {
    /// The kind of its profiles.
    pub kind: kpps_profiles::Kind,
    /// Its profiles.
    pub profiles: Vec<String>,
    /// Its name.
    pub constant: String,
    /// Its value in the profiles.
    pub committed: f64,
    /// Whether it is a whole number.
    pub whole: bool,
    /// The claims that it is fitted on.
    pub claims: Vec<String>,
    /// Its bounds.
    pub bounds: [f64; 2],
}

impl Free {
    /// Its name with that of its profiles.
    pub fn name(&self) -> String {
        format!("{} {}.{}", self.kind, self.profiles.join("+"), self.constant)
    }

    fn changes(&self, value: f64) -> impl Iterator<Item = Change> {
        let to = if self.whole { toml::Value::from(value.round() as i64) } else { value.into() };
        self.profiles.iter().map(move |profile| Change {
            kind: self.kind,
            profile: Some(profile.clone()),
            constant: self.constant.clone(),
            to: To::Set(to.clone()),
        })
    }

    fn middle(&self) -> f64 {
        let middle = digits((self.bounds[0] * self.bounds[1]).sqrt());
        if self.whole { middle.round() } else { middle }
    }
}

/// Every constant of the built-in profiles that was fitted.
///
/// # Errors
/// If a profile is bad, or a fitted constant has no bounds or no number.
pub fn free_constants() -> Result<Vec<Free>, Error> {
    let mut all: Vec<Free> = Vec::new();
    for kind in kpps_profiles::Kind::ALL {
        for name in names(kind) {
            let profile = Profile::named(kind, &name)?;
            for constant in profile.constants().iter().filter(|constant| !constant.fitted.is_empty()) {
                let number = constant.value.as_float().or(constant.value.as_integer().map(|n| n as f64));
                let (Some(committed), Some(bounds)) = (number, constant.bounds) else {
                    let problem = format!("'{}' is fitted, so it needs a number and `bounds`", constant.name);
                    return Err(Error::Bad { kind, name, problem });
                };
                let same = all.iter_mut().find(|free| {
                    (free.kind, &free.constant, &free.claims) == (kind, &constant.name, &constant.fitted)
                        && (free.committed, free.bounds) == (committed, bounds)
                });
                match same {
                    Some(free) => free.profiles.push(name.clone()),
                    None => all.push(Free {
                        kind,
                        profiles: vec![name.clone()],
                        constant: constant.name.clone(),
                        committed,
                        whole: constant.value.is_integer(),
                        claims: constant.fitted.clone(),
                        bounds,
                    }),
                }
            }
        }
    }
    Ok(all)
}

/// Three significant digits.
fn digits(value: f64) -> f64 {
    let unit = 10f64.powi(value.abs().log10().floor() as i32 - 2);
    // Multiplied and divided by whole numbers only, so that the decimals are exact.
    if unit >= 1.0 { (value / unit).round() * unit } else { (value / unit).round() / (1.0 / unit).round() }
}

/// A claim with the figures that constants are fitted on, or that are predicted.
struct Target<'a> {
    study: &'a Study,
    id: &'a str,
    claim: &'a Claim,
    figures: Vec<(&'a str, f64)>,
}

/// The *fit* claims that have figures of the document, and other claims with a part that constants may be
/// fitted on.
fn targets(studies: &[Study]) -> Vec<Target<'_>> {
    let mut all = Vec::new();
    for study in studies {
        for (id, claim) in &study.claims {
            let fits = |name: &str| match claim.fits.is_empty() {
                true => claim.results.is_empty(),
                false => claim.fits.iter().any(|fits| fits == name),
            };
            let figures = claim.document.iter().filter(|(name, _)| fits(name));
            let figures: Vec<_> = figures.map(|(name, figure)| (name.as_str(), *figure)).collect();
            if (claim.kind == Kind::Fit || !claim.fits.is_empty()) && !figures.is_empty() {
                all.push(Target { study, id, claim, figures });
            }
        }
    }
    all
}

impl Target<'_> {
    /// The relative errors of the model's figures, in tolerances.
    fn weighted(&self, outcomes: &Outcomes) -> Option<Vec<f64>> {
        let errors = self.errors(outcomes)?;
        Some(errors.into_iter().map(|error| error / self.claim.tolerance).collect())
    }

    /// The relative errors of the model's figures.
    fn errors(&self, outcomes: &Outcomes) -> Option<Vec<f64>> {
        let judged = outcomes.verdict(self.study, self.id, self.claim)?;
        let error = |(name, figure): &(&str, f64)| Some(judged.values.get(*name)? / figure - 1.0);
        self.figures.iter().map(error).collect()
    }
}

/// Constants that share claims, and these claims.
struct Group {
    free: Vec<usize>,
    targets: Vec<usize>,
}

fn groups(free: &[Free], targets: &[Target]) -> Vec<Group> {
    let mut left: Vec<usize> = (0..free.len()).collect();
    let mut groups = Vec::new();
    while let Some(first) = (!left.is_empty()).then(|| left.remove(0)) {
        let (mut of, mut claims) = (vec![first], free[first].claims.clone());
        while let Some(at) = left.iter().position(|&f| free[f].claims.iter().any(|id| claims.contains(id))) {
            let next = left.remove(at);
            claims.extend(free[next].claims.iter().cloned());
            of.push(next);
        }
        let targets = (0..targets.len()).filter(|&t| claims.iter().any(|id| id == targets[t].id));
        groups.push(Group { free: of, targets: targets.collect() });
    }
    groups
}

/// The sums of squares for several sets of values, measured on all CPUs.
fn squares(
    free: &[&Free],
    targets: &[&Target],
    sets: &[Vec<f64>],
    go_on: &(dyn Fn() -> bool + Sync),
) -> Vec<Option<f64>> {
    let (next, found) = (AtomicUsize::new(0), Mutex::new(BTreeMap::new()));
    let worker = || {
        loop {
            let at = next.fetch_add(1, Ordering::Relaxed);
            let Some(set) = sets.get(at) else { break };
            let changes = free.iter().zip(set).flat_map(|(free, value)| free.changes(*value)).collect();
            let context = Context { changes, go_on };
            let wanted = targets.iter().flat_map(|target| target.claim.measure.values());
            let outcomes = measure(wanted, &context, &|_, _| ());
            let errors: Option<Vec<_>> = targets.iter().map(|target| target.weighted(&outcomes)).collect();
            let square = errors.map(|errors| errors.into_iter().flatten().map(|error| error * error).sum());
            if let Ok(mut found) = found.lock() {
                found.insert(at, square);
            }
        }
    };
    on_all_cpus(sets.len(), worker);
    let mut found = found.into_inner().unwrap_or_default();
    (0..sets.len()).map(|at| found.remove(&at).flatten()).collect()
}

/// The index of the least square; of several equal ones in a row the middle.
fn least(squares: &[Option<f64>]) -> Option<usize> {
    let best = squares.iter().flatten().copied().reduce(f64::min)?;
    let first = squares.iter().position(|square| *square == Some(best))?;
    let run = squares[first..].iter().take_while(|square| **square == Some(best)).count();
    Some(first + (run - 1) / 2)
}

/// Sums of squares that are known, by the values of a group's constants.
type Known = BTreeMap<Vec<u64>, Option<f64>>;

/// Searches one constant of a group, the others being as in `values`.
fn search(
    free: &[&Free],
    targets: &[&Target],
    (values, known): (&mut [f64], &mut Known),
    which: usize,
    go_on: &(dyn Fn() -> bool + Sync),
) -> Option<()> {
    let key = |set: &Vec<f64>| set.iter().map(|value| value.to_bits()).collect::<Vec<_>>();
    let [mut low, mut high] = free[which].bounds;
    for round in 0..=ROUNDS {
        let points = if round == 0 { POINTS } else { FINER };
        let at = |k: usize| {
            let share = k as f64 / (points - 1) as f64;
            let value = digits((low.ln() + (high.ln() - low.ln()) * share).exp());
            if free[which].whole { value.round() } else { value }
        };
        let mut tried: Vec<f64> = (0..points).map(at).collect();
        tried.dedup();
        let sets: Vec<Vec<f64>> = tried
            .iter()
            .map(|value| {
                let mut set = values.to_vec();
                set[which] = *value;
                set
            })
            .collect();
        let new: Vec<Vec<f64>> = sets.iter().filter(|set| !known.contains_key(&key(set))).cloned().collect();
        known.extend(new.iter().map(key).zip(squares(free, targets, &new, go_on)));
        let squares: Vec<Option<f64>> =
            sets.iter().map(|set| known.get(&key(set)).copied().flatten()).collect();
        let best = least(&squares)?;
        values[which] = tried[best];
        (low, high) = (tried[best.saturating_sub(1)], tried[(best + 1).min(tried.len() - 1)]);
        // Neighbours of three digits.
        if tried.len() <= 3 {
            break;
        }
    }
    Some(())
}

fn fit_group(free: &[&Free], targets: &[&Target], go_on: &(dyn Fn() -> bool + Sync)) -> Option<Vec<f64>> {
    let mut values: Vec<f64> = free.iter().map(|free| free.middle()).collect();
    let mut known = Known::new();
    let sweeps = if free.len() > 1 { SWEEPS } else { 1 };
    for _ in 0..sweeps {
        let before = values.clone();
        for which in 0..free.len() {
            // Without a claim there is nothing to find it by.
            if targets.iter().any(|target| free[which].claims.iter().any(|id| id == target.id)) {
                search(free, targets, (&mut values, &mut known), which, go_on)?;
            }
        }
        if values == before {
            break;
        }
    }
    Some(values)
}

/// Finds the constants whose claims are all in `studies`. Ends early when `go_on` says so.
///
/// # Errors
/// If a profile is bad.
pub fn fit(studies: &[Study], go_on: &(dyn Fn() -> bool + Sync), progress: Progress) -> Result<Fit, Error> {
    let (free, targets) = (free_constants()?, targets(studies));
    let (mut rows, mut complete) = (Vec::new(), true);
    for group in groups(&free, &targets) {
        let known = |id: &String| targets.iter().any(|target| target.id == id);
        if !group.free.iter().all(|&at| free[at].claims.iter().all(known)) {
            continue;
        }
        let of: Vec<&Free> = group.free.iter().map(|&at| &free[at]).collect();
        let on: Vec<&Target> = group.targets.iter().map(|&at| &targets[at]).collect();
        let Some(values) = fit_group(&of, &on, go_on).filter(|_| go_on()) else {
            complete = false;
            break;
        };
        rows.extend(of.iter().zip(values).map(|(free, value)| FittedConstant {
            constant: free.name(),
            value,
            committed: free.committed,
            least: free.bounds[0],
            most: free.bounds[1],
            claims: free.claims.clone(),
        }));
        progress(rows.len(), free.len());
    }
    let (kpps_version, profiles_hash) = (env!("CARGO_PKG_VERSION").into(), kpps_profiles::hash([]));
    Ok(Fit { kpps_version, profiles_hash, rows, complete, ..Fit::default() })
}

/// Leaves out each *fit* claim in turn, fits its constants on the others, and predicts it. Ends early when
/// `go_on` says so.
///
/// # Errors
/// If a profile is bad.
pub fn cross_validate(
    studies: &[Study],
    go_on: &(dyn Fn() -> bool + Sync),
    progress: Progress,
) -> Result<CrossValidation, Error> {
    let (free, targets) = (free_constants()?, targets(studies));
    let groups = groups(&free, &targets);
    let mut rows = Vec::new();
    for (left_out, target) in targets.iter().enumerate() {
        let group = groups.iter().find(|group| group.targets.contains(&left_out));
        let of: Vec<&Free> = group.iter().flat_map(|group| &group.free).map(|&at| &free[at]).collect();
        let on: Vec<&Target> = group
            .iter()
            .flat_map(|group| &group.targets)
            .filter(|&&at| at != left_out)
            .map(|&at| &targets[at])
            .collect();
        let Some(values) = fit_group(&of, &on, go_on).filter(|_| go_on()) else { break };
        let told = |free: &Free| on.iter().any(|target| free.claims.iter().any(|id| id == target.id));
        let changes = of.iter().zip(&values).flat_map(|(free, value)| free.changes(*value)).collect();
        let context = Context { changes, go_on };
        let outcomes = measure(target.claim.measure.values(), &context, &|_, _| ());
        let Some(errors) = target.errors(&outcomes).filter(|_| go_on()) else { break };
        rows.push(PredictedClaim {
            claim: target.id.to_owned(),
            error: errors.into_iter().map(f64::abs).fold(0.0, f64::max),
            untold: of.iter().filter(|free| !told(free)).count(),
            without: of.iter().map(|free| free.name()).zip(values).collect(),
        });
        progress(rows.len(), targets.len());
    }
    let (kpps_version, profiles_hash) = (env!("CARGO_PKG_VERSION").into(), kpps_profiles::hash([]));
    let errors: Vec<f64> = rows.iter().map(|row| row.error).collect();
    let (median_error, complete) = (median(&errors), rows.len() == targets.len());
    let empty = CrossValidation::default();
    Ok(CrossValidation { kpps_version, profiles_hash, rows, median_error, complete, ..empty })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn three_digits_are_exact() {
        for (value, expected) in
            [(1_222_613.0, 1_220_000.0), (395.4, 395.0), (0.012_349, 0.0123), (2.0, 2.0), (9_996.0, 10_000.0)]
        {
            assert_eq!(digits(value), expected);
        }
    }

    #[test]
    fn of_equals_in_a_row_the_middle_is_taken() {
        let of = |squares: &[f64]| least(&squares.iter().map(|s| Some(*s)).collect::<Vec<_>>());
        assert_eq!(of(&[3.0, 1.0, 1.0, 1.0, 2.0]), Some(2));
        assert_eq!(of(&[3.0, 1.0, 1.0, 2.0]), Some(1));
        assert_eq!(of(&[0.5, 1.0, 0.5]), Some(0));
        assert_eq!(least(&[None, Some(1.0)]), Some(1));
        assert_eq!(least(&[None]), None);
    }
}
