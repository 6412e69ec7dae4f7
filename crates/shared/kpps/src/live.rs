//! The live view of a run: when it is shown, and its source.

use crate::error::Failure;
use crate::heading;
use crate::session::Session;
use clap::Args;
use kpps_methods::Testbed;
use kpps_rendering::live::choice::{Choice, Terminal};
use kpps_rendering::live::{Progress, Source, View};
use std::collections::BTreeMap;

/// A testbed that is ready.
pub struct OpenTestbed {
    pub testbed: Box<dyn Testbed>,
    /// The source that the live view reads while a trial runs.
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
    /// Show a full-screen view of the progress from the start [default: after 2 s, if standard input, output
    /// and error are terminals, no JSON or CSV is printed, and NO_COLOR is not set]
    #[arg(long, overrides_with = "no_live", help_heading = heading::VIEW)]
    live: bool,
    /// Show the progress in one line only
    #[arg(long, help_heading = heading::VIEW)]
    no_live: bool,
}

impl Live {
    /// Shows a run until the returned value is dropped. `for_machines`: its results are not for people.
    pub fn view(
        self,
        session: &Session,
        progress: Progress,
        source: Box<dyn Source>,
        for_machines: bool,
    ) -> Result<View, Failure> {
        let choice = Choice { live: self.live, no_live: self.no_live };
        let none = || {
            Failure::Input(
                "--live draws on standard error, which is no terminal or has TERM=dumb: leave out --live"
                    .into(),
            )
        };
        let show = choice.show(Terminal::now(), for_machines).ok_or_else(none)?;
        // A signal must not leave the view on the screen.
        session.watch();
        Ok(session.view(progress, source, show))
    }
}
