//! A process that keeps results is killed at any moment: what it said to have kept is there.
#![cfg(unix)]
#![allow(clippy::unwrap_used)]

use kpps_measure::journal::Journal;
use std::io::{Read, Write};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

/// The test itself is the process that is killed, if this names its journal.
const JOURNAL: &str = "KPPS_TEST_JOURNAL";
/// Kills, and those of one journal.
const KILLS: usize = 200;
const KILLS_OF_ONE: usize = 20;

/// A result that takes several pages, so that a kill can tear it.
fn result(number: usize) -> String {
    format!("{number} ").repeat(3000)
}

fn open(path: &Path) -> Journal<String> {
    Journal::open(path).unwrap()
}

/// Checks the results in a journal and returns their number.
fn kept(journal: &Journal<String>) -> usize {
    let all = journal.of("number");
    for (number, kept) in all.iter().enumerate() {
        assert!(kept.result == result(number), "number {number} is another one");
    }
    all.len()
}

/// Keeps one result after the other, and prints the number of each that is kept.
fn write_until_killed(path: &Path) -> ! {
    let mut journal = open(path);
    for number in kept(&journal).. {
        journal.keep("number", &result(number)).unwrap();
        std::io::stdout().write_all(format!("kept {number}\n").as_bytes()).unwrap();
        std::thread::sleep(Duration::from_micros(200));
    }
    unreachable!("there is always another number")
}

/// Numbers that look random and are the same in each run.
fn next(random: &mut u64) -> u64 {
    *random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
    *random >> 33
}

#[test]
fn what_was_kept_survives_a_kill() {
    if let Some(path) = std::env::var_os(JOURNAL) {
        write_until_killed(Path::new(&path));
    }
    let folder = tempfile::tempdir().unwrap();
    let (mut random, mut torn, mut all) = (1, 0, 0);
    for number in 0..KILLS / KILLS_OF_ONE {
        let path = folder.path().join(number.to_string());
        let mut before = 0;
        for kill in 0..KILLS_OF_ONE {
            let mut child = Command::new(std::env::current_exe().unwrap())
                .args(["what_was_kept_survives_a_kill", "--exact", "--nocapture"])
                .env(JOURNAL, &path)
                .stdout(Stdio::piped())
                .spawn()
                .unwrap();
            std::thread::sleep(Duration::from_micros(2000 + next(&mut random) % 12_000));
            child.kill().unwrap();
            let mut said = String::new();
            child.stdout.take().unwrap().read_to_string(&mut said).unwrap();
            assert!(!child.wait().unwrap().success(), "it ended by itself: {said}");
            // Half a number is not said.
            let said = said.rsplit_once('\n').map_or("", |(whole, _)| whole);
            let said =
                said.lines().filter_map(|line| line.strip_prefix("kept ")?.parse::<usize>().ok()).next_back();
            let confirmed = said.map_or(before, |number| number + 1);
            let journal = open(&path);
            let kept = kept(&journal);
            assert!((confirmed..=confirmed + 1).contains(&kept), "{kill}: {kept} of {confirmed}");
            torn += usize::from(journal.torn().is_some());
            before = kept;
        }
        all += before;
    }
    println!("{KILLS} kills: {all} results kept, {torn} torn lines dropped");
    assert!(all > KILLS, "{all} results in {KILLS} runs: they are killed before they begin");
}
