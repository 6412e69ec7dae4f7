//! The pages as a reader sees them: in a browser, offline, light and dark, on a telephone and on a desk.
//!
//! The pictures stay in `target/tmp/pages`. KPPS_NO_BROWSER=1 leaves this out.

mod chromium;

use crate::net::{Net, is_short_of_cpu};
use chromium::Chromium;
use kpps_namespaces::skip;
use serde_json::Value;
use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// What a drawing is made of, in all pages.
const DRAWINGS: &str = ".plot, .figure:not(.band), .bars, .heat";
/// Colours that a drawing has at least: ground, lines, words.
const COLOURS: usize = 3;

fn kpps(words: &[&str], here: &Path) -> Output {
    Command::new(assert_cmd::cargo::cargo_bin("kpps")).args(words).current_dir(here).output().unwrap()
}

/// A page of each kind, of real measurements in the simulator, and of two ports if there is the right to
/// make them.
fn pages(here: &Path) -> Vec<PathBuf> {
    let runs: [&[&str]; 6] = [
        &["curve", "--load", "10%..100%/15%", "--duration", "10ms", "--report", "curve.html"],
        &[
            "grid",
            "--vary",
            "driver.rx_ring=64,256",
            "--vary",
            "load=40%..100%/30%",
            "--duration",
            "10ms",
            "--report",
            "grid.html",
        ],
        &["ndr", "--driver", "intel-5.7.6", "--duration", "5ms", "--precision", "5%", "--report", "ndr.html"],
        &[
            "sizes",
            "--driver",
            "click-polling",
            "--size",
            "64,512,1518",
            "--duration",
            "5ms",
            "--precision",
            "5%",
            "--report",
            "sizes.html",
        ],
        &[
            "rfc2544",
            "--size",
            "64,1518",
            "--duration",
            "5ms",
            "--repeat",
            "2",
            "--precision",
            "5%",
            "--report",
            "rfc2544.html",
        ],
        &["study", "rdr2007", "--report", "."],
    ];
    for words in runs {
        let output = kpps(words, here);
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{words:?}: {said}");
    }
    let mut pages =
        ["curve", "grid", "ndr", "sizes", "rfc2544", "rdr2007"].map(|name| here.join(name)).to_vec();
    if let Some(net) = Net::new(&[("a", "b")]) {
        let runs = [
            ("trial", &["--load", "20kpps"][..]),
            ("curve-of-ports", &["--load", "2kpps..8kpps/2kpps", "--duration", "100ms"]),
        ];
        for (name, words) in runs {
            let page = here.join(name);
            let report = page.with_extension("html");
            let command = name.split('-').next().unwrap();
            let report = report.to_str().unwrap();
            let ports = ["--ports", "packet:a,packet:b", "--bidirectional", "--json", "--report", report];
            let output = net.kpps(&[&[command], words, &ports].concat());
            let said = String::from_utf8_lossy(&output.stderr);
            assert!(output.status.success() || is_short_of_cpu(&output), "{name}: {said}");
            pages.push(page);
        }
    }
    pages.iter().map(|page| page.with_extension("html")).collect()
}

