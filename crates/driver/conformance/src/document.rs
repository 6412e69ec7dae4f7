//! The report as published.

use crate::{Case, Outcome, Report};
use kpps_documents::inventory::{Conformance, ConformanceCase, ConformanceResult};

impl Report {
    /// The document.
    pub fn document(&self) -> Conformance {
        Conformance {
            device: self.device.clone(),
            chip: self.chip.clone(),
            cases: self.cases.iter().map(case).collect(),
            ..Conformance::default()
        }
    }
}

fn case(Case { name, outcome, millis, failed_before }: &Case) -> ConformanceCase {
    let case = ConformanceCase {
        name: name.clone(),
        millis: *millis,
        failed_before: failed_before.clone(),
        ..ConformanceCase::default()
    };
    match outcome.clone() {
        Outcome::Pass => case,
        Outcome::Fail { reason } => {
            ConformanceCase { result: ConformanceResult::Fail, reason: Some(reason), ..case }
        }
        Outcome::Departure { what, reason, manual } => ConformanceCase {
            result: ConformanceResult::Departure,
            what: Some(what),
            reason: Some(reason),
            manual: Some(manual),
            ..case
        },
        Outcome::NotApplicable { reason } => {
            ConformanceCase { result: ConformanceResult::NotApplicable, reason: Some(reason), ..case }
        }
    }
}
