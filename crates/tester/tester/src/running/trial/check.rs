//! Checks whether a trial is possible, before it begins.

use super::Tester;
use super::offer::Offer;
use crate::error::Error;
use crate::running::learn::FlowPlan;
use crate::running::streams::{Stream, check_probes, sizes_of};
use kpps_frames::Mac;
use kpps_frames::rate::Rate;
use kpps_ports::port::run::Late;

impl Tester {
    /// Refuses an offer that the links, the operators or the ports do not allow.
    pub(super) fn check(&self, offer: &Offer) -> Result<(), Error> {
        self.check_ports(offer)?;
        self.check_line_rate(offer)?;
        self.check_allowed(offer)?;
        self.check_kinds(offer)?;
        self.check_cores(offer)?;
        self.check_lengths(offer)
    }

    /// Refuses streams between ports that do not exist, and what only two ports do.
    fn check_ports(&self, offer: &Offer) -> Result<(), Error> {
        let ports = self.ports.len();
        offer.streams.iter().try_for_each(|stream| stream.check_ports(ports))?;
        let what = [
            (offer.streams.is_empty(), "a load without streams"),
            (offer.replay.is_some(), "a replay of a capture"),
            (offer.keep, "a file of frames with anomalies"),
            (offer.every.is_some(), "a result of each interval"),
            (self.flows.replies, "replying to flows"),
            (self.ports.iter().any(|port| port.cores() > 1), "work on several cores"),
            // Each host has a clock of its own.
            (self.sites.iter().any(|site| site.name.is_some()), "a trial with ports of other hosts"),
        ];
        match what.into_iter().find(|(is_wanted, _)| ports > 2 && *is_wanted) {
            Some((_, what)) => Err(Error::SeveralPorts(what)),
            None => Ok(()),
        }
    }

    /// Refuses a load above line rate.
    fn check_line_rate(&self, offer: &Offer) -> Result<(), Error> {
        // It is unknown which of the streams that wait will send together.
        if offer.control.as_ref().is_some_and(|control| control.waits()) {
            return Ok(());
        }
        if let (Some(mbps), false) = (self.speed_mbps(), offer.streams.is_empty()) {
            return check_streams(offer, mbps);
        }
        if let (Rate::Pps(offered_pps), Some(mbps)) = (offer.load.rate, self.speed_mbps()) {
            let most = offer.load.sizes.line_rate_pps(u64::from(mbps) * 1_000_000);
            // A user may round the line rate up when typing it: that is no load above line rate.
            if offered_pps > most.ceil() {
                return Err(Error::AboveLineRate {
                    offered_pps,
                    size: offer.load.sizes.to_string(),
                    mbps,
                    most,
                });
            }
        }
        Ok(())
    }

    /// Refuses a load that the operator of a sending port does not allow.
    fn check_allowed(&self, offer: &Offer) -> Result<(), Error> {
        for from in offer.senders() {
            let rate = match (offer.streams.is_empty(), offer.load.rate) {
                (false, Rate::Pps(_)) => Rate::Pps(offer.streams_from(from).map(|(_, pps)| pps).sum()),
                (_, rate) => rate,
            };
            let allowed = self.ports[from].allowed().check(rate, offer.shape, offer.load.duration);
            allowed.map_err(|what| Error::NotAllowed { port: self.ports[from].name().to_owned(), what })?;
        }
        Ok(())
    }

    /// Refuses frames that a port cannot send because of its kind.
    fn check_kinds(&self, offer: &Offer) -> Result<(), Error> {
        if offer.replay.is_some()
            && let Some(port) = self.ports.iter().find(|port| !port.can_replay())
        {
            return Err(Error::NoReplay(port.name().to_owned()));
        }
        let is_socket = |name: &&str| name.rsplit('/').next().is_some_and(|name| name.starts_with("udp:"));
        if !offer.streams.is_empty() {
            let cannot = self.ports.iter().map(|port| (port.name(), port.can_mix()));
            if let Some((name, _)) = cannot.into_iter().find(|(name, can)| !can || is_socket(name)) {
                return Err(Error::NoStreams(name.to_owned()));
            }
        }
        if offer.late == Late::Send
            && let Some(port) = self.ports.iter().find(|port| !port.can_mix())
        {
            return Err(Error::NoLate(port.name().to_owned()));
        }
        check_probes(&offer.streams, offer.load.rate)?;
        if offer.control.is_some() && offer.load.rate == Rate::Max {
            return Err(Error::NoControl);
        }
        let FlowPlan { replies, dscp, hops, packet, .. } = &self.flows;
        let plain = self.ends.iter().all(|end| end.encap.is_plain()) && packet.is_none();
        if (!plain || dscp.or(*hops).is_some() || *replies)
            && let Some(port) = self.names().iter().find(|name| is_socket(name))
        {
            return Err(Error::PayloadOnly((*port).to_owned()));
        }
        Ok(())
    }

    /// Refuses results that ports on several cores do not have.
    fn check_cores(&self, offer: &Offer) -> Result<(), Error> {
        let several = self.ports.iter().any(|port| port.cores() > 1);
        let what = [
            (offer.replay.is_some(), "a replay of a capture"),
            (offer.control.is_some(), "the control of single streams"),
            (offer.keep, "a file of frames with anomalies"),
            (!self.captures.is_empty(), "a capture of all frames"),
        ];
        match what.into_iter().find(|(is_wanted, _)| several && *is_wanted) {
            Some((_, what)) => Err(Error::SeveralCores(what)),
            None => Ok(()),
        }
    }

    /// Refuses frames that are longer than a port can send or receive.
    fn check_lengths(&self, offer: &Offer) -> Result<(), Error> {
        for (from, to) in offer.directions() {
            if let Some(replay) = &offer.replay {
                for port in [&self.ports[from], &self.ports[to]] {
                    kpps_ports::Error::check_each(&port.name(), port.longest(), replay.frames.lengths())?;
                }
                continue;
            }
            if !offer.streams.is_empty() {
                let longest =
                    offer.streams_of((from, to)).map(|(stream, _)| stream.longest()).max().unwrap_or(0);
                for port in [&self.ports[from], &self.ports[to]] {
                    kpps_ports::Error::check_longest(&port.name(), port.longest(), longest)?;
                }
                continue;
            }
            let flows = self.flows_from((from, to), Mac::default())?;
            for at in [from, to] {
                let frames = self.frames(&flows, (from, to), at, &offer.load.sizes)?;
                let port = &self.ports[at];
                kpps_ports::Error::check_longest(&port.name(), port.longest(), frames.longest())?;
            }
        }
        Ok(())
    }
}

/// Refuses streams from one port that are above line rate together.
fn check_streams(offer: &Offer, mbps: u32) -> Result<(), Error> {
    let Rate::Pps(_) = offer.load.rate else { return Ok(()) };
    for from in offer.senders() {
        let bits = |(stream, pps): (&Stream, f64)| {
            // A ramp has the same part of the load at both of its ends.
            let peak_pps = stream.shape.peak_pps(Rate::Pps(stream.pps())) * pps / stream.pps();
            stream.sizes.l1_bits_per_s(peak_pps)
        };
        let (all, speed) = (offer.streams_from(from).map(bits).sum::<f64>(), f64::from(mbps) * 1e6);
        if all > speed * (1.0 + 1e-9)
            && let Some(sizes) = sizes_of(offer.streams_from(from))
        {
            let offered_pps = offer.streams_from(from).map(|(_, pps)| pps).sum();
            let most = offered_pps * speed / all;
            return Err(Error::AboveLineRate { offered_pps, size: sizes.to_string(), mbps, most });
        }
    }
    Ok(())
}
