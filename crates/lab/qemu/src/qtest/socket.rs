//! A client of QEMU's qtest protocol: one command a line, one answer a line. Between answers QEMU reports
//! changes of interrupt lines.
//!
//! A write to the device is *posted*: the command is sent at once, and its answer is read later, before the
//! answer to the next read. QEMU answers in order, so a read completes all writes before it.

use crate::{Error, Result};
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// How long QEMU may take for one answer.
pub(crate) const QTEST_TIMEOUT: Duration = Duration::from_secs(10);

/// Unread answers allowed. A socket's buffer holds some 270 short messages. Beyond that QEMU's main loop
/// would block, and the device with it.
const UNREAD: usize = 100;

/// The connection, shared by all handles to the registers.
#[derive(Debug)]
pub(crate) struct Qtest {
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    stream: UnixStream,
    /// Bytes received. The first `parsed` of them are processed.
    input: Vec<u8>,
    parsed: usize,
    unread: usize,
    lines: Lines,
    /// Set by the first failure: from then on reads return all ones.
    gone: bool,
    error: Option<Error>,
}

/// The interrupt inputs of the I/O APIC.
#[derive(Clone, Copy, Debug, Default)]
struct Lines {
    /// One bit for each input.
    asserted: u32,
    raised: u64,
}

impl Qtest {
    pub(crate) fn new(stream: UnixStream) -> Result<Self> {
        stream.set_read_timeout(Some(QTEST_TIMEOUT))?;
        stream.set_write_timeout(Some(QTEST_TIMEOUT))?;
        Ok(Self {
            state: Mutex::new(State {
                stream,
                input: Vec::with_capacity(4096),
                parsed: 0,
                unread: 0,
                lines: Lines::default(),
                gone: false,
                error: None,
            }),
        })
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sends `command` without waiting for the answer.
    pub(crate) fn post(&self, command: &str) {
        let mut state = self.lock();
        if !state.gone
            && let Err(error) = state.post(command)
        {
            state.fail(error);
        }
    }

    /// Sends `command` and returns the number in its answer (0 if there is none). Returns all ones after a
    /// failure.
    pub(crate) fn ask(&self, command: &str) -> u64 {
        let mut state = self.lock();
        if state.gone {
            return u64::MAX;
        }
        match state.post(command).and_then(|()| state.answer(command)) {
            Ok(value) => value,
            Err(error) => {
                state.fail(error);
                u64::MAX
            }
        }
    }

    /// The first failure since the last call.
    pub(crate) fn check(&self) -> Result<()> {
        self.lock().error.take().map_or(Ok(()), Err)
    }

    /// Whether any interrupt input is asserted, after everything sent so far.
    pub(crate) fn line(&self) -> bool {
        self.synchronise();
        self.lock().lines.asserted != 0
    }

    /// How often an interrupt input was raised, up to everything sent so far.
    pub(crate) fn raised(&self) -> u64 {
        self.synchronise();
        self.lock().lines.raised
    }

    /// Waits until QEMU has executed all posted commands. Returns at once if there are none.
    pub(crate) fn flush(&self) {
        if self.lock().unread > 0 {
            self.synchronise();
        }
    }

    /// Waits until QEMU has executed all commands, by a read of a byte of RAM, which no device sees.
    pub(crate) fn synchronise(&self) {
        self.ask("readb 0x0");
    }
}

impl State {
    fn fail(&mut self, error: Error) {
        self.gone = true;
        self.error.get_or_insert(error);
    }

    fn post(&mut self, command: &str) -> Result<()> {
        if self.unread >= UNREAD {
            self.answer(command)?;
        }
        self.stream.write_all(command.as_bytes())?;
        self.stream.write_all(b"\n")?;
        self.unread += 1;
        Ok(())
    }

