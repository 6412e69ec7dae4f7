//! What came out: one outcome a case, none left out.

use serde::{Deserialize, Serialize};
use std::fmt;

/// How a case ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "result", rename_all = "kebab-case")]
pub enum Outcome {
    /// As the manual says.
    Pass,
    /// Not as it should be.
    Fail {
        /// What was wrong.
        reason: String,
    },
    /// Not as the manual says, but as this device is known to do; that it still does so was
    /// checked.
    Departure {
        /// What it does differently.
        what: String,
        /// Why that is so.
        reason: String,
        /// Where the manual says otherwise.
        manual: String,
    },
    /// The chip has no such thing.
    NotApplicable {
        /// Why not.
        reason: String,
    },
}

/// One case and its outcome.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Case {
    /// Its name: area, then what was tried.
    pub name: String,
    /// How it ended.
    #[serde(flatten)]
    pub outcome: Outcome,
    /// How long it took on the wall, in ms.
    pub millis: u64,
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

/// How many cases ended in each way.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Passed.
    pub passed: usize,
    /// Failed.
    pub failed: usize,
    /// Departed as known.
    pub departed: usize,
    /// Not applicable to the chip.
    pub not_applicable: usize,
}

impl Report {
    /// How many cases ended in each way.
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

    /// Whether nothing failed and anything ran at all.
    pub fn is_good(&self) -> bool {
        let counts = self.counts();
        counts.failed == 0 && counts.passed > 0
    }

    /// All counts and the time taken, in one line.
    pub fn summary(&self) -> String {
        let Counts { passed, failed, departed, not_applicable } = self.counts();
        let millis: u64 = self.cases.iter().map(|case| case.millis).sum();
        let (seconds, tenths) = (millis / 1000, millis % 1000 / 100);
        format!(
            "{} on {}: {passed} passed, {failed} failed, {departed} depart from the manual as \
             known, {not_applicable} not applicable; {seconds}.{tenths} s",
            self.chip, self.device
        )
    }

    /// The exit status of a command that ran the suite: 0 if it [`is_good`](Self::is_good),
    /// else 1.
    pub fn exit_status(&self) -> u8 {
        u8::from(!self.is_good())
    }
}

impl fmt::Display for Case {
    /// One line, and one more for whatever needs explaining.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mark = match self.outcome {
            Outcome::Pass => "pass",
            Outcome::Fail { .. } => "FAIL",
            Outcome::Departure { .. } => "departs",
            Outcome::NotApplicable { .. } => "n/a",
        };
        write!(f, "{mark:>8}  {:<44} {:>6} ms", self.name, self.millis)?;
        match &self.outcome {
            Outcome::Pass => Ok(()),
            Outcome::Fail { reason } | Outcome::NotApplicable { reason } => {
                write!(f, "\n          {reason}")
            }
            Outcome::Departure { what, reason, manual } => {
                write!(f, "\n          {what} ({manual}): {reason}")
            }
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
        let case = |outcome| Case { name: "a: b".into(), outcome, millis: 3 };
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
