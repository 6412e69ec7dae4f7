//! The interface of apps with several ports, and the ledger of their frames.

/// A frame that can become longer or shorter at its end.
pub trait Resize: AsRef<[u8]> + AsMut<[u8]> {
    /// Sets the length, in bytes without FCS; added bytes have any content. `false`, with no change, if the
    /// buffer is too small.
    fn resize(&mut self, bytes: usize) -> bool;
}

impl Resize for Vec<u8> {
    fn resize(&mut self, bytes: usize) -> bool {
        self.resize(bytes, 0);
        true
    }
}

/// The outputs of an [`App`].
pub trait Outputs<F> {
    /// Takes a frame that leaves by `port`. The port counts its further fate.
    fn send(&mut self, port: usize, frame: F);
    /// Makes a new frame of these bytes; `None` without a large enough buffer.
    fn make(&mut self, bytes: &[u8]) -> Option<F>;
    /// Takes back the buffer of a dropped frame.
    fn discard(&mut self, frame: F);
}

/// An application with several ports, through which frames pass.
pub trait App<F> {
    /// Takes a frame that arrived at port `from` at `now_ns`. Returns it if it ends here, so that the caller
    /// can reuse its buffer.
    fn push(&mut self, from: usize, frame: F, now_ns: u64, out: &mut impl Outputs<F>) -> Option<F>;
    /// Announces its addresses to the stations on its links. Call it once, when the ports can send. Where all
    /// stations are configured, as in a simulator, it need not be called.
    fn start(&mut self, now_ns: u64, out: &mut impl Outputs<F>) {
        let _ = (now_ns, out);
    }
    /// Handles timeouts. Call it about ten times a second.
    fn tick(&mut self, now_ns: u64, out: &mut impl Outputs<F>);
    /// The account of all frames so far.
    fn ledger(&self) -> Ledger;
}

/// Why a frame ended in the app.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Reason {
    /// It is shorter than its headers, or a field in them has an impossible value.
    Malformed,
    /// Its IPv4 header checksum is wrong.
    BadChecksum,
    /// Its source address is invalid: a group, or an address that no host has.
    BadSource,
    /// Its destination address is never forwarded: 01:80:C2:00:00:0x on a bridge; on a router groups,
    /// broadcasts and addresses that no host has.
    NotForwarded,
    /// Its destination is behind the port that it came from.
    SamePort,
    /// There is no other port.
    NoPort,
    /// The frame is addressed to another station than the router.
    OtherStation,
    /// The router has no interface in its VLAN.
    OtherVlan,
    /// Neither IPv4 nor ARP.
    OtherProtocol,
    /// Its TTL expired.
    Expired,
    /// No route leads to its destination.
    NoRoute,
    /// The next hop does not answer ARP.
    NoNeighbour,
    /// Too many frames wait for the ARP reply of a next hop, or too many next hops are unresolved; or too
    /// many fragments wait for the first one.
    QueueFull,
    /// The NAT has no mapping for it, or it is of a protocol without ports.
    NoMapping,
    /// The NAT has no room for another mapping, or no free port.
    TableFull,
    /// The inside host has as many mappings as one may have.
    HostFull,
    /// The first fragment of its packet did not arrive.
    NoFirstFragment,
    /// It is longer than the MTU of the next link.
    TooBig,
    /// There was no buffer for a copy, an ARP request or a reply.
    NoBuffer,
    /// It was for the router itself.
    Local,
}

impl Reason {
    /// All of them.
    pub const ALL: [Self; 20] = [
        Self::Malformed,
        Self::BadChecksum,
        Self::BadSource,
        Self::NotForwarded,
        Self::SamePort,
        Self::NoPort,
        Self::OtherStation,
        Self::OtherVlan,
        Self::OtherProtocol,
        Self::Expired,
        Self::NoRoute,
        Self::NoNeighbour,
        Self::QueueFull,
        Self::NoMapping,
        Self::TableFull,
        Self::HostFull,
        Self::NoFirstFragment,
        Self::TooBig,
        Self::NoBuffer,
        Self::Local,
    ];

    /// Its name in results.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Malformed => "malformed",
            Self::BadChecksum => "bad_checksum",
            Self::BadSource => "bad_source",
            Self::NotForwarded => "not_forwarded",
            Self::SamePort => "same_port",
            Self::NoPort => "no_port",
            Self::OtherStation => "other_station",
            Self::OtherVlan => "other_vlan",
            Self::OtherProtocol => "other_protocol",
            Self::Expired => "expired",
            Self::NoRoute => "no_route",
            Self::NoNeighbour => "no_neighbour",
            Self::QueueFull => "queue_full",
            Self::NoMapping => "no_mapping",
            Self::TableFull => "table_full",
            Self::HostFull => "host_full",
            Self::NoFirstFragment => "no_first_fragment",
            Self::TooBig => "too_big",
            Self::NoBuffer => "no_buffer",
            Self::Local => "local",
        }
    }
}

/// The account of an app's frames: `received + made = sent + ended + held`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Ledger {
    /// Frames that arrived.
    pub received: u64,
    /// Frames that the app made or tried to make: copies, ARP requests and announcements, ICMP errors.
    pub made: u64,
    /// Frames given to a port.
    pub sent: u64,
    /// Frames that the app holds now.
    pub held: u64,
    ended: [u64; Reason::ALL.len()],
}

impl Ledger {
    /// Frames that ended for this reason.
    pub fn ended(&self, reason: Reason) -> u64 {
        self.ended[reason as usize]
    }
    /// Frames that ended, by reason; only reasons that occurred.
    pub fn reasons(&self) -> impl Iterator<Item = (Reason, u64)> + '_ {
        Reason::ALL.iter().map(|&reason| (reason, self.ended(reason))).filter(|&(_, count)| count > 0)
    }
    /// Whether every frame is accounted for.
    pub fn closes(&self) -> bool {
        self.received + self.made == self.sent + self.ended.iter().sum::<u64>() + self.held
    }
    pub(crate) fn end(&mut self, reason: Reason) {
        self.ended[reason as usize] += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_reason_is_counted_by_itself() {
        for (index, reason) in Reason::ALL.into_iter().enumerate() {
            assert_eq!(reason as usize, index);
            let mut ledger = Ledger { received: 1, ..Ledger::default() };
            assert!(!ledger.closes());
            ledger.end(reason);
            assert!(ledger.closes());
            assert_eq!(ledger.reasons().collect::<Vec<_>>(), [(reason, 1)]);
        }
        let mut names = Reason::ALL.map(Reason::name).to_vec();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), Reason::ALL.len());
    }
}
