//! The crate needs no standard library, and none of its dependencies does.

use std::path::Path;
use std::process::Command;

/// A target without a standard library.
const BARE: &str = "x86_64-unknown-none";
const FEATURES: [&str; 3] = ["", "smoltcp,segmentation", "embassy"];

/// The output of the command, which must succeed.
fn output(command: &mut Command) -> String {
    let output = command.output().unwrap();
    assert!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

fn cargo(subcommand: &str, features: &str) -> Command {
    let mut cargo = Command::new(env!("CARGO"));
    cargo.args([subcommand, "--offline", "--quiet", "--package", "kpps-netstack"]);
    cargo.args(["--no-default-features", "--features", features]);
    // The wrapper that checks the crates of `make test` is not used here.
    cargo.current_dir(env!("CARGO_MANIFEST_DIR")).env_remove("RUSTC_WORKSPACE_WRAPPER");
    cargo
}

#[test]
fn no_dependency_has_its_std_feature_on() {
    for features in FEATURES {
        let tree = ["--edges", "normal", "--prefix", "none", "--format", "{p}: {f}"];
        let tree = output(cargo("tree", features).args(tree));
        assert!(tree.contains("kpps-platform") && tree.contains("kpps-driver"), "{tree}");
        for line in tree.lines() {
            let (package, on) = line.split_once(": ").unwrap_or((line, ""));
            assert!(!on.split(',').any(|feature| feature == "std"), "{features}: {package} has std on");
        }
    }
}

/// The compiler decides where the bare target is installed (`rustup target add x86_64-unknown-none`).
#[test]
fn it_compiles_for_a_target_without_a_standard_library() {
    let rustc = std::env::var("RUSTC").unwrap_or("rustc".to_owned());
    let library = output(Command::new(rustc).args(["--print", "target-libdir", "--target", BARE]));
    if !Path::new(library.trim()).is_dir() {
        #[cfg(target_os = "linux")]
        kpps_namespaces::skip::needs(&format!("a library for {BARE} (make install-test-tools)"));
        return;
    }
    for features in FEATURES {
        let mut check = cargo("check", features);
        check.args(["--target", BARE, "--target-dir", env!("CARGO_TARGET_TMPDIR")]);
        output(&mut check);
    }
}
