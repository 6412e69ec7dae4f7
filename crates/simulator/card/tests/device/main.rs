//! The card as seen by a driver and a host.
#![allow(clippy::unwrap_used)]

mod bench;
mod express;
mod ledger;
mod offload;
mod periphery;
mod published;
mod receive;
mod statistics;
mod timing;
mod transmit;
