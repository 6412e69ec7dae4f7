//! The cases by area. Each is a function of a fixture ([`crate::case`]).

mod checksum;
mod exchange;
mod filler;
mod filter;
mod identity;
mod interrupt;
mod link;
mod queues;
mod ring;
mod segment;
mod size;
mod statistics;
mod timed;
mod traffic;
mod vlan;

use crate::Fixture;
use crate::case::Entry;

/// All cases except those that measure time.
pub(crate) fn all<B: Fixture>() -> Vec<Entry<B>> {
    [
        identity::cases(),
        link::cases(),
        size::cases(),
        filler::cases(),
        filter::cases(),
        vlan::cases(),
        checksum::cases(),
        segment::cases(),
        ring::cases(),
        interrupt::cases(),
        queues::cases(),
        statistics::cases(),
        traffic::cases(),
    ]
    .concat()
}

/// The cases that measure time.
pub(crate) fn timed<B: Fixture>() -> Vec<Entry<B>> {
    timed::cases()
}
