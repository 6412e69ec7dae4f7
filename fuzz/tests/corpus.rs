//! The fuzzer's corpus: inputs that each reached something new.

use kpps_fuzz::{TARGETS, Target};
use std::path::Path;

/// A target breaks no promise on any input of its corpus.
fn repeat(name: &str, target: Target) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus").join(name);
    let mut count = 0;
    for file in std::fs::read_dir(&folder).expect("the corpus of each target is in the repository") {
        let path = file.expect("a readable folder").path();
        let input = std::fs::read(&path).expect("a readable file");
        assert!(std::panic::catch_unwind(|| target(&input)).is_ok(), "{name} fails on {}", path.display());
        count += 1;
    }
    assert!(count > 10, "{count} inputs of {name}");
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
