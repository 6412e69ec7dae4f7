//! A headless Chromium, asked through its debugging pipe (the DevTools protocol): a JSON message each way,
//! ended by a NUL.

use serde_json::{Value, json};
use std::fs::File;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

/// The longest wait for an answer on a machine under load.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(180);

/// A browser with one page.
pub struct Chromium {
    child: Child,
    to: File,
    from: Receiver<Value>,
    next: u64,
    session: Option<String>,
    /// Events, which no command asked for.
    pub events: Vec<Value>,
    _profile: tempfile::TempDir,
}

impl Chromium {
    /// Starts it, with an empty page, without any network.
    pub fn start() -> Self {
        let profile = tempfile::tempdir().unwrap();
        let pipe = |name: &str| {
            let path = profile.path().join(name);
            assert!(Command::new("mkfifo").arg(&path).status().unwrap().success());
            path
        };
        let (to, from) = (pipe("to"), pipe("from"));
        let mut words = vec![
            "chromium".to_owned(),
            "--headless".into(),
            "--remote-debugging-pipe".into(),
            format!("--user-data-dir={}", profile.path().join("profile").display()),
            "--no-first-run".into(),
            "--no-default-browser-check".into(),
            "--disable-gpu".into(),
            "--disable-dev-shm-usage".into(),
            "--disable-background-networking".into(),
            "--disable-component-update".into(),
            "--disable-sync".into(),
            "--hide-scrollbars".into(),
            "--host-resolver-rules=MAP * ~NOTFOUND".into(),
        ];
        // Its sandbox refuses to be made by root.
        if rustix::process::geteuid().is_root() {
            words.push("--no-sandbox".into());
        }
        words.push("about:blank".into());
        // The pipe's ends are descriptors 3 and 4, which a shell can give.
        let child = Command::new("sh")
            .args(["-c", r#"exec "$@" 3<"$TO" 4>"$FROM""#, "sh"])
            .args(&words)
            .env("TO", &to)
            .env("FROM", &from)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(File::create(profile.path().join("log")).unwrap())
            .spawn()
            .unwrap();
        // In the order in which the shell opens them: each waits for the other side.
        let to = File::options().write(true).open(to).unwrap();
        let answers = BufReader::new(File::open(from).unwrap());
        let (said, from) = channel();
        std::thread::spawn(move || {
            for message in answers.split(0).map_while(Result::ok) {
                if said.send(serde_json::from_slice(&message).unwrap()).is_err() {
                    break;
                }
            }
        });
        let mut browser =
            Self { child, to, from, next: 0, session: None, events: Vec::new(), _profile: profile };
        let target = browser.ask("Target.createTarget", json!({"url": "about:blank"}));
        let attach = json!({"targetId": target["targetId"], "flatten": true});
        let session = browser.ask("Target.attachToTarget", attach);
        browser.session = Some(session["sessionId"].as_str().unwrap().to_owned());
        for domain in ["Page", "Runtime", "Log", "Network"] {
            browser.ask(&format!("{domain}.enable"), json!({}));
        }
        browser
    }

    /// Asks, and waits for the answer.
    pub fn ask(&mut self, method: &str, parameters: Value) -> Value {
        self.next += 1;
        let mut question = json!({"id": self.next, "method": method, "params": parameters});
        if let Some(session) = &self.session {
            question["sessionId"] = session.as_str().into();
        }
        self.to.write_all(format!("{question}\0").as_bytes()).unwrap();
        loop {
            let message = self.hear(method);
            if message["id"] == self.next {
                assert!(message["error"].is_null(), "{method}: {}", message["error"]);
                return message["result"].clone();
            }
            self.events.push(message);
        }
    }

    /// Waits for something to happen.
    pub fn wait_for(&mut self, method: &str) {
        while !self.events.iter().any(|event| event["method"] == method) {
            let message = self.hear(method);
            self.events.push(message);
        }
    }

    fn hear(&mut self, what: &str) -> Value {
        let end = Instant::now() + ANSWER_TIMEOUT;
        self.from
            .recv_timeout(end.saturating_duration_since(Instant::now()))
            .unwrap_or_else(|error| panic!("Chromium does not answer {what}: {error}"))
    }

    /// Opens a page as a reader would, in a window of this width, light or dark.
    pub fn open(&mut self, page: &Path, width: u32, theme: &str) {
        self.events.clear();
        let feature = json!({"name": "prefers-color-scheme", "value": theme});
        self.ask("Emulation.setEmulatedMedia", json!({"features": [feature]}));
        let metrics = json!({"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": false});
        self.ask("Emulation.setDeviceMetricsOverride", metrics);
        self.ask("Page.navigate", json!({"url": format!("file://{}", page.display())}));
        self.wait_for("Page.loadEventFired");
        // Scripts have drawn when two more frames have been.
        self.evaluate(
            "new Promise(done => requestAnimationFrame(() => requestAnimationFrame(() => done(true))))",
        );
    }

    /// The value of an expression in the page.
    pub fn evaluate(&mut self, expression: &str) -> Value {
        let asked = json!({"expression": expression, "returnByValue": true, "awaitPromise": true});
        let answer = self.ask("Runtime.evaluate", asked);
        assert!(answer["exceptionDetails"].is_null(), "{}", answer["exceptionDetails"]);
        answer["result"]["value"].clone()
    }

    /// All of the page as it looks, as PNG.
    pub fn screenshot(&mut self) -> Vec<u8> {
        let asked = json!({"format": "png", "captureBeyondViewport": true, "optimizeForSpeed": true});
        let answer = self.ask("Page.captureScreenshot", asked);
        base64(answer["data"].as_str().unwrap())
    }
}

impl Drop for Chromium {
    fn drop(&mut self) {
        // It also ends when its pipe is closed, but not at once.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// RFC 4648, section 4.
fn base64(text: &str) -> Vec<u8> {
    let digit = |byte: u8| match byte {
        b'A'..=b'Z' => u32::from(byte - b'A'),
        b'a'..=b'z' => u32::from(byte - b'a') + 26,
        b'0'..=b'9' => u32::from(byte - b'0') + 52,
        b'+' => 62,
        _ => 63,
    };
    let text = text.trim_end_matches('=').as_bytes();
    let group = |group: &[u8]| {
        let word = group.iter().fold(0, |word, &byte| word << 6 | digit(byte)) << (6 * (4 - group.len()));
        word.to_be_bytes()[1..group.len()].to_vec()
    };
    text.chunks(4).flat_map(group).collect()
}
