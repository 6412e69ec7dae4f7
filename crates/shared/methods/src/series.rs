//! Curves of several testbeds, which can be resumed from an earlier run.

use crate::curve::curve;
use crate::error::Error;
use crate::observer::{Observer, in_words};
use crate::points::Points;
use crate::resume::{Resume, measured};
use crate::trial::Load;
use kpps_documents::{Environment, Series};
use std::collections::BTreeMap;

/// A testbed with the name of its series.
pub struct NamedTestbed {
    /// The name of the series.
    pub name: String,
    /// The testbed.
    pub points: Points,
}

/// The common settings of the curves of several testbeds.
pub struct Sweep<'s> {
    /// The load of each trial; its rate is replaced by one of `loads`.
    pub load: Load,
    /// The offered loads in frames per second.
    pub loads: &'s [f64],
    /// The environment of the results.
    pub environment: &'s Environment,
    /// Whether each trial is announced, because trials take real time.
    pub in_real_time: bool,
    /// Whether a curve ends with the first load at which the tester is the limit: higher loads would show the
    /// same limit.
    pub until_limit: bool,
}

/// Measures a curve of each testbed, one after the other. Returns the series, and the error that ended them
/// early, if any. If it ended a curve, the last series has the points before the error.
pub fn sweep(
    testbeds: Vec<NamedTestbed>,
    sweep: &Sweep<'_>,
    resume: &mut Option<Resume>,
    go_on: &dyn Fn() -> bool,
    observer: &dyn Observer,
) -> (Vec<Series>, Result<(), Error>) {
    // A trial's name in the journal contains the name of its own series, but not the presets of all series:
    // another series does not change its result.
    let same = Environment { presets: BTreeMap::new(), ..sweep.environment.clone() };
    let mut all: Vec<Series> = Vec::with_capacity(testbeds.len());
    for NamedTestbed { name, mut points } in testbeds {
        observer.begins(&name, None);
        let names = sweep.loads.iter().map(|pps| serde_json::to_string(&(&same, &name, pps)));
        let names = names.collect::<Result<Vec<_>, _>>().map_err(|error| Error::Failed(error.to_string()));
        let names = match names {
            Ok(names) => names,
            Err(error) => return (all, Err(error)),
        };
        let mut trial = |load: &Load| {
            if sweep.in_real_time {
                observer.begins(&in_words(load), load.rate.pps());
            }
            Ok::<_, Error>(points.measure(load, go_on)?)
        };
        let bytes = sweep.load.sizes.mean_bytes_with_fcs() as u32;
        let cells = names.iter().map(|name| (name.as_str(), bytes));
        for at in resume.as_mut().map_or_else(Vec::new, |resume| resume.to_check(cells)) {
            let load = sweep.load.at(sweep.loads[at]);
            if let Err(error) = measured(resume, &names[at], None, observer, || trial(&load)) {
                return (all, Err(error));
            }
        }
        let mut names = names.iter();
        let measure = |load: &Load| {
            let name = names.next().map_or("", String::as_str);
            let point = measured(resume, name, None, observer, || trial(load))?;
            observer.ended(&point);
            Ok::<_, Error>(point)
        };
        let (series, ended) = curve(&name, &sweep.load, sweep.loads, go_on, sweep.until_limit, measure);
        all.push(series);
        if ended.is_err() {
            return (all, ended);
        }
    }
    (all, Ok(()))
}
