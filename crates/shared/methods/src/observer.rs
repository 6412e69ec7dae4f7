//! Observers of measurements.

use crate::trial::Load;
use kpps_documents::Trial;
use kpps_frames::rate::Rate;

/// Receives notifications of the progress of a measurement, from any thread.
pub trait Observer: Sync {
    /// The number of trials of the measurement.
    fn trials(&self, count: usize) {
        let _ = count;
    }
    /// A trial, or something else that takes time, begins; with the offered load in frames per second, if
    /// there is one.
    fn begins(&self, what: &str, offered_pps: Option<f64>) {
        let _ = (what, offered_pps);
    }
    /// A trial has ended with this result.
    fn ended(&self, point: &Trial) {
        let _ = point;
    }
    /// The measurement that began last has ended without the result of a trial.
    fn done(&self) {}
    /// A message for users about an event, in a sentence.
    fn notice(&self, what: &str) {
        let _ = what;
    }
}

/// Ignores all notifications.
impl Observer for () {}

/// The load of a trial in words.
pub fn in_words(load: &Load) -> String {
    let rate = match load.rate {
        Rate::Pps(pps) => format!("{:.1} kpps", pps / 1e3),
        Rate::Max => "the highest load".into(),
    };
    format!("{} B: {rate} for {} s", load.sizes, load.seconds())
}
