//! Workloads: the frames to send, their end, and the readings meanwhile.

pub mod end_station;
pub mod fillers;
pub mod forward;
pub mod fragments;
pub mod freebsd;
pub mod netreceive;
pub mod receive;
pub mod rss;
pub mod tcp_bulk;
pub mod trace;
pub mod transmit;
