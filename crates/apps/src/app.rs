//! What apps with several ports have in common: where frames go, and the account of where they went.

/// A frame that can become longer or shorter at its end.
pub trait Resize: AsRef<[u8]> + AsMut<[u8]> {
    /// Makes it this long, in bytes without FCS; what is added has any content. `false`, with nothing
    /// changed, if its buffer has no room.
    fn resize(&mut self, bytes: usize) -> bool;
}

impl Resize for Vec<u8> {
    fn resize(&mut self, bytes: usize) -> bool {
        self.resize(bytes, 0);
        true
    }
}

/// Where the frames of an [`App`] leave.
pub trait Outputs<F> {
    /// Takes a frame that leaves by `port`. What becomes of it there is the port's to count.
    fn send(&mut self, port: usize, frame: F);
    /// A new frame of these bytes; `None` if there is no buffer, or none that large.
    fn make(&mut self, bytes: &[u8]) -> Option<F>;
    /// Takes a frame whose way ended, for its buffer.
    fn discard(&mut self, frame: F);
}

/// Something with several ports that frames go through.
pub trait App<F> {
    /// Takes a frame that came in by port `from` at `now_ns`. Gives it back if its way ended here, so that
    /// the caller can reuse its buffer.
    fn push(&mut self, from: usize, frame: F, now_ns: u64, out: &mut impl Outputs<F>) -> Option<F>;
    /// Does what has become due. Call it some ten times a second.
    fn tick(&mut self, now_ns: u64, out: &mut impl Outputs<F>);
    /// What became of all frames so far.
    fn ledger(&self) -> Ledger;
}

/// Why a frame's way ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Reason {
    /// It is shorter than its headers, or a field in them has an impossible value.
    Malformed,
    /// Its IPv4 header checksum is wrong.
    BadChecksum,
    /// Its source cannot be one: a group, or an address that no host has.
    BadSource,
    /// Its destination address is never forwarded: 01:80:C2:00:00:0x on a bridge; on a router groups,
    /// broadcasts and addresses that no host has.
    NotForwarded,
    /// Its destination is where it came from.
    SamePort,
    /// There is no other port.
    NoPort,
    /// A router is not who the frame is for.
    OtherStation,
    /// A router has no interface in its VLAN.
    OtherVlan,
    /// Neither IPv4 nor ARP.
    OtherProtocol,
    /// It had no hop left.
    Expired,
    /// No route leads to its destination.
    NoRoute,
    /// The next hop does not answer ARP.
    NoNeighbour,
    /// Too many frames wait for the answer of a next hop, or too many next hops are waited for; or
    /// too many fragments wait for the first.
    QueueFull,
    /// A NAT has nobody to give it to: no mapping, or a protocol without ports.
    NoMapping,
    /// A NAT has no room for another mapping, or no port.
    TableFull,
    /// The first fragment of its packet did not come.
    NoFirstFragment,
    /// It is longer than the way on allows.
    TooBig,
    /// No buffer for a copy, a question or an answer: it was not made.
    NoBuffer,
    /// It was for the router itself, and used up there.
    Local,
}

impl Reason {
    /// All of them.
    pub const ALL: [Self; 19] = [
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
        Self::NoFirstFragment,
        Self::TooBig,
        Self::NoBuffer,
        Self::Local,
    ];

    /// The name under which results list it.
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
            Self::NoFirstFragment => "no_first_fragment",
            Self::TooBig => "too_big",
            Self::NoBuffer => "no_buffer",
            Self::Local => "local",
        }
    }
}

/// What became of an app's frames: `received + made = sent + ended + held`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Ledger {
    /// Frames that came in.
    pub received: u64,
    /// Frames that the app wanted to make: copies, questions, answers.
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
