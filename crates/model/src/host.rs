//! What the card sees of the machine around it: the bus, memory and the wire.

/// Which way a burst moves data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BurstKind {
    /// The card reads memory.
    Read,
    /// The card writes memory (posted).
    Write,
}

/// Why the card uses the bus. A host may charge, count or prioritise by it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// Reads receive descriptors (SDM 3.2.4).
    RxDescriptorFetch,
    /// Writes a received frame, or a part of one, to a receive buffer.
    RxData,
    /// Writes used receive descriptors back (SDM 3.2.5).
    RxWriteBack,
    /// Reads transmit descriptors (SDM 3.4.1).
    TxDescriptorFetch,
    /// Reads data to be sent.
    TxData,
    /// Reports transmit descriptors as done (SDM 3.4.2).
    TxWriteBack,
}

/// The machine around the card.
///
/// The card calls [`burst`](Host::burst) when it asks for the bus, and only when the burst has
/// ended does it [`load`](Host::load) or [`store`](Host::store) the bytes, so that memory
/// changes in the order of time. All calls are made in the order of the card's own time; `now_ps` never goes back.
pub trait Host {
    /// Reserves the bus for one burst of `bytes` at `addr`, not before `now_ps`, first come first
    /// served; returns the time in ps when its last byte has crossed.
    fn burst(&mut self, now_ps: u64, kind: BurstKind, purpose: Purpose, addr: u64, bytes: u32) -> u64;

    /// Copies memory at `addr`, as it is now, into `into`. `false`: there is no such memory
    /// (the burst ended in a master abort) and `into` means nothing.
    fn load(&mut self, addr: u64, into: &mut [u8]) -> bool;

    /// Copies `from` to memory at `addr`. `false`: there is no such memory, nothing was stored.
    fn store(&mut self, addr: u64, from: &[u8]) -> bool;

    /// The last bit of `frame` (without FCS) left the card at `now_ps`.
    fn transmitted(&mut self, now_ps: u64, frame: &[u8]);

    /// As [`transmitted`](Host::transmitted), but software supplied the FCS (IFCS clear, SDM
    /// 3.3.3.1) and it is wrong: a receiver drops this frame.
    fn transmitted_bad(&mut self, now_ps: u64, frame: &[u8]) {
        let _ = (now_ps, frame);
    }
}
