//! kpps in the background of a guest.

use super::{GUEST_TIMEOUT, until};
use kpps_qemu::lab::Guest;
use serde_json::Value;

const OUT: &str = "/tmp/out.json";
const LINES: &str = "/tmp/lines";
/// Is there when the command has ended.
const CODE: &str = "/tmp/code";

/// A running command.
pub struct Ours;

impl Ours {
    /// Starts `kpps COMMAND` and waits until its run has begun.
    pub fn start(guest: &mut Guest, command: &str) -> Self {
        let command = format!("kpps {command} --every 20ms --json");
        guest.run(&format!(": > {OUT}; : > {LINES}; rm -f {CODE}")).unwrap();
        guest
            .run(&format!("(setsid {command} > {OUT} 2> {LINES}; echo $? > {CODE}) > /dev/null 2>&1 &"))
            .unwrap();
        until("kpps to begin", || {
            let lines = guest.run(&format!("cat {LINES}")).unwrap();
            let begun = lines.contains("seconds");
            assert!(begun || !ended(guest), "{command} ended: {lines}");
            begun.then_some(())
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
        until("frames to move", || (self.so_far(guest) > before).then_some(()));
    }

    /// Ends it as Ctrl-C does, and returns its results.
    pub fn end(self, guest: &mut Guest) -> Value {
        guest.run("killall -INT kpps").unwrap();
        until("kpps to end", || ended(guest).then_some(()));
        let text = guest.run(&format!("cat {OUT}")).unwrap();
        let mut last = || guest.run(&format!("tail -3 {LINES}")).unwrap();
        serde_json::from_str(&text).unwrap_or_else(|_| panic!("results {text:?}; {}", last()))
    }
}

/// Whether the command has ended.
fn ended(guest: &mut Guest) -> bool {
    guest.output(&format!("test -e {CODE}"), GUEST_TIMEOUT).unwrap().code == 0
}
