//! QEMU's cards, poked by hand and in guests.
#![allow(clippy::unwrap_used)]

mod card;
mod guest;
