//! The pages as a reader sees them: in a browser, offline, light and dark, on a telephone and on a desk.
//!
//! The pictures stay in `target/tmp/pages`. KPPS_NO_BROWSER=1 leaves this out.

mod chromium;

use crate::net::{Net, is_short_of_cpu};
use chromium::Chromium;
use kpps_documents::Environment;
use kpps_documents::lab::{Clock, Lab, Profile, Ratio, Row, Stack};
use kpps_namespaces::skip;
use serde_json::Value;
use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// The selectors of drawings in all pages.
const DRAWINGS: &str = ".plot, .figure:not(.band), .bars, .heat";
/// Pages without a drawing.
const TEXTS: [&str; 2] = ["transmit", "scale"];
/// Colours that a drawing has at least: ground, lines, words.
const COLOURS: usize = 3;

fn kpps(words: &[&str], here: &Path) -> Output {
    Command::new(assert_cmd::cargo::cargo_bin("kpps")).args(words).current_dir(here).output().unwrap()
}

/// A page of each kind, of real measurements in the simulator, and of two ports if there is the right to
/// make them.
fn pages(here: &Path) -> Vec<PathBuf> {
    // Among them one on which nothing is lost, one with long names and many columns, and one of each testbed.
    let runs = [
        ("curve", "curve --load 10%..100%/15% --duration 10ms"),
        (
            "grid",
            "grid --vary driver=kpps,click-polling --vary driver.rx_ring=64,256 --vary load=40%..100%/30% --duration 10ms",
        ),
        (
            "grid-of-many",
            "grid --vary driver=intel-2.5.11,click-polling --vary load=2%..100%/2% --duration 1ms",
        ),
        ("ndr", "ndr --driver intel-5.7.6 --duration 5ms --precision 5%"),
        ("ndr-of-a-rate", "ndr --testbed known:14.2Mpps --noise"),
        ("sizes", "sizes --driver click-polling --size 64,512,1518 --duration 5ms --precision 5%"),
        ("rfc2544", "rfc2544 --size 64,1518 --duration 5ms --repeat 2 --precision 5%"),
        ("rfc2544-without-loss", "rfc2544 --size 1518 --duration 5ms --repeat 2 --precision 5%"),
        ("trial-of-the-simulator", "trial --driver intel-2.5.11 --load 700kpps --duration 10ms"),
        ("transmit", "transmit --driver kpps,click-polling --duration 1ms"),
        ("scale", "scale --cpu-counts 1,2 --duration 1ms"),
        ("rdr2007", "study rdr2007"),
    ];
    let runs = runs.map(|(name, words)| (name.to_owned(), format!("{words} --report {name}.html")));
    for (_, words) in &runs {
        let output = kpps(&words.split(' ').collect::<Vec<_>>(), here);
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{words:?}: {said}");
    }
    std::fs::write(here.join("lab.html"), kpps_rendering::lab::page(&lab())).unwrap();
    let mut pages: Vec<PathBuf> =
        runs.iter().map(|(name, _)| here.join(name)).chain([here.join("lab")]).collect();
    if let Some(net) = Net::new(&[("enp0s31f6", "b")]) {
        let runs = [
            ("trial", &["--load", "20kpps"][..]),
            ("trial-with-a-series", &["--load", "5kpps", "--duration", "500ms", "--interval", "100ms"]),
            ("curve-of-ports", &["--load", "2kpps..8kpps/2kpps", "--duration", "100ms"]),
        ];
        for (name, words) in runs {
            let page = here.join(name);
            let report = page.with_extension("html");
            let command = name.split('-').next().unwrap();
            let report = report.to_str().unwrap();
            let ports =
                ["--ports", "packet:enp0s31f6,packet:b", "--bidirectional", "--json", "--report", report];
            let output = net.kpps(&[&[command], words, &ports].concat());
            let said = String::from_utf8_lossy(&output.stderr);
            assert!(output.status.success() || is_short_of_cpu(&output), "{name}: {said}");
            pages.push(page);
        }
    }
    pages.iter().map(|page| page.with_extension("html")).collect()
}

