//! The tests of the Python package, with the module and the command of this build. They take a Python with
//! what `tests/requirements.txt` names; `make test` makes one in `target/python`, and KPPS_PYTHON names
//! another.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The folder where cargo builds: this test is in its `deps`.
fn built() -> PathBuf {
    let test = env::current_exe().expect("a test has a path");
    test.ancestors().nth(2).expect("and is in a folder of a folder").to_owned()
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).expect("a folder for the package");
    for entry in fs::read_dir(from).expect("the package").flatten() {
        let (path, to) = (entry.path(), to.join(entry.file_name()));
        match path.is_dir() {
            true if entry.file_name() == "__pycache__" => {}
            true => copy(&path, &to),
            false => drop(fs::copy(&path, &to).expect("a file of the package")),
        }
    }
}

#[test]
fn the_package_passes_its_tests() {
    let source = Path::new(env!("CARGO_MANIFEST_DIR"));
    let built = built();
    let python = env::var_os("KPPS_PYTHON").map(PathBuf::from);
    let python = python.unwrap_or_else(|| built.with_file_name("python").join("bin").join("python"));
    let has_pytest = Command::new(&python).args(["-c", "import pytest, pyarrow"]).output();
    if !has_pytest.is_ok_and(|done| done.status.success()) {
        return kpps_namespaces::skip::needs("Python with pytest and pyarrow (make install-python)");
    }
    // As it is installed: the module beside the sources.
    let site = built.join("python-package");
    let _ = fs::remove_dir_all(&site);
    copy(&source.join("kpps"), &site.join("kpps"));
    let module =
        built.join("deps").join(format!("{}_kpps{}", env::consts::DLL_PREFIX, env::consts::DLL_SUFFIX));
    fs::copy(&module, site.join("kpps").join("_kpps.abi3.so")).expect("the module is built with its test");
    let mut tests = Command::new(&python);
    tests.args(["-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "kpps.pytest_plugin"]);
    tests.args(["-rs", "--durations=5"]).arg(source.join("tests"));
    // Python looks for packages in the current folder first.
    tests.current_dir(&site).env("PYTHONPATH", &site);
    // The tests start dozens of processes, and each would compile Dask, pandas and pyarrow again: uv installs
    // packages without bytecode. It is kept beside what cargo builds, and not among the sources.
    tests.env("PYTHONPYCACHEPREFIX", built.join("python-bytecode")).env_remove("PYTHONDONTWRITEBYTECODE");
    let command = built.join(format!("kpps{}", env::consts::EXE_SUFFIX));
    if command.exists() {
        tests.env("KPPS_COMMAND", command);
    }
    let done = tests.output().expect("Python runs");
    let said = String::from_utf8_lossy(&done.stdout);
    println!("{said}{}", String::from_utf8_lossy(&done.stderr));
    for skipped in said.lines().filter(|line| line.starts_with("SKIPPED")) {
        kpps_namespaces::skip::lacks(skipped);
    }
    assert!(done.status.success(), "pytest failed");
}
