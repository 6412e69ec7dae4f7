//! A stream of lines to and from the guest: its first console, or the channel for commands.

use crate::lab::{Error, Result};
use std::io::{ErrorKind, Read, Write};
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

/// The byte before the last line of an answer.
const MARK: u8 = 1;
/// How many bytes of the last output an error quotes.
const TAIL: usize = 600;

/// The host's end of a console.
#[derive(Debug)]
pub(crate) struct Console {
    stream: UnixStream,
    heard: Vec<u8>,
    commands: u64,
}

/// The output of a command in the guest, and its exit code.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Output {
    /// Standard output and error.
    pub text: String,
    /// Exit code.
    pub code: i32,
}

impl Console {
    pub(crate) fn new(stream: UnixStream) -> Result<Self> {
        stream.set_nonblocking(true)?;
        Ok(Self { stream, heard: Vec::new(), commands: 0 })
    }

    /// Waits for `text` and returns everything before it.
    pub(crate) fn expect(&mut self, text: &str, patience: Duration, alive: Alive) -> Result<Vec<u8>> {
        let deadline = Instant::now() + patience;
        loop {
            if let Some(at) = find(&self.heard, text.as_bytes()) {
                let before = self.heard[..at].to_vec();
                self.heard.drain(..at + text.len());
                return Ok(before);
            }
            self.listen(deadline, patience, text, alive)?;
        }
    }

    /// Runs `command`, a shell line, and returns its output. `at_once` gives it priority over all other
    /// processes.
    pub(crate) fn run(
        &mut self,
        command: &str,
        at_once: bool,
        patience: Duration,
        alive: Alive,
    ) -> Result<Output> {
        if command.contains('\n') {
            return Err(Error::Input(format!("a command of several lines: {command:?}")));
        }
        self.commands += 1;
        let id = self.commands;
        self.say(&format!("{id} {} {command}\n", if at_once { '!' } else { '-' }))?;
        let deadline = Instant::now() + patience;
        let mark = format!("{}{id} ", char::from(MARK));
        loop {
            if let Some(at) = find(&self.heard, mark.as_bytes())
                && let Some(end) = self.heard[at..].iter().position(|byte| *byte == b'\n')
            {
                let text = String::from_utf8_lossy(&self.heard[..at]).into_owned();
                let code = String::from_utf8_lossy(&self.heard[at + mark.len()..at + end]).into_owned();
                self.heard.drain(..=at + end);
                let code = code.trim().parse().map_err(|_| Error::Protocol {
                    what: format!("exit code of `{command}`"),
                    answer: code,
                })?;
                return Ok(Output { text, code });
            }
            self.listen(deadline, patience, &format!("`{command}`"), alive)?;
        }
    }

    /// Sends `text`.
    pub(crate) fn say(&mut self, text: &str) -> Result<()> {
        let mut bytes = text.as_bytes();
        let deadline = Instant::now() + Duration::from_secs(30);
        while !bytes.is_empty() {
            match self.stream.write(bytes) {
                Ok(n) => bytes = &bytes[n..],
                Err(error) if error.kind() == ErrorKind::WouldBlock && Instant::now() < deadline => {
                    std::thread::sleep(Duration::from_millis(1));
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }

    /// The complete lines received so far.
    pub(crate) fn lines(&mut self) -> Result<Vec<String>> {
        while self.take()? {}
        let Some(end) = self.heard.iter().rposition(|byte| *byte == b'\n') else { return Ok(vec![]) };
        let lines: Vec<u8> = self.heard.drain(..=end).collect();
        Ok(String::from_utf8_lossy(&lines).lines().map(|line| line.trim().to_owned()).collect())
    }

    /// The last output.
    pub(crate) fn tail(&self) -> String {
        let from = self.heard.len().saturating_sub(TAIL);
        String::from_utf8_lossy(&self.heard[from..]).trim().to_owned()
    }

    fn listen(&mut self, deadline: Instant, patience: Duration, what: &str, alive: Alive) -> Result<()> {
        if self.take()? {
            return Ok(());
        }
        alive()?;
        if Instant::now() > deadline {
            let tail = self.tail();
            return Err(Error::Silent {
                seconds: patience.as_secs(),
                waiting_for: what.to_owned(),
                tail: if tail.is_empty() { tail } else { format!("; the guest's last words: {tail}") },
            });
        }
        std::thread::sleep(Duration::from_micros(500));
        Ok(())
    }

    /// Reads once. Returns false if nothing was there.
    fn take(&mut self) -> Result<bool> {
        let mut chunk = [0; 16384];
        match self.stream.read(&mut chunk) {
            Ok(n) => {
                self.heard.extend_from_slice(&chunk[..n]);
                Ok(n > 0)
            }
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => Ok(false),
            Err(error) => Err(error.into()),
        }
    }
}

/// Returns an error if waiting makes no sense: QEMU has ended, or the user interrupted.
pub(crate) type Alive<'a> = &'a mut dyn FnMut() -> Result<()>;

fn find(bytes: &[u8], wanted: &[u8]) -> Option<usize> {
    bytes.windows(wanted.len()).position(|window| window == wanted)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    const SOON: Duration = Duration::from_millis(20);

    #[test]
    fn answers_end_at_their_mark() {
        let (ours, mut theirs) = UnixStream::pair().unwrap();
        let mut console = Console::new(ours).unwrap();
        theirs.write_all(b"boot\x01ready\n").unwrap();
        assert_eq!(console.expect("\x01ready\n", SOON, &mut || Ok(())).unwrap(), b"boot");
        // Answers of two commands. The wait for the first one was given up.
        let silent = console.run("sleep", false, SOON, &mut || Ok(())).unwrap_err();
        assert!(matches!(silent, Error::Silent { .. }), "{silent}");
        theirs.write_all(b"late\n\x011 0\n out\x012 -3\n").unwrap();
        let output = console.run("x", true, SOON, &mut || Ok(())).unwrap();
        assert!(output.text.ends_with(" out") && output.code == -3, "{output:?}");
        let mut said = [0; 16];
        theirs.read_exact(&mut said).unwrap();
        assert_eq!(&said, b"1 - sleep\n2 ! x\n");
    }
}
