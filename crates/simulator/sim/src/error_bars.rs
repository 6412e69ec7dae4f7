//! Error bars of simulated rates: the same loads on machines whose uncertain constants are drawn at random.

use crate::{AnySetup, Choice};
use kpps_documents::{Series, Trial};
use kpps_methods::statistics::central;
use kpps_methods::workers::on_all_cpus;
use kpps_methods::{Load, Points, TrialError};
use kpps_profiles::{Change, Draw, SHARE};
use std::ops::RangeInclusive;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

/// How many draws there may be: fewer than twenty have no twentieth part.
pub const DRAWS: RangeInclusive<usize> = 20..=10_000;
/// How often a draw that gives no machine is drawn again.
const ATTEMPTS: usize = 100;

impl Choice {
    /// The same with the constants of one draw. A constant that was set to a value is not drawn; one that
    /// was multiplied is drawn, and then multiplied.
    pub fn drawn(&self, draw: Draw) -> Self {
        let set = self.set.iter().cloned().chain(Change::drawn(draw)).collect();
        Self { set, ..self.clone() }
    }

    /// Adds the 5th and the 95th percentile of the delivered rate to each point of `series`, which are
    /// those of these driver presets, each measured with `load` at the point's offered load. The traffic is
    /// the same in all draws, so that only constants differ. A draw that gives no machine is drawn again: a
    /// part of a function may take longer than the whole. `ended` is called after each draw of a series.
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
                let (one, draw) = (index / draws, index % draws);
                let choice = Self { driver: Some(drivers[one].clone()), ..self.clone() };
                let setup = choice.drawn_setup(Draw::candidates(load.seed, draw, draws));
                let measured = setup.and_then(|setup| {
                    rates_of(&mut Points::new(choice.testbed(setup)), &series[one], load, go_on)
                });
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

    /// The set-up with the constants of the first of these draws that gives one.
    fn drawn_setup(&self, draws: impl Iterator<Item = Draw>) -> Result<AnySetup, TrialError> {
        let mut why = String::new();
        for draw in draws.take(ATTEMPTS) {
            match self.drawn(draw).any_setup() {
                Ok(setup) => return Ok(setup),
                Err(error) => why = error.to_string(),
            }
        }
        Err(TrialError::Testbed(format!("none of {ATTEMPTS} draws of its constants gives a machine: {why}")))
    }
}

/// The delivered rate at each point of a series.
fn rates_of(
    testbed: &mut Points,
    series: &Series,
    load: &Load,
    go_on: &dyn Fn() -> bool,
) -> Result<Vec<f64>, TrialError> {
    let rate = |point: &Trial| {
        if !go_on() {
            return Err(TrialError::Interrupted);
        }
        testbed.measure(&load.at(point.offered_pps), go_on).map(|trial| trial.delivered_pps)
    };
    series.points.iter().map(rate).collect()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
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

    /// A part that somebody knows takes nine tenths of its whole, which in four draws of ten takes less.
    #[test]
    fn a_draw_that_gives_no_machine_is_drawn_again() {
        let folder = tempfile::tempdir().unwrap();
        let write = |name: &str, text: &str| std::fs::write(folder.path().join(name), text).unwrap();
        write("stack.toml", "base = \"linux-2.6.11\"\nprequeue_cycles = 594\n");
        write("own.toml", "base = \"ols2005\"\nstack = \"stack.toml\"\n");
        let machine = folder.path().join("own.toml").display().to_string();
        let choice = Choice { machine: Some(machine), ..Choice::default() };
        let fails = |number: &usize| choice.drawn(Draw { seed: 1, number: *number as u64 }).setup().is_err();
        let failing = (0..20).find(fails).unwrap();
        assert!(choice.drawn_setup(Draw::candidates(1, failing, 20)).is_ok());
    }
}
