//! The reasons that make a trial a doubtful or no measurement of the device under test.

use crate::{Disturbance, Limit, Trial};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The name that Linux gives to an interface's counter of how often its link went up or down.
pub const LINK_CHANGES: &str = "carrier_changes";

/// A reason to doubt a trial between two ports.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "what", rename_all = "kebab-case")]
pub enum Doubt {
    /// The generator could not send its frames in time: its shortfall is above 0.1 % of the due frames, or
    /// above the allowed share.
    Generator,
    /// The generator could not send its frames in time, because something else had its CPU.
    Disturbed {
        /// The disturbance, with its time and its length.
        how: String,
        /// The number of frames that the generator could not send in time.
        frames: u64,
    },
    /// More than 0.1 % of the frames, or more than the allowed share, were sent more than 1 ms after their
    /// times, where late frames are sent: the load was another one than was asked for.
    Late {
        /// The number of these frames.
        frames: u64,
        /// The longest delay, in ns.
        longest_ns: u64,
    },
    /// The tester could not receive all frames: its receive overflow, or its possible overflow, is above 0.1
    /// %.
    Receiver,
    /// The link of an interface on the path went down or up while frames were sent.
    LinkChanged {
        /// The interface, with its host and namespace if it is elsewhere.
        interface: String,
        /// The number of changes: down and up again are two.
        times: u64,
    },
    /// More frames arrived than were sent, or places of loss count more frames than are missing.
    TooMany {
        /// The number of frames beyond those sent or missing.
        frames: u64,
    },
    /// A remote host reported impossible values. They are left out.
    Unbelievable {
        /// The values, with their host.
        values: String,
    },
    /// Queues grew during the measurement: the load is above the sustained rate.
    QueuesGrew {
        /// The growth, in frames.
        frames: u64,
    },
    /// Frames that no place accounts for. That is no error if the device under test is a box whose counters
    /// are not read.
    Unexplained {
        /// The number of frames.
        frames: u64,
    },
    /// Frames with the headers of the trial and without a valid tag. Either the device under test damaged
    /// frames of the trial, or another sender sent these frames and the same number of the trial's frames was
    /// lost.
    Either {
        /// The number of frames.
        frames: u64,
    },
    /// An interface dropped frames because they are addressed to another station.
    OtherStation {
        /// The interface, with its host and namespace if it is elsewhere.
        place: String,
        /// The number of frames.
        frames: u64,
    },
    /// Frames arrived with other VLAN tags than expected.
    Retagged {
        /// The number of frames.
        frames: u64,
        /// The VLAN numbers of the frames that arrived, outermost first.
        came: Vec<u16>,
        /// The expected VLAN numbers, outermost first.
        expected: Vec<u16>,
    },
    /// Frames arrived as fragments of their packets.
    Fragments {
        /// The number of first fragments.
        frames: u64,
    },
}

impl Doubt {
    /// The doubts about a trial, given how often links changed.
    pub fn about(trial: &Trial, links: impl IntoIterator<Item = (String, u64)>) -> Vec<Self> {
        let limit = trial.limit().and_then(|limit| match limit {
            Limit::Generator => Some(Self::Generator),
            Limit::Receiver => Some(Self::Receiver),
            // This limit ends a search. It does not make a trial doubtful.
            Limit::Operator => None,
        });
        let disturbed = trial.is_disturbed().then(|| Self::Disturbed {
            how: trial.disturbance.as_ref().map(Disturbance::words).unwrap_or_default(),
            frames: trial.shortfall,
        });
        let grew = trial.queue_growth.filter(|frames| *frames > 0).map(|frames| Self::QueuesGrew { frames });
        let links = links.into_iter().map(|(interface, times)| Self::LinkChanged { interface, times });
        let frames = trial.ledger.unexplained.unsigned_abs();
        let unexplained = match trial.ledger.unexplained {
            0 => None,
            1.. => Some(Self::Unexplained { frames }),
            _ => Some(Self::TooMany { frames }),
        };
        limit.into_iter().chain(disturbed).chain(links).chain(grew).chain(unexplained).collect()
    }

    /// Whether this doubt makes a trial invalid as a measurement of the device under test.
    pub const fn is_invalid(&self) -> bool {
        !matches!(
            self,
            Self::Unexplained { .. }
                | Self::Unbelievable { .. }
                | Self::Either { .. }
                | Self::QueuesGrew { .. }
                | Self::OtherStation { .. }
                | Self::Fragments { .. }
        )
    }

