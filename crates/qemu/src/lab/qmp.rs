//! QEMU's monitor: the cable, and the trace of register accesses.

use crate::lab::{Error, Result};
use serde_json::{Value, json};
use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::UnixStream;
use std::time::Duration;

const PATIENCE: Duration = Duration::from_secs(30);

/// A connection to the monitor.
#[derive(Debug)]
pub(crate) struct Monitor {
    stream: BufReader<UnixStream>,
}

impl Monitor {
    pub(crate) fn new(stream: UnixStream) -> Result<Self> {
        stream.set_read_timeout(Some(PATIENCE))?;
        stream.set_write_timeout(Some(PATIENCE))?;
        let mut monitor = Self { stream: BufReader::new(stream) };
        monitor.next("the monitor's greeting")?;
        monitor.execute("qmp_capabilities", json!({}))?;
        Ok(monitor)
    }

    /// Plugs the cable of a card in or pulls it.
    pub(crate) fn set_link(&mut self, card: &str, up: bool) -> Result<()> {
        self.execute("set_link", json!({ "name": card, "up": up })).map(drop)
    }

    /// Begins or ends tracing an event.
    pub(crate) fn trace(&mut self, event: &str, on: bool) -> Result<()> {
        self.execute("trace-event-set-state", json!({ "name": event, "enable": on })).map(drop)
    }

    /// QEMU's version, as "7.2.22".
    pub(crate) fn version(&mut self) -> Result<String> {
        let answer = self.execute("query-version", json!({}))?;
        let part = |name| answer["qemu"][name].as_u64().unwrap_or(0);
        Ok(format!("{}.{}.{}", part("major"), part("minor"), part("micro")))
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
                return Err(Error::Protocol { what: command.to_owned(), answer: answer.to_string() });
            }
            // Anything else is an event.
        }
    }

    fn next(&mut self, what: &str) -> Result<Value> {
        let mut line = String::new();
        self.stream.read_line(&mut line)?;
        serde_json::from_str(&line).map_err(|_| Error::Protocol { what: what.to_owned(), answer: line })
    }
}
