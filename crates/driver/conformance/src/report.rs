//! The report of a run: one outcome for each case.

use serde::{Deserialize, Serialize};
use std::fmt;

/// The outcome of a case.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "result", rename_all = "kebab-case")]
pub enum Outcome {
    /// The device behaves as the manual says.
    Pass,
    /// The device does not.
    Fail {
        /// The reason of the failure.
        reason: String,
    },
    /// The device departs from the manual in a known way, which was checked.
    Departure {
        /// The device's behaviour.
        what: String,
        /// The reason.
        reason: String,
        /// The section of the manual.
        manual: String,
    },
    /// The case does not apply to this chip or fixture.
    NotApplicable {
        /// The reason.
        reason: String,
    },
}

/// One case and its outcome.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Case {
    /// Its name: the area, then what it checks.
    pub name: String,
    /// Its outcome.
    #[serde(flatten)]
    pub outcome: Outcome,
    /// Its wall-clock time, in ms, of all attempts.
    pub millis: u64,
    /// The reason why the attempt before this one failed, if there was one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failed_before: Option<String>,
}

/// The whole suite on one device.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Report {
    /// The device: "QEMU 7.2.22 e1000", "model".
    pub device: String,
    /// The chip's name.
    pub chip: String,
    /// All cases, in the order in which they ran.
    pub cases: Vec<Case>,
}

/// The number of cases with each outcome.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Passed.
    pub passed: usize,
    /// Failed.
    pub failed: usize,
    /// Known departures.
    pub departed: usize,
    /// Not applicable to the chip.
    pub not_applicable: usize,
}

impl Report {
    /// The number of cases with each outcome.
    pub fn counts(&self) -> Counts {
        let mut counts = Counts::default();
        for case in &self.cases {
            *match case.outcome {
                Outcome::Pass => &mut counts.passed,
                Outcome::Fail { .. } => &mut counts.failed,
                Outcome::Departure { .. } => &mut counts.departed,
                Outcome::NotApplicable { .. } => &mut counts.not_applicable,
            } += 1;
        }
        counts
    }

    /// Success, or the failure in words.
    ///
    /// # Errors
    /// The number of cases that failed.
    pub fn verdict(&self) -> Result<(), String> {
        let (failed, all) = (self.counts().failed, self.cases.len());
        if self.is_good() { Ok(()) } else { Err(format!("{failed} of {all} cases failed")) }
    }

    /// Whether no case failed and at least one ran.
    pub fn is_good(&self) -> bool {
        let counts = self.counts();
        counts.failed == 0 && counts.passed > 0
    }

    /// All counts and the time, in one line.
    pub fn summary(&self) -> String {
        let Counts { passed, failed, departed, not_applicable } = self.counts();
        let millis: u64 = self.cases.iter().map(|case| case.millis).sum();
        let (seconds, tenths) = (millis / 1000, millis % 1000 / 100);
        let again = self.cases.iter().filter(|case| case.failed_before.is_some()).count();
        let again = if again > 0 { format!(", {again} of these tried again") } else { String::new() };
        format!(
            "{} on {}: {passed} passed, {failed} failed, {departed} depart from the manual as \
             known, {not_applicable} not applicable{again}; {seconds}.{tenths} s",
            self.chip, self.device
        )
    }

    /// The exit status of a command that ran the suite: 0 if it [`is_good`](Self::is_good), otherwise 1.
    pub fn exit_status(&self) -> u8 {
        u8::from(!self.is_good())
    }
}

impl fmt::Display for Case {
    /// One line, and another one for an explanation.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mark = match self.outcome {
            Outcome::Pass => "pass",
            Outcome::Fail { .. } => "FAIL",
            Outcome::Departure { .. } => "departs",
            Outcome::NotApplicable { .. } => "n/a",
        };
        write!(f, "{mark:>8}  {:<44} {:>6} ms", self.name, self.millis)?;
        match &self.outcome {
            Outcome::Pass => {}
            Outcome::Fail { reason } | Outcome::NotApplicable { reason } => {
                write!(f, "\n          {reason}")?;
            }
            Outcome::Departure { what, reason, manual } => {
                write!(f, "\n          {what} ({manual}): {reason}")?;
            }
        }
        match &self.failed_before {
            None => Ok(()),
            Some(reason) => write!(f, "\n          an earlier attempt failed: {reason}"),
        }
    }
}

impl fmt::Display for Report {
    /// All cases and the summary.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for case in &self.cases {
            writeln!(f, "{case}")?;
        }
        f.write_str(&self.summary())
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn report(outcomes: Vec<Outcome>) -> Report {
        let case = |outcome| Case { name: "a: b".into(), outcome, millis: 3, failed_before: None };
        Report {
            device: "model".into(),
            chip: "82540em".into(),
            cases: outcomes.into_iter().map(case).collect(),
        }
    }

    #[test]
    fn only_failures_and_nothing_at_all_are_bad() {
        let failed = Outcome::Fail { reason: "x".into() };
        let absent = Outcome::NotApplicable { reason: "x".into() };
        let departs = Outcome::Departure { what: "x".into(), reason: "y".into(), manual: "SDM 1".into() };
        assert_eq!(report(vec![Outcome::Pass, departs.clone(), absent.clone()]).exit_status(), 0);
        assert_eq!(report(vec![Outcome::Pass, failed]).exit_status(), 1);
        assert_eq!(report(vec![absent]).exit_status(), 1);
        assert_eq!(report(vec![]).exit_status(), 1);
    }

    #[test]
    fn survives_json() {
        let departs = Outcome::Departure { what: "x".into(), reason: "y".into(), manual: "SDM 1".into() };
        let report = report(vec![Outcome::Pass, departs]);
        let text = serde_json::to_string(&report).unwrap();
        assert!(text.contains(r#"{"name":"a: b","result":"pass","millis":3}"#), "{text}");
        assert_eq!(serde_json::from_str::<Report>(&text).unwrap(), report);
    }
}
