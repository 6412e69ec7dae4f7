//! A curve: one trial for each load.

use crate::trial::{Load, TrialError};
use kpps_documents::{Series, Trial};

/// The loads of a curve in frames per second: steps of 100,000 from 100,000 up, and the line rate.
pub fn default_loads(line_pps: f64) -> Vec<f64> {
    let mut loads: Vec<f64> =
        (1u32..).map(|k| f64::from(k) * 1e5).take_while(|pps| *pps < line_pps).collect();
    loads.push(line_pps);
    loads
}

/// The loads of a curve in real time, in frames per second.
const REAL_LOADS: [f64; 20] =
    [1e4, 2e4, 4e4, 6e4, 8e4, 1e5, 1.5e5, 2e5, 3e5, 4e5, 6e5, 8e5, 1e6, 1.5e6, 2e6, 3e6, 4e6, 6e6, 8e6, 1e7];
/// How many of them for a guest: kernels in QEMU give up early.
const GUEST_LOADS: usize = 12;

/// The loads of a curve in real time, where a trial takes long: growing steps below line rate. For a guest in
/// QEMU they end at 800,000; otherwise at the `allowed` load, if that is limited.
pub fn real_loads(line_pps: f64, allowed_pps: Option<f64>, is_guest: bool) -> Vec<f64> {
    let count = if is_guest { GUEST_LOADS } else { REAL_LOADS.len() };
    let top_pps = allowed_pps.map_or(line_pps, |pps| pps.min(line_pps));
    let loads = REAL_LOADS.into_iter().take(count).filter(|pps| *pps < top_pps);
    loads.chain(allowed_pps.filter(|pps| *pps <= line_pps)).collect()
}

