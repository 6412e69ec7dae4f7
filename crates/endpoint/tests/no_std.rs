//! The adapters need no standard library, and none of what they depend on does.
#![allow(clippy::unwrap_used)]

use std::path::Path;
use std::process::Command;

/// A target that has none.
const BARE: &str = "x86_64-unknown-none";
const ADAPTERS: [&str; 2] = ["kpps-smoltcp", "kpps-embassy"];

/// What the command prints, which must succeed.
fn output(command: &mut Command) -> String {
    let output = command.output().unwrap();
    assert!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

fn cargo(subcommand: &str) -> Command {
    let mut cargo = Command::new(env!("CARGO"));
    cargo.args([subcommand, "--offline", "--quiet", "--no-default-features"]);
    cargo.current_dir(env!("CARGO_MANIFEST_DIR"));
    cargo
}

#[test]
fn no_dependency_has_its_std_feature_on() {
    for adapter in ADAPTERS {
        let tree = ["--package", adapter, "--edges", "normal", "--prefix", "none", "--format", "{p}: {f}"];
        let tree = output(cargo("tree").args(tree));
        assert!(tree.contains("kpps-endpoint") && tree.contains("kpps-driver"), "{tree}");
        for line in tree.lines() {
            let (package, features) = line.split_once(": ").unwrap_or((line, ""));
            assert!(!features.split(',').any(|feature| feature == "std"), "{adapter}: {package} has std on");
        }
    }
}

/// Where the bare target is installed (`rustup target add x86_64-unknown-none`) the compiler is the judge.
#[test]
fn they_are_good_for_a_target_without_a_standard_library() {
    let rustc = std::env::var("RUSTC").unwrap_or("rustc".to_owned());
    let library = output(Command::new(rustc).args(["--print", "target-libdir", "--target", BARE]));
    if !Path::new(library.trim()).is_dir() {
        eprintln!("{BARE} is not installed: only features were looked at");
        return;
    }
    let mut check = cargo("check");
    check.args(["--target", BARE, "--target-dir", env!("CARGO_TARGET_TMPDIR")]);
    check.args(["--features", "kpps-smoltcp/segmentation"]);
    for adapter in ADAPTERS {
        check.args(["--package", adapter]);
    }
    output(&mut check);
}
