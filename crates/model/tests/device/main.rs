//! The card as a driver and a machine see it.
#![allow(clippy::unwrap_used)]

mod bench;
mod cve;
mod ledger;
mod offload;
mod periphery;
mod receive;
mod statistics;
mod timing;
mod transmit;
