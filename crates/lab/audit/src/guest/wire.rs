//! Findings about the frames that a guest sent, as the other end of the cable sees them.

use crate::responder::{Event, Malformed, Seen};
use kpps_documents::guest_audit::{Finding, Severity};

/// A time of the cards in seconds since the guest's start.
pub(super) fn seconds(at_ps: u64, begin_ps: u64) -> f64 {
    at_ps.saturating_sub(begin_ps) as f64 / 1e12
}

/// The findings, with times since `begin_ps`.
pub(super) fn findings(seen: &Seen, begin_ps: u64) -> Vec<Finding> {
    let mut all = Vec::new();
    let mut add = |event: &Event, rule: &str, severity, section: &str, sentence: &str, silicon: &str| {
        if let Some(first_ps) = event.first_ps {
            all.push(Finding {
                rule: rule.to_owned(),
                severity,
                section: section.to_owned(),
                place: "sent frames".to_owned(),
                sentence: sentence.to_owned(),
                silicon: silicon.to_owned(),
                count: event.count,
                first_s: seconds(first_ps, begin_ps),
                ..Finding::default()
            });
        }
    };
    add(
        &seen.oversized,
        "frame-too-long",
        Severity::Must,
        "IEEE 802.3, 3.2.7",
        "The guest sent a frame of more than 1518 bytes with FCS. If received frames are returned, their length \
         may contain the FCS: RCTL.SECRC strips it.",
        "It sends the frame; switches and receivers without jumbo frames drop it.",
    );
    for (fault, event) in &seen.faults {
        let (what, section) = match fault {
            Malformed::Source => ("a group address as its source", "IEEE 802.3, 3.2.3"),
            Malformed::Arp => ("malformed ARP", "RFC 826"),
            Malformed::Ipv4 => ("a malformed IPv4 header", "RFC 791"),
            Malformed::Icmp => ("malformed ICMP, or a wrong checksum", "RFC 792"),
            Malformed::Udp => ("malformed UDP, or a wrong checksum", "RFC 768"),
            Malformed::Tcp => ("malformed TCP, or a wrong checksum", "RFC 9293"),
        };
        let sentence = format!("The guest sent a frame with {what}.");
        let silicon = "It sends the frame; the receiver drops it.";
        add(event, "malformed-frame", Severity::Should, section, &sentence, silicon);
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_and_malformed_frames_are_findings() {
        let event = Event { first_ps: Some(3_000_000_000_000), count: 2 };
        let faults = [(Malformed::Icmp, event)].into();
        let seen = Seen { oversized: event, faults, ..Seen::default() };
        let found = findings(&seen, 1_000_000_000_000);
        assert_eq!(
            found.iter().map(|it| (&*it.rule, it.count)).collect::<Vec<_>>(),
            [("frame-too-long", 2), ("malformed-frame", 2)]
        );
        assert_eq!(found[0].first_s.to_bits(), 2.0f64.to_bits());
        assert_eq!(findings(&Seen::default(), 0), []);
    }
}
