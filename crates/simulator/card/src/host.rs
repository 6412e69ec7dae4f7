//! The host around the card: bus, memory and wire.

/// The direction of a burst.
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

/// The host around the card.
///
/// The card calls [`burst`](Host::burst) to request the bus. When the burst has ended, it calls
/// [`load`](Host::load) or [`store`](Host::store), so memory changes in order of time. `now_ps` never
/// decreases from call to call.
pub trait Host {
    /// Reserves the bus for one burst of `bytes` at `addr`, not before `now_ps`, first come, first served.
    /// Returns the end of the burst in ps.
    fn burst(&mut self, now_ps: u64, kind: BurstKind, purpose: Purpose, addr: u64, bytes: u32) -> u64;

    /// Copies memory at `addr` into `into`. `false`: there is no such memory (the burst ended in a master
    /// abort), and the contents of `into` are undefined.
    fn load(&mut self, addr: u64, into: &mut [u8]) -> bool;

    /// Copies `from` to memory at `addr`. `false`: there is no such memory, and nothing was stored.
    fn store(&mut self, addr: u64, from: &[u8]) -> bool;

    /// The last bit of `frame` (without FCS) left the card at `now_ps`.
    fn transmitted(&mut self, now_ps: u64, frame: &[u8]);

    /// As [`transmitted`](Host::transmitted), but with a wrong FCS from software (IFCS clear, SDM 3.3.3.1): a
    /// receiver drops this frame.
    fn transmitted_bad(&mut self, now_ps: u64, frame: &[u8]) {
        let _ = (now_ps, frame);
    }
}
