//! Error bars of simulated rates: the same loads on machines whose uncertain constants are drawn at random.

use crate::Choice;
use kpps_documents::Series;
use kpps_methods::statistics::central;
use kpps_methods::workers::on_all_cpus;
use kpps_methods::{Load, Points, TrialError};
use kpps_profiles::{Change, Draw, SHARE};
use std::ops::RangeInclusive;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

/// How many draws there may be: with fewer than twenty the 5th percentile is the lowest draw.
pub const DRAWS: RangeInclusive<usize> = 20..=10_000;

impl Choice {
    /// The same with the constants of one draw. Constants that were set keep their values.
    pub fn drawn(&self, draw: Draw) -> Self {
        Self {
            set: Change::drawn(draw).into_iter().chain(self.set.iter().cloned()).collect(),
            ..self.clone()
        }
    }

    /// Adds the 5th and the 95th percentile of the delivered rate to each point of `series`, which are
    /// those of these driver presets, each measured with `load` at the point's offered load. The traffic is
    /// the same in all draws, so that only constants differ. `ended` is called after each draw of a series.
    ///
    /// # Errors
    /// A drawn machine cannot be built or measured, or `go_on` ended the run. Then no point has a range.
    pub fn add_error_bars(
        &self,
        (drivers, series): (&[String], &mut [Series]),
        load: &Load,
        draws: usize,
        go_on: &(dyn Fn() -> bool + Sync),
        ended: &(dyn Fn() + Sync),
    ) -> Result<(), TrialError> {
        let work = series.len().min(drivers.len()) * draws;
        let rates: Vec<_> =
            series.iter().map(|one| vec![Vec::with_capacity(draws); one.points.len()]).collect();
        let (next, found) = (AtomicUsize::new(0), Mutex::new((rates, None)));
        on_all_cpus(work, || {
            while let index @ 0.. = next.fetch_add(1, Ordering::Relaxed)
                && index < work
            {
                let (one, number) = (index / draws, (index % draws) as u64);
                let drawn = self.drawn(Draw { seed: load.seed, number });
                let drawn = Self { driver: Some(drivers[one].clone()), ..drawn };
                let measured = drawn.rates(&series[one], load, go_on);
                let Ok(mut found) = found.lock() else { return };
                match measured {
                    Ok(rates) => {
                        found.0[one].iter_mut().zip(rates).for_each(|(of, rate)| of.push(rate));
                    }
                    Err(error) => {
                        found.1.get_or_insert(error);
                        next.store(work, Ordering::Relaxed);
                    }
                }
                drop(found);
                ended();
            }
        });
        let (rates, error) = found.into_inner().unwrap_or_default();
        if let Some(error) = error {
            return Err(error);
        }
        for (one, rates) in series.iter_mut().zip(rates) {
            for (point, rates) in one.points.iter_mut().zip(rates) {
                let range = central(&rates, SHARE);
                point.delivered_pps_p5 = range.map(|[low, _]| low);
                point.delivered_pps_p95 = range.map(|[_, high]| high);
            }
        }
        Ok(())
    }

    /// The delivered rate at each point of a series.
    fn rates(&self, series: &Series, load: &Load, go_on: &dyn Fn() -> bool) -> Result<Vec<f64>, TrialError> {
        let setup = self.setup().map_err(|error| TrialError::Testbed(error.to_string()))?;
        let mut testbed = Points::new(self.testbed(setup));
        let rate = |point: &kpps_documents::Trial| {
            if !go_on() {
                return Err(TrialError::Interrupted);
            }
            testbed.measure(&load.at(point.offered_pps), go_on).map(|trial| trial.delivered_pps)
        };
        series.points.iter().map(rate).collect()
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use kpps_documents::Trial;
    use kpps_frames::Size;
    use kpps_profiles::{Kind, names};

    /// Whatever is drawn, a machine with any of its drivers can be built.
    #[test]
    fn every_drawn_machine_is_a_machine() {
        for machine in names(Kind::Machine) {
            let choice = Choice { machine: Some(machine.clone()), ..Choice::default() };
            for driver in choice.drivers(&[]).unwrap() {
                for number in 0..20 {
                    let drawn = Choice { driver: Some(driver.clone()), ..choice.clone() };
                    let setup = drawn.drawn(Draw { seed: 1, number }).setup();
                    assert!(setup.is_ok(), "{machine} {driver} {number}: {}", setup.unwrap_err());
                }
            }
        }
    }

    #[test]
    fn a_saturated_rate_has_a_range_around_it_and_a_light_load_has_none() {
        let choice = Choice { driver: Some("click-polling".into()), ..Choice::default() };
        let drivers = ["click-polling".to_owned()];
        let load = Load::of(0.0, Size::MIN).lasting_ms(5, 10);
        let points = [100e3, 1.4e6].map(|pps| {
            Points::new(choice.testbed(choice.setup().unwrap())).measure(&load.at(pps), &|| true).unwrap()
        });
        let series = || [Series { name: "click-polling".into(), points: points.to_vec() }];
        let barred = || {
            let mut series = series();
            choice.add_error_bars((&drivers, &mut series), &load, 20, &|| true, &|| ()).unwrap();
            series
        };
        let [once] = barred();
        assert_eq!(barred(), std::slice::from_ref(&once), "equal seeds give equal bars");
        let range = |point: &Trial| [point.delivered_pps_p5.unwrap(), point.delivered_pps_p95.unwrap()];
        let [low, high] = range(&once.points[0]);
        assert!((high - low).abs() < 0.01 * high, "all of a light load arrives: {low} to {high}");
        let ([low, high], rate) = (range(&once.points[1]), once.points[1].delivered_pps);
        assert!(low < rate && rate < high && high < 2.0 * low, "{low} to {high} around {rate}");
        let mut series = series();
        let interrupted = choice.add_error_bars((&drivers, &mut series), &load, 20, &|| false, &|| ());
        assert!(matches!(interrupted, Err(TrialError::Interrupted)));
        assert_eq!(series[0].points[0].delivered_pps_p5, None);
    }
}
