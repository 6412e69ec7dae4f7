//! Later fragments, which have no ports: they follow the first fragment of their packet. Fragments that
//! arrive before the first one wait (RFC 4787, REQ-14). The numbers of packets and of waiting fragments are
//! bounded.

use super::packet::Endpoint;
use foldhash::fast::RandomState;
use std::collections::HashMap;
use std::net::Ipv4Addr;

/// How long a packet is kept after the first arrival of one of its fragments, in ns: the reassembly timeout
/// of Linux.
const REMEMBER_NS: u64 = 30_000_000_000;
/// The most packets kept.
const PACKETS: usize = 256;
/// The most fragments that wait for one packet's first one.
const WAITING: usize = 4;

/// The packet of a fragment: source, destination, protocol, identification.
pub(in crate::route) type Key = (Ipv4Addr, Ipv4Addr, u8, u16);

#[derive(Debug)]
enum State<F> {
    /// The first fragment went there.
    Known(Endpoint),
    /// The first fragment is missing; these fragments arrived by these ports.
    Waiting(Vec<(usize, F)>),
}

#[derive(Debug)]
struct Entry<F> {
    state: State<F>,
    until_ns: u64,
}

/// Fragmented packets from outside.
#[derive(Debug)]
pub(in crate::route) struct Fragments<F> {
    packets: HashMap<Key, Entry<F>, RandomState>,
    /// Fragments whose first one has arrived.
    ready: Vec<(usize, F)>,
}

impl<F> Default for Fragments<F> {
    fn default() -> Self {
        Self { packets: HashMap::default(), ready: Vec::new() }
    }
}

impl<F> Fragments<F> {
    /// Fragments that wait. All ready fragments have left when the router has taken a frame.
    pub(in crate::route) fn held(&self) -> u64 {
        let waiting = |entry: &Entry<F>| match &entry.state {
            State::Known(_) => 0,
            State::Waiting(frames) => frames.len() as u64,
        };
        self.packets.values().map(waiting).sum()
    }

    /// The destination of the packet's first fragment.
    pub(super) fn find(&self, key: &Key) -> Option<Endpoint> {
        match self.packets.get(key)?.state {
            State::Known(inside) => Some(inside),
            State::Waiting(_) => None,
        }
    }

    /// Notes the destination of the first fragment; fragments that waited for it become ready.
    pub(super) fn know(&mut self, key: Key, inside: Endpoint, now_ns: u64) {
        let entry = Entry { state: State::Known(inside), until_ns: now_ns + REMEMBER_NS };
        if !self.has_room(&key) {
            return;
        }
        if let Some(Entry { state: State::Waiting(frames), .. }) = self.packets.insert(key, entry) {
            self.ready.extend(frames);
        }
    }

    /// Queues a fragment that arrived at `port` until the first one arrives.
    pub(in crate::route) fn hold(&mut self, key: Key, port: usize, frame: F, now_ns: u64) -> Result<(), F> {
        if !self.has_room(&key) {
            return Err(frame);
        }
        let entry = self
            .packets
            .entry(key)
            .or_insert_with(|| Entry { state: State::Waiting(Vec::new()), until_ns: now_ns + REMEMBER_NS });
        match &mut entry.state {
            State::Waiting(frames) if frames.len() < WAITING => {
                frames.push((port, frame));
                Ok(())
            }
            _ => Err(frame),
        }
    }

    /// Whether the packet is known, or another one may be.
    fn has_room(&self, key: &Key) -> bool {
        self.packets.len() < PACKETS || self.packets.contains_key(key)
    }

    /// The oldest ready fragment, with the port that it arrived at.
    pub(in crate::route) fn next_ready(&mut self) -> Option<(usize, F)> {
        (!self.ready.is_empty()).then(|| self.ready.remove(0))
    }

    /// Drops expired packets; returns their waiting fragments.
    pub(in crate::route) fn due(&mut self, now_ns: u64) -> Vec<F> {
        let old = self.packets.extract_if(|_, entry| now_ns >= entry.until_ns);
        let frames = old.filter_map(|(_, entry)| match entry.state {
            State::Known(_) => None,
            State::Waiting(frames) => Some(frames),
        });
        frames.flatten().map(|(_, frame)| frame).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packets_are_bounded_and_one_that_has_a_place_keeps_it() {
        const INSIDE: Endpoint = (Ipv4Addr::new(10, 0, 0, 2), 4000);
        let key = |id: usize| (Ipv4Addr::new(192, 0, 2, 1), Ipv4Addr::new(192, 0, 2, 2), 17, id as u16);
        let mut fragments = Fragments::default();
        for id in 0..PACKETS {
            assert_eq!(fragments.hold(key(id), 1, (id, 8), 0), Ok(()));
        }
        let more = key(PACKETS);
        assert_eq!(fragments.hold(more, 1, (PACKETS, 8), 0), Err((PACKETS, 8)));
        fragments.know(more, INSIDE, 0);
        assert_eq!((fragments.find(&more), fragments.next_ready()), (None, None));
        // Fragments of a packet that has its place, the first one among them.
        assert_eq!(fragments.hold(key(0), 1, (0, 16), 0), Ok(()));
        assert_eq!(fragments.held(), PACKETS as u64 + 1);
        fragments.know(key(0), INSIDE, 0);
        assert_eq!(fragments.find(&key(0)), Some(INSIDE));
        assert_eq!([(); 3].map(|()| fragments.next_ready()), [Some((1, (0, 8))), Some((1, (0, 16))), None]);
        assert_eq!(fragments.held(), PACKETS as u64 - 1);
    }
}
