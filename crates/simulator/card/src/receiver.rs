//! The state of the receiver: its registers, its ring and FIFO, and the frame in transfer.
//!
//! `receive.rs` fills the FIFO from the wire, `receive_dma.rs` empties it into memory.

use crate::fifo::FrameFifo;
use crate::queue::Queue;
use kpps_datasheet::bit::dctl;

/// Flags of a frame in the FIFO.
pub(crate) mod tag {
    /// The FCS was wrong.
    pub(crate) const BAD_FCS: u32 = 1 << 0;
    /// Passed only the multicast hash.
    pub(crate) const INEXACT: u32 = 1 << 1;
    /// It counts as good.
    pub(crate) const GOOD: u32 = 1 << 2;
}

/// The receiver.
#[derive(Clone, Debug)]
pub(crate) struct Receive {
    /// RCTL.
    pub(crate) control: u32,
    /// RDTR without FPD.
    pub(crate) rdtr: u32,
    /// RADV.
    pub(crate) radv: u32,
    /// RSRPD.
    pub(crate) small: u32,
    /// RXDCTL.
    pub(crate) thresholds: u32,
    /// RXCSUM.
    pub(crate) checksum: u32,
    /// RFCTL.
    pub(crate) filter_control: u32,
    /// Descriptors are extended ones (RFCTL.EXSTEN).
    pub(crate) extended: bool,
    pub(crate) queue: Queue,
    pub(crate) fifo: FrameFifo,
    /// The initial state of each FCS; it has detected the CPU's instructions for CRCs.
    pub(crate) fcs: crc32fast::Hasher,
    /// The size of the FIFO in bytes (PBA).
    pub(crate) capacity: u32,
    /// The size of a receive buffer in bytes (RCTL.BSIZE, BSEX).
    pub(crate) buffer_bytes: u32,
    /// (PTHRESH, HTHRESH, WTHRESH) in descriptors.
    pub(crate) fetch_below: u32,
    pub(crate) fetch_least: u32,
    pub(crate) write_at: u32,
    /// Descriptors requested by all bursts of the fetch in progress; 0: none.
    pub(crate) filling: u32,
    /// The frame that the engine is moving.
    pub(crate) transfer: Option<Transfer>,
    /// The engine may not start a frame before this.
    pub(crate) engine_free_ps: u64,
    /// Causes to be set once `flush_mark` descriptors have been written back.
    pub(crate) flush_causes: u32,
    pub(crate) flush_mark: u64,
    /// The driver has given descriptors since it set the ring up.
    pub(crate) armed: bool,
    /// Since when the receiver waits for the driver's descriptors, in ps, if there is none now.
    pub(crate) dry_since: Option<u64>,
}

/// RXDCTL after reset: WTHRESH 1, counted in descriptors (SDM 13.4.46).
const THRESHOLDS_AT_RESET: u32 = dctl::GRAN | 1 << dctl::WTHRESH_SHIFT;

impl Receive {
    pub(crate) fn new(capacity: u32) -> Self {
        Self::with_fifo(FrameFifo::new(), capacity)
    }

    fn with_fifo(fifo: FrameFifo, capacity: u32) -> Self {
        Self {
            control: 0,
            rdtr: 0,
            radv: 0,
            small: 0,
            thresholds: THRESHOLDS_AT_RESET,
            checksum: 0,
            filter_control: 0,
            extended: false,
            queue: Queue::new(),
            fifo,
            fcs: crc32fast::Hasher::new(),
            capacity,
            buffer_bytes: 2048,
            fetch_below: 0,
            fetch_least: 0,
            write_at: 1,
            filling: 0,
            transfer: None,
            engine_free_ps: 0,
            flush_causes: 0,
            flush_mark: 0,
            armed: false,
            dry_since: None,
        }
    }

    /// Returns to the state after power-up. Returns the number of lost frames.
    pub(crate) fn reset(&mut self, capacity: u32) -> u64 {
        let lost = self.fifo.clear();
        let fifo = core::mem::replace(&mut self.fifo, FrameFifo::empty());
        *self = Self::with_fifo(fifo, capacity);
        lost
    }
}

/// A frame in transfer from the FIFO to host memory.
#[derive(Clone, Debug)]
pub(crate) struct Transfer {
    /// The position of its bytes in the FIFO.
    pub(crate) start: usize,
    /// Bytes to store, and bytes stored.
    pub(crate) total: usize,
    pub(crate) stored: usize,
    /// The burst in progress: its address, and its bytes of the frame.
    pub(crate) addr: u64,
    pub(crate) chunk: usize,
    /// The frame's length with FCS, for RSRPD.
    pub(crate) size: u32,
    /// The contents of the descriptors.
    pub(crate) status: u8,
    pub(crate) errors: u8,
    pub(crate) checksum: u16,
    pub(crate) special: u16,
    /// All bursts so far hit memory.
    pub(crate) ok: bool,
    /// The ring was replaced meanwhile.
    pub(crate) orphan: bool,
}

impl Receive {
    /// A frame waits, and there is no descriptor on chip or in the host.
    pub(crate) fn waits_for_descriptors(&self) -> bool {
        !self.fifo.is_empty() && self.queue.starved()
    }

    /// No frame is being moved, and no waiting frame can be moved: there is no descriptor on chip.
    pub(crate) fn is_idle(&self) -> bool {
        self.transfer.is_none() && (self.fifo.is_empty() || self.queue.cached() == 0)
    }
}
