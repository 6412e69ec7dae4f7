//! The state of the transmitter: its registers, its ring and FIFO, and the packet in work.
//!
//! `transmit.rs` reads descriptors and data, `packet.rs` makes frames of them, `transmit_report.rs` reports
//! them.

use crate::fifo::FrameFifo;
use crate::frame::VLAN_BYTES;
use crate::queue::Queue;
use crate::segment::Segmentation;
use kpps_datasheet::desc::TxContext;

/// The longest frame in bytes, without FCS: the most that a descriptor may hold (SDM 3.3.3), and at most what
/// a receiver accepts.
pub(crate) const LONGEST_BYTES: usize = 16288;

/// The options of a packet, from its first descriptor.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Options {
    /// [`popts`] bits, of a data descriptor.
    pub(crate) popts: u8,
    /// Checksum start of a legacy descriptor.
    pub(crate) css: u8,
    /// The packet began with a legacy descriptor.
    pub(crate) legacy: bool,
    pub(crate) vlan: Option<u16>,
    /// IFCS of the segmentation's first descriptor.
    pub(crate) ifcs: bool,
}

/// The current data descriptor, legacy or extended.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Data {
    pub(crate) buffer: u64,
    pub(crate) length: u32,
    /// Bytes already read.
    pub(crate) read: u32,
    pub(crate) cmd: u8,
    pub(crate) special: u16,
    /// Bytes of the burst in progress; 0: none.
    pub(crate) burst: u32,
}

/// The transmitter.
#[derive(Clone, Debug)]
pub(crate) struct Transmit {
    /// TCTL, TIPG, TIDV, TADV, TXDCTL.
    pub(crate) control: u32,
    pub(crate) gap: u32,
    /// AIFS.
    pub(crate) throttle: u16,
    pub(crate) tidv: u32,
    /// A descriptor whose report is to be delayed has been sent since the last interrupt (QEMU's moderation).
    pub(crate) delayed: bool,
    pub(crate) tadv: u32,
    pub(crate) thresholds: u32,
    pub(crate) fetch_below: u32,
    pub(crate) fetch_least: u32,
    pub(crate) write_at: u32,
    pub(crate) queue: Queue,
    pub(crate) fifo: FrameFifo,
    /// The size of the FIFO in bytes (PBA).
    pub(crate) capacity: u32,
    /// The engine may not start a descriptor before this.
    pub(crate) engine_free_ps: u64,
    pub(crate) data: Option<Data>,
    /// The packet in work.
    pub(crate) packet: Vec<u8>,
    pub(crate) in_packet: bool,
    pub(crate) options: Options,
    /// The packet is discarded; its descriptors are consumed without reading data.
    pub(crate) discard: bool,
    /// The contexts of SDM 3.3.5.
    pub(crate) checksum_context: TxContext,
    pub(crate) segment_context: TxContext,
    pub(crate) segmentation: Option<Segmentation>,
    /// The legacy checksum of the descriptor that ends the packet.
    pub(crate) insert: Option<u8>,
    /// For each on-chip descriptor, how many frames must have left before it may be reported (RPS).
    pub(crate) report_after: [u64; crate::queue::ON_CHIP as usize],
    /// A report waits for its frame to leave.
    pub(crate) reports_wait: bool,
    /// Frames put into the FIFO since power-up.
    pub(crate) built: u64,
    /// Expiry of TIDV or TADV: write back all, then TXDW.
    pub(crate) flush_mark: u64,
    pub(crate) flush_causes: u32,
}

impl Transmit {
    pub(crate) fn new(capacity: u32, gap: u32) -> Self {
        Self::with_memory(FrameFifo::new(), Vec::with_capacity(LONGEST_BYTES + VLAN_BYTES), capacity, gap)
    }

    fn with_memory(fifo: FrameFifo, packet: Vec<u8>, capacity: u32, gap: u32) -> Self {
        Self {
            control: 0,
            gap,
            throttle: 0,
            tidv: 0,
            delayed: false,
            tadv: 0,
            thresholds: 0,
            fetch_below: 0,
            fetch_least: 0,
            write_at: 0,
            queue: Queue::new(),
            fifo,
            capacity,
            engine_free_ps: 0,
            data: None,
            packet,
            in_packet: false,
            options: Options::default(),
            discard: false,
            checksum_context: TxContext::default(),
            segment_context: TxContext::default(),
            segmentation: None,
            insert: None,
            report_after: [0; crate::queue::ON_CHIP as usize],
            reports_wait: false,
            built: 0,
            flush_mark: 0,
            flush_causes: 0,
        }
    }

    /// Returns to the state after power-up. Returns the number of lost frames.
    pub(crate) fn reset(&mut self, capacity: u32, gap: u32, left: u64) -> u64 {
        let lost = self.fifo.clear();
        let fifo = core::mem::replace(&mut self.fifo, FrameFifo::empty());
        let mut packet = core::mem::take(&mut self.packet);
        packet.clear();
        *self = Self { built: left, ..Self::with_memory(fifo, packet, capacity, gap) };
        lost
    }

    /// Whether a descriptor is in work.
    pub(crate) fn mid_descriptor(&self) -> bool {
        self.data.is_some()
    }
}
