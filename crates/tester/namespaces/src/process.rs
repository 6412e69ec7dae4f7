//! Programs in the background.

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// A program in the background, with the output on its standard error. It is killed when this is dropped.
#[derive(Debug)]
pub struct Process {
    child: Child,
    said: Arc<Mutex<String>>,
    patience: Duration,
}

impl Process {
    /// Starts it, and waits until it prints `ready`. Every awaited output may take `patience`.
    pub fn start(mut command: Command, ready: &str, patience: Duration) -> Self {
        let mut child = command.stdin(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
        let lines = BufReader::new(child.stderr.take().unwrap()).lines();
        let said = Arc::new(Mutex::new(String::new()));
        let to = said.clone();
        std::thread::spawn(move || {
            for line in lines.map_while(Result::ok) {
                *to.lock().unwrap() += &format!("{line}\n");
            }
        });
        let process = Self { child, said, patience };
        process.says(ready);
        process
    }

    /// Waits until it has printed this.
    pub fn says(&self, what: &str) {
        let end = Instant::now() + self.patience;
        while !self.said().contains(what) {
            assert!(Instant::now() < end, "'{what}' is not in: {}", self.said());
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    /// Its output so far.
    pub fn said(&self) -> String {
        self.said.lock().unwrap().clone()
    }

    /// Sends it a signal by its name for kill(1): `-STOP`.
    pub fn signal(&self, name: &str) {
        signal(&self.child, name);
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Sends a program a signal by its name for kill(1): `-STOP`.
pub fn signal(child: &Child, name: &str) {
    assert!(Command::new("kill").args([name, &child.id().to_string()]).status().unwrap().success());
}
