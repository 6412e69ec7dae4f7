#![doc = include_str!("../README.md")]
//!
//! # Modules
//!
//! - [`Size`] is a frame's length and says whether the FCS counts. [`rate`] turns sizes into wire times, line
//!   rates and bit rates.
//! - [`ethernet`], [`ipv4`], [`udp`] and [`tcp`] are views over bytes: `new_checked` checks all lengths once;
//!   afterwards no accessor can fail.
//! - [`build`] makes whole frames; [`arp`], [`icmp`] and [`nd`] build and parse messages. [`tag`] marks a
//!   frame as the n-th of its stream.
//! - [`Encap`] puts them behind VLAN tags and labels, and into VXLAN.
//! - [`Stack`] makes frames of any headers, whose fields follow a [`pattern`]; [`edits`] writes the values of
//!   each frame.
//! - [`RawPacket`] makes a test frame of any packet.
//! - [`headers`] finds the headers of any frame, and changes their fields. [`Superpacket`] cuts frames
//!   apart that a kernel has merged.
//! - [`rss`] hashes flows as cards do that spread them over receive queues.
//! - [`fillers`] places frames on a wire with exact gaps.
//! - [`mix`] has the mixes of sizes that testers use; [`flows`] are ranges of addresses and ports.
//!   [`Templates`] are the frames of both in the order of sending.
//!
//! A *frame* in memory is what software sees: from the destination address to the end of the payload, without
//! preamble and FCS.
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;
#[cfg(feature = "pcap")]
extern crate std;

pub mod arithmetic;
pub mod arp;
pub mod build;
#[cfg(feature = "captures")]
pub mod capture;
pub mod checksum;
pub mod edits;
pub mod encap;
pub mod ethernet;
pub mod fillers;
pub mod flows;
pub mod headers;
pub mod icmp;
pub mod ipv4;
pub mod ipv6;
pub mod mix;
pub mod nd;
pub mod pattern;
#[cfg(feature = "pcap")]
pub mod pcap;
#[cfg(feature = "pcap")]
pub mod pcapng;
pub mod rate;
pub mod raw;
pub mod rss;
mod size;
pub mod stack;
mod superpacket;
pub mod tag;
pub mod tcp;
pub mod templates;
pub mod udp;

pub use encap::Encap;
pub use ethernet::Mac;
pub use mix::Mix;
pub use raw::RawPacket;
pub use size::Size;
pub use stack::Stack;
pub use superpacket::Superpacket;
pub use tag::Tag;
pub use templates::{TemplateOptions, Templates};

/// Why bytes are not a frame of the expected kind, or a frame cannot be built.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Error {
    /// There are fewer bytes than the header, or a length field in it, requires.
    Truncated,
    /// A field has an invalid value: a header length below the minimum.
    Malformed,
    /// A frame of this size cannot be built: outside 60 to 9014 bytes without FCS, or too small for
    /// its headers and tag.
    Size,
    /// The bytes are of another protocol.
    Protocol,
}

impl core::fmt::Display for Error {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str(match self {
            Self::Truncated => "the frame is shorter than its headers say",
            Self::Malformed => "a header field has an invalid value",
            Self::Size => "no frame of this size can be built",
            Self::Protocol => "the frame is of another protocol",
        })
    }
}

impl core::error::Error for Error {}

/// Big-endian fields; the callers' views have checked the lengths.
mod field {
    pub fn u16(bytes: &[u8], at: usize) -> u16 {
        u16::from_be_bytes([bytes[at], bytes[at + 1]])
    }
    pub fn u32(bytes: &[u8], at: usize) -> u32 {
        u32::from_be_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
    }
    pub fn put_u16(bytes: &mut [u8], at: usize, value: u16) {
        bytes[at..at + 2].copy_from_slice(&value.to_be_bytes());
    }
    pub fn put_u32(bytes: &mut [u8], at: usize, value: u32) {
        bytes[at..at + 4].copy_from_slice(&value.to_be_bytes());
    }
}
