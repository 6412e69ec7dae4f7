//! The fuzzer's inputs: some failed once, the others together reach all that any known input reaches.

use kpps_fuzz::{TARGETS, Target};
use std::path::Path;

/// The inputs of a target in a folder, each a line in hex.
fn inputs(folder: &str, name: &str) -> Option<Vec<Vec<u8>>> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(folder).join(name);
    let text = path.exists().then(|| std::fs::read_to_string(&path).expect("a readable file"))?;
    let byte = |digits: &[u8]| {
        let digits = str::from_utf8(digits).ok().filter(|it| it.len() == 2);
        digits.and_then(|it| u8::from_str_radix(it, 16).ok()).expect("two digits of hex for each byte")
    };
    Some(text.lines().map(|line| line.as_bytes().chunks(2).map(byte).collect()).collect())
}

/// A target breaks no promise on any of its inputs.
fn repeat(name: &str, target: Target) {
    let chosen = inputs("inputs", name).expect("the inputs of each target are in the repository");
    assert!(chosen.len() > 5, "{} inputs of {name}", chosen.len());
    for input in chosen.into_iter().chain(inputs("failed", name).unwrap_or_default()) {
        assert!(std::panic::catch_unwind(|| target(&input)).is_ok(), "{name} fails on {input:02x?}");
    }
}

/// All targets, each in a thread of its own.
#[test]
fn no_target_fails_on_what_the_fuzzer_found() {
    std::thread::scope(|scope| {
        let running = TARGETS.map(|(name, target)| scope.spawn(move || repeat(name, target)));
        let failed = running.into_iter().filter_map(|thread| thread.join().err()).count();
        assert_eq!(failed, 0, "targets that fail: see above");
    });
}