/// Measures one point for each of `loads` (frames per second), each as `load` otherwise. The series ends
/// early, with the points so far and an error, when `go_on` is false or a point cannot be measured. With
/// `until_limit` it ends with the first point at which the tester is the limit.
pub fn curve<E: From<TrialError>>(
    name: &str,
    load: &Load,
    loads: &[f64],
    go_on: &dyn Fn() -> bool,
    until_limit: bool,
    mut measure: impl FnMut(&Load) -> Result<Trial, E>,
) -> (Series, Result<(), E>) {
    let mut series = Series { name: name.into(), points: Vec::with_capacity(loads.len()) };
    for &offered_pps in loads {
        if !go_on() {
            return (series, Err(TrialError::Interrupted.into()));
        }
        match measure(&load.at(offered_pps)) {
            Ok(point) => {
                let is_limit = point.limit().is_some();
                series.points.push(point);
                if until_limit && is_limit {
                    break;
                }
            }
            Err(error) => return (series, Err(error)),
        }
    }
    (series, Ok(()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Testbed;
    use kpps_documents::{Latency, Ledger, Registers};
    use kpps_frames::{Mix, Size};
    use std::cell::Cell;

    /// Delivers up to a limit, and drops the rest; could not send some frames more.
    struct Limit(f64, u64);

    impl Testbed for Limit {
        fn line_rate_pps(&self, _: &Mix) -> Result<f64, TrialError> {
            Ok(1000.0)
        }
        fn trial_while(&mut self, load: &Load, _: &dyn Fn() -> bool) -> Result<Trial, TrialError> {
            let line_pps = self.line_rate_pps(&load.sizes)?;
            let pps = load.rate.pps_of(line_pps);
            if pps > line_pps {
                return Err(TrialError::Load("too much".into()));
            }
            let sent = pps as u64;
            let delivered = sent.min(self.0 as u64);
            let ledger = Ledger {
                sent,
                delivered,
                dropped: [("fifo".to_owned(), sent - delivered)].into(),
                ..Ledger::default()
            };
            let trial = Trial::new(pps, 1.0, [sent, self.1, delivered], ledger);
            let trial = trial.ok_or_else(|| TrialError::nothing_due(load))?;
            Ok(trial
                .with_driver(delivered, Some(delivered / 2), Some([delivered, 2 * delivered]))
                .with_allocations(3 * delivered))
        }
    }

    /// The curve of a testbed.
    fn of(
        mut testbed: Limit,
        loads: &[f64],
        go_on: &dyn Fn() -> bool,
        done: &Cell<u32>,
    ) -> (Series, Result<(), TrialError>) {
        curve("limit", &load(), loads, go_on, false, |load| {
            let trial = testbed.trial_while(load, go_on)?;
            done.set(done.get() + 1);
            Ok(trial)
        })
    }

    fn load() -> Load {
        Load::of(0.0, Size::MIN)
    }

    #[test]
    fn real_loads_are_below_line_rate() {
        assert_eq!(real_loads(50e3, None, false), [1e4, 2e4, 4e4]);
        assert_eq!(real_loads(50e3, Some(25e3), false), [1e4, 2e4, 25e3]);
        assert_eq!(real_loads(50e3, Some(2e6), false), [1e4, 2e4, 4e4]);
        assert_eq!(real_loads(1e9, None, false).last(), Some(&1e7));
        assert_eq!(real_loads(1e9, None, true).last(), Some(&8e5));
    }

    #[test]
    fn a_curve_may_end_where_the_tester_is_the_limit() {
        let measure = |load: &Load| Limit(1e3, if load.rate.pps() > Some(50.0) { 7 } else { 0 }).trial(load);
        for (until_limit, points) in [(true, 2), (false, 3)] {
            let (series, end) = curve("limit", &load(), &[50.0, 60.0, 70.0], &|| true, until_limit, measure);
            assert!(end.is_ok() && series.points.len() == points);
        }
    }

    #[test]
    fn a_point_for_each_load() {
        let (Series { points, .. }, end) =
            of(Limit(100.0, 0), &[50.0, 100.0, 200.0], &|| true, &Cell::default());
        assert!(end.is_ok());
        let shown: Vec<_> = points.iter().map(|p| (p.delivered_pps, p.loss_ratio)).collect();
        assert_eq!(shown, [(50.0, 0.0), (100.0, 0.0), (100.0, 0.5)]);
        assert_eq!(points[2].registers_per_frame, Some(Registers { read: 1.0, write: 2.0 }));
        assert_eq!(points[2].interrupts_per_s, Some(50.0));
        assert_eq!((points[2].cpu, points[2].cpu_busy, points[2].bus_busy), (None, None, None));
        assert_eq!(points[2].allocations_per_frame, Some(3.0));
        assert_eq!(points[2].latency_ns, Latency::default());
        assert!(points[2].ledger.closes());
    }

    #[test]
    fn what_could_not_be_sent_is_no_loss_of_the_device() {
        let (Series { points, .. }, _) = of(Limit(50.0, 25), &[75.0], &|| true, &Cell::default());
        assert_eq!((points[0].sent_pps, points[0].shortfall, points[0].loss_ratio), (75.0, 25, 25.0 / 75.0));
    }

    #[test]
    fn nothing_delivered_has_nothing_per_frame() {
        let (Series { points, .. }, _) = of(Limit(0.0, 0), &[50.0], &|| true, &Cell::default());
        assert_eq!((points[0].delivered_pps, points[0].loss_ratio), (0.0, 1.0));
        assert_eq!((points[0].registers_per_frame, points[0].allocations_per_frame), (None, None));
    }

    #[test]
    fn an_interrupted_curve_keeps_its_points() {
        let done = Cell::new(0);
        let (series, end) = of(Limit(100.0, 0), &[50.0, 100.0, 200.0], &|| done.get() < 2, &done);
        assert_eq!(series.points.len(), 2);
        assert!(matches!(end, Err(TrialError::Interrupted)));
    }

    #[test]
    fn a_failed_trial_loses_none_before_it() {
        let (series, end) = of(Limit(1.0, 0), &[50.0, 2000.0, 60.0], &|| true, &Cell::default());
        assert_eq!(series.points.len(), 1);
        assert!(matches!(end, Err(TrialError::Load(_))));
    }

    #[test]
    fn the_default_loads_end_at_line_rate() {
        let loads = default_loads(1_488_095.2);
        assert_eq!((loads.len(), loads[0], loads[13], loads[14]), (15, 1e5, 1.4e6, 1_488_095.2));
        assert_eq!(default_loads(81_274.0), [81_274.0]);
    }
}
