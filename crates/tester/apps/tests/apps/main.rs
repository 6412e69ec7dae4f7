//! The apps byte by byte, checked with etherparse, and with arbitrary frames.
#![allow(clippy::unwrap_used)]

mod arp;
mod bridge;
mod corpus;
mod nat;
mod network;
mod router;
mod vlan;
mod wires;
