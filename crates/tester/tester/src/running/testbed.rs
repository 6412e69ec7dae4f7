//! The tester as a testbed: searches and curves run on it as they do on the simulator.

use crate::accounting::document::result;
use crate::error::Error;
use crate::running::retry::undisturbed;
use crate::running::streams::full_mesh;
use crate::running::trial::{DirectionOutcome, Offer, Tester};
use kpps_documents::Trial;
use kpps_frames::{Mix, rate};
use kpps_methods::{AllowedLoad, Load, Testbed, TrialError, units};
use kpps_ports::port::run::{Late, Shape};
use std::time::Duration;

/// A tester, and what its offers have in common.
pub struct PortsTestbed {
    /// The tester.
    pub tester: Tester,
    /// How long frames may still arrive.
    pub drain: Duration,
    /// Frames go both directions.
    pub bidirectional: bool,
    /// Frames go from each port to all others (RFC 2889, 5.1): whether they are IPv4.
    pub mesh: Option<bool>,
}

impl PortsTestbed {
    fn offer(&self, load: &Load) -> Offer {
        Offer {
            load: load.clone(),
            shape: Shape::Constant,
            count: None,
            drain: self.drain,
            bidirectional: self.bidirectional,
            keep: false,
            replay: None,
            streams: match self.mesh {
                Some(is_ipv4) => full_mesh(self.tester.names().len(), &load.sizes, is_ipv4).into(),
                None => self.tester.streams.clone(),
            },
            every: None,
            late: Late::Skip,
            control: None,
        }
    }

    /// Refuses a measurement that more than two ports do not have.
    fn refuse_mesh(&self, what: &str) -> Result<(), TrialError> {
        match self.mesh {
            Some(_) => Err(TrialError::Load(format!("{what} is measured between two ports only"))),
            None => Ok(()),
        }
    }

    /// There is no warm-up: as a rule, learning frames came before. Damaged frames are not delivered. A trial
    /// in which a link changed, or which something disturbed, says nothing about the load, and is repeated
    /// once.
    fn measure(
        &mut self,
        offer: &Offer,
        go_on: &dyn Fn() -> bool,
    ) -> Result<(Trial, Vec<DirectionOutcome>), TrialError> {
        let mut outcome = undisturbed(&mut self.tester, offer, go_on).map_err(failed)?;
        if outcome.complete && outcome.link_changes().next().is_some() {
            outcome = undisturbed(&mut self.tester, offer, go_on).map_err(failed)?;
            if let Some((interface, _)) = outcome.link_changes().next() {
                let what = format!("the link of {interface} went down or up in two successive trials");
                return Err(TrialError::Testbed(what));
            }
        }
        if let Some(trouble) = &outcome.trouble {
            return Err(TrialError::Testbed(trouble.to_string()));
        }
        if !outcome.complete {
            return Err(TrialError::Interrupted);
        }
        // A device under test that has failed is an error, not a loss.
        let cut_off =
            outcome.directions.iter().any(|direction| direction.received.last_gap == Some(Duration::MAX));
        // Without learning frames, frames of the trial itself show that the paths are open.
        let all = outcome.directions.iter().all(|direction| direction.received.arrived.received > 0);
        let open = outcome.learned.unwrap_or(all)
            && (!cut_off || self.tester.is_open(offer, go_on).map_err(failed)?);
        if !open {
            return Err(match go_on() {
                true => TrialError::Testbed(
                    "no frame comes through: check that the device under test is on and connected".into(),
                ),
                false => TrialError::Interrupted,
            });
        }
        let trial = result(offer, &outcome).ok_or_else(|| {
            TrialError::Load(format!(
                "no frame is due in {} s: give a longer duration or a higher load",
                offer.load.duration.as_secs_f64()
            ))
        })?;
        Ok((trial, outcome.directions))
    }
}

/// Distinguishes an impossible load from a failed testbed.
fn failed(error: Error) -> TrialError {
    match error {
        Error::Frame { .. }
        | Error::Flows { .. }
        | Error::NotAllowed { .. }
        | Error::AboveLineRate { .. }
        | Error::Port(kpps_ports::Error::TooLong { .. }) => TrialError::Load(error.to_string()),
        other => TrialError::Testbed(other.to_string()),
    }
}

impl Testbed for PortsTestbed {
    /// That of the slower link; of a gigabit wire if no speed is known.
    fn line_rate_pps(&self, sizes: &Mix) -> Result<f64, TrialError> {
        Ok(self.tester.line_rate_pps(sizes).unwrap_or_else(|| self.tester.line_rate_at(sizes, rate::GIGABIT)))
    }

    fn knows_line_rate(&self) -> bool {
        self.tester.speed_mbps().is_some()
    }

    fn allowed(&self) -> Option<AllowedLoad> {
        self.tester.allowed(self.bidirectional)
    }

    fn longest_trial(&self) -> Option<Duration> {
        self.tester.longest_trial(self.bidirectional)
    }

    fn trial_while(&mut self, load: &Load, go_on: &dyn Fn() -> bool) -> Result<Trial, TrialError> {
        self.measure(&self.offer(load), go_on).map(|(trial, _)| trial)
    }

    fn burst_while(
        &mut self,
        load: &Load,
        frames: u64,
        go_on: &dyn Fn() -> bool,
    ) -> Result<Trial, TrialError> {
        self.refuse_mesh("a single burst")?;
        // A little more than it takes: the last frame may be as late as any.
        let whole = units::seconds(frames as f64 / load.rate.pps_of(self.line_rate_pps(&load.sizes)?))
            .map_err(TrialError::Load)?;
        let duration = whole + Duration::from_millis(2);
        let offer = Offer { count: Some(frames), ..self.offer(load) }.lasting(duration);
        self.measure(&offer, go_on).map(|(trial, _)| trial)
    }

    fn recovery_while(
        &mut self,
        load: &Load,
        then_pps: f64,
        go_on: &dyn Fn() -> bool,
    ) -> Result<(Trial, f64), TrialError> {
        self.refuse_mesh("recovery from overload")?;
        let offer = self.offer(load);
        let (half, whole) = (offer.load.duration, 2 * offer.load.duration);
        let offer = Offer { shape: Shape::Then(half, then_pps), ..offer }.lasting(whole);
        let (trial, directions) = self.measure(&offer, go_on)?;
        let last = directions
            .iter()
            .filter_map(|direction| direction.received.last_gap)
            .max()
            .unwrap_or(Duration::ZERO);
        Ok((trial, last.min(whole).saturating_sub(half).as_secs_f64()))
    }
}
