//! One QEMU process: how it is started, connected and ended.
//!
//! QEMU inherits all connections and files: socket pairs and files in memory. There is no directory, no
//! socket file and no port, so nothing is left behind. The kernel kills QEMU when the thread that started
//! it ends.

use crate::{Error, Result};
use rustix::fs::MemfdFlags;
use rustix::io::FdFlags;
use rustix::process::{Signal, getppid, set_parent_process_death_signal};
use std::ffi::OsStr;
use std::fs::File;
use std::io::{ErrorKind, Read, Seek, Write};
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// QEMU's program for 64-bit PCs.
pub(crate) const PROGRAM: &str = "qemu-system-x86_64";
/// How long the process may take to end once a connection to it has broken.
const END: Duration = Duration::from_secs(1);
/// How long a program may take to print its output and end.
#[cfg(feature = "lab")]
const PRINT: Duration = Duration::from_secs(20);
/// The most bytes of such an output.
#[cfg(feature = "lab")]
const MOST_PRINTED: u64 = 1 << 20;
/// The bytes at the end of QEMU's standard error that are read, and the size from which the bytes before them
/// are given back to the system.
const STDERR_KEPT: u64 = 64 << 10;
const STDERR_MOST: u64 = 1 << 20;

/// A QEMU to be started: its arguments, and the descriptors that it inherits.
pub(crate) struct Launch {
    program: String,
    command: Command,
    inherited: Vec<OwnedFd>,
}

impl Launch {
    /// `program`, without arguments.
    pub(crate) fn new(program: &str) -> Self {
        Self { program: program.to_owned(), command: Command::new(program), inherited: Vec::new() }
    }

    /// The `program` of Debian's packages that are unpacked in the folder `root`, with their libraries and
    /// loader: they may be of a later release than the host's.
    pub(crate) fn in_folder(root: &std::path::Path, program: &str) -> Self {
        let libraries = root.join("usr/lib/x86_64-linux-gnu");
        let mut launch = Self::new(&root.join("usr/lib64/ld-linux-x86-64.so.2").display().to_string());
        let command = &mut launch.command;
        command.arg("--library-path").arg(&libraries).arg(root.join("usr/bin").join(program));
        for data in ["usr/share/qemu", "usr/share/seabios", "usr/lib/ipxe/qemu"] {
            command.arg("-L").arg(root.join(data));
        }
        // Modules of another version are refused.
        command.env("QEMU_MODULE_DIR", libraries.join("qemu"));
        launch
    }

    /// With emulated CPUs (TCG), without a display and without default devices.
    pub(crate) fn bare(mut self) -> Self {
        self.args(["-nodefaults", "-no-user-config", "-display", "none", "-accel", "tcg"]);
        self
    }

    /// Runs it in this folder.
    #[cfg(feature = "lab")]
    pub(crate) fn run_in(&mut self, folder: &std::path::Path) {
        self.command.current_dir(folder);
    }

    /// The program's standard output with `arguments` that let it print something and end. A program that
    /// prints more than a megabyte, or does not end within 20 s, is killed.
    #[cfg(feature = "lab")]
    pub(crate) fn output(mut self, arguments: &[&str]) -> std::io::Result<String> {
        self.command.args(arguments).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut child = self.command.spawn()?;
        let (printed, all) = std::sync::mpsc::channel();
        if let Some(stdout) = child.stdout.take() {
            let read = move || {
                let mut bytes = Vec::new();
                let done = stdout.take(MOST_PRINTED).read_to_end(&mut bytes);
                // Nobody receives it after the time limit.
                let _ = printed.send(done.map(|_| bytes));
            };
            std::thread::Builder::new().name("output".into()).spawn(read)?;
        }
        let bytes = all.recv_timeout(PRINT);
        let _ = child.kill();
        let _ = child.wait();
        let bytes = bytes.map_err(|_| std::io::Error::from(ErrorKind::TimedOut))??;
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    }

    /// Adds arguments.
    pub(crate) fn args(&mut self, arguments: impl IntoIterator<Item = impl AsRef<OsStr>>) -> &mut Self {
        self.command.args(arguments);
        self
    }

    /// A connection: our end, and the number of QEMU's descriptor.
    pub(crate) fn stream(&mut self) -> Result<(UnixStream, i32)> {
        let (ours, theirs) = UnixStream::pair()?;
        Ok((ours, self.inherit(theirs.into())))
    }

    /// A connection as the character device `id`.
    pub(crate) fn chardev(&mut self, id: &str) -> Result<UnixStream> {
        let (ours, fd) = self.stream()?;
        self.args(["-chardev", &format!("socket,id={id},fd={fd}")]);
        Ok(ours)
    }

    /// The connection to QEMU's monitor ([`Monitor`](crate::qmp::Monitor)).
    pub(crate) fn monitor(&mut self) -> Result<UnixStream> {
        let monitor = self.chardev("monitor")?;
        self.args(["-mon", "monitor,mode=control"]);
        Ok(monitor)
    }

