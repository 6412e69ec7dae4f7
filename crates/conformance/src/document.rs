//! The report as published.

use crate::{Case, Outcome, Report};
use kpps_results::inventory::{Selftest, SelftestCase, SelftestResult};

impl Report {
    /// The document.
    pub fn document(&self) -> Selftest {
        Selftest {
            device: self.device.clone(),
            chip: self.chip.clone(),
            cases: self.cases.iter().map(case).collect(),
            ..Selftest::default()
        }
    }
}

fn case(Case { name, outcome, millis }: &Case) -> SelftestCase {
    let case = SelftestCase { name: name.clone(), millis: *millis, ..SelftestCase::default() };
    match outcome.clone() {
        Outcome::Pass => case,
        Outcome::Fail { reason } => {
            SelftestCase { result: SelftestResult::Fail, reason: Some(reason), ..case }
        }
        Outcome::Departure { what, reason, manual } => SelftestCase {
            result: SelftestResult::Departure,
            what: Some(what),
            reason: Some(reason),
            manual: Some(manual),
            ..case
        },
        Outcome::NotApplicable { reason } => {
            SelftestCase { result: SelftestResult::NotApplicable, reason: Some(reason), ..case }
        }
    }
}
