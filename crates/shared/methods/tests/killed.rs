//! A process that keeps or writes results is killed at any moment: all results that it reported as kept or
//! written exist.
#![cfg(unix)]
#![allow(clippy::unwrap_used)]

use kpps_documents::file::WholeFile;
use kpps_methods::journal::Journal;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

/// A test itself is the process that is killed, if this names its journal or its file.
const WRITES: &str = "KPPS_TEST_WRITES";
/// Kills, and those of one journal.
const KILLS: usize = 200;
const KILLS_OF_ONE: usize = 20;

/// One test at a time: a process that the other one starts has its parent's journal, locked, until it
/// executes its program.
static ALONE: Mutex<()> = Mutex::new(());

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

/// Starts this test again as a process that writes there, and kills it at some moment after it has printed
/// this word up to `most` times, however slow the machine is. Returns the last number that it printed.
fn kill_at_any_moment(test: &str, path: &Path, word: &str, most: u64, random: &mut u64) -> Option<usize> {
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args([test, "--exact", "--nocapture"])
        .env(WRITES, path)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines().map(Result::unwrap);
    // A kill tears no line: it is one write to a pipe (pipe(7), PIPE_BUF).
    let number = |line: String| line.rsplit_once(word).map(|(_, number)| number.parse().unwrap());
    let mut said = None;
    for _ in 0..next(random) % (most + 1) {
        said = lines.by_ref().find_map(number);
    }
    std::thread::sleep(Duration::from_micros(next(random) % 4_000));
    child.kill().unwrap();
    said = lines.filter_map(number).last().or(said);
    assert!(!child.wait().unwrap().success(), "it ended by itself after {said:?}");
    said
}

#[test]
fn what_was_kept_survives_a_kill() {
    if let Some(path) = std::env::var_os(WRITES) {
        write_until_killed(Path::new(&path));
    }
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let folder = tempfile::tempdir().unwrap();
    let (mut random, mut torn, mut all) = (1, 0, 0);
    for number in 0..KILLS / KILLS_OF_ONE {
        let path = folder.path().join(number.to_string());
        let mut before = 0;
        for kill in 0..KILLS_OF_ONE {
            let said = kill_at_any_moment("what_was_kept_survives_a_kill", &path, "kept ", 8, &mut random);
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
    assert!(all > KILLS, "{all} results in {KILLS} runs");
}

/// A file of results has all of the last contents that were written, or of those that were being written.
#[test]
fn a_file_is_whole_after_a_kill() {
    let contents = |number: usize| format!("{number} ").repeat(20_000);
    let number_in = |path: &Path| {
        let found = std::fs::read_to_string(path).unwrap();
        let number = found.split(' ').next().unwrap().parse().unwrap();
        assert!(found == contents(number), "a part of number {number}");
        number
    };
    if let Some(path) = std::env::var_os(WRITES) {
        let path = Path::new(&path);
        for number in number_in(path) + 1.. {
            WholeFile::open(path).unwrap().write(contents(number).as_bytes()).unwrap();
            std::io::stdout().write_all(format!("written {number}\n").as_bytes()).unwrap();
        }
    }
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("results.json");
    std::fs::write(&path, contents(0)).unwrap();
    let (mut random, mut before) = (2, 0);
    for kill in 0..KILLS {
        let said = kill_at_any_moment("a_file_is_whole_after_a_kill", &path, "written ", 3, &mut random);
        let confirmed = said.unwrap_or(before);
        before = number_in(&path);
        assert!((confirmed..=confirmed + 1).contains(&before), "{kill}: {before} of {confirmed}");
    }
    println!("{KILLS} kills: {before} files written");
    assert!(before > KILLS, "{before} files in {KILLS} runs");
}
