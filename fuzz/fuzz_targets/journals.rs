//! A journal of kept results with arbitrary contents: what is kept in it afterwards is there when it is
//! opened again.
#![no_main]

use kpps_measure::journal::Journal;
use libfuzzer_sys::fuzz_target;
use std::path::PathBuf;
use std::sync::LazyLock;

/// In memory.
static FILE: LazyLock<PathBuf> =
    LazyLock::new(|| PathBuf::from(format!("/dev/shm/kpps-fuzz-{}", std::process::id())));

fuzz_target!(|bytes: &[u8]| {
    std::fs::write(&*FILE, bytes).expect("room in memory");
    let Ok(mut journal) = Journal::<u32>::open(&FILE) else { return };
    let before = journal.of("fuzz").len();
    journal.keep("fuzz", &7).expect("room in memory");
    drop(journal);
    let again = Journal::<u32>::open(&FILE).expect("what was opened once");
    assert_eq!(again.of("fuzz").len(), before + 1);
});
