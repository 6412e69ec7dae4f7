//! Drivers with their cards, as a stack sees them ([`kpps_host::stack::Netdev`]).

pub mod any;
pub mod e1000;
pub mod policy;
pub mod rate_limited;
pub mod rate_limited_queue;
