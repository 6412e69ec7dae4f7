//! Our search beside the library of the authors of RFC 9971 (MLRsearch, on PyPI): the same goals, and the
//! same devices, which are here. A process of Python runs the library and asks for each of its trials.
//!
//! Nothing depends on time: a trial is a calculation.
#![allow(clippy::unwrap_used)]

mod devices;

use devices::{Chance, DEVICES, Device, HIGHEST_PPS, LOWEST_PPS};
use kpps_documents::{Ledger, Trial};
use kpps_methods::search::{Goal, Search};
use std::fmt::Write as _;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

const SEEDS: u64 = 50;

/// The trials of a search, and the lower bounds of NDR and PDR.
struct Found {
    trials: usize,
    lower_pps: [f64; 2],
}

fn ours(device: &Device, seed: u64) -> Found {
    let goals = [Goal::NDR, Goal::PDR];
    let mut search = Search::new(goals.to_vec(), LOWEST_PPS, HIGHEST_PPS);
    let mut chance = Chance::new(seed);
    while let Some(load_pps) = search.next() {
        let seconds = search.trial_s(load_pps);
        assert_eq!(seconds, 1.0, "all trials are as long as the library's");
        let [sent, delivered] = device.trial(&mut chance, load_pps, seconds);
        let trial = Trial::new(load_pps, seconds, [sent, 0, delivered], Ledger::default()).unwrap();
        search.add(load_pps, trial);
        assert!(search.trials().len() < 1000, "{}, seed {seed}: it ends", device.name);
    }
    let found = goals.map(|goal| search.found(&goal));
    assert!(found.iter().all(|found| found.done), "{}, seed {seed}: {found:?}", device.name);
    Found { trials: search.trials().len(), lower_pps: found.map(|found| found.lower_pps.unwrap()) }
}

/// The library, in a process of Python.
struct Library {
    process: Child,
    to: ChildStdin,
    from: BufReader<ChildStdout>,
}

impl Library {
    /// `None` if this Python has no such package.
    fn start() -> Option<Self> {
        let python = kpps_namespaces::python("MLRsearch")?;
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/mlrsearch/library.py");
        let mut command = Command::new(python);
        command.arg(script).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut process = command.spawn().unwrap();
        let (to, from) = (process.stdin.take().unwrap(), BufReader::new(process.stdout.take().unwrap()));
        Some(Self { process, to, from })
    }

    fn search(&mut self, device: &Device, seed: u64) -> Found {
        let mut chance = Chance::new(seed);
        writeln!(self.to, "{LOWEST_PPS} {HIGHEST_PPS}").unwrap();
        for trials in 0.. {
            let mut line = String::new();
            self.from.read_line(&mut line).unwrap();
            let (what, numbers) = line.split_once(' ').expect("the library goes on");
            let numbers: Vec<f64> = numbers.split_whitespace().map(|word| word.parse().unwrap()).collect();
            if what == "found" {
                return Found { trials, lower_pps: [numbers[0], numbers[1]] };
            }
            let [sent, delivered] = device.trial(&mut chance, numbers[0], numbers[1]);
            writeln!(self.to, "{sent} {delivered}").unwrap();
        }
        unreachable!("trials have no end")
    }
}

impl Drop for Library {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// The mean number of trials over all seeds, and the worst error of the NDR.
fn over_seeds(device: &Device, mut search: impl FnMut(&Device, u64) -> Found) -> (f64, f64) {
    let found: Vec<Found> = (0..SEEDS).map(|seed| search(device, seed)).collect();
    let trials: usize = found.iter().map(|found| found.trials).sum();
    let errors = found.iter().map(|found| found.lower_pps[0] / device.ndr_pps - 1.0);
    let worst = errors.max_by(|a, b| a.abs().total_cmp(&b.abs())).unwrap();
    (trials as f64 / SEEDS as f64, worst)
}

#[test]
fn our_search_takes_fewer_trials_than_the_authors_library() {
    let Some(mut library) = Library::start() else {
        return kpps_namespaces::skip::needs("Python with MLRsearch (make install-python)");
    };
    let mut table = String::from("                             trials         worst NDR, % off\n");
    table.push_str("device                       ours  library    ours  library\n");
    let mut faults = Vec::new();
    for device in &DEVICES {
        let (trials, worst) = over_seeds(device, ours);
        let (their_trials, their_worst) = over_seeds(device, |device, seed| library.search(device, seed));
        let [error, their_error] = [worst, their_worst].map(|worst| worst * 100.0);
        writeln!(table, "{:26} {trials:6.1} {their_trials:8.1} {error:7.2} {their_error:8.2}", device.name)
            .unwrap();
        if device.must_be_fewer && trials >= their_trials {
            faults.push(format!("{}: not fewer trials", device.name));
        }
        if worst.abs() > device.allowed {
            faults.push(format!("{}: an error of {error:.2} %", device.name));
        }
    }
    // Also if the test passes: the output of `print!` would be captured.
    std::io::stderr().write_all(table.as_bytes()).unwrap();
    assert!(faults.is_empty(), "{faults:#?}\n{table}");
}
