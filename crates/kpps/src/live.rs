//! The live view of a run: when it is shown, and what it reads.

use crate::error::Failure;
use crate::interrupt;
use clap::Args;
use kpps_measure::{Observer, Testbed};
use kpps_report::live::choice::{Choice, Terminal};
use kpps_report::live::{Progress, Source, View};
use kpps_results::Trial;
use std::collections::BTreeMap;

/// A testbed that is ready.
pub struct OpenTestbed {
    pub testbed: Box<dyn Testbed>,
    /// What the live view reads while a trial runs.
    pub source: Box<dyn Source>,
    /// Facts about the testbed, by name.
    pub environment: BTreeMap<String, String>,
}

impl OpenTestbed {
    /// A testbed that the live view cannot read while a trial runs.
    pub fn plain(testbed: Box<dyn Testbed>, environment: BTreeMap<String, String>) -> Self {
        Self { testbed, source: Box::new(()), environment }
    }
}

/// How much is shown while a run lasts.
#[derive(Args, Clone, Copy, Default)]
pub struct Live {
    /// Show the progress on the whole screen from the start [default: after 2 s, if standard input, output
    /// and error are a terminal, the results are not printed as JSON or CSV, and NO_COLOR is not set]
    #[arg(long, overrides_with = "no_live")]
    live: bool,
    /// Show the progress in one line only
    #[arg(long)]
    no_live: bool,
}

impl Live {
    /// Shows a run until what is returned is dropped. `for_machines`: its results are not for people.
    pub fn view(
        self,
        progress: Progress,
        source: Box<dyn Source>,
        for_machines: bool,
    ) -> Result<View, Failure> {
        let show = Choice { live: self.live, no_live: self.no_live }.show(Terminal::now(), for_machines);
        let none = || Failure::Input("--live needs a terminal as standard error".into());
        let show = show.ok_or_else(none)?;
        Ok(View::start(progress, source, show, interrupt::ask))
    }
}

/// Shows progress in one line, if standard error is a terminal: for commands without a live view.
#[cfg(any(feature = "faults", feature = "ports", feature = "study"))]
pub fn line(progress: Progress) -> View {
    use kpps_report::live::Show;
    let show = if std::io::IsTerminal::is_terminal(&std::io::stderr()) { Show::Line } else { Show::Nothing };
    View::start(progress, Box::new(()), show, || ())
}

/// Shows the progress of a measurement.
pub struct ProgressObserver(pub Progress);

impl Observer for ProgressObserver {
    fn trials(&self, count: usize) {
        self.0.wants(count);
    }
    fn begins(&self, what: &str, offered_pps: Option<f64>) {
        self.0.begins(what, offered_pps);
    }
    fn ended(&self, point: &Trial) {
        self.0.ended(point.into());
    }
    fn done(&self) {
        self.0.done();
    }
    fn notice(&self, what: &str) {
        self.0.notice(what);
    }
}
