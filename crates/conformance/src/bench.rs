//! What the suite needs around a card: a place for the driver, the far end of the cable, and
//! the passing of time.

use crate::{Departure, Failure};
use kpps_datasheet::Chip;
use kpps_platform::{BufferSource, Platform};

/// A card on a bench: the driver's side through [`Platform`], the cable in our hands.
pub trait Bench {
    /// Where the driver runs.
    type Platform: Platform + Clone;
    /// Where its buffers come from.
    type Source: BufferSource + Clone;

    /// The device's name: "QEMU 7.2.22 e1000", "model".
    fn device(&self) -> String;
    /// Which chip it is.
    fn chip(&self) -> Chip;
    /// The station address in its EEPROM.
    fn address(&self) -> [u8; 6];
    /// What this device is known to do otherwise than the manual says.
    fn departures(&self) -> &'static [&'static Departure];
    /// Whether the device is known for this departure.
    fn departs(&self, departure: &'static Departure) -> bool {
        self.departures().contains(&departure)
    }

    /// A handle to the driver's side.
    fn platform(&self) -> Self::Platform;
    /// `count` buffers of `bytes`.
    fn buffers(&mut self, count: usize, bytes: usize) -> Result<Self::Source, Failure>;

    /// Puts `frame`, without FCS, on the wire towards the card; it goes as fast as the wire or
    /// the device lets it, in order.
    fn inject(&mut self, frame: &[u8]) -> Result<(), Failure>;
    /// As [`inject`](Self::inject), which may first wait until a device that is known to be deaf
    /// for a while hears again; this does not.
    fn inject_at_once(&mut self, frame: &[u8]) -> Result<(), Failure> {
        self.inject(frame)
    }
    /// As [`inject`](Self::inject), with a wrong FCS; `false` if the wire knows no FCS.
    fn inject_spoiled(&mut self, frame: &[u8]) -> Result<bool, Failure>;
    /// The next frame, without FCS, that has come out of the card.
    fn collect(&mut self) -> Result<Option<Vec<u8>>, Failure>;
    /// Whether [`collect`](Self::collect) gets frames of different protocols in the order in which they
    /// left the card.
    fn keeps_order(&self) -> bool {
        true
    }
    /// Whether [`collect`](Self::collect) gets short frames padded to 60 B, whoever has padded them.
    fn is_padded(&self) -> bool {
        false
    }
    /// Lets `ns` nanoseconds pass: real ones for a real device, its own for a modelled one.
    fn settle(&mut self, ns: u64) -> Result<(), Failure>;
    /// Plugs the cable in or pulls it.
    fn set_link(&mut self, up: bool) -> Result<(), Failure>;
    /// Whether the card asserts its interrupt.
    fn interrupt_line(&mut self) -> Result<bool, Failure>;
    /// How often the card has raised its interrupt.
    fn interrupts(&mut self) -> Result<u64, Failure>;
    /// Gives the card so many MSI-X vectors instead of its interrupt line, or (0) the line back;
    /// `false` if that cannot be done here.
    fn set_vectors(&mut self, vectors: u8) -> Result<bool, Failure> {
        Ok(vectors == 0)
    }
    /// Whether an MSI-X vector has fired since this was last asked.
    fn take_message(&mut self, vector: u8) -> Result<bool, Failure> {
        let _ = vector;
        Ok(false)
    }
    /// Whether the cable can be pulled here.
    fn has_cable(&self) -> bool {
        true
    }
    /// Whether a received frame is nobody's business: the far end is not ours alone.
    fn is_noise(&self, frame: &[u8]) -> bool {
        let _ = frame;
        false
    }
    /// How much later than it happens something may be noticed here, in ns.
    fn slack_ns(&self) -> u64 {
        0
    }
}
