//! A transmission between the ports of a configuration: a trial on a thread of its own.

use kpps_documents::detail::DetailedTrial;
use kpps_methods::units::RateSpec;
use kpps_ports::port::run::{Late, Shape};
use kpps_tester::{
    Captured, Offer, Outcome, Stream, StreamControl, StreamNow, Tester, document, sizes_of_streams,
    streams_pps,
};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// How long frames may still arrive after the last one was sent.
const DRAIN: Duration = Duration::from_secs(1);

/// A running transmission.
pub struct Run {
    control: Arc<StreamControl>,
    thread: JoinHandle<Done>,
    begun: Instant,
}

/// The results of a transmission.
pub struct Results {
    /// The counts of each stream.
    pub counts: Vec<StreamNow>,
    /// The document, if a frame was due.
    pub document: Option<DetailedTrial>,
    /// The frames of the ports whose frames were captured.
    pub captured: BTreeMap<usize, Captured>,
}

/// A transmission that is over.
pub struct Done {
    /// The tester, for the next one.
    pub tester: Tester,
    /// The results, or why there are none.
    pub result: Result<Results, String>,
}

impl Run {
    /// Starts a trial of these streams, in which each stream waits until it is started.
    ///
    /// # Errors
    /// The tester, and why there is no thread.
    pub fn start(mut tester: Tester, streams: Arc<[Stream]>, duration: Duration) -> Result<Self, String> {
        let control = Arc::new(StreamControl::new(tester.names().len(), &streams, true));
        let its_control = control.clone();
        let work = move || {
            let load = RateSpec::Pps(streams_pps(&streams));
            tester.streams = streams.clone();
            let Some(sizes) = sizes_of_streams(&streams) else {
                return Done { tester, result: Err("there is no stream".into()) };
            };
            let offer = tester.offer(load, Shape::Constant, sizes, duration);
            let offer = Offer { late: Late::Send, control: Some(its_control.clone()), drain: DRAIN, ..offer };
            let result = tester.trial(&offer, &|| true).map_err(|error| error.to_string());
            // With the streams that were added meanwhile.
            let offer = offer.with_added();
            let result = result.map(|outcome| Results {
                counts: counts(&offer.streams, &outcome, its_control.snapshot()),
                document: document(&tester, &offer, &outcome),
                captured: outcome.captured,
            });
            Done { tester, result }
        };
        let thread = std::thread::Builder::new().name("otg".into()).spawn(work);
        let thread = thread.map_err(|error| format!("cannot start a thread: {error}"))?;
        Ok(Self { control, thread, begun: Instant::now() })
    }

    /// The control of its streams.
    pub fn control(&self) -> &StreamControl {
        &self.control
    }

    /// How long ago it was started.
    pub fn elapsed(&self) -> Duration {
        self.begun.elapsed()
    }

    /// Whether it has ended.
    pub fn is_over(&self) -> bool {
        self.thread.is_finished()
    }

    /// Ends it: senders stop, frames under way arrive, and counters are read. `None` if its thread panicked.
    pub fn finish(self) -> Option<Done> {
        self.control.end();
        self.thread.join().ok()
    }
}

/// The final counts of each stream. The last snapshot has the counts that a trial does not have for each
/// stream.
fn counts(streams: &[Stream], outcome: &Outcome, last: Vec<StreamNow>) -> Vec<StreamNow> {
    let mut last = last.into_iter();
    let directions = outcome.directions.iter();
    let mut left: BTreeMap<_, _> =
        directions.map(|it| ((it.from, it.to), it.received.streams.iter())).collect();
    let count = |stream: &Stream| {
        let before = last.next().unwrap_or_default();
        // A port that failed has no final counts.
        let of = left.get_mut(&(stream.from, stream.to)).and_then(Iterator::next);
        let Some(of) = of else { return before };
        let received = of.arrived.received;
        let received_sizes = if received == before.received { before.received_sizes } else { Vec::new() };
        let latency = of.latency.or(before.latency);
        let arrivals_ns = before.arrivals_ns;
        StreamNow { sent: of.sent, received, received_sizes, arrivals_ns, latency, is_sending: false }
    };
    streams.iter().map(count).collect()
}
