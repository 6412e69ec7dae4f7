//! Fillers: frames with a wrong FCS, which keep the wire busy between two frames.
//!
//! A card sends the frames of its ring one after the other. So the gap between two frames is exactly the time
//! of the fillers that are queued between them. Every receiver drops a filler, because its FCS is wrong.
//!
//! The descriptor of a filler has no IFCS, so the card takes the frame's last four bytes for its FCS (SDM
//! 3.3.3.1; it is valid with EOP only). All bytes of a filler are 0, and so is its FCS. The FCS of zeros is
//! another number for each length of up to 512 MB: the generator polynomial of the FCS is primitive, so only
//! 2³² - 1 bits of 0 have an FCS of 0.

use super::{Refusal, TxQueue};
use kpps_datasheet::desc::{self, advanced};
use kpps_platform::{Buffer, BufferSource, Platform};

/// The shortest filler, in bytes with FCS. The card pads shorter frames (TCTL.PSP), or follows them with
/// symbols up to the collision distance, also in full duplex (TCTL.COLD): they do not take less time (SDM
/// 13.4.33).
pub const MIN_FILLER_BYTES: u16 = 64;

impl<P: Platform, S: BufferSource> TxQueue<P, S> {
    /// Queues a filler of `bytes` bytes with its wrong FCS. On the wire it takes the time of a frame of this
    /// length, with preamble and gap. The device gets it at the next [`flush`](Self::flush).
    ///
    /// All fillers are in one buffer, which the first of them takes from the source. The queue keeps it. No
    /// counter of frames or bytes has fillers in it, only [`fillers`](super::TxCounters::fillers).
    ///
    /// # Errors
    /// [`Refusal::Full`] if the ring has no room, or the source no buffer, now; [`Refusal::Invalid`] if
    /// `bytes` is less than [`MIN_FILLER_BYTES`] or more than a buffer has.
    pub fn send_filler(&mut self, bytes: u16) -> Result<(), Refusal> {
        if self.filler.is_none() {
            self.filler = self.source.take().map(zeroed);
        }
        let Some(buffer) = &self.filler else { return Err(Refusal::Full) };
        let fits = usize::from(bytes) <= buffer.capacity().min(desc::LEGACY_MAX_BYTES as usize);
        if bytes < MIN_FILLER_BYTES || !fits {
            return Err(Refusal::Invalid);
        }
        let (mut bus, mut left) = (buffer.bus(), u32::from(bytes));
        if self.free < self.quirks.need(1, left, desc::LEGACY_MAX_BYTES) {
            return Err(Refusal::Full);
        }
        let form = if self.abilities.advanced { advanced::filler(bytes) } else { 0 };
        // Errata may need several descriptors.
        let mut written = 0;
        while left > 0 {
            let piece = self.quirks.piece(bus, left, written == 0, desc::LEGACY_MAX_BYTES);
            left -= piece;
            written += 1;
            let end = if left == 0 { desc::TX_EOP | self.report(self.next, written) } else { 0 };
            self.write(bus, form | u64::from(piece) | end, None);
            bus = bus.wrapping_add(piece.into());
        }
        self.counters.fillers += 1;
        Ok(())
    }
}

/// The buffer, all of whose bytes are 0.
fn zeroed<B: Buffer>(mut buffer: B) -> B {
    buffer.bytes_mut().fill(0);
    buffer.sync_for_device(buffer.capacity());
    buffer
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The FCS of IEEE 802.3, 3.2.9, bit by bit: of `bytes` zeros after another frame's state.
    fn after_zeros(state: u32, bytes: u32) -> u32 {
        (0..bytes * 8).fold(state, |state, _| state >> 1 ^ if state & 1 == 1 { 0xEDB8_8320 } else { 0 })
    }

    #[test]
    fn the_fcs_of_zeros_is_never_zero() {
        let mut state = after_zeros(u32::MAX, 60);
        // zlib's crc32 of 60 zeros.
        assert_eq!(!state, 0x0412_8908);
        for _ in 60..desc::LEGACY_MAX_BYTES {
            assert_ne!(!state, 0);
            state = after_zeros(state, 1);
        }
    }
}
