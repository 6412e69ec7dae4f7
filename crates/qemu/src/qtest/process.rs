//! Starting QEMU and ending it.
//!
//! QEMU connects to sockets that we listen on, in a private directory which is removed as soon
//! as QEMU has opened everything in it: nothing is left behind, however we end.

use crate::qtest::socket::PATIENCE;
use crate::qtest::{Error, Options, Timers};
use rustix::io::Errno;
use rustix::process::Signal;
use std::fs::File;
use std::io::{ErrorKind, Read, Seek};
use std::os::unix::net::{UnixListener, UnixStream};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// A processor that does nothing: cli, hlt, and back to hlt, at the reset vector.
const HALT: [u8; 4] = [0xfa, 0xf4, 0xeb, 0xfd];
/// Size of the ROM and where in it the processor starts: 16 bytes before its end.
const ROM_BYTES: usize = 64 * 1024;

/// A running QEMU; killed when dropped.
#[derive(Debug)]
pub(crate) struct Process {
    child: Child,
    stderr: File,
}

/// What a started QEMU is connected by.
pub(crate) struct Started {
    pub(crate) process: Process,
    pub(crate) ram: File,
    pub(crate) qtest: UnixStream,
    pub(crate) wire: UnixStream,
    pub(crate) monitor: UnixStream,
    /// Where QEMU's files lie; needed until it has answered for the first time.
    pub(crate) directory: TempDir,
}

pub(crate) fn start(options: &Options) -> Result<Started, Error> {
    let directory = private_directory()?;
    let path = |name: &str| directory.path().join(name);

    let mut rom = vec![0xf4; ROM_BYTES];
    rom[ROM_BYTES - 16..][..HALT.len()].copy_from_slice(&HALT);
    std::fs::write(path("rom"), &rom)?;
    let ram = File::options().create_new(true).read(true).write(true).open(path("ram"))?;
    ram.set_len(options.ram_bytes)?;
    let qtest = listen(&path("qtest"))?;
    let wire = listen(&path("wire"))?;
    let monitor = listen(&path("qmp"))?;

    let at = directory.path().display();
    let megabytes = options.ram_bytes >> 20;
    let mac = options.mac.map(|byte| format!("{byte:02x}")).join(":");
    let mut command = Command::new(&options.program);
    command
        .args(["-nodefaults", "-no-user-config", "-display", "none", "-accel", "tcg"])
        // No source of interrupts but the card.
        .args(["-machine", "q35,hpet=off,pit=off,sata=off,smbus=off,usb=off,memory-backend=ram"])
        .args(["-m", &format!("{megabytes}M")])
        .arg("-object")
        .arg(format!("memory-backend-file,id=ram,share=on,size={megabytes}M,mem-path={at}/ram"))
        .args(["-bios", &format!("{at}/rom")])
        .args(["-qtest", &format!("unix:{at}/qtest"), "-qtest-log", "none"])
        .args(["-qmp", &format!("unix:{at}/qmp")])
        .args(["-netdev", &format!("stream,id=wire,server=off,addr.type=unix,addr.path={at}/wire")])
        .args(["-device", &format!("{},id=card,netdev=wire,mac={mac}", options.model.name())]);
    if options.timers == Timers::Immediate {
        // A halted processor's time jumps to the next timer.
        command.args(["-icount", "shift=0,sleep=off"]);
    }
    let stderr = tempfile::tempfile()?;
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(stderr.try_clone()?);
    die_with_parent(&mut command);
    let child = command.spawn().map_err(|error| match error.kind() {
        ErrorKind::NotFound => Error::NotInstalled { program: options.program.clone() },
        _ => error.into(),
    })?;
    let mut process = Process { child, stderr };
    Ok(Started {
        qtest: process.accept(&qtest, "the qtest socket")?,
        wire: process.accept(&wire, "the network socket")?,
        monitor: process.accept(&monitor, "the monitor")?,
        process,
        ram,
        directory,
    })
}

/// Makes the child end with the thread that starts it, however that ends: nobody else would end
/// a QEMU whose parent was killed.
fn die_with_parent(command: &mut Command) {
    let parent = rustix::process::getpid();
    let before_exec = move || {
        rustix::process::set_parent_process_death_signal(Some(Signal::KILL))?;
        // It may have died before that.
        if rustix::process::getppid() == Some(parent) { Ok(()) } else { Err(Errno::SRCH.into()) }
    };
    // SAFETY: between fork and exec only two system calls are made; nothing is allocated or locked.
    unsafe { command.pre_exec(before_exec) };
}

/// In memory if the system has a place for that: the guest's memory lies in it.
fn private_directory() -> Result<TempDir, Error> {
    let mut builder = tempfile::Builder::new();
    builder.prefix("kpps-qemu-");
    Ok(builder.tempdir_in("/dev/shm").or_else(|_| builder.tempdir())?)
}

fn listen(path: &Path) -> Result<UnixListener, Error> {
    let listener = UnixListener::bind(path)?;
    listener.set_nonblocking(true)?;
    Ok(listener)
}

impl Process {
    /// Waits for QEMU to connect, as long as it lives and [`PATIENCE`] lasts.
    fn accept(&mut self, listener: &UnixListener, what: &str) -> Result<UnixStream, Error> {
        let since = Instant::now();
        loop {
            match listener.accept() {
                Ok((stream, _)) => {
                    stream.set_nonblocking(false)?;
                    return Ok(stream);
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                Err(error) => return Err(error.into()),
            }
            self.check()?;
            if since.elapsed() > PATIENCE {
                return Err(Error::Silent { seconds: PATIENCE.as_secs(), waiting_for: what.to_owned() });
            }
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    /// Whether QEMU still runs.
    pub(crate) fn check(&mut self) -> Result<(), Error> {
        let Some(status) = self.child.try_wait()? else { return Ok(()) };
        let mut stderr = String::new();
        self.stderr.rewind()?;
        self.stderr.read_to_string(&mut stderr)?;
        Err(Error::Ended { status: status.to_string(), stderr: stderr.trim().to_owned() })
    }
}

impl Process {
    /// Why a connection to QEMU broke: how it ended, if it ends; else `error` itself.
    pub(crate) fn reason(&mut self, error: Error) -> Error {
        let since = Instant::now();
        while since.elapsed() < Duration::from_secs(1) {
            if let Err(ended) = self.check() {
                return ended;
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        error
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // It may have ended by itself; then there is nothing to kill, and nothing else to do.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
