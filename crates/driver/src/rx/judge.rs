//! Checks what the device writes, and puts frames in several buffers together.

use super::{Received, RxCounters, format::Written};
use crate::config::{Config, RxFormat};
use kpps_datasheet::{
    Chip,
    desc::{RxWriteback, rx_error, rx_status},
};
use kpps_platform::Buffer;

/// Bytes of the frame check sequence.
const FCS_BYTES: u16 = 4;
/// A number of bytes that no frame has.
const SKIPPING: u32 = u32::MAX;

/// The limits of what can be true, and the frame in progress.
pub(super) struct Judge {
    buffer_bytes: u16,
    max_frame_bytes: u32,
    /// Bytes of FCS that the device leaves in the buffer.
    fcs: u16,
    /// What is to be handed on as it is starts above this length without FCS.
    copybreak: u16,
    /// Lengths of whole frames in one buffer start at `fcs + copybreak + 1`; there are this many, and none
    /// within a longer frame.
    whole_lengths: u32,
    /// Bytes of the frame so far, when the last descriptor did not end one; [`SKIPPING`] when the
    /// rest of it is to be skipped.
    partial: u32,
}

/// The length of a frame in one buffer.
#[derive(Clone, Copy)]
pub(super) struct Whole {
    /// Bytes in the buffer.
    pub(super) length: u16,
    /// Those that are not FCS.
    pub(super) without_fcs: u16,
}

/// The limits of good frames in one buffer.
#[derive(Clone, Copy)]
pub(super) struct Wholes {
    /// Bytes of FCS in the buffer.
    fcs: u16,
    /// The least length, with the FCS that is in the buffer.
    least: u32,
    /// How many lengths there are from there on.
    lengths: u32,
}

impl Wholes {
    /// The length of a good frame in one buffer.
    #[inline]
    pub(super) fn judge(self, word: u64) -> Option<Whole> {
        const EOP: u64 = (rx_status::EOP as u64) << 32;
        const ERRORS: u64 = (rx_error::FRAME as u64) << 40;
        let length = RxWriteback::unpack(word).length;
        let good = word & (EOP | ERRORS) == EOP && u32::from(length).wrapping_sub(self.least) < self.lengths;
        good.then_some(Whole { length, without_fcs: length.wrapping_sub(self.fcs) })
    }
}

impl Judge {
    pub(super) fn new(chip: Chip, config: &Config) -> Self {
        let split = matches!(config.rx_format.on(chip), RxFormat::Split { .. });
        let fcs = if (config.strip_fcs || split) && chip.has_fcs_strip() { 0 } else { FCS_BYTES };
        let mut judge = Self {
            buffer_bytes: config.rx_buffer_bytes,
            max_frame_bytes: config.max_frame_bytes.into(),
            fcs,
            copybreak: config.rx_copybreak_bytes,
            whole_lengths: 0,
            partial: 0,
        };
        judge.restart();
        judge
    }

    fn set_partial(&mut self, bytes: u32) {
        self.partial = bytes;
        self.whole_lengths = match bytes {
            0 => u32::from(self.buffer_bytes)
                .min(self.max_frame_bytes)
                .saturating_sub(u32::from(self.fcs) + u32::from(self.copybreak)),
            _ => 0,
        };
    }

    /// Forgets the frame in progress.
    pub(super) fn restart(&mut self) {
        self.set_partial(0);
    }

    /// What a good frame in one buffer is like that is not to be copied, as most are, as long as none of those comes that
    /// is not.
    #[inline]
    pub(super) fn wholes(&self) -> Wholes {
        let least = u32::from(self.fcs) + u32::from(self.copybreak) + 1;
        Wholes { fcs: self.fcs, least, lengths: self.whole_lengths }
    }

    /// Whether a frame is to be copied.
    pub(super) fn is_small<B>(&self, received: &Received<B>) -> bool {
        received.first && received.last && !received.error && received.bytes <= self.copybreak
    }

    /// Parts of long frames, small ones where those are copied, errors, and nonsense. `Err` holds the buffer of a frame, or part of
    /// one, that the consumer shall not see.
    pub(super) fn unusual<B: Buffer>(
        &mut self,
        counters: &mut RxCounters,
        written: Written,
        buffer: B,
    ) -> Result<Received<B>, B> {
        let wb = RxWriteback::unpack(written.word);
        match self.part(counters, wb, wb.length.into(), wb.length <= self.buffer_bytes) {
            Part::Skipped => Err(buffer),
            Part::Ruined => Ok(Received { error: true, ..Received::part(written, buffer, 0, (false, true)) }),
            Part::Good { first, last } => {
                let fcs = if last { self.fcs } else { 0 };
                let excess = fcs.saturating_sub(wb.length) as u8;
                buffer.sync_for_cpu(wb.length.into());
                let bytes = wb.length.saturating_sub(fcs);
                Ok(Received { excess, ..Received::part(written, buffer, bytes, (first, last)) })
            }
        }
    }

    /// Judges a descriptor with `bytes` of a frame, which its buffers can hold or not.
    pub(super) fn part(
        &mut self,
        counters: &mut RxCounters,
        wb: RxWriteback,
        bytes: u32,
        fits: bool,
    ) -> Part {
        let last = wb.status & rx_status::EOP != 0;
        if self.partial == SKIPPING {
            if last {
                self.set_partial(0);
            }
            return Part::Skipped;
        }
        let first = self.partial == 0;
        let total = self.partial + bytes;
        let nonsense =
            bytes == 0 || !fits || total > self.max_frame_bytes || last && total <= self.fcs.into();
        let bad = nonsense || last && wb.errors & rx_error::FRAME != 0;
        self.set_partial(match (last, bad) {
            (true, _) => 0,
            (false, true) => SKIPPING,
            (false, false) => total,
        });
        if bad {
            if nonsense {
                counters.nonsense += 1;
            } else {
                counters.frame_errors += 1;
            }
            return if first { Part::Skipped } else { Part::Ruined };
        }
        if last {
            counters.frames += 1;
            counters.bytes += u64::from(total - u32::from(self.fcs));
        }
        Part::Good { first, last }
    }
}

/// What becomes of what a descriptor holds.
pub(super) enum Part {
    /// Nothing: the consumer does not see it.
    Skipped,
    /// The consumer has the beginning already, and is told that the frame came to nothing.
    Ruined,
    /// The consumer gets it.
    Good {
        /// The frame starts here.
        first: bool,
        /// The frame ends here.
        last: bool,
    },
}
