//! Bounds on what an audit counts, for CI: `--max reads-per-frame=0.1`.

use kpps_documents::audit::{Audit, Row};
use kpps_documents::guest_audit::{GuestAudit, Severity};
use std::str::FromStr;

/// A quantity of a document or a row; `None` if it was not observed.
type Of<T> = fn(&T) -> Option<f64>;

/// Quantities of a driver at a workload.
const OF_ROWS: [(&str, Of<Row>); 9] = [
    ("reads-per-frame", |row| Some(row.reads_per_frame)),
    ("writes-per-frame", |row| Some(row.writes_per_frame)),
    ("interrupts-per-frame", |row| Some(row.interrupts_per_frame)),
    ("fetches-per-frame", |row| Some(row.fetches_per_frame)),
    ("write-backs-per-frame", |row| Some(row.write_backs_per_frame)),
    ("bus-us-per-frame", |row| Some(row.bus_us_per_frame)),
    ("violations", |row| Some(row.violations.iter().map(|it| it.count as f64).sum())),
    ("lost", |row| row.lost.map(|count| count as f64)),
    ("changed", |row| row.changed.map(|count| count as f64)),
];

/// Quantities of a foreign guest.
const OF_GUESTS: [(&str, Of<GuestAudit>); 8] = [
    ("must", |audit| Some(audit.count(Severity::Must) as f64)),
    ("should", |audit| Some(audit.count(Severity::Should) as f64)),
    ("info", |audit| Some(audit.count(Severity::Info) as f64)),
    ("missed", |audit| Some(audit.missed().count() as f64)),
    ("deaf-s", |audit| {
        let deaf = |fault: &kpps_documents::guest_audit::Fault| fault.deaf_s.unwrap_or(f64::INFINITY);
        audit.faults.iter().map(deaf).reduce(f64::max)
    }),
    ("reads-per-frame", |audit| audit.work.reads_per_frame),
    ("writes-per-frame", |audit| audit.work.writes_per_frame),
    ("interrupts-per-frame", |audit| audit.work.interrupts_per_frame),
];

/// The most that a quantity may be: `reads-per-frame=0.1`.
#[derive(Clone, Debug, PartialEq)]
pub struct Bound {
    name: String,
    most: f64,
}

impl FromStr for Bound {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (name, most) = text
            .split_once('=')
            .ok_or_else(|| format!("'{text}' is no bound: give NAME=VALUE; names are {}", names()))?;
        let most = most.parse().ok().filter(|most: &f64| *most >= 0.0);
        let most = most.ok_or_else(|| format!("'{text}': the value must be a number, 0 or more"))?;
        if !of_rows().chain(of_guests()).any(|known| known == name) {
            return Err(format!("'{name}' cannot be bounded: names are {}", names()));
        }
        Ok(Self { name: name.to_owned(), most })
    }
}

fn of_rows() -> impl Iterator<Item = &'static str> {
    OF_ROWS.into_iter().map(|(name, _)| name)
}

fn of_guests() -> impl Iterator<Item = &'static str> {
    OF_GUESTS.into_iter().map(|(name, _)| name)
}

fn names() -> String {
    let [rows, guests] = [of_rows().collect::<Vec<_>>(), of_guests().collect()].map(|names| names.join(", "));
    format!("{rows}; of a foreign guest {guests}")
}

impl Bound {
    /// The name of the quantity.
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// The bound, in the unit of the quantity.
    pub(crate) const fn most(&self) -> f64 {
        self.most
    }

    /// Refuses a quantity that the audit of a foreign guest does not have.
    ///
    /// # Errors
    /// The names of the quantities that it has.
    pub fn check_of_guest(&self) -> Result<(), String> {
        let names = of_guests().collect::<Vec<_>>();
        if names.contains(&&*self.name) {
            return Ok(());
        }
        let names = names.join(", ");
        Err(format!(
            "the audit of a foreign guest does not have the quantity '{}': it has {names}",
            self.name
        ))
    }

    /// The quantities that exceed their bounds, in a line. A quantity that no row has exceeds every bound.
    pub fn exceeded(&self, audit: &Audit) -> Option<String> {
        let Self { name, most } = self;
        let Some((_, of)) = OF_ROWS.into_iter().find(|(known, _)| known == name) else {
            return Some(format!("{name}: only the audit of a foreign guest has this quantity"));
        };
        let seen: Vec<_> = audit.rows.iter().filter_map(|row| Some((row, of(row)?))).collect();
        if seen.is_empty() {
            let what = "no row has this quantity; only the workload bridge counts lost and changed frames";
            return Some(format!("{name}: {what}"));
        }
        seen.into_iter().find(|(_, value)| value > most).map(|(row, value)| {
            let Row { workload, driver, .. } = row;
            format!("{workload} {driver}: {name} is {value:.4}, above the bound {most}")
        })
    }

    /// The quantity in a line if it exceeds its bound in the audit of a guest, or was not observed.
    pub fn exceeded_by_guest(&self, audit: &GuestAudit) -> Option<String> {
        let Self { name, most } = self;
        let Some((_, of)) = OF_GUESTS.into_iter().find(|(known, _)| known == name) else {
            return Some(format!("{name}: the audit of a foreign guest does not have this quantity"));
        };
        match of(audit) {
            Some(value) if value > *most => Some(format!("{name} is {value}, above the bound {most}")),
            Some(_) => None,
            None => Some(format!("{name} was not observed: there were no frames, or no faults")),
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use kpps_documents::guest_audit::Finding;

    fn bound(text: &str) -> Result<Bound, String> {
        text.parse()
    }

    #[test]
    fn bounds_name_what_they_bound() {
        for (text, part) in [
            ("reads", "give NAME=VALUE"),
            ("reads=1", "'reads' cannot be bounded: names are reads-per-frame"),
            ("lost=-1", "must be a number, 0 or more"),
            ("lost=nan", "must be a number, 0 or more"),
        ] {
            let error = bound(text).unwrap_err();
            assert!(error.contains(part), "{error}");
        }
        let row = Row { driver: "linux".into(), reads_per_frame: 0.2, ..Row::default() };
        let audit = Audit { rows: vec![row], ..Audit::default() };
        let message = bound("reads-per-frame=0.1").unwrap().exceeded(&audit).unwrap();
        assert!(message.contains("linux: reads-per-frame is 0.2000"), "{message}");
        assert_eq!(bound("reads-per-frame=0.2").unwrap().exceeded(&audit), None);
        let none = bound("lost=0").unwrap().exceeded(&audit).unwrap();
        assert!(none.starts_with("lost: no row has this quantity"), "{none}");
        let other = bound("must=0").unwrap().exceeded(&audit).unwrap();
        assert!(other.contains("only the audit of a foreign guest"), "{other}");
    }

    #[test]
    fn a_guest_has_bounds_of_its_own() {
        let audit = GuestAudit { findings: vec![Finding::default()], ..GuestAudit::default() };
        let exceeded = |text: &str| bound(text).unwrap().exceeded_by_guest(&audit);
        assert_eq!(exceeded("must=0").unwrap(), "must is 1, above the bound 0");
        assert_eq!((exceeded("must=1"), exceeded("missed=0")), (None, None));
        bound("deaf-s=1").unwrap().check_of_guest().unwrap();
        assert!(bound("lost=0").unwrap().check_of_guest().unwrap_err().contains("it has must, should"));
        assert!(exceeded("deaf-s=1").unwrap().contains("not observed"));
        assert!(exceeded("lost=0").unwrap().contains("does not have this quantity"));
    }
}