    /// Reads all missing answers. Returns the number in the last.
    fn answer(&mut self, command: &str) -> Result<u64> {
        let mut last = 0;
        while self.unread > 0 {
            let line = self.line(command)?;
            let mut words = line.split_ascii_whitespace();
            match (words.next(), words.next()) {
                (Some("OK"), number) => {
                    self.unread -= 1;
                    last = number.map_or(Some(0), parse).ok_or_else(|| wrong(command, &line))?;
                }
                (Some("IRQ"), Some(change)) => {
                    let input = words.next().and_then(|number| number.parse().ok());
                    let bit = input.and_then(|input| 1_u32.checked_shl(input)).unwrap_or(0);
                    if change == "raise" {
                        self.lines.asserted |= bit;
                        self.lines.raised += 1;
                    } else {
                        self.lines.asserted &= !bit;
                    }
                }
                _ => return Err(wrong(command, &line)),
            }
        }
        Ok(last)
    }

    /// The next line that QEMU sent.
    fn line(&mut self, command: &str) -> Result<String> {
        loop {
            if let Some(end) = self.input[self.parsed..].iter().position(|&byte| byte == b'\n') {
                let line = &self.input[self.parsed..self.parsed + end];
                let line = String::from_utf8_lossy(line).into_owned();
                self.parsed += end + 1;
                return Ok(line);
            }
            self.input.drain(..self.parsed);
            self.parsed = 0;
            let mut chunk = [0; 4096];
            match self.stream.read(&mut chunk) {
                Ok(0) => return Err(std::io::Error::from(std::io::ErrorKind::UnexpectedEof).into()),
                Ok(bytes) => self.input.extend_from_slice(&chunk[..bytes]),
                Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => {
                    return Err(Error::Silent {
                        seconds: QTEST_TIMEOUT.as_secs(),
                        waiting_for: format!("answer to {command}"),
                    });
                }
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error.into()),
            }
        }
    }
}

fn parse(number: &str) -> Option<u64> {
    match number.strip_prefix("0x") {
        Some(hexadecimal) => u64::from_str_radix(hexadecimal, 16).ok(),
        None => number.parse().ok(),
    }
}

fn wrong(command: &str, answer: &str) -> Error {
    Error::Protocol { command: command.to_owned(), answer: answer.to_owned() }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn pair() -> (Qtest, UnixStream) {
        let (ours, theirs) = UnixStream::pair().unwrap();
        (Qtest::new(ours).unwrap(), theirs)
    }

    #[test]
    fn posted_writes_are_answered_before_the_read() {
        let (qtest, mut qemu) = pair();
        qtest.post("writel 0x0 0x1");
        qtest.post("writel 0x4 0x2");
        qemu.write_all(b"OK\nIRQ raise 21\nOK\nOK 0x00000000000000ff\n").unwrap();
        assert_eq!(qtest.ask("readl 0x8"), 0xff);
        let mut sent = [0; 256];
        let bytes = qemu.read(&mut sent).unwrap();
        assert_eq!(&sent[..bytes], b"writel 0x0 0x1\nwritel 0x4 0x2\nreadl 0x8\n");
        qemu.write_all(b"OK 0x00\n").unwrap();
        assert!(qtest.line());
        qemu.write_all(b"IRQ lower 21\nOK 0x00\nOK 0x00\n").unwrap();
        assert!(!qtest.line());
        assert_eq!(qtest.raised(), 1);
        qtest.check().unwrap();
    }

    #[test]
    fn nonsense_is_an_error_and_the_device_reads_as_all_ones() {
        for answer in ["FAIL Unknown command 'x'\n", "OK what\n", "\n"] {
            let (qtest, mut qemu) = pair();
            qemu.write_all(answer.as_bytes()).unwrap();
            assert_eq!(qtest.ask("x"), u64::MAX);
            assert!(matches!(qtest.check(), Err(Error::Protocol { .. })), "{answer:?}");
            assert_eq!(qtest.ask("x"), u64::MAX);
        }
    }

    #[test]
    fn a_dead_qemu_is_an_error() {
        let (qtest, qemu) = pair();
        drop(qemu);
        assert_eq!(qtest.ask("readl 0x8"), u64::MAX);
        assert!(qtest.check().is_err());
    }
}
