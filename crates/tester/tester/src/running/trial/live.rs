//! The counters of a running trial, which the live view and the metrics read.

use super::offer::Offer;
use super::{Site, Tester};
use crate::accounting::ledger::PortCount;
use crate::watching::control::StreamControl;
use crate::watching::gauges::{LiveRate, LiveSystem, Running};
use crate::watching::state::TrialState;
use kpps_frames::rate;
use kpps_frames::rate::Rate;
use std::sync::Arc;
use std::time::Instant;

impl Tester {
    /// Begins the counters of a new trial.
    pub(super) fn running(
        &self,
        begun: Instant,
        offer: &Offer,
        state: &Arc<TrialState>,
        ports: &[PortCount],
    ) -> Running {
        let seen = |site: &Site| {
            Some(LiveSystem {
                name: site.name.clone(),
                live_counts: site.host.live_counts()?,
                ports: site.ports.clone(),
            })
        };
        Running {
            number: 0,
            begun,
            rate: self.rate(offer),
            streams: offer.streams.clone(),
            state: state.clone(),
            ports: ports.to_vec(),
            directions: offer.directions(),
            systems: self.sites.iter().filter_map(seen).collect(),
        }
    }

    /// The reader of the counts of an offer's streams, unless they have a control. Ports of other hosts and
    /// of several cores have none.
    pub(super) fn watch(&self, offer: &Offer) -> Option<Arc<StreamControl>> {
        let are_simple = self.ports.iter().all(|port| port.cores() == 1)
            && self.sites.iter().all(|site| site.name.is_none());
        let is_watched = offer.control.is_none() && !offer.streams.is_empty() && are_simple;
        is_watched.then(|| Arc::new(StreamControl::watching(self.ports.len(), &offer.streams)))
    }

    /// The load of an offer, and the limit of a load that replaces it.
    fn rate(&self, offer: &Offer) -> Option<LiveRate> {
        let Rate::Pps(pps) = offer.load.rate else { return None };
        // Several cores would change the load at different times.
        let has_one_core = self.ports.iter().all(|port| port.cores() == 1);
        let has_times = offer.replay.as_ref().is_some_and(|replay| replay.times.is_some());
        let line_pps = self.line_rate_pps(&offer.load.sizes);
        let mut limits = vec![(line_pps.unwrap_or(f64::INFINITY), "line rate".to_owned())];
        limits.extend(self.ceiling_pps.map(|pps| (pps, "the ceiling of the sender".to_owned())));
        let senders = if offer.goes_back() { &self.ports[..] } else { &self.ports[..1] };
        limits.extend(
            senders.iter().map(|port| {
                (port.allowed().load_pps, format!("the limit of the operator of {}", port.name()))
            }),
        );
        let limit = limits.into_iter().min_by(|a, b| a.0.total_cmp(&b.0)).unwrap_or_default();
        Some(LiveRate {
            pps,
            // Streams have a rate each, and those of both directions differ.
            can_change: !has_times && offer.count.is_none() && offer.streams.is_empty() && has_one_core,
            line_pps: line_pps.unwrap_or_else(|| offer.load.sizes.line_rate_pps(rate::GIGABIT)),
            mean_bytes: offer.load.sizes.mean_bytes_with_fcs(),
            limit,
        })
    }
}
