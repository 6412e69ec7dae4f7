//! The live view of a run: when it is shown, and what it reads.

#[cfg(feature = "ports")]
mod ports;

use crate::error::Failure;
use crate::interrupt;
use clap::Args;
use kpps_measure::Observer;
use kpps_report::live::{Ended, Processor, Progress, Show, Source, View};
use kpps_results::Trial;
use std::io::IsTerminal;
use std::time::Duration;

#[cfg(feature = "ports")]
pub use ports::{Metered, Trials};

/// A view of the whole screen is for runs that are longer.
const CALM: Duration = Duration::from_secs(2);

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

/// What standard input, output and error are.
#[derive(Clone, Copy)]
struct Outside {
    input: bool,
    output: bool,
    error: bool,
    /// Nothing can be drawn there.
    dumb: bool,
    /// NO_COLOR is set (no-color.org).
    plain: bool,
}

impl Outside {
    fn now() -> Self {
        Self {
            input: std::io::stdin().is_terminal(),
            output: std::io::stdout().is_terminal(),
            error: std::io::stderr().is_terminal(),
            dumb: std::env::var_os("TERM").is_none_or(|term| term == "dumb"),
            plain: std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty()),
        }
    }
}

impl Live {
    /// Shows a run until what is returned is dropped. `for_machines`: its results are not for people.
    pub fn view(
        self,
        progress: Progress,
        source: Box<dyn Source>,
        for_machines: bool,
    ) -> Result<View, Failure> {
        let show = self.show(Outside::now(), for_machines)?;
        Ok(View::start(progress, source, show, interrupt::ask))
    }

    fn show(self, outside: Outside, for_machines: bool) -> Result<Show, Failure> {
        let Outside { input, output, error, dumb, plain } = outside;
        if self.live {
            return match error && !dumb {
                true => Ok(Show::Screen { after: Duration::ZERO, colour: !plain }),
                false => Err(Failure::Input("--live needs a terminal as standard error".into())),
            };
        }
        let whole_screen = input && output && error && !dumb && !plain && !for_machines;
        Ok(match (error, whole_screen && !self.no_live) {
            (false, _) => Show::Nothing,
            (true, false) => Show::Line,
            (true, true) => Show::Screen { after: CALM, colour: true },
        })
    }
}

/// A line on a terminal, where there is more to wait for than to see.
#[cfg(any(feature = "ports", feature = "study"))]
pub fn line(progress: Progress) -> View {
    let show = if std::io::stderr().is_terminal() { Show::Line } else { Show::Nothing };
    View::start(progress, Box::new(()), show, || ())
}

/// Shows a measurement.
pub struct Watched(pub Progress);

impl Observer for Watched {
    fn trials(&self, count: usize) {
        self.0.wants(count);
    }
    fn begins(&self, what: &str, offered_pps: Option<f64>) {
        self.0.begins(what, offered_pps);
    }
    fn ended(&self, point: &Trial) {
        self.0.ended(ended(point));
    }
    fn failed(&self) {
        self.0.done();
    }
}

/// What became of a trial.
fn ended(point: &Trial) -> Ended {
    let ledger = &point.ledger;
    let processor = point.cpu.map(|cpu| Processor {
        busy: vec![
            ("interrupts", cpu.hardirq),
            ("softirqs", cpu.softirq),
            ("threads", cpu.thread),
            ("empty polls", cpu.empty_polls.unwrap_or(0.0)),
        ],
        idle: 1.0 - cpu.busy(),
    });
    Ended {
        offered_pps: Some(point.offered_pps),
        sent_pps: point.sent_pps,
        received_pps: point.delivered_pps,
        loss_ratio: point.loss_ratio,
        due: ledger.sent + ledger.shortfall,
        arrived: ledger.delivered + ledger.in_flight,
        dropped: ledger.losses().into_iter().map(|(place, frames)| (place.to_owned(), frames)).collect(),
        processors: processor.into_iter().collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_view_is_for_people_at_a_terminal() {
        let terminal = Outside { input: true, output: true, error: true, dumb: false, plain: false };
        let nowhere = Outside { input: false, output: false, error: false, dumb: true, plain: false };
        let usual = Live::default();
        let show = |live: Live, outside, for_machines| live.show(outside, for_machines).ok();
        let calm = Some(Show::Screen { after: CALM, colour: true });
        assert_eq!(show(usual, terminal, false), calm);
        assert_eq!(show(usual, nowhere, false), Some(Show::Nothing));
        for less in [
            Outside { input: false, ..terminal },
            Outside { output: false, ..terminal },
            Outside { dumb: true, ..terminal },
            Outside { plain: true, ..terminal },
        ] {
            assert_eq!(show(usual, less, false), Some(Show::Line));
        }
        assert_eq!(show(usual, terminal, true), Some(Show::Line), "with --json");
        let (asked, refused) = (Live { live: true, no_live: false }, Live { live: false, no_live: true });
        assert_eq!(show(refused, terminal, false), Some(Show::Line));
        let at_once = |colour| Some(Show::Screen { after: Duration::ZERO, colour });
        assert_eq!(show(asked, Outside { output: false, ..terminal }, true), at_once(true));
        assert_eq!(show(asked, Outside { plain: true, ..terminal }, false), at_once(false));
        assert_eq!(show(asked, nowhere, false), None);
        assert_eq!(show(asked, Outside { dumb: true, ..terminal }, false), None);
    }

    #[test]
    fn what_became_of_a_trial_closes_as_its_ledger_does() {
        let ledger = kpps_results::Ledger {
            sent: 900,
            shortfall: 100,
            delivered: 600,
            dropped: [("fifo".to_owned(), 200)].into(),
            in_flight: 60,
            ..kpps_results::Ledger::default()
        };
        let ended = ended(&Trial { ledger, ..Trial::default() });
        assert_eq!((ended.due, ended.arrived, ended.processors.len()), (1000, 660, 0));
        assert_eq!(ended.dropped.values().sum::<u64>(), ended.due - ended.arrived);
    }
}
