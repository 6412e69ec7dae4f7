//! Compiling the adapter for the DPDK of this host.

use crate::adapter::Adapter;
use crate::error::Error;
use crate::place;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};

const SOURCE: &str = include_str!("../shim/kpps_dpdk.c");
const HEADER: &str = include_str!("../shim/kpps_dpdk.h");

/// The name by which pkg-config knows DPDK.
const PACKAGE: &str = "libdpdk";

/// The DPDK and the adapter of this host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Status {
    /// The version of DPDK's headers, or why they cannot be used.
    pub headers: Result<String, Error>,
    /// The adapter's file, or why there cannot be one.
    pub file: Result<PathBuf, Error>,
    /// The DPDK that the adapter loads, or why it does not.
    pub adapter: Result<String, Error>,
}

/// Finds out what there is. Loads the adapter.
pub fn status() -> Status {
    Status {
        headers: headers(),
        file: place::adapter(),
        adapter: Adapter::load().map(|adapter| adapter.loaded().to_owned()),
    }
}

/// Compiles the adapter with pkg-config and the C compiler `cc`, or the one that the variable `CC` names.
/// Returns its file.
///
/// # Errors
/// [`Error`]: a program or DPDK's headers are missing, the compiler's first error, or the file cannot be
/// written.
pub fn build() -> Result<PathBuf, Error> {
    let version = headers()?;
    let path = place::adapter()?;
    let file = |why: io::Error| Error::File { path: path.clone(), why: why.to_string() };
    let folder = path.parent().unwrap_or(Path::new("."));
    fs::create_dir_all(folder).map_err(file)?;
    // Others may do the same at this moment: each has files of its own, and the last one's result stays.
    static BUILDS: AtomicU32 = AtomicU32::new(0);
    let number = BUILDS.fetch_add(1, Ordering::Relaxed);
    let own = folder.join(format!("build-{}-{number}", std::process::id()));
    fs::create_dir_all(&own).map_err(file)?;
    let compiled = compile(&own, &version).and_then(|library| fs::rename(library, &path).map_err(file));
    let _ = fs::remove_dir_all(&own);
    compiled?;
    Adapter::load().map(|_| path)
}

/// The version of DPDK's headers.
fn headers() -> Result<String, Error> {
    let version = pkg_config("--modversion")?;
    Ok(version.trim().to_owned())
}

/// The answer of pkg-config about DPDK.
fn pkg_config(what: &str) -> Result<String, Error> {
    let said = Command::new("pkg-config").args([what, PACKAGE]).output();
    let said = said.map_err(|_| Error::NoTool("pkg-config".into()))?;
    match said.status.success() {
        true => Ok(String::from_utf8_lossy(&said.stdout).into_owned()),
        false => Err(Error::NoHeaders),
    }
}

/// Compiles the adapter in a folder. Returns its file there.
fn compile(folder: &Path, version: &str) -> Result<PathBuf, Error> {
    let file = |name: &str, text: &str| {
        let path = folder.join(name);
        fs::write(&path, text)
            .map_err(|why| Error::File { path: path.clone(), why: why.to_string() })
            .map(|()| path)
    };
    file("kpps_dpdk.h", HEADER)?;
    let source = file("kpps_dpdk.c", SOURCE)?;
    let library = folder.join("kpps-dpdk.so");
    let compiler = std::env::var("CC").ok().filter(|name| !name.is_empty()).unwrap_or("cc".into());
    let (flags, libraries) = (pkg_config("--cflags")?, pkg_config("--libs")?);
    let mut words = compiler.split_whitespace();
    let said = Command::new(words.next().unwrap_or("cc"))
        .args(words)
        .args(["-O3", "-shared", "-fPIC", "-o"])
        .arg(&library)
        .arg(&source)
        .args(flags.split_whitespace())
        .args(libraries.split_whitespace())
        .output()
        .map_err(|_| Error::NoTool(format!("C compiler ({compiler})")))?;
    if said.status.success() {
        return Ok(library);
    }
    let text = String::from_utf8_lossy(&said.stderr);
    let first = text.lines().find(|line| line.contains("error")).or_else(|| text.lines().next());
    Err(Error::Compile { version: version.into(), why: first.unwrap_or("no message").trim().into() })
}
