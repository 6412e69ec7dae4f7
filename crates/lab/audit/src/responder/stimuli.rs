//! All stimuli together: at most one of each kind at a time. They share the wire in order of time.

use super::disturb::Disturb;
use super::echo::Echo;
use super::overrun::Burst;
use super::path::{Answer, Path};
use super::probe::Probe;
use super::resolve::Resolve;
use crate::cards::Coming;

/// The stimuli that were started last.
#[derive(Debug, Default)]
pub struct Stimuli {
    /// ARP requests.
    pub resolve: Option<Resolve>,
    /// Slow echo requests over ICMP.
    pub ping: Option<Echo>,
    /// Fast echo requests over ICMP.
    pub flood: Option<Echo>,
    /// Echo requests over UDP.
    pub udp: Option<Echo>,
    /// A burst of frames.
    pub burst: Option<Burst>,
    /// Requests for the times of deafness.
    pub probe: Option<Probe>,
    /// Frames that a station should drop, or bear.
    pub disturb: Option<Disturb>,
}

/// The number of kinds.
const KINDS: usize = 7;

impl Stimuli {
    /// When each stimulus is due, in ps; `u64::MAX` if it is not.
    fn dues(&self) -> [u64; KINDS] {
        let echo = |it: &Option<Echo>| it.as_ref().map_or(u64::MAX, Echo::due_ps);
        [
            self.resolve.as_ref().map_or(u64::MAX, Resolve::due_ps),
            self.probe.as_ref().map_or(u64::MAX, Probe::due_ps),
            echo(&self.ping),
            echo(&self.udp),
            echo(&self.flood),
            self.burst.as_ref().map_or(u64::MAX, Burst::due_ps),
            self.disturb.as_ref().map_or(u64::MAX, Disturb::due_ps),
        ]
    }

    /// When a stimulus is due next, in ps; `u64::MAX` if none is.
    pub fn due_ps(&self) -> u64 {
        self.dues().into_iter().min().unwrap_or(u64::MAX)
    }

    /// The next frame of the stimuli, if one is due.
    pub fn next(&mut self, now_ps: u64, path: &Path) -> Option<Coming> {
        let dues = self.dues();
        let mut order: [usize; KINDS] = std::array::from_fn(|kind| kind);
        order.sort_by_key(|kind| dues[*kind]);
        let is_due = |kind: &usize| dues[*kind] <= now_ps;
        order.into_iter().filter(is_due).find_map(|kind| {
            let frame = match kind {
                0 => self.resolve.as_mut()?.next(now_ps, path),
                1 => self.probe.as_mut()?.next(now_ps, path),
                2 => self.ping.as_mut()?.next(now_ps, path),
                3 => self.udp.as_mut()?.next(now_ps, path),
                4 => self.flood.as_mut()?.next(now_ps, path),
                5 => self.burst.as_mut()?.next(now_ps, path),
                _ => return self.disturb.as_mut()?.next(now_ps, path),
            };
            frame.map(|frame| Coming { frame, good_fcs: true })
        })
    }

    /// Takes an answer of the guest.
    pub fn take(&mut self, now_ps: u64, answer: &Answer<'_>) {
        if let Some(resolve) = &mut self.resolve {
            resolve.take(now_ps, answer);
        }
        for echo in [&mut self.ping, &mut self.flood, &mut self.udp].into_iter().flatten() {
            echo.take(now_ps, answer);
        }
        if let Some(burst) = &mut self.burst {
            burst.take(answer);
        }
        if let Some(probe) = &mut self.probe {
            probe.take(now_ps, answer);
        }
        if let Some(disturb) = &mut self.disturb {
            disturb.take(answer);
        }
    }
}
