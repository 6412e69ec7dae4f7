//! The host's end of a cable: QEMU's `stream` network backend, frames with their length (4 bytes,
//! big-endian) before them.
//!
//! No call blocks, except for [`Wire::wait`]. Frames from QEMU must be read all the time: a QEMU that cannot
//! deliver a frame stops the card, in both directions.

use crate::{Error, Result};
use rustix::event::{PollFd, PollFlags, Timespec};
use std::io::{ErrorKind, Read, Write};
use std::os::unix::net::UnixStream;
use std::time::Duration;

/// QEMU's own limit of a frame on this backend, in bytes.
const LONGEST: usize = (4096 + 65536) * 2;
/// Bytes of the length before a frame.
pub const LENGTH_BYTES: usize = 4;
/// Bytes for one read.
const CHUNK: usize = 256 << 10;

/// One end of a cable.
#[derive(Debug)]
pub struct Wire {
    stream: UnixStream,
    /// The end of a frame if the socket took only its beginning.
    rest: Vec<u8>,
    /// Received bytes are at `next..filled`.
    input: Vec<u8>,
    next: usize,
    filled: usize,
}

impl Wire {
    pub(crate) fn new(stream: UnixStream) -> Result<Self> {
        stream.set_nonblocking(true)?;
        Ok(Self { stream, rest: Vec::new(), input: Vec::new(), next: 0, filled: 0 })
    }

    /// Limits the bytes that wait between host and QEMU, the kernel's bookkeeping included.
    ///
    /// # Errors
    /// If the system refuses.
    pub fn limit(&self, bytes: usize) -> Result<()> {
        Ok(rustix::net::sockopt::set_socket_send_buffer_size(&self.stream, bytes)
            .map_err(std::io::Error::from)?)
    }

    /// Sends `frames` and returns how many the socket took. Each frame is preceded by its length;
    /// both together are `each` bytes. Frames are never cut: the rest of the last one goes out with the next
    /// call.
    ///
    /// # Errors
    /// If the other end is gone.
    pub fn send(&mut self, frames: &[u8], each: usize) -> Result<usize> {
        if !self.flush()? {
            return Ok(0);
        }
        let taken = self.write(frames)?;
        let whole = taken.div_ceil(each.max(1));
        if let Some(rest) = frames.get(taken..(whole * each).min(frames.len())) {
            self.rest.extend_from_slice(rest);
        }
        Ok(whole)
    }

    /// Sends one frame (without FCS). Returns false if the socket does not take it.
    ///
    /// # Errors
    /// If the other end is gone.
    pub fn send_one(&mut self, frame: &[u8]) -> Result<bool> {
        let length = u32::try_from(frame.len()).unwrap_or(u32::MAX);
        let whole = [&length.to_be_bytes(), frame].concat();
        Ok(self.send(&whole, whole.len())? == 1)
    }

    /// Sends the rest of the last frame. Returns true if nothing is left of it.
    ///
    /// # Errors
    /// If the other end is gone.
    pub fn flush(&mut self) -> Result<bool> {
        while !self.rest.is_empty() {
            let rest = std::mem::take(&mut self.rest);
            let taken = self.write(&rest)?;
            self.rest = rest;
            if taken == 0 {
                return Ok(false);
            }
            self.rest.drain(..taken);
        }
        Ok(true)
    }

    /// Calls `see` with each received frame, without FCS, and returns their number.
    ///
    /// # Errors
    /// If the other end is gone or sends a length that no frame has.
    pub fn receive(&mut self, mut see: impl FnMut(&[u8])) -> Result<usize> {
        let mut frames = 0;
        while self.fill()? {
            frames += self.cut(&mut see)?;
        }
        Ok(frames)
    }

    /// Drops all received frames.
    ///
    /// # Errors
    /// As [`receive`](Self::receive).
    pub fn discard(&mut self) -> Result<()> {
        self.receive(|_| {}).map(drop)
    }

    /// Waits until the socket takes more, or for `at_most`.
    pub fn wait(&self, at_most: Duration) {
        let mut fds = [PollFd::new(&self.stream, PollFlags::OUT)];
        let at_most = Timespec { tv_sec: 0, tv_nsec: at_most.subsec_nanos().into() };
        // The next call that sends reports an error.
        let _ = rustix::event::poll(&mut fds, Some(&at_most));
    }

    fn write(&mut self, bytes: &[u8]) -> Result<usize> {
        let mut taken = 0;
        while taken < bytes.len() {
            match self.stream.write(&bytes[taken..]) {
                Ok(n) => taken += n,
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(taken)
    }

    /// Reads once. Returns false if nothing was there.
    fn fill(&mut self) -> Result<bool> {
        self.input.copy_within(self.next..self.filled, 0);
        self.filled -= self.next;
        self.next = 0;
        if self.input.len() < self.filled + CHUNK {
            self.input.resize(self.filled + CHUNK, 0);
        }
        let read = loop {
            match self.stream.read(&mut self.input[self.filled..]) {
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => break 0,
                read => break read?,
            }
        };
        self.filled += read;
        Ok(read > 0)
    }

    fn cut(&mut self, see: &mut impl FnMut(&[u8])) -> Result<usize> {
        let mut frames = 0;
        while let Some((length, rest)) =
            self.input[self.next..self.filled].split_first_chunk::<LENGTH_BYTES>()
        {
            let length = u32::from_be_bytes(*length) as usize;
            if length > LONGEST {
                let answer = format!("a frame of {length} B");
                return Err(Error::Protocol { command: "(the cable)".into(), answer });
            }
            let Some(frame) = rest.get(..length) else { break };
            see(frame);
            frames += 1;
            self.next += LENGTH_BYTES + length;
        }
        Ok(frames)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn frames_survive_being_cut_anywhere(
            sizes in proptest::collection::vec(0usize..200, 1..50),
            cut in 1usize..300,
        ) {
            let (ours, mut theirs) = UnixStream::pair().unwrap();
            let mut wire = Wire::new(ours).unwrap();
            let mut bytes = Vec::new();
            for (k, size) in sizes.iter().enumerate() {
                bytes.extend((*size as u32).to_be_bytes());
                bytes.resize(bytes.len() + size, k as u8);
            }
            let mut seen = Vec::new();
            for piece in bytes.chunks(cut) {
                theirs.write_all(piece).unwrap();
                wire.receive(|frame| seen.push(frame.to_vec())).unwrap();
            }
            let sent: Vec<_> = sizes.iter().enumerate().map(|(k, size)| vec![k as u8; *size]).collect();
            prop_assert_eq!(seen, sent);
        }
    }

    #[test]
    fn what_a_full_socket_took_of_a_frame_is_completed() {
        let (ours, theirs) = UnixStream::pair().unwrap();
        let (mut wire, mut other) = (Wire::new(ours).unwrap(), Wire::new(theirs).unwrap());
        let frame = [&[0, 0, 0, 60], &[7; 60][..]].concat();
        let burst = frame.repeat(64);
        let (mut sent, mut seen) = (0, 0);
        for _ in 0..2000 {
            sent += wire.send(&burst, 64).unwrap();
        }
        assert!(sent < 2000 * 64, "the socket was never full");
        while seen < sent {
            wire.flush().unwrap();
            seen += other.receive(|frame| assert_eq!(frame, [7; 60])).unwrap();
        }
        assert_eq!(seen, sent);
    }
}
