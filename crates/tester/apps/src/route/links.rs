//! The interface of a received frame by its VLAN tag (IEEE 802.1Q), and the tags of sent frames.

use super::{ETHERNET, Interface, Misconfigured};
use crate::{Reason, Resize};
use foldhash::fast::RandomState;
use kpps_frames::ethernet;
use std::collections::HashMap;

/// Bytes before the tag, and those of the tag.
const ADDRESSES: usize = 12;
const TAG: usize = ethernet::VLAN_BYTES;
/// The shortest frame on a wire, in bytes without FCS.
const SHORTEST: usize = 60;
/// The VLAN identifier in a tag's control field; 0: a priority tag without a VLAN.
const ID: u16 = 0xfff;

/// The interfaces by port and VLAN (0: none).
#[derive(Debug)]
pub(super) struct Links(HashMap<(usize, u16), usize, RandomState>);

impl Links {
    pub(super) fn new(interfaces: &[Interface]) -> Result<Self, Misconfigured> {
        let mut links = HashMap::default();
        for (index, interface) in interfaces.iter().enumerate() {
            let vlan = match interface.vlan {
                Some(id) if !(1..ID).contains(&id) => return Err(Misconfigured::Vlan(id)),
                vlan => vlan.unwrap_or(0),
            };
            if let Some(other) = links.insert((interface.port, vlan), index) {
                return Err(Misconfigured::Shared(interfaces[other].net, interface.net));
            }
        }
        Ok(Self(links))
    }

    /// The interface that frames of a port with this tag belong to.
    #[inline]
    pub(super) fn find(&self, port: usize, tag: Option<u16>) -> Result<usize, Reason> {
        self.0.get(&(port, tag.unwrap_or(0) & ID)).copied().ok_or(Reason::OtherVlan)
    }
}

/// Adds the tag of a VLAN to a frame, or removes its tag. An old tag is replaced, and its priority with it.
/// `false`, with no change, if the buffer has no room for a tag.
#[inline]
pub(super) fn tag<F: Resize>(frame: &mut F, vlan: Option<u16>) -> bool {
    let length = frame.as_ref().len();
    let tagged = frame.as_ref().get(ADDRESSES..ETHERNET) == Some(&ethernet::TYPE_VLAN.to_be_bytes());
    match vlan {
        None if !tagged => {}
        None => {
            frame.as_mut().copy_within(ADDRESSES + TAG.., ADDRESSES);
            // The last bytes exist twice; a short frame keeps them as padding, zeroed.
            frame.as_mut()[length - TAG..].fill(0);
            frame.resize((length - TAG).max(SHORTEST.min(length)));
        }
        Some(id) => {
            if !tagged {
                if !frame.resize(length + TAG) {
                    return false;
                }
                frame.as_mut().copy_within(ADDRESSES..length, ADDRESSES + TAG);
            }
            let [a, b] = ethernet::TYPE_VLAN.to_be_bytes();
            let [c, d] = id.to_be_bytes();
            frame.as_mut()[ADDRESSES..ADDRESSES + TAG].copy_from_slice(&[a, b, c, d]);
        }
    }
    true
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn each_interface_has_its_own_frames() {
        let interface = |port, vlan, net: &str| Interface {
            port,
            vlan,
            mac: kpps_frames::Mac::default(),
            net: net.parse().unwrap(),
            mtu: 1500,
        };
        let all = [
            interface(0, None, "10.0.0.1/24"),
            interface(0, Some(7), "10.0.1.1/24"),
            interface(1, Some(7), "10.0.2.1/24"),
        ];
        let links = Links::new(&all).unwrap();
        for (port, tag, found) in [
            (0, None, Ok(0)),
            (0, Some(0xe000), Ok(0)),
            (0, Some(7), Ok(1)),
            (0, Some(0xf007), Ok(1)),
            (1, Some(7), Ok(2)),
            (1, None, Err(Reason::OtherVlan)),
            (0, Some(8), Err(Reason::OtherVlan)),
            (2, None, Err(Reason::OtherVlan)),
        ] {
            assert_eq!(links.find(port, tag), found, "{port} {tag:?}");
        }
        for id in [0, 4095, 4096] {
            assert_eq!(
                Links::new(&[interface(0, Some(id), "10.0.0.1/24")]).err(),
                Some(Misconfigured::Vlan(id))
            );
        }
        let twice = [all[1], interface(0, Some(7), "10.0.3.1/24")];
        assert_eq!(Links::new(&twice).err(), Some(Misconfigured::Shared(twice[0].net, twice[1].net)));
    }

    proptest! {
        /// A frame with any tag gets the new one, and nothing else changes.
        #[test]
        fn only_the_tag_changes(
            addresses: [u8; 12],
            rest in prop::collection::vec(any::<u8>(), 48..200),
            before in prop::option::of(any::<u16>()),
            after in prop::option::of(1u16..4095),
        ) {
            let with = |tag: Option<u16>| {
                let tag = tag.map_or(vec![], |control| [&[0x81, 0][..], &control.to_be_bytes()].concat());
                let rest = [&[8, 0][..], &rest].concat();
                [&addresses[..], &tag, &rest].concat()
            };
            let mut frame = with(before);
            let length = frame.len();
            prop_assert!(tag(&mut frame, after));
            let mut expected = with(after);
            if after.is_none() && expected.len() < 60 {
                expected.resize(60.min(length), 0);
            }
            prop_assert_eq!(frame, expected);
        }
    }
}
