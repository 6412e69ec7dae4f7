//! The other end of the cable: frames of the test to the driver, frames of the driver, and a station.

use kpps_audit::{Coming, Partner};
use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The shortest frame without FCS in bytes (IEEE 802.3, 3.2.8).
const LEAST_BYTES: usize = 60;

#[derive(Default)]
struct Ends {
    /// Frames to the driver, each with the time from which it is due.
    to_driver: VecDeque<(u64, Coming)>,
    /// Frames of the driver with a right FCS.
    of_driver: Vec<Vec<u8>>,
    /// The link is up. Until then no frame leaves for the driver.
    is_up: bool,
    station: Option<Box<dyn Partner>>,
}

/// A handle to the other end. The card calls it, so nobody calls the card while it is locked.
#[derive(Clone, Default)]
pub(crate) struct Line(Arc<Mutex<Ends>>);

impl Line {
    fn lock(&self) -> MutexGuard<'_, Ends> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sends a frame without FCS to the driver, padded to 60 bytes as every station does.
    pub(crate) fn send(&self, now_ps: u64, frame: &[u8], good_fcs: bool) {
        let mut frame = frame.to_vec();
        frame.resize(frame.len().max(LEAST_BYTES), 0);
        self.lock().to_driver.push_back((now_ps, Coming { frame, good_fcs }));
    }

    /// Takes the driver's frames.
    pub(crate) fn received(&self) -> Vec<Vec<u8>> {
        std::mem::take(&mut self.lock().of_driver)
    }

    pub(crate) fn attach(&self, station: Option<Box<dyn Partner>>) {
        self.lock().station = station;
    }

    pub(crate) fn set_up(&self, is_up: bool) {
        self.lock().is_up = is_up;
    }
}

impl Partner for Line {
    fn take(&mut self, now_ps: u64, frame: &[u8], good_fcs: bool) {
        let mut ends = self.lock();
        if good_fcs {
            ends.of_driver.push(frame.to_vec());
        }
        if let Some(station) = &mut ends.station {
            station.take(now_ps, frame, good_fcs);
        }
    }

    fn next(&mut self, now_ps: u64) -> Option<Coming> {
        let mut ends = self.lock();
        if !ends.is_up {
            return None;
        }
        match ends.to_driver.front().is_some_and(|(due_ps, _)| *due_ps <= now_ps) {
            true => ends.to_driver.pop_front().map(|(_, coming)| coming),
            false => ends.station.as_mut()?.next(now_ps),
        }
    }

    fn due_ps(&self) -> u64 {
        let ends = self.lock();
        if !ends.is_up {
            return u64::MAX;
        }
        let own = ends.to_driver.front().map(|(due_ps, _)| *due_ps);
        let stations = ends.station.as_ref().map(|station| station.due_ps());
        own.into_iter().chain(stations).min().unwrap_or(u64::MAX)
    }
}
