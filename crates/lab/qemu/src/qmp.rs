//! A client of QMP, the protocol of QEMU's monitor: JSON objects, one a line.

use crate::{Error, Result};
use serde_json::{Value, json};
use std::io::{BufRead, BufReader, ErrorKind, Write};
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

/// How long the monitor may take for one answer.
const QMP_TIMEOUT: Duration = Duration::from_secs(30);

/// The most events that are read after QEMU's end.
#[cfg(feature = "lab")]
const MOST_EVENTS: usize = 10_000;

/// A connection to the monitor.
#[derive(Debug)]
pub(crate) struct Monitor {
    stream: BufReader<UnixStream>,
}

impl Monitor {
    pub(crate) fn new(stream: UnixStream) -> Result<Self> {
        stream.set_read_timeout(Some(QMP_TIMEOUT))?;
        stream.set_write_timeout(Some(QMP_TIMEOUT))?;
        let mut monitor = Self { stream: BufReader::new(stream) };
        monitor.next("greeting")?;
        monitor.execute("qmp_capabilities", json!({}))?;
        Ok(monitor)
    }

    /// Plugs the cable of a card in or pulls it.
    pub(crate) fn set_link(&mut self, card: &str, up: bool) -> Result<()> {
        self.execute("set_link", json!({ "name": card, "up": up })).map(drop)
    }

    /// Starts or stops tracing an event.
    #[cfg(feature = "lab")]
    pub(crate) fn trace(&mut self, event: &str, on: bool) -> Result<()> {
        self.execute("trace-event-set-state", json!({ "name": event, "enable": on })).map(drop)
    }

    /// Executes a command of the monitor for people, which must print nothing.
    #[cfg(feature = "lab")]
    pub(crate) fn human(&mut self, command: &str) -> Result<()> {
        let answer = self.execute("human-monitor-command", json!({ "command-line": command }))?;
        match answer.as_str().map(str::trim) {
            None | Some("") => Ok(()),
            Some(complaint) => {
                Err(Error::Protocol { command: command.to_owned(), answer: complaint.to_owned() })
            }
        }
    }

    /// QEMU's version, as "7.2.22".
    pub(crate) fn version(&mut self) -> Result<String> {
        let answer = self.execute("query-version", json!({}))?;
        let part = |name| answer["qemu"][name].as_u64().unwrap_or(0);
        Ok(format!("{}.{}.{}", part("major"), part("minor"), part("micro")))
    }

    /// Waits until a cable ([`Launch::cable`](crate::process::Launch::cable)) is connected. QEMU connects it
    /// in another thread, and drops frames that the card sends before.
    pub(crate) fn await_cable(&mut self) -> Result<()> {
        let since = Instant::now();
        while since.elapsed() < QMP_TIMEOUT {
            let query = json!({ "command-line": "info network" });
            let answer = self.execute("human-monitor-command", query)?;
            // The peer's address appears when the connection stands.
            if answer.as_str().is_some_and(|text| text.contains("type=stream,unix:")) {
                return Ok(());
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        Err(silent("connection of the cable"))
    }

    /// Why QEMU has ended by its own report, as "guest-reset", if it made one: of the events that nobody has
    /// read. QEMU must have ended.
    #[cfg(feature = "lab")]
    pub(crate) fn reason_of_end(&mut self) -> Option<String> {
        self.stream.get_ref().set_read_timeout(Some(Duration::from_millis(100))).ok()?;
        let mut reason = None;
        for _ in 0..MOST_EVENTS {
            let Ok(event) = self.next("events") else { break };
            if event["event"] == "SHUTDOWN" {
                reason = event["data"]["reason"].as_str().map(str::to_owned);
            }
        }
        reason
    }

    fn execute(&mut self, command: &str, arguments: Value) -> Result<Value> {
        let line = json!({ "execute": command, "arguments": arguments }).to_string();
        self.stream.get_mut().write_all(line.as_bytes())?;
        loop {
            let mut answer = self.next(command)?;
            if let Some(value) = answer.get_mut("return") {
                return Ok(value.take());
            }
            if answer.get("error").is_some() {
                return Err(Error::Protocol { command: command.to_owned(), answer: answer.to_string() });
            }
            // Anything else is an event.
        }
    }

    fn next(&mut self, command: &str) -> Result<Value> {
        let mut line = String::new();
        match self.stream.read_line(&mut line) {
            Ok(0) => return Err(std::io::Error::from(ErrorKind::UnexpectedEof).into()),
            Ok(_) => {}
            Err(error) if error.kind() == ErrorKind::WouldBlock => return Err(silent(command)),
            Err(error) => return Err(error.into()),
        }
        serde_json::from_str(&line).map_err(|_| Error::Protocol { command: command.to_owned(), answer: line })
    }
}

fn silent(waiting_for: &str) -> Error {
    Error::Silent { seconds: QMP_TIMEOUT.as_secs(), waiting_for: waiting_for.to_owned() }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn events_are_passed_over_and_errors_are_reported() {
        let (ours, mut qemu) = UnixStream::pair().unwrap();
        qemu.write_all(b"{\"QMP\": {}}\n{\"return\": {}}\n").unwrap();
        let mut monitor = Monitor::new(ours).unwrap();
        qemu.write_all(b"{\"event\": \"RTC_CHANGE\"}\n").unwrap();
        qemu.write_all(b"{\"return\": {\"qemu\": {\"major\": 7, \"minor\": 2, \"micro\": 22}}}\n").unwrap();
        assert_eq!(monitor.version().unwrap(), "7.2.22");
        qemu.write_all(b"{\"error\": {\"class\": \"GenericError\"}}\n").unwrap();
        assert!(matches!(monitor.set_link("card", true), Err(Error::Protocol { .. })));
        #[cfg(feature = "lab")]
        {
            qemu.write_all(b"{\"event\": \"SHUTDOWN\", \"data\": {\"reason\": \"guest-reset\"}}\n").unwrap();
            assert_eq!(monitor.reason_of_end().as_deref(), Some("guest-reset"));
        }
        drop(qemu);
        assert!(matches!(monitor.version(), Err(Error::Io(_))));
    }
}
