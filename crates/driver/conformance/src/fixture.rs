//! The environment of the suite: a card, a platform for its driver, the far end of its cable, and time.

use crate::{Departure, Failure};
use kpps_datasheet::Chip;
use kpps_platform::{BufferSource, Platform};

/// A card under test. The driver reaches it through [`Platform`]; the suite holds the far end of its cable.
pub trait Fixture {
    /// The platform of the driver.
    type Platform: Platform + Clone;
    /// The source of its buffers.
    type Source: BufferSource + Clone;

    /// The device's name: "QEMU 7.2.22 e1000", "model".
    fn device(&self) -> String;
    /// The chip.
    fn chip(&self) -> Chip;
    /// The station address in its EEPROM.
    fn address(&self) -> [u8; 6];
    /// The known departures of this device from the manual.
    fn departures(&self) -> &'static [&'static Departure];
    /// Whether the device has this known departure.
    fn departs(&self, departure: &'static Departure) -> bool {
        self.departures().contains(&departure)
    }

    /// A handle to the platform.
    fn platform(&self) -> Self::Platform;
    /// `count` buffers of `bytes`.
    fn buffers(&mut self, count: usize, bytes: usize) -> Result<Self::Source, Failure>;

    /// Sends `frame`, without FCS, to the card, in order and as fast as wire and device allow.
    fn inject(&mut self, frame: &[u8]) -> Result<(), Failure>;
    /// As [`inject`](Self::inject), but without waiting for a device that is known to receive nothing for a
    /// while.
    fn inject_at_once(&mut self, frame: &[u8]) -> Result<(), Failure> {
        self.inject(frame)
    }
    /// As [`inject`](Self::inject), with a wrong FCS; `false` if the wire carries no FCS.
    fn inject_bad_fcs(&mut self, frame: &[u8]) -> Result<bool, Failure>;
    /// The number of frames that left the card with a wrong FCS since the last call; `None` if the far end
    /// does not see them. Call it before [`collect`](Self::collect), to which such a frame is an error.
    fn take_spoiled(&mut self) -> Option<u64> {
        None
    }
    /// The next frame that left the card, without FCS.
    fn collect(&mut self) -> Result<Option<Vec<u8>>, Failure>;
    /// Whether [`collect`](Self::collect) keeps the order of frames of different protocols.
    fn keeps_order(&self) -> bool {
        true
    }
    /// Whether [`collect`](Self::collect) sees short frames padded to 60 bytes even if the card did not pad
    /// them.
    fn is_padded(&self) -> bool {
        false
    }
    /// Lets `ns` nanoseconds pass: real time for a real device, virtual time for a modelled one.
    fn advance(&mut self, ns: u64) -> Result<(), Failure>;
    /// Plugs the cable in, or unplugs it.
    fn set_link(&mut self, up: bool) -> Result<(), Failure>;
    /// Whether the card asserts its interrupt.
    fn interrupt_line(&mut self) -> Result<bool, Failure>;
    /// How often the card has raised its interrupt.
    fn interrupts(&mut self) -> Result<u64, Failure>;
    /// Gives the card this many MSI-X vectors instead of its interrupt line; 0 gives it the line back.
    /// `false` if the fixture cannot do that.
    fn set_vectors(&mut self, vectors: u8) -> Result<bool, Failure> {
        Ok(vectors == 0)
    }
    /// Whether an MSI-X vector has fired since the last call.
    fn take_message(&mut self, vector: u8) -> Result<bool, Failure> {
        let _ = vector;
        Ok(false)
    }
    /// The queues that the card has in each direction.
    fn queues(&self) -> u8 {
        self.chip().queues()
    }
    /// Whether the card can put headers into buffers of their own.
    fn splits_headers(&self) -> bool {
        self.chip().has_extended_rx()
    }
    /// Whether the fixture can unplug the cable.
    fn has_cable(&self) -> bool {
        true
    }
    /// Whether a received frame is other traffic: others may use the far end, too.
    fn is_noise(&self, frame: &[u8]) -> bool {
        let _ = frame;
        false
    }
    /// The longest delay between an event and its notice on this fixture, in ns.
    fn slack_ns(&self) -> u64 {
        0
    }
}
