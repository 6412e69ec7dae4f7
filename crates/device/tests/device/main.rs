//! The card as a driver and a machine see it.
#![allow(clippy::unwrap_used)]

mod bench;
mod receive;
mod timing;
mod transmit;