#[test]
fn every_page_can_be_looked_at() {
    if std::env::var_os("KPPS_NO_BROWSER").is_some() {
        skip::needs("a browser, and KPPS_NO_BROWSER is set");
        return;
    }
    let found = Command::new("chromium").arg("--version").output();
    assert!(
        found.is_ok_and(|output| output.status.success()),
        "there is no chromium: install it (make install-test-tools), or leave this out by KPPS_NO_BROWSER=1"
    );
    let here = tempfile::tempdir().unwrap();
    let pages = pages(here.path());
    let pictures = Path::new(env!("CARGO_TARGET_TMPDIR")).join("pages");
    std::fs::create_dir_all(&pictures).unwrap();
    let mut browser = Chromium::start();
    let mut bad = Vec::new();
    for page in &pages {
        for width in [390, 1280] {
            for theme in ["light", "dark"] {
                let name = format!("{}-{theme}-{width}", page.file_stem().unwrap().to_str().unwrap());
                browser.open(page, width, theme);
                let drawings = browser.evaluate(&places(DRAWINGS));
                let picture = browser.screenshot();
                std::fs::write(pictures.join(&name).with_extension("png"), &picture).unwrap();
                let picture = Picture::read(&picture);
                let mut say = |what: String| bad.push(format!("{name}: {what}"));
                let light = picture.brightness(1, 1);
                if (light > 0.8) != (theme == "light") || (light < 0.2) != (theme == "dark") {
                    say(format!("its ground has brightness {light:.2}"));
                }
                let drawings = drawings.as_array().unwrap();
                if drawings.is_empty() {
                    say("there is nothing to look at".into());
                }
                for (number, drawing) in drawings.iter().enumerate() {
                    let colours = picture.colours(drawing);
                    if colours < COLOURS {
                        say(format!("drawing {number} has {colours} colours"));
                    }
                }
                for complaint in browser.evaluate(include_str!("check.js")).as_array().unwrap() {
                    say(complaint.as_str().unwrap().into());
                }
                for event in std::mem::take(&mut browser.events) {
                    complaint(&event, page).into_iter().for_each(&mut say);
                }
            }
        }
    }
    assert!(bad.is_empty(), "pictures are in {}\n{}", pictures.display(), bad.join("\n"));
}

/// The places of elements on the page, in px.
fn places(of: &str) -> String {
    format!(
        "[...document.querySelectorAll('{of}')].filter(it => !it.closest('details:not([open])')).map(it => it.getBoundingClientRect()).filter(it => it.width > 0)\
         .map(it => [it.left + scrollX, it.top + scrollY, it.width, it.height])"
    )
}

/// What an event says that must not be: an error, or something asked of a network.
fn complaint(event: &Value, page: &Path) -> Option<String> {
    let parameters = &event["params"];
    let url = parameters["request"]["url"].as_str().unwrap_or_default();
    let own = format!("file://{}", page.display());
    match event["method"].as_str()? {
        "Runtime.exceptionThrown" => Some(format!("exception: {}", parameters["exceptionDetails"])),
        "Runtime.consoleAPICalled" if ["error", "assert"].map(Value::from).contains(&parameters["type"]) => {
            Some(format!("console: {}", parameters["args"]))
        }
        "Log.entryAdded" if parameters["entry"]["level"] == "error" => {
            Some(format!("log: {}", parameters["entry"]["text"]))
        }
        "Network.requestWillBeSent" if url != own && !url.starts_with("data:") => {
            Some(format!("asks for {url}"))
        }
        _ => None,
    }
}

/// A picture, in RGB.
struct Picture {
    width: usize,
    height: usize,
    bytes: usize,
    pixels: Vec<u8>,
}

impl Picture {
    fn read(file: &[u8]) -> Self {
        let mut reader = png::Decoder::new(std::io::Cursor::new(file)).read_info().unwrap();
        let mut pixels = vec![0; reader.output_buffer_size().unwrap()];
        let info = reader.next_frame(&mut pixels).unwrap();
        let bytes = info.color_type.samples();
        Self { width: info.width as usize, height: info.height as usize, bytes, pixels }
    }

    fn at(&self, x: usize, y: usize) -> [u8; 3] {
        let at = (y * self.width + x) * self.bytes;
        [0, 1, 2].map(|part| self.pixels[at + part])
    }

    /// From 0 to 1.
    fn brightness(&self, x: usize, y: usize) -> f64 {
        self.at(x, y).iter().map(|&part| f64::from(part)).sum::<f64>() / 765.0
    }

    /// Colours within a place that more than a few pixels have.
    fn colours(&self, place: &Value) -> usize {
        let [left, top, width, height] = [0, 1, 2, 3].map(|at| place[at].as_f64().unwrap().max(0.0) as usize);
        let mut counts = HashMap::<_, usize>::new();
        for y in top..(top + height).min(self.height) {
            for x in left..(left + width).min(self.width) {
                *counts.entry(self.at(x, y)).or_default() += 1;
            }
        }
        counts.values().filter(|count| **count >= 8).count()
    }
}
