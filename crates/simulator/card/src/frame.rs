//! Sizes of the parts of an Ethernet frame, in bytes.

/// The two addresses.
pub(crate) const ADDRESSES_BYTES: usize = 12;
/// An 802.1Q tag.
pub(crate) const VLAN_BYTES: usize = 4;
/// The frame check sequence.
pub(crate) const FCS_BYTES: usize = 4;
