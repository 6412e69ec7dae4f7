//! QEMU's monitor, for the one thing that is not done from inside the machine: pulling the cable.

use crate::qtest::Error;
use crate::qtest::socket::PATIENCE;
use serde_json::{Value, json};
use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

#[derive(Debug)]
pub(crate) struct Monitor {
    stream: BufReader<UnixStream>,
}

impl Monitor {
    pub(crate) fn new(stream: UnixStream) -> Result<Self, Error> {
        stream.set_read_timeout(Some(PATIENCE))?;
        stream.set_write_timeout(Some(PATIENCE))?;
        let mut monitor = Self { stream: BufReader::new(stream) };
        monitor.next("greeting")?;
        monitor.execute("qmp_capabilities", json!({}))?;
        Ok(monitor)
    }

    /// Plugs the cable in or pulls it.
    pub(crate) fn set_link(&mut self, card: &str, up: bool) -> Result<(), Error> {
        self.execute("set_link", json!({ "name": card, "up": up })).map(drop)
    }

    /// QEMU's version, as "7.2.22".
    pub(crate) fn version(&mut self) -> Result<String, Error> {
        let answer = self.execute("query-version", json!({}))?;
        let part = |name| answer["qemu"][name].as_u64().unwrap_or(0);
        Ok(format!("{}.{}.{}", part("major"), part("minor"), part("micro")))
    }

    /// Waits until the wire stands. QEMU connects it on the side, and loses what the card sends
    /// before.
    pub(crate) fn await_wire(&mut self) -> Result<(), Error> {
        let since = Instant::now();
        while since.elapsed() < PATIENCE {
            let query = json!({ "command-line": "info network" });
            let answer = self.execute("human-monitor-command", query)?;
            // The peer's address appears when the connection stands.
            if answer.as_str().is_some_and(|text| text.contains("type=stream,unix:")) {
                return Ok(());
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        let waiting_for = "connection of the network socket".to_owned();
        Err(Error::Silent { seconds: PATIENCE.as_secs(), waiting_for })
    }

    fn execute(&mut self, command: &str, arguments: Value) -> Result<Value, Error> {
        let line = json!({ "execute": command, "arguments": arguments }).to_string();
        self.stream.get_mut().write_all(line.as_bytes())?;
        loop {
            let mut answer = self.next(command)?;
            if let Some(value) = answer.get_mut("return") {
                return Ok(value.take());
            }
            if answer.get("error").is_some() {
                return Err(wrong(command, &answer.to_string()));
            }
            // Anything else is an event.
        }
    }

    fn next(&mut self, command: &str) -> Result<Value, Error> {
        let mut line = String::new();
        self.stream.read_line(&mut line)?;
        serde_json::from_str(&line).map_err(|_| wrong(command, &line))
    }
}

fn wrong(command: &str, answer: &str) -> Error {
    Error::Protocol { command: command.to_owned(), answer: answer.to_owned() }
}
