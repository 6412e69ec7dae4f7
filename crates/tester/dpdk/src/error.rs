//! Errors: one line each, with the command that helps.

use std::path::PathBuf;

/// The packages that the adapter needs, on Debian.
pub(crate) const PACKAGES: &str = "`apt-get install libdpdk-dev pkg-config gcc`";

/// Why DPDK, or a device, cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// A program that compiles the adapter is missing.
    #[error("there is no {0}, which compiles the adapter to DPDK: {PACKAGES}")]
    NoTool(String),
    /// There are no headers of DPDK.
    #[error("DPDK is not installed, or not its headers (pkg-config knows no libdpdk): {PACKAGES}")]
    NoHeaders,
    /// The compiler refused the adapter.
    #[error("the adapter cannot be compiled for DPDK {version}: {why}")]
    Compile {
        /// The version of the headers.
        version: String,
        /// The compiler's first error.
        why: String,
    },
    /// There is no folder for the adapter.
    #[error("there is no folder for the adapter to DPDK: set HOME or XDG_CACHE_HOME")]
    NoFolder,
    /// The adapter's file cannot be written, or belongs to another user.
    #[error("{}: {why}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// The reason.
        why: String,
    },
    /// The adapter was not compiled.
    #[error("the adapter to DPDK is not compiled yet: `kpps dpdk build` does that, once on each host")]
    NotBuilt,
    /// The adapter cannot be loaded: its DPDK has gone, or another version took its place.
    #[error("the adapter to DPDK does not fit this host: `kpps dpdk build` compiles it again ({0})")]
    Load(String),
    /// DPDK did not start.
    #[error("DPDK does not start: {0}")]
    Start(String),
    /// DPDK was started with other arguments in this process.
    #[error("DPDK runs in this process already, with other arguments: {0}")]
    Arguments(String),
    /// A device cannot be used.
    #[error("{device}: {why}")]
    Device {
        /// The device.
        device: String,
        /// DPDK's messages.
        why: String,
    },
}
