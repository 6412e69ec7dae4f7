//! The verdict on each captured frame, in words.

use crate::capturing::ring::{Record, Verdict};
use kpps_frames::ethernet::{TYPE_ARP, TYPE_IPV4, TYPE_IPV6};
use kpps_frames::headers::{Headers, payload_type};
use kpps_frames::tag::{BACK, TagFormat};
use kpps_frames::{Tag, Templates, arp, icmp, ipv4, nd};

/// The facts from which the words on the frames of a port are made.
pub(crate) struct Words<'c> {
    /// The direction of the frames that the port sends, from 1, and of those that it receives.
    pub directions: [usize; 2],
    /// The frames that the port sent, as they left, and the frames that it expected.
    pub leaving: Option<&'c Templates>,
    /// See `leaving`.
    pub arriving: Option<&'c Templates>,
    /// Whether frames have no tags.
    pub is_replay: bool,
    /// The words on frames with a damaged tag, and on frames without anything like a tag.
    pub settled: [&'static str; 2],
}

impl Words<'_> {
    /// The tag of a test frame that the port sent.
    pub fn sent_tag(&self, frame: &[u8]) -> Option<Tag> {
        let leaving = self.leaving.filter(|_| !self.is_replay)?;
        leaving.tag().read(frame).map(|(tag, _)| tag)
    }

    /// The verdict on a frame.
    pub fn of(&self, record: &Record, frame: &[u8]) -> String {
        let answered = if record.is_answered { ", answered" } else { "" };
        match (record.is_sent, record.is_before) {
            (true, true) => match self.format().read_any(frame) {
                Some(_) => "learning frame".into(),
                None => describe(frame),
            },
            (true, false) => self.sent(frame),
            (false, true) => match record.verdict {
                Some(_) => "learning frame".into(),
                None => format!("before the trial: {}{answered}", self.other(frame)),
            },
            (false, false) => match &record.verdict {
                Some(verdict) => self.received(verdict, frame, answered),
                None => format!("{}{answered}", self.other(frame)),
            },
        }
    }

    /// The tags of either direction.
    fn format(&self) -> TagFormat {
        let frames = self.leaving.or(self.arriving).filter(|_| !self.is_replay);
        frames.map(Templates::tag).unwrap_or_default()
    }

    fn sent(&self, frame: &[u8]) -> String {
        let tag = self.sent_tag(frame);
        match (tag, self.leaving) {
            (Some(tag), Some(leaving)) => {
                let flow = leaving.at(tag.sequence).map(|frame| frame.flow).filter(|_| leaving.flows() > 1);
                test_frame(tag.sequence, self.directions[0], flow)
            }
            _ if self.is_replay && message(frame).is_none() => self.replayed(),
            _ => describe(frame),
        }
    }

    fn replayed(&self) -> String {
        "frame of the replayed capture".into()
    }

    fn received(&self, verdict: &Verdict, frame: &[u8], answered: &str) -> String {
        let Verdict { sequence, flow, latest, anomalies, .. } = *verdict;
        if anomalies.other_traffic {
            return format!("other traffic: {}{answered}", self.other(frame));
        }
        if anomalies.nameless || anomalies.tagless {
            let [nameless, tagless] = self.settled;
            return (if anomalies.nameless { nameless } else { tagless }).into();
        }
        let name = match sequence {
            Some(sequence) => test_frame(sequence, self.directions[1], flow),
            None => self.replayed(),
        };
        let reordered = match latest {
            Some(latest) => format!("reordered, after frame {latest}"),
            None => "reordered".into(),
        };
        let all = [
            anomalies.duplicated.then(|| "duplicated".to_owned()),
            anomalies.reordered.then_some(reordered),
            anomalies.corrupted.then(|| "corrupted".to_owned()),
        ];
        let all = all.into_iter().flatten().collect::<Vec<_>>().join(", ");
        format!("{name}: {}", if all.is_empty() { "in order" } else { &all })
    }

    /// A frame that no direction expects here.
    fn other(&self, frame: &[u8]) -> String {
        let format = self.format();
        match format.read_any(frame).filter(|_| !self.is_replay) {
            Some((trial, tag, _)) if trial == format.trial() => {
                let direction = 1 + usize::from(tag.stream & BACK != 0);
                format!("{}, at its own sender", test_frame(tag.sequence, direction, None))
            }
            Some(_) => "test frame of another trial".into(),
            None => describe(frame),
        }
    }
}

fn test_frame(number: u64, direction: usize, flow: Option<u32>) -> String {
    let flow = flow.map_or_else(String::new, |flow| format!(", flow {flow}"));
    format!("test frame {number} of direction {direction}{flow}")
}

/// A message of address resolution, neighbour discovery or ping, in words.
fn message(frame: &[u8]) -> Option<String> {
    let (kind, at) = payload_type(frame)?;
    let payload = frame.get(at..)?;
    match kind {
        TYPE_ARP => {
            let it = arp::Message::parse(payload).ok()?;
            Some(match it.is_request() {
                true if it.sender == it.target => format!("ARP announcement of {}", it.sender),
                true => format!("ARP request for {}", it.target),
                false => format!("ARP reply: {} is at {}", it.sender, it.sender_mac),
            })
        }
        TYPE_IPV6 if let Ok(it) = nd::Message::parse(payload) => Some(match it.kind {
            nd::Kind::Solicitation => format!("neighbour solicitation for {}", it.target),
            nd::Kind::Advertisement { .. } => format!("neighbour advertisement of {}", it.target),
        }),
        _ => {
            let headers = Headers::of(frame)?;
            let first = *frame.get(headers.transport)?;
            let is_icmp = headers.protocol == ipv4::PROTOCOL_ICMP && !headers.is_ipv6;
            let is_icmpv6 = headers.protocol == nd::PROTOCOL && headers.is_ipv6;
            match first {
                icmp::ECHO if is_icmp => Some("ping".into()),
                icmp::ECHO_REPLY if is_icmp => Some("answer to a ping".into()),
                icmp::ECHO_V6 if is_icmpv6 => Some("ping".into()),
                icmp::ECHO_REPLY_V6 if is_icmpv6 => Some("answer to a ping".into()),
                _ => None,
            }
        }
    }
}

/// A frame without a tag.
fn describe(frame: &[u8]) -> String {
    message(frame).unwrap_or_else(|| match payload_type(frame) {
        Some((TYPE_IPV4, _)) => "IPv4 packet".into(),
        Some((TYPE_IPV6, _)) => "IPv6 packet".into(),
        Some((kind, _)) => format!("frame of type 0x{kind:04x}"),
        None => "too short for a frame".into(),
    })
}
