//! A testbed that is ready.

use crate::simulator::OnTop;
use kpps_measure::Testbed;
use kpps_report::live::Source;
use kpps_sim::Setup;
use std::collections::BTreeMap;

/// A testbed that is ready.
pub struct Opened {
    pub testbed: Box<dyn Testbed>,
    /// What the live view reads while a trial runs.
    pub source: Box<dyn Source>,
    /// Facts about the testbed, by name.
    pub environment: BTreeMap<String, String>,
}

impl Opened {
    /// A simulated machine.
    pub fn simulated(top: OnTop, setup: Setup) -> Self {
        let parts = [
            ("machine", setup.machine.clone()),
            ("card", setup.chip.clone()),
            ("bus", setup.bus.clone()),
            ("host", setup.host.clone()),
            ("stack", setup.stack.clone()),
            ("driver", format!("{}: {}", setup.driver, setup.driver_description)),
        ];
        let parts = parts.each_ref().map(|(name, what)| (*name, &**what));
        Self::plain(top.testbed(setup), &parts)
    }

    /// A testbed that the live view cannot read while a trial runs.
    pub fn plain(testbed: Box<dyn Testbed>, environment: &[(&str, &str)]) -> Self {
        Self {
            testbed,
            source: Box::new(()),
            environment: environment.iter().map(|&(name, what)| (name.to_owned(), what.to_owned())).collect(),
        }
    }
}
