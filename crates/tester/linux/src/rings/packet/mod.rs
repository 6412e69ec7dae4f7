//! Packet sockets with rings: packet(7), packet_mmap.rst.

mod ring;
mod socket;

pub use ring::{Arrivals, Arrived, CUT, Cut, Departures, Taken};
pub use socket::{DEPARTURES, Socket, cuts};
