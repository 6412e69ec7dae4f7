//! Segments from outside, for tests and the fuzz target: near the sequence numbers that an end expects, or
//! anywhere.

use crate::segment::{Segment, Sending, Socket, Tuple};
use crate::sequence::Sequence;
use crate::{Endpoint, Output};
use kpps_frames::Mac;
use std::net::Ipv4Addr;

/// Keeps the last segment that was sent.
#[derive(Default)]
struct Last(Option<(Tuple, Sequence, Sequence)>);

impl Output for Last {
    fn send(&mut self, segment: &Sending<'_>) {
        let mut frame = [0; 9000];
        assert!(segment.write(Mac::default(), &mut frame).is_some());
        let next = segment.sequence + segment.data_bytes() as u32;
        self.0 = Some((segment.tuple, next, segment.acknowledgement));
    }
}

/// Gives an end these segments: sequence and acknowledgement number, and flags, window, bytes of data, what
/// else happens before, and the peer's port. Time passes between them.
pub fn feed(end: &mut Endpoint, server: Socket, segments: impl Iterator<Item = ([u32; 2], [u8; 5])>) {
    const DATA: [u8; 3000] = [7; 3000];
    let mut out = Last::default();
    let mut now_ns = 0;
    for ([sequence, acknowledgement], [flags, window, bytes, what, port]) in segments {
        now_ns += 10_000_000;
        match what % 8 {
            0 => drop(end.open(now_ns, &mut out)),
            1 => (0..200).for_each(|_| {
                now_ns += 20_000_000;
                end.pass(now_ns);
                end.expire(now_ns, &mut out);
            }),
            2 => drop(end.release(now_ns, &mut out)),
            _ => {}
        }
        let peer = (Ipv4Addr::new(10, 0, 0, 9), 1024 + u16::from(port % 4));
        let last = out.0.unwrap_or((Tuple { own: server, peer }, Sequence(0), Sequence(0)));
        // Small numbers are relative to what is expected.
        let near = |number: u32, to: Sequence| match number {
            0..0x4000_0000 => to + number % 4,
            0x4000_0000..0x8000_0000 => to + number % 70_000,
            0x8000_0000..0xc000_0000 => Sequence(to.0.wrapping_sub(number % 70_000)),
            _ => Sequence(number),
        };
        let tuple = if what & 8 == 0 { last.0 } else { Tuple { own: server, peer } };
        let segment = Segment {
            tuple,
            station: Mac::default(),
            sequence: near(sequence, last.2),
            acknowledgement: (flags & kpps_frames::tcp::ACK != 0).then(|| near(acknowledgement, last.1)),
            flags,
            window: u16::from(window) << (window % 9),
            mss: u16::from(window).max(1) * 6,
            payload: &DATA[..usize::from(bytes) * 11],
        };
        end.receive(&segment, now_ns, &mut out);
        end.pass(now_ns);
        end.expire(now_ns, &mut out);
        assert!(end.counts().closes(), "{:?}", end.counts());
    }
}
