//! A hostile device against the whole driver.
//!
//! An honest user calls everything that the driver has, of any chip: start, receive, send, services, link,
//! statistics, filters, reset, another configuration. The device lies when and how the input says: any
//! register may read as anything, and any word of a ring and any byte of a buffer may change, at any moment.
//! It may be slow, too, vanish and come back.
//!
//! Invariants are checked by panics, so that a fuzzer or a test sees where one was broken:
//!
//! - Nothing panics.
//! - A call ends. It waits for at most 200 ms and reads at most 5,000 registers; a start or a reset waits for
//!   2 s and reads 50,000. A packet path does not wait and reads none.
//! - Every address that the driver writes into a descriptor lies in a buffer that it has shown to the device,
//!   with all the bytes that the device may use. The receiver is turned on with an existing ring, and no ring
//!   is freed while the device has it.
//! - A word of a ring is written only where it is shown to the device, and no byte is read behind the end of
//!   a ring or a buffer.
//! - What the consumer gets makes sense: parts in order, within their buffers, none longer than configured.
//! - No buffer is lost, used while it is in the pool, or given back twice.
//!
//! The driver has no `unsafe`, so it cannot reach other memory at all: an index that is wrong is a panic.

mod device;
mod express;
mod input;
mod place;
mod user;

pub use user::Seen;

use device::World;
use input::Input;
use kpps_datasheet::Chip;
use place::Pool;
use user::User;

/// Lets the driver of a chip live with a hostile device, as `input` says. Equal inputs give identical runs.
///
/// # Panics
/// If something does not hold.
pub fn live(input: &[u8]) -> Seen {
    let input = Input::new(input);
    let chip = input.of(&Chip::E1000);
    let buffers = input.of(&[200, 200, 64, 20, 2]);
    let (world, buffers) = World::new(input, chip, buffers);
    User::new(&world, Pool::new(&world, buffers)).live()
}

/// The chip of an input.
pub fn chip(input: &[u8]) -> Chip {
    Input::new(input).of(&Chip::E1000)
}
