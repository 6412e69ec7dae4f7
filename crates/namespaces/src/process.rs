//! Programs in the background.

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// A program in the background, and what it says on its standard error; killed when dropped.
#[derive(Debug)]
pub struct Process {
    child: Child,
    said: Arc<Mutex<String>>,
    patience: Duration,
}

impl Process {
    /// Starts it, and waits until it says that it is `ready`. It may take so long to say anything that is waited for.
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

    /// Waits until it has said this.
    pub fn says(&self, what: &str) {
        let end = Instant::now() + self.patience;
        while !self.said().contains(what) {
            assert!(Instant::now() < end, "'{what}' is not in: {}", self.said());
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    /// What it has said so far.
    pub fn said(&self) -> String {
        self.said.lock().unwrap().clone()
    }

    /// Sends it a signal, as kill(1) names it: `-STOP`.
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

/// Sends a program a signal, as kill(1) names it: `-STOP`.
pub fn signal(child: &Child, name: &str) {
    assert!(Command::new("kill").args([name, &child.id().to_string()]).status().unwrap().success());
}
