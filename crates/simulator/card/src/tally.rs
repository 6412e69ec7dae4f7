//! The account of every frame, kept by the model itself.
//!
//! The statistics registers (SDM 13.7) are what the *driver* can read; the tally is what happened. At every
//! instant `arrived = to_host + dropped.total() + in_fifo`.

/// Frames that arrived and were not stored in host memory, by reason.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Dropped {
    /// The receive FIFO was full while descriptors were available: the engine or the bus is the limit.
    pub fifo_engine: u64,
    /// The receive FIFO was full while the engine waited for descriptors: the driver is the limit.
    pub fifo_no_descriptor: u64,
    /// The address or VLAN filters rejected the frame.
    pub filtered: u64,
    /// The frame check sequence was wrong.
    pub bad_fcs: u64,
    /// Longer than allowed (SDM 13.7.36).
    pub too_long: u64,
    /// Shorter than 64 bytes with FCS (SDM 13.7.34).
    pub too_short: u64,
    /// A PAUSE frame that the card obeyed and discarded (RCTL.DPF, SDM 8.7.4).
    pub flow_control: u64,
    /// The receiver was not enabled or the link was down.
    pub disabled: u64,
    /// The frame was in the card when it was reset, or when its ring was replaced.
    pub reset: u64,
    /// A buffer was outside memory (master abort).
    pub no_memory: u64,
}

impl Dropped {
    /// The sum of all reasons.
    pub fn total(&self) -> u64 {
        self.fifo_engine
            + self.fifo_no_descriptor
            + self.filtered
            + self.bad_fcs
            + self.too_long
            + self.too_short
            + self.flow_control
            + self.disabled
            + self.reset
            + self.no_memory
    }
}

/// Counters of everything that the card did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Frames whose last bit arrived, from the wire or looped back.
    pub arrived: u64,
    /// Of these, frames that the card's own transmitter sent (loopback).
    pub looped: u64,
    /// Frames whose last byte was stored in host memory (the descriptor may still be unwritten).
    pub to_host: u64,
    /// Frames that were dropped.
    pub dropped: Dropped,
    /// Frames in the receive FIFO now, including the one in transfer.
    pub in_fifo: u64,
    /// The most bytes that the receive FIFO ever held.
    pub fifo_peak_bytes: u32,
    /// Frames whose last bit left, to the wire or looped back.
    pub transmitted: u64,
    /// Complete frames in the transmit FIFO or on the wire now.
    pub tx_in_flight: u64,
    /// Frames to send that were discarded: malformed, unreadable, too long, or lost in a reset.
    pub tx_discarded: u64,
    /// Time the wire was busy sending, gaps included, in ps.
    pub wire_busy_ps: u64,
    /// Time the enabled transmitter's wire was idle although it had descriptors or data, in ps.
    pub wire_idle_with_work_ps: u64,
    /// Time the enabled transmitter's wire was idle because it had nothing to send, in ps.
    pub wire_idle_without_work_ps: u64,
    /// How often the interrupt line rose.
    pub interrupts: u64,
    /// Bursts that fetched receive descriptors.
    pub rx_fetches: u64,
    /// Fetches of receive descriptors, of one or several bursts, that the tail cut short.
    pub rx_fetches_cut: u64,
    /// Bursts that wrote receive descriptors back.
    pub rx_write_backs: u64,
    /// Frames that arrived without a free receive descriptor and wait in the FIFO (RNBC, SDM 13.7.22).
    pub rx_no_buffer: u64,
    /// Time without a free receive descriptor, from the last one taken to the tail write that added more, in
    /// ps. It counts while the receiver is enabled and the link is up, from the first descriptors that a
    /// driver gives to a ring. A time that ends with a reset or a new ring does not count.
    pub rx_dry_ps: u64,
    /// The longest such time without an interruption, in ps.
    pub rx_dry_longest_ps: u64,
    /// Bursts that fetched transmit descriptors.
    pub tx_fetches: u64,
    /// Bursts that read data to send.
    pub tx_data_bursts: u64,
    /// Bursts that reported transmit descriptors.
    pub tx_write_backs: u64,
    /// Bursts of the card that ended in a master abort.
    pub master_aborts: u64,
}

impl Tally {
    /// Whether every frame that arrived is in exactly one place. True at every instant.
    pub fn closes(&self) -> bool {
        self.arrived == self.to_host + self.dropped.total() + self.in_fifo
    }
}
