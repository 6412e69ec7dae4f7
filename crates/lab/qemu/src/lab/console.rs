//! A stream of lines to and from the guest: its first console, or the channel for commands.

use crate::lab::{Error, Result};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::io::{ErrorKind, Read, Write};
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

/// The byte before the last line of an answer.
const MARK: u8 = 1;
/// How many bytes of the last output an error quotes.
const TAIL: usize = 600;
/// How many bytes of output are kept: the last words of a kernel as it stops.
const KEPT: usize = 16 << 10;
/// Words in the first line of such output: an oops has a number.
const STOPS: [&str; 4] = ["BUG: ", "kernel BUG at", "[#1]", "Kernel panic"];
/// How long to wait for output before [`Alive`] is asked again, which also empties the guest's cables.
const PAUSE: Duration = Duration::from_micros(500);

/// The host's end of a console.
#[derive(Debug)]
pub(crate) struct Console {
    stream: UnixStream,
    /// Output that was received and not yet read.
    heard: Vec<u8>,
    /// The end of the lines that were read.
    read: Vec<u8>,
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
        Ok(Self { stream, heard: Vec::new(), read: Vec::new(), commands: 0 })
    }

    /// Waits for `text` and returns everything before it.
    pub(crate) fn expect(&mut self, text: &str, timeout: Duration, alive: Alive) -> Result<Vec<u8>> {
        Ok(self.until(text, "", text, timeout, alive)?.0)
    }

    /// Runs `command`, a shell line, and returns its output. `at_once` gives it priority over all other
    /// processes.
    pub(crate) fn run(
        &mut self,
        command: &str,
        at_once: bool,
        timeout: Duration,
        alive: Alive,
    ) -> Result<Output> {
        if command.contains('\n') {
            return Err(Error::Input(format!("a command of several lines: {command:?}")));
        }
        self.commands += 1;
        let id = self.commands;
        self.say(&format!("{id} {} {command}\n", if at_once { '!' } else { '-' }))?;
        let mark = format!("{}{id} ", char::from(MARK));
        let (text, code) = self.until(&mark, "\n", &format!("`{command}`"), timeout, alive)?;
        let code = String::from_utf8_lossy(&code).into_owned();
        let code = code
            .trim()
            .parse()
            .map_err(|_| Error::Protocol { what: format!("exit code of `{command}`"), answer: code })?;
        Ok(Output { text: String::from_utf8_lossy(&text).into_owned(), code })
    }

    /// Waits for `begin` with `end` after it. Returns the output before `begin`, and the output between the
    /// two; both are removed. An error names the awaited event as `what`.
    fn until(
        &mut self,
        begin: &str,
        end: &str,
        what: &str,
        timeout: Duration,
        alive: Alive,
    ) -> Result<(Vec<u8>, Vec<u8>)> {
        let deadline = Instant::now() + timeout;
        let mut searched = 0;
        loop {
            let at = find(&self.heard, searched, begin);
            let inner = at.unwrap_or_default() + begin.len();
            if let Some(at) = at
                && let Some(to) = find(&self.heard, inner, end)
            {
                let found = (self.heard[..at].to_vec(), self.heard[inner..to].to_vec());
                self.heard.drain(..to + end.len());
                return Ok(found);
            }
            // `begin` may have come in part.
            searched = at.unwrap_or((self.heard.len() + 1).saturating_sub(begin.len()));
            self.listen(deadline, timeout, what, alive)?;
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
        self.read.extend_from_slice(&lines);
        self.read.drain(..self.read.len().saturating_sub(KEPT));
        Ok(String::from_utf8_lossy(&lines).lines().map(|line| line.trim().to_owned()).collect())
    }

    /// The last output of a guest that has ended. If its kernel has stopped, it begins with the reason.
    pub(crate) fn last_words(&mut self) -> String {
        while self.take().is_ok_and(|more| more) {}
        let all = [&self.read[..], &self.heard].concat();
        let why = STOPS.iter().filter_map(|begin| find(&all, 0, begin)).min();
        let from = match why {
            Some(at) => all[..at].iter().rposition(|byte| *byte == b'\n').map_or(0, |end| end + 1),
            None => all.len().saturating_sub(TAIL),
        };
        String::from_utf8_lossy(&all[from..all.len().min(from + TAIL)]).trim().to_owned()
    }

    /// The last output that was received.
    pub(crate) fn tail(&self) -> String {
        let from = self.heard.len().saturating_sub(TAIL);
        String::from_utf8_lossy(&self.heard[from..]).trim().to_owned()
    }

    fn listen(&mut self, deadline: Instant, timeout: Duration, what: &str, alive: Alive) -> Result<()> {
        if self.take()? {
            return Ok(());
        }
        alive()?;
        if Instant::now() > deadline {
            let tail = self.tail();
            return Err(Error::Silent {
                seconds: timeout.as_secs(),
                waiting_for: what.to_owned(),
                tail: if tail.is_empty() { tail } else { format!("; the guest's last words: {tail}") },
            });
        }
        let mut stream = [PollFd::new(&self.stream, PollFlags::IN)];
        let pause = Timespec { tv_sec: 0, tv_nsec: PAUSE.subsec_nanos().into() };
        // An interrupted wait is only shorter. After a hang-up poll(2) does not wait.
        if poll(&mut stream, Some(&pause)).is_err() || stream[0].revents().contains(PollFlags::HUP) {
            std::thread::sleep(PAUSE);
        }
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

/// Asked again and again during a wait. Returns an error if waiting makes no sense: QEMU has ended, or the
/// user interrupted.
pub(crate) type Alive<'a> = &'a mut dyn FnMut() -> Result<()>;

/// Where `wanted` is in `bytes`, at `from` or later.
fn find(bytes: &[u8], from: usize, wanted: &str) -> Option<usize> {
    let later = bytes.get(from..)?;
    if wanted.is_empty() {
        return Some(from);
    }
    later.windows(wanted.len()).position(|window| window == wanted.as_bytes()).map(|at| from + at)
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
        // An answer that comes in pieces, split in its mark.
        let pieces = std::thread::spawn(move || {
            for piece in [&b"a\x01"[..], b"3", b" 7", b"\nrest"] {
                theirs.write_all(piece).unwrap();
                std::thread::sleep(Duration::from_millis(2));
            }
            theirs
        });
        let output = console.run("y", true, Duration::from_secs(60), &mut || Ok(())).unwrap();
        assert_eq!((output.text.as_str(), output.code), ("a", 7));
        let mut theirs = pieces.join().unwrap();
        assert_eq!(console.expect("rest", SOON, &mut || Ok(())).unwrap(), b"");
        let mut said = [0; 16];
        theirs.read_exact(&mut said).unwrap();
        assert_eq!(&said, b"1 - sleep\n2 ! x\n");
    }

    /// The last words of a kernel are in lines that were read, in lines that were not, and in half a line.
    #[test]
    fn the_last_words_are_told() {
        let (ours, mut theirs) = UnixStream::pair().unwrap();
        let mut console = Console::new(ours).unwrap();
        theirs.write_all(b"a driver\n[1.0] BUG: nothing at 0\n").unwrap();
        assert_eq!(console.lines().unwrap().len(), 2);
        theirs.write_all(b"Kernel panic\nReboot").unwrap();
        assert_eq!(console.last_words(), "[1.0] BUG: nothing at 0\nKernel panic\nReboot");
        theirs.write_all(&[b'x'; TAIL]).unwrap();
        let words = console.last_words();
        assert!(words.starts_with("[1.0] BUG: nothing at 0\nKernel") && words.len() == TAIL, "{words}");
    }
}
