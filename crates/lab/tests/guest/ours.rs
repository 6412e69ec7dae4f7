//! kpps in the background of a guest.

use crate::until;
use kpps_lab::Guest;
use serde_json::Value;
use std::time::Duration;

const OUT: &str = "/tmp/out.json";
const LINES: &str = "/tmp/lines";

/// A running command.
pub struct Ours;

impl Ours {
    /// Starts `kpps COMMAND` and waits until its run has begun.
    pub fn start(guest: &mut Guest, command: &str) -> Self {
        guest.run(&format!(": > {OUT}; : > {LINES}")).unwrap();
        guest.run(&format!("setsid kpps {command} --every 20ms --json > {OUT} 2> {LINES} &")).unwrap();
        until("kpps to begin", Duration::from_secs(30), || {
            let lines = guest.run(&format!("cat {LINES}")).unwrap();
            let alive = guest.output("pidof kpps", Duration::from_secs(5)).unwrap().code == 0;
            assert!(alive || lines.contains("seconds"), "kpps {command} ended: {lines}");
            lines.contains("seconds").then_some(())
        });
        Self
    }

    /// Frames received and sent so far.
    pub fn so_far(&self, guest: &mut Guest) -> (u64, u64) {
        let lines = guest.run(&format!("tail -2 {LINES}")).unwrap();
        let line = lines.lines().rfind(|line| line.ends_with('}')).unwrap_or_default();
        let value: Value = serde_json::from_str(line).unwrap_or_else(|_| panic!("kpps printed {lines}"));
        (value["received"].as_u64().unwrap(), value["sent"].as_u64().unwrap())
    }

    /// Waits until more frames have come or gone than now.
    pub fn moves(&self, guest: &mut Guest) {
        let before = self.so_far(guest);
        until("frames to move", Duration::from_secs(15), || (self.so_far(guest) > before).then_some(()));
    }

    /// Ends it as Ctrl-C does, and returns its results.
    pub fn end(self, guest: &mut Guest) -> Value {
        guest.run("killall -INT kpps").unwrap();
        until("kpps to end", Duration::from_secs(10), || {
            (guest.output("pidof kpps", Duration::from_secs(5)).unwrap().code != 0).then_some(())
        });
        let text = guest.run(&format!("cat {OUT}")).unwrap();
        let mut last = || guest.run(&format!("tail -3 {LINES}")).unwrap();
        serde_json::from_str(&text).unwrap_or_else(|_| panic!("results {text:?}; {}", last()))
    }
}