/// A lab as QEMU measures it, with data that are hard to show: long names, a profile with many functions.
fn lab() -> Lab {
    let row = |workload: &str, driver: &str, backend: &str, each: f64| Row {
        workload: workload.into(),
        driver: driver.into(),
        backend: backend.into(),
        device: "e1000e".into(),
        iommu: true,
        vcpus: 1,
        pps: vec![each * 1e3, each * 1.1e3, each * 0.9e3],
        median_pps: Some(each * 1e3),
        instructions_per_frame: vec![1e6 / each, 1.1e6 / each],
        sent_pps: Some(1.4e6),
        interrupts_per_s: Some(7800.0),
        cpu_busy: Some(1.0),
        sent: 100_000,
        drops: [("rx_missed_errors".to_owned(), 30_000), ("softnet dropped".to_owned(), 4000)].into(),
        ..Row::default()
    };
    let drivers = [("kpps", "uio", 900.0), ("dpdk", "vfio", 800.0), ("linux", "kernel", 300.0)];
    let rows: Vec<Row> = ["receive", "transmit", "bridge"]
        .into_iter()
        .flat_map(|workload| drivers.map(|(driver, backend, each)| row(workload, driver, backend, each)))
        .collect();
    let names = [
        "asm_sysvec_apic_timer_interrupt",
        "net_rx_action",
        "e1000_clean",
        "e1000_clean_rx_irq",
        "napi_gro_receive",
    ];
    let stack = |depth: usize, share| Stack {
        functions: names[..depth].iter().map(|name| (*name).to_owned()).collect(),
        share,
    };
    let stacks = vec![stack(5, 0.4), stack(4, 0.3), stack(3, 0.15), stack(2, 0.1), stack(1, 0.05)];
    Lab {
        environment: Environment {
            stack: "linux-6.1".into(),
            system: [
                ("kernel".to_owned(), "linux-image-6.1.0-42-amd64 6.1.192-2".to_owned()),
                ("QEMU".to_owned(), "11.1.3 (Debian 1:11.1.3+ds-1)".to_owned()),
            ]
            .into(),
            duration_s: Some(0.0),
            ..Environment::default()
        },
        clock: Clock::Instructions,
        ratios: rows.iter().filter_map(|row| Ratio::of(row, "linux", &[1.2, 1.3, 1.4])).collect(),
        profiles: vec![Profile { workload: "receive".into(), stacks, ..Profile::default() }],
        rows,
        failures: vec!["e1000e bridge dpdk vfio: the guest did not answer within 60 s".into()],
        ..Lab::default()
    }
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
        // A width has no part in a mistake of a theme, so two of the four pictures show both.
        for (width, theme) in [(400, "dark"), (1400, "light")] {
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
            if drawings.is_empty() && !TEXTS.iter().any(|text| name.starts_with(text)) {
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
    assert!(bad.is_empty(), "pictures are in {}\n{}", pictures.display(), bad.join("\n"));
}

/// The places of elements on the page, in px.
fn places(of: &str) -> String {
    format!(
        "[...document.querySelectorAll('{of}')].filter(it => !it.closest('details:not([open])')).map(it => it.getBoundingClientRect()).filter(it => it.width > 0)\
         .map(it => [it.left + scrollX, it.top + scrollY, it.width, it.height])"
    )
}

/// The complaint in an event: an error, or a request to a network.
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
    bytes: usize,
    pixels: Vec<u8>,
}

impl Picture {
    fn read(file: &[u8]) -> Self {
        let mut reader = png::Decoder::new(std::io::Cursor::new(file)).read_info().unwrap();
        let mut pixels = vec![0; reader.output_buffer_size().unwrap()];
        let info = reader.next_frame(&mut pixels).unwrap();
        let bytes = info.color_type.samples();
        Self { width: info.width as usize, bytes, pixels }
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
        let [left, right] = [left, left + width].map(|x| x.min(self.width) * self.bytes);
        for row in self.pixels.chunks_exact(self.width * self.bytes).take(top + height).skip(top) {
            let pixels: Vec<_> = row[left..right].chunks_exact(self.bytes).collect();
            // Most pixels are as the one before.
            for run in pixels.chunk_by(|one, next| one == next) {
                *counts.entry(&run[0][..3]).or_default() += run.len();
            }
        }
        counts.values().filter(|count| **count >= 8).count()
    }
}
