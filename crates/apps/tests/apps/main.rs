//! The apps byte by byte, with etherparse as the second opinion, and under whatever frames there may be.
#![allow(clippy::unwrap_used)]

mod bridge;
mod corpus;
mod nat;
mod network;
mod router;
mod vlan;
mod wires;