    /// The doubt in words, for messages.
    pub fn words(&self) -> String {
        match self {
            Self::Generator => "the generator could not send all due frames in time".into(),
            Self::Disturbed { how, frames } => {
                format!("{how}, and the generator could not send {frames} frames in time")
            }
            Self::Late { frames, longest_ns } => format!(
                "{frames} frames were sent more than 1 ms late, by up to {:.1} ms: the load was another one than was asked for",
                *longest_ns as f64 / 1e6
            ),
            Self::QueuesGrew { frames } => format!(
                "queues grew by {frames} frames during the measurement: the load is above the sustained rate"
            ),
            Self::Receiver => "the tester's receive overflow is too high".into(),
            Self::LinkChanged { interface, times } => {
                format!("the link of {interface} went down or up {times} times during the trial")
            }
            Self::TooMany { frames } => {
                format!("the frames that arrived or were dropped are {frames} more than the frames sent")
            }
            Self::Unbelievable { values } => {
                format!("impossible values of a remote host are left out: {values}")
            }
            Self::Unexplained { frames } => format!("no place accounts for {frames} frames"),
            Self::OtherStation { place, frames } => format!(
                "{place} dropped {frames} frames because they are addressed to another station: if it is a router, give its IP address as the gateway of the sending port"
            ),
            Self::Retagged { frames, came, expected } => {
                let tags = |ids: &[u16]| match ids {
                    [] => "without a VLAN tag".to_owned(),
                    ids => {
                        let ids: Vec<_> = ids.iter().map(ToString::to_string).collect();
                        let tags = if ids.len() == 1 { "tag" } else { "tags" };
                        format!("with the VLAN {tags} {}", ids.join(" and "))
                    }
                };
                format!("{frames} frames arrived {}, but were expected {}", tags(came), tags(expected))
            }
            Self::Fragments { frames } => format!(
                "{frames} packets arrived in fragments: the path has a link whose MTU is too small for them"
            ),
            Self::Either { frames } => format!(
                "{frames} frames have the trial's headers but no valid tag: either they are damaged frames of the trial, or another sender sent them and the same number of the trial's frames was lost"
            ),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Ledger, Pause};

    #[test]
    fn one_tag_is_a_tag_and_two_are_tags() {
        let retagged = Doubt::Retagged { frames: 9, came: vec![10, 5], expected: vec![10] };
        let says = "9 frames arrived with the VLAN tags 10 and 5, but were expected with the VLAN tag 10";
        assert_eq!(retagged.words(), says);
    }

    #[test]
    fn what_nobody_saw_is_a_doubt_and_only_what_cannot_be_is_invalid() {
        let about = |shortfall, delivered, dropped: u64, links: &[(String, u64)]| {
            let dropped = [("somewhere".to_owned(), dropped)].into();
            let ledger = Ledger { sent: 1000, shortfall, delivered, dropped, ..Ledger::default() };
            let trial = Trial::new(1000.0, 1.0, [1000, shortfall, delivered], ledger);
            Doubt::about(&trial.unwrap_or_default(), links.to_vec())
        };
        assert_eq!(about(0, 990, 10, &[]), []);
        assert_eq!(about(1, 990, 10, &[]), [], "0.1 %");
        assert_eq!(about(2, 990, 10, &[]), [Doubt::Generator]);
        assert_eq!(about(0, 990, 7, &[]), [Doubt::Unexplained { frames: 3 }]);
        assert_eq!(about(0, 990, 12, &[]), [Doubt::TooMany { frames: 2 }]);
        assert_eq!(about(0, 1001, 0, &[]), [Doubt::TooMany { frames: 1 }]);
        let disturbed = |frames| {
            let pause = Pause { at_ns: 610_000_000, lasted_ns: 4_300_000, cpu: Some(0), ..Pause::default() };
            let disturbance = Disturbance { frames, pauses: 1, longest: Some(pause) };
            let trial = Trial::new(1000.0, 1.0, [1000, 20, 1000], Ledger::default()).unwrap_or_default();
            let trial = trial.with_disturbance(Some(disturbance), None).with_queue_growth(Some(9));
            let doubts = Doubt::about(&trial, []);
            doubts.iter().map(|doubt| (doubt.words(), doubt.is_invalid())).collect::<Vec<_>>()
        };
        let grew = "queues grew by 9 frames during the measurement: the load is above the sustained rate";
        assert_eq!(disturbed(0)[0].0, "the generator could not send all due frames in time");
        let how = "other programs had CPU 0 for 4.3 ms at 0.61 s";
        let says = format!("{how}, and the generator could not send 20 frames in time");
        assert_eq!(disturbed(20), [(says, true), (grew.to_owned(), false)]);
        let links = [("b".to_owned(), 2)];
        let doubts = about(0, 990, 0, &links);
        let valid: Vec<_> = doubts.iter().map(Doubt::is_invalid).collect();
        assert_eq!((doubts.len(), valid), (2, vec![true, false]));
    }
}
