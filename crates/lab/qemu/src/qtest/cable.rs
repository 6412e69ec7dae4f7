//! The card's cable, with queues in both directions.

use crate::{Result, Wire};
use std::collections::VecDeque;
use std::os::unix::net::UnixStream;

/// The host's end of the cable. Frames that QEMU does not take yet wait here, and so do received ones.
#[derive(Debug)]
pub(crate) struct Cable {
    wire: Wire,
    to_card: VecDeque<Vec<u8>>,
    from_card: VecDeque<Vec<u8>>,
}

impl Cable {
    pub(crate) fn new(stream: UnixStream) -> Result<Self> {
        Ok(Self { wire: Wire::new(stream)?, to_card: VecDeque::new(), from_card: VecDeque::new() })
    }

    /// Sends `frame` (without FCS) to the card, after those before it.
    pub(crate) fn inject(&mut self, frame: &[u8]) -> Result<()> {
        self.to_card.push_back(frame.to_vec());
        self.pump()
    }

    /// The next frame that the card sent.
    pub(crate) fn collect(&mut self) -> Result<Option<Vec<u8>>> {
        self.pump()?;
        Ok(self.from_card.pop_front())
    }

    /// Moves frames in both directions, as far as the socket allows.
    pub(crate) fn pump(&mut self) -> Result<()> {
        let mut open = self.wire.flush()?;
        while open && let Some(frame) = self.to_card.front() {
            open = self.wire.send_one(frame)?;
            if open {
                self.to_card.pop_front();
            }
        }
        self.wire.receive(|frame| self.from_card.push_back(frame.to_vec()))?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use std::io::{Read, Write};

    #[test]
    fn frames_survive_being_cut_anywhere() {
        let (ours, theirs) = UnixStream::pair().unwrap();
        let (mut a, mut b) = (Cable::new(ours).unwrap(), theirs);
        let sent = [0, 0, 0, 3, 1, 2, 3, 0, 0, 0, 0, 0, 0, 0, 1, 9];
        let mut got = Vec::new();
        for byte in sent {
            b.write_all(&[byte]).unwrap();
            got.extend(a.collect().unwrap());
        }
        assert_eq!(got, [vec![1, 2, 3], vec![], vec![9]]);
        a.inject(&[7, 8]).unwrap();
        let mut seen = [0; 6];
        b.read_exact(&mut seen).unwrap();
        assert_eq!(seen, [0, 0, 0, 2, 7, 8]);
    }

    #[test]
    fn a_full_socket_does_not_block() {
        let (ours, theirs) = UnixStream::pair().unwrap();
        let mut cable = Cable::new(ours).unwrap();
        for _ in 0..1000 {
            cable.inject(&[0; 9000]).unwrap();
        }
        assert!(!cable.to_card.is_empty());
        drop(theirs);
    }
}