    /// A cable that ends here, as the network backend `id` ([`Wire`](crate::Wire)).
    pub(crate) fn cable(&mut self, id: &str) -> Result<UnixStream> {
        let (ours, fd) = self.stream()?;
        self.args(["-netdev", &format!("stream,id={id},server=off,addr.type=fd,addr.str={fd}")]);
        Ok(ours)
    }

    /// A file in memory with `contents`, and the path under which QEMU opens it.
    pub(crate) fn file(&mut self, name: &str, contents: &[u8]) -> Result<(File, String)> {
        let mut file = memory_file(name)?;
        file.write_all(contents)?;
        let fd = self.inherit(file.try_clone()?.into());
        Ok((file, format!("/proc/self/fd/{fd}")))
    }

    fn inherit(&mut self, fd: OwnedFd) -> i32 {
        let number = fd.as_raw_fd();
        self.inherited.push(fd);
        number
    }

    /// Starts QEMU.
    ///
    /// # Errors
    /// [`Error::NotInstalled`], or whatever the system refuses.
    pub(crate) fn start(self) -> Result<Process> {
        let Self { program, mut command, inherited } = self;
        let stderr = memory_file("stderr")?;
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(stderr.try_clone()?);
        // Ctrl-C in a terminal ends the measurement, which still needs QEMU to save its results.
        command.process_group(0);
        let us = rustix::process::getpid();
        let prepare = move || {
            for fd in &inherited {
                rustix::io::fcntl_setfd(fd, FdFlags::empty())?;
            }
            set_parent_process_death_signal(Some(Signal::KILL))?;
            // No signal comes if the parent ended before this call.
            if getppid() == Some(us) { Ok(()) } else { Err(ErrorKind::BrokenPipe.into()) }
        };
        // SAFETY: between fork and exec it makes only system calls: no allocation and no lock.
        unsafe { command.pre_exec(prepare) };
        let child = command.spawn().map_err(|error| match error.kind() {
            ErrorKind::NotFound => Error::NotInstalled { program },
            _ => error.into(),
        })?;
        Ok(Process { child, stderr })
    }
}

/// A file in memory without a name in the file system, closed on exec.
fn memory_file(name: &str) -> Result<File> {
    let fd = rustix::fs::memfd_create(name, MemfdFlags::CLOEXEC).map_err(std::io::Error::from)?;
    Ok(fd.into())
}

/// A running QEMU; killed when dropped.
#[derive(Debug)]
pub(crate) struct Process {
    child: Child,
    stderr: File,
}

impl Process {
    /// Its process id.
    #[cfg(feature = "lab")]
    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    /// Whether QEMU still runs.
    ///
    /// # Errors
    /// [`Error::Ended`] if it does not.
    pub(crate) fn check(&mut self) -> Result<()> {
        let Some(status) = self.child.try_wait()? else { return self.limit_stderr() };
        let mut stderr = Vec::new();
        let length = self.stderr.metadata()?.len();
        self.stderr.seek(std::io::SeekFrom::Start(length.saturating_sub(STDERR_KEPT)))?;
        self.stderr.read_to_end(&mut stderr)?;
        // A hub without a card, or with a port without one, is meant to be so.
        let told: Vec<_> = String::from_utf8_lossy(&stderr)
            .lines()
            .filter(|it| !is_of_hubs(it))
            .map(str::to_owned)
            .collect();
        let stderr = told.join("\n").trim().to_owned();
        Err(Error::Ended { status: status.to_string(), stderr })
    }

    /// Gives memory back if QEMU prints without end, as it does with a trace of all instructions.
    fn limit_stderr(&self) -> Result<()> {
        use rustix::fs::FallocateFlags;
        let file = self.stderr.metadata()?;
        if std::os::unix::fs::MetadataExt::blocks(&file).saturating_mul(512) > STDERR_MOST {
            let flags = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
            let before = file.len().saturating_sub(STDERR_KEPT);
            rustix::fs::fallocate(&self.stderr, flags, 0, before).map_err(std::io::Error::from)?;
        }
        Ok(())
    }

    /// The cause of `error`: a broken connection means that QEMU ends, and how it ended says more.
    pub(crate) fn cause(&mut self, error: Error) -> Error {
        let since = Instant::now();
        loop {
            if let Err(ended) = self.check() {
                return ended;
            }
            if !matches!(error, Error::Io(_)) || since.elapsed() > END {
                return error;
            }
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

/// Whether QEMU warns of hubs that have no card, no way out, or a port without a card.
fn is_of_hubs(line: &str) -> bool {
    line.contains("warning: hub") || line.contains("warning: netdev sink")
}

impl Drop for Process {
    fn drop(&mut self) {
        // All of these fail if it has ended by itself, which is as good. The program may be a script that
        // runs QEMU as a process of its own: both are in the group that was made for them.
        if let Some(group) = rustix::process::Pid::from_raw(self.child.id().cast_signed())
            && matches!(self.child.try_wait(), Ok(None))
        {
            let _ = rustix::process::kill_process_group(group, Signal::KILL);
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
