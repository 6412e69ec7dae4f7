//! The reasons that make a trial a doubtful or no measurement of the device under test.

use crate::{Disturbance, Limit, Trial};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The counter of an interface that tells how often its link went up or down, as Linux names it.
pub const LINK_CHANGES: &str = "carrier_changes";

/// A reason to doubt a trial between two ports.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "what", rename_all = "kebab-case")]
pub enum Doubt {
    /// The generator could not send its frames in time: its shortfall is above 0.1 % of the due frames, or
    /// above the allowed share.
    Generator,
    /// The same, because something else had the generator's CPU.
    Disturbed {
        /// The disturbance, its time and its length.
        how: String,
        /// How many frames the generator could not send in time.
        frames: u64,
    },
    /// The tester could not take in all frames: its receive overflow, or its possible overflow, is above 0.1
    /// %.
    Receiver,
    /// The link of an interface on the path went down or came up while frames were sent.
    LinkChanged {
        /// The interface, with its host and namespace if it is elsewhere.
        interface: String,
        /// How often: down and up again are two.
        times: u64,
    },
    /// More frames arrived than were sent, or places of loss count more frames than are missing.
    TooMany {
        /// How many more.
        frames: u64,
    },
    /// A remote host gave values that cannot be. They are left out.
    Unbelievable {
        /// Which, with the host.
        values: String,
    },
    /// Queues grew during the measurement: the load is above the sustained rate.
    QueuesGrew {
        /// By how many frames.
        frames: u64,
    },
    /// Frames that no place accounts for. That is no error if the device under test is a box whose counters
    /// are not read.
    Unexplained {
        /// How many.
        frames: u64,
    },
    /// Frames with the headers of the trial and nothing like its tags: the device under test damaged them, or
    /// they are of others and as many of the trial's were lost.
    Either {
        /// How many.
        frames: u64,
    },
    /// Frames came to an interface that dropped them because they are addressed to another station.
    OtherStation {
        /// The interface, with its host and namespace if it is elsewhere.
        place: String,
        /// How many.
        frames: u64,
    },
    /// Frames arrived with other VLAN tags than they should.
    Retagged {
        /// How many.
        frames: u64,
        /// The numbers of the VLANs with which they came, from outside in.
        came: Vec<u16>,
        /// The numbers of the VLANs with which they should have come, from outside in.
        expected: Vec<u16>,
    },
    /// Frames arrived as fragments of their packets.
    Fragments {
        /// How many first fragments.
        frames: u64,
    },
}

impl Doubt {
    /// The doubts about a trial, given how often links changed.
    pub fn about(trial: &Trial, links: impl IntoIterator<Item = (String, u64)>) -> Vec<Self> {
        let limit = trial.limit().and_then(|limit| match limit {
            Limit::Generator => Some(Self::Generator),
            Limit::Receiver => Some(Self::Receiver),
            // It limits a search, and no trial.
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
            Self::QueuesGrew { frames } => format!(
                "queues grew by {frames} frames during the measurement: the load is above the sustained rate"
            ),
            Self::Receiver => "the tester's receive overflow is too high".into(),
            Self::LinkChanged { interface, times } => {
                format!("the link of {interface} went down or up {times} times during the trial")
            }
            Self::TooMany { frames } => {
                format!("{frames} frames more arrived or were dropped than were sent")
            }
            Self::Unbelievable { values } => format!("left out as impossible: {values}"),
            Self::Unexplained { frames } => format!("no place accounts for {frames} frames"),
            Self::OtherStation { place, frames } => format!(
                "{place} dropped {frames} frames because they are not addressed to its station: if it is a router, give its address as the gateway of the port that sends"
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
                format!("{frames} frames arrived {}, and not {} as asked", tags(came), tags(expected))
            }
            Self::Fragments { frames } => format!(
                "{frames} packets arrived in fragments: the path has a link whose MTU is too small for them"
            ),
            Self::Either { frames } => format!(
                "{frames} frames have headers as the trial's and no tag: either they were damaged, or others sent them and as many were lost"
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
        let says = "9 frames arrived with the VLAN tags 10 and 5, and not with the VLAN tag 10 as asked";
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
