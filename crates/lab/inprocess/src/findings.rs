//! The broken rules, for tests to compare and for people to read.

use kpps_audit::{Breach, Counts, Severity};
use std::fmt;

/// Rules of the manual that a driver broke, the gravest first.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Findings(Vec<Breach>);

impl Findings {
    /// Sorts breaches.
    pub(crate) fn new(mut breaches: Vec<Breach>) -> Self {
        breaches.sort_by_key(|it| (it.severity(), it.at_ps));
        Self(breaches)
    }

    /// All of them.
    pub fn all(&self) -> &[Breach] {
        &self.0
    }

    /// Whether no rule is broken.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The findings of this severity.
    #[must_use]
    pub fn of(&self, severity: Severity) -> Self {
        Self(self.0.iter().filter(|it| it.severity() == severity).cloned().collect())
    }

    /// The names of the rules, in order of the alphabet, each once.
    pub fn names(&self) -> Vec<&'static str> {
        let mut names: Vec<_> = self.0.iter().map(|it| it.rule.name()).collect();
        names.sort_unstable();
        names.dedup();
        names
    }
}

impl fmt::Display for Findings {
    /// A paragraph for each finding; nothing if there is none.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for Breach { rule, register, section, count, at_ps, access, sentence, .. } in &self.0 {
            let times = if *count == 1 { "once".to_owned() } else { format!("{count} times") };
            let (severity, name, at_s) = (rule.severity().name(), rule.name(), *at_ps as f64 / 1e12);
            writeln!(
                f,
                "{severity:<6} {name} ({register}; manual {section}), {times}, first at {at_s:.6} s"
            )?;
            writeln!(f, "       {sentence}")?;
            for (word, text) in
                [("A real card", rule.silicon()), ("Remedy", rule.advice()), ("Seen at", access)]
            {
                if !text.is_empty() {
                    writeln!(f, "       {word}: {text}")?;
                }
            }
        }
        Ok(())
    }
}

/// The work of a driver with its card for each frame that it sent or received.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PerFrame {
    /// Reads of registers.
    pub reads: f64,
    /// Writes of registers.
    pub writes: f64,
    /// Interrupts.
    pub interrupts: f64,
}

impl PerFrame {
    /// Of these counts; `None` without a frame.
    pub fn of(counts: &Counts) -> Option<Self> {
        Some(Self {
            reads: counts.per_frame(counts.reads.values().sum())?,
            writes: counts.per_frame(counts.writes.values().sum())?,
            interrupts: counts.per_frame(counts.interrupts)?,
        })
    }
}
