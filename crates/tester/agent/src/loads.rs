//! The ports in use, and their permitted load: the operator's highest load is that of all ports together.

use kpps_frames::rate::Rate;
use kpps_ports::port::run::Shape;
use kpps_tester::Allowed;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Limits of frames relayed before a trial: at once, and per second, unless the rules are stricter.
const RELAYED: f64 = 64.0;
const RELAYED_PPS: f64 = 1000.0;

/// The ports in use.
pub(crate) struct Loads {
    allowed: Allowed,
    state: Mutex<State>,
}

struct State {
    /// The load of each port in use, in frames per second; 0 between trials.
    ports: BTreeMap<String, f64>,
    /// Frames that may be relayed, and since when there are no fewer.
    relays: f64,
    since: Instant,
}

/// A port in use until this is dropped.
pub(crate) struct InUse {
    loads: Arc<Loads>,
    name: String,
}

impl Loads {
    pub fn new(allowed: Allowed) -> Self {
        let state = State { ports: BTreeMap::new(), relays: RELAYED, since: Instant::now() };
        Self { allowed, state: Mutex::new(state) }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes a port; `None` if it is in use.
    pub fn take(self: &Arc<Self>, name: &str) -> Option<InUse> {
        let mut state = self.state();
        if state.ports.contains_key(name) {
            return None;
        }
        state.ports.insert(name.to_owned(), 0.0);
        Some(InUse { loads: self.clone(), name: name.to_owned() })
    }

    /// Whether one more frame may be relayed now.
    pub fn may_relay(&self) -> bool {
        let a_second = self.allowed.load_pps.min(RELAYED_PPS);
        let mut state = self.state();
        let passed_s = state.since.elapsed().as_secs_f64();
        state.relays = (state.relays + a_second * passed_s).min(RELAYED.max(a_second));
        state.since = Instant::now();
        let may = state.relays >= 1.0;
        state.relays -= if may { 1.0 } else { 0.0 };
        may
    }
}

impl InUse {
    /// The port's name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Lets the port send this load, in place of an earlier one, if the rules allow that beside the loads of
    /// other ports.
    ///
    /// # Errors
    /// The limit that is exceeded, in words.
    pub fn sends(&self, load: Rate, shape: Shape, duration: Duration) -> Result<(), String> {
        self.try_sends(load, shape, duration)
            .map_err(|what| format!("the operator of {} does not allow {what}", self.name))
    }

    fn try_sends(&self, load: Rate, shape: Shape, duration: Duration) -> Result<(), String> {
        let allowed = &self.loads.allowed;
        allowed.check(load, shape, duration)?;
        let peak_pps = shape.peak_pps(load);
        let mut state = self.loads.state();
        let others = state.ports.iter().filter(|(name, _)| **name != self.name).map(|(_, pps)| pps);
        let others: f64 = others.sum();
        if peak_pps + others > allowed.load_pps {
            return Err(format!(
                "{:.1} kpps beside the {:.1} kpps of other ports: at most {:.1} kpps are allowed in all",
                peak_pps / 1e3,
                others / 1e3,
                allowed.load_pps / 1e3
            ));
        }
        state.ports.insert(self.name.clone(), peak_pps);
        Ok(())
    }

    /// The port sends no more.
    pub fn rests(&self) {
        self.loads.state().ports.insert(self.name.clone(), 0.0);
    }
}

impl Drop for InUse {
    fn drop(&mut self) {
        self.loads.state().ports.remove(&self.name);
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn loads(load_pps: f64) -> Arc<Loads> {
        Arc::new(Loads::new(Allowed { load_pps, duration: SECOND }))
    }

    #[test]
    fn the_highest_load_is_that_of_all_ports_together() {
        let loads = loads(5000.0);
        let [a, b] = ["a", "b"].map(|name| loads.take(name).unwrap());
        let sends = |port: &InUse, pps| port.sends(Rate::Pps(pps), Shape::Constant, SECOND);
        sends(&a, 3000.0).unwrap();
        let said = sends(&b, 2001.0).unwrap_err();
        let said = said.strip_prefix("the operator of b does not allow ").unwrap();
        assert_eq!(said, "2.0 kpps beside the 3.0 kpps of other ports: at most 5.0 kpps are allowed in all");
        assert!(b.sends(Rate::Pps(10.0), Shape::Ramp(4000.0, SECOND), SECOND).is_err());
        sends(&b, 2000.0).unwrap();
        // A change replaces the previous load; a refused change changes nothing.
        assert!(sends(&a, 3001.0).is_err());
        sends(&a, 2000.0).unwrap();
        sends(&b, 3000.0).unwrap();
        b.rests();
        sends(&a, 5000.0).unwrap();
        drop(a);
        sends(&b, 5000.0).unwrap();
        assert!(sends(&b, f64::NAN).is_err() && b.sends(Rate::Max, Shape::Constant, SECOND).is_err());
        assert!(loads.take("b").is_none() && loads.take("a").is_some());
    }

    #[test]
    fn without_a_limit_all_ports_may_flood() {
        let loads = loads(f64::INFINITY);
        let all = ["a", "b", "c"].map(|name| loads.take(name).unwrap());
        assert!(all.iter().all(|port| port.sends(Rate::Max, Shape::Constant, SECOND).is_ok()));
        assert!(all[0].sends(Rate::Pps(1.0), Shape::Constant, SECOND).is_ok());
    }

    #[test]
    fn what_was_not_relayed_is_not_saved_up() {
        let loads = loads(10.0);
        loads.state().since = Instant::now().checked_sub(Duration::from_secs(60)).unwrap();
        let relayed = (0..1000).filter(|_| loads.may_relay()).count();
        // A busy machine may take a moment, in which some more may go.
        assert!((64..=80).contains(&relayed), "{relayed}");
    }
}
