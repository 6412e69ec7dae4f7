//! The wire: QEMU's `stream` network backend, frames with their length before them.
//!
//! Neither direction ever blocks: what QEMU does not take yet waits here, and what it has sent
//! is taken whenever the wire is looked at.

use crate::qtest::Error;
use std::collections::VecDeque;
use std::io::{ErrorKind, Read, Write};
use std::os::unix::net::UnixStream;

/// QEMU's own limit of a frame on this backend.
const LONGEST: usize = (4096 + 65536) * 2;

/// Our end of the card's cable.
#[derive(Debug)]
pub(crate) struct Wire {
    stream: UnixStream,
    out: VecDeque<u8>,
    input: Vec<u8>,
    frames: VecDeque<Vec<u8>>,
}

impl Wire {
    pub(crate) fn new(stream: UnixStream) -> Result<Self, Error> {
        stream.set_nonblocking(true)?;
        Ok(Self { stream, out: VecDeque::new(), input: Vec::new(), frames: VecDeque::new() })
    }

    /// Puts `frame` (without FCS) on the wire towards the card.
    pub(crate) fn inject(&mut self, frame: &[u8]) -> Result<(), Error> {
        // No caller comes near 4 GiB; QEMU itself refuses far less.
        let length = u32::try_from(frame.len()).unwrap_or(u32::MAX);
        self.out.extend(length.to_be_bytes());
        self.out.extend(frame);
        self.pump()
    }

    /// The next frame that the card sent.
    pub(crate) fn collect(&mut self) -> Result<Option<Vec<u8>>, Error> {
        self.pump()?;
        Ok(self.frames.pop_front())
    }

    /// Whether frames for the card have not left our side yet.
    pub(crate) fn backlog(&self) -> bool {
        !self.out.is_empty()
    }

    /// Moves what can be moved, in both directions.
    pub(crate) fn pump(&mut self) -> Result<(), Error> {
        while !self.out.is_empty() {
            match self.stream.write(self.out.as_slices().0) {
                Ok(bytes) => drop(self.out.drain(..bytes)),
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error.into()),
            }
        }
        let mut chunk = [0; 65536];
        loop {
            match self.stream.read(&mut chunk) {
                Ok(0) => break,
                Ok(bytes) => self.input.extend_from_slice(&chunk[..bytes]),
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error.into()),
            }
        }
        self.cut()
    }

    /// Cuts the input into frames.
    fn cut(&mut self) -> Result<(), Error> {
        let mut done = 0;
        while let Some((length, rest)) = self.input[done..].split_first_chunk::<4>() {
            let length = u32::from_be_bytes(*length) as usize;
            if length > LONGEST {
                let answer = format!("a frame of {length} B");
                return Err(Error::Protocol { command: "(the wire)".to_owned(), answer });
            }
            let Some(frame) = rest.get(..length) else { break };
            self.frames.push_back(frame.to_vec());
            done += 4 + length;
        }
        self.input.drain(..done);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn frames_survive_being_cut_anywhere() {
        let (ours, theirs) = UnixStream::pair().unwrap();
        let (mut a, mut b) = (Wire::new(ours).unwrap(), theirs);
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
        let mut wire = Wire::new(ours).unwrap();
        for _ in 0..1000 {
            wire.inject(&[0; 9000]).unwrap();
        }
        assert!(wire.backlog());
        drop(theirs);
    }
}
