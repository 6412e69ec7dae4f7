//! Starting QEMU and ending it.
//!
//! QEMU inherits everything it talks on: socket pairs and a file in memory. There is no directory, no socket file and
//! no port, so nothing can be left behind; and the kernel ends QEMU when the thread that started it ends.

use crate::lab::guest::{Cable, Machine, Options};
use crate::lab::{Error, Result};
use rustix::fs::MemfdFlags;
use rustix::io::FdFlags;
use rustix::process::{Signal, getppid, set_parent_process_death_signal};
use std::fs::File;
use std::io::{ErrorKind, Read, Seek, Write};
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

const PROGRAM: &str = "qemu-system-x86_64";
/// The first slot of the cards on the PCI bus: they are 0000:00:10.0, 0000:00:11.0, …
const FIRST_SLOT: usize = 0x10;

/// A running QEMU; killed when dropped.
#[derive(Debug)]
pub(crate) struct Process {
    child: Child,
    stderr: File,
}

/// What a started QEMU is connected by.
pub(crate) struct Started {
    pub(crate) process: Process,
    pub(crate) monitor: UnixStream,
    pub(crate) console: UnixStream,
    pub(crate) link_control: UnixStream,
    pub(crate) commands: UnixStream,
    /// A stream for each card whose cable ends at the host, in the order of the cards.
    pub(crate) wires: Vec<UnixStream>,
    /// Where traced register accesses are written.
    pub(crate) trace: File,
}

/// Descriptors that QEMU is to inherit, under the numbers that they have here.
struct Inherited(Vec<OwnedFd>);

impl Inherited {
    fn stream(&mut self) -> Result<(UnixStream, i32)> {
        let (ours, theirs) = UnixStream::pair()?;
        let number = theirs.as_raw_fd();
        self.0.push(theirs.into());
        Ok((ours, number))
    }

    fn file(&mut self, name: &str, contents: &[u8]) -> Result<(File, i32)> {
        let mut file =
            File::from(rustix::fs::memfd_create(name, MemfdFlags::CLOEXEC).map_err(std::io::Error::from)?);
        file.write_all(contents)?;
        let theirs: OwnedFd = file.try_clone()?.into();
        let number = theirs.as_raw_fd();
        self.0.push(theirs);
        Ok((file, number))
    }
}

pub(crate) fn start(options: &Options, image: &Path, initrd: &[u8]) -> Result<Started> {
    let mut inherited = Inherited(Vec::new());
    let (monitor, monitor_fd) = inherited.stream()?;
    let (console, console_fd) = inherited.stream()?;
    let (link_control, link_fd) = inherited.stream()?;
    let (commands, commands_fd) = inherited.stream()?;
    let (_, initrd_fd) = inherited.file("initrd", initrd)?;
    let (trace, trace_fd) = inherited.file("trace", &[])?;

    let mut command = Command::new(PROGRAM);
    command
        .args(["-nodefaults", "-no-user-config", "-display", "none", "-no-reboot", "-accel", "tcg"])
        // DPDK asks for more than the default processor has. Five levels of page tables would only cost time.
        .args(["-cpu", "max,la57=off"])
        .args(["-m", &format!("{}M", options.memory_mib), "-smp", &options.vcpus.to_string()])
        .arg("-kernel")
        .arg(image)
        .args(["-initrd", &format!("/proc/self/fd/{initrd_fd}")])
        .args(["-D", &format!("/proc/self/fd/{trace_fd}")])
        .args(["-append", &options.command_line()])
        .args(["-chardev", &format!("socket,id=monitor,fd={monitor_fd}"), "-mon", "monitor,mode=control"])
        .args(["-chardev", &format!("socket,id=console,fd={console_fd}"), "-serial", "chardev:console"])
        .args(["-chardev", &format!("socket,id=link,fd={link_fd}"), "-serial", "chardev:link"])
        .args(["-chardev", &format!("socket,id=commands,fd={commands_fd}")])
        .args(["-machine", "q35,sata=off,smbus=off,usb=off,hpet=off"]);
    if options.machine == Machine::Iommu {
        command.args(["-device", "intel-iommu,intremap=off"]);
    }
    command
        .args(["-device", "virtio-serial-pci,addr=0x8"])
        .args(["-device", "virtserialport,chardev=commands,name=kpps.commands"]);
    let mut wires = Vec::new();
    for (index, card) in options.cards.iter().enumerate() {
        let netdev = match card.cable {
            Cable::Open => format!("hubport,id=net{index},hubid={}", 100 + index),
            Cable::Hub(hub) => format!("hubport,id=net{index},hubid={hub}"),
            Cable::Host => {
                let (ours, fd) = inherited.stream()?;
                wires.push(ours);
                format!("stream,id=net{index},server=off,addr.type=fd,addr.str={fd}")
            }
        };
        let (model, slot) = (card.model.name(), FIRST_SLOT + index);
        command.args(["-netdev", &netdev]).arg("-device").arg(format!(
            "{model},id=card{index},netdev=net{index},mac=52:54:00:00:00:{index:02x},addr={slot:#x}"
        ));
    }
    let process = spawn(command, inherited)?;
    Ok(Started { process, monitor, console, link_control, commands, wires, trace })
}

fn spawn(mut command: Command, inherited: Inherited) -> Result<Process> {
    let stderr = tempfile::tempfile()?;
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(stderr.try_clone()?);
    // Ctrl-C in a terminal is for us: what was measured is to be kept.
    command.process_group(0);
    let us = rustix::process::getpid();
    let prepare = move || {
        for fd in &inherited.0 {
            rustix::io::fcntl_setfd(fd, FdFlags::empty())?;
        }
        set_parent_process_death_signal(Some(Signal::KILL))?;
        // Had we ended before that, nobody would tell.
        if getppid() == Some(us) { Ok(()) } else { Err(ErrorKind::BrokenPipe.into()) }
    };
    // SAFETY: between fork and exec only system calls are made; nothing is allocated and no lock is taken.
    unsafe { command.pre_exec(prepare) };
    let child = command.spawn().map_err(|error| match error.kind() {
        ErrorKind::NotFound => Error::NotInstalled { program: PROGRAM.into(), package: "qemu-system-x86" },
        _ => error.into(),
    })?;
    Ok(Process { child, stderr })
}

impl Process {
    /// Its process id.
    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    /// Whether QEMU still runs.
    pub(crate) fn check(&mut self) -> Result<()> {
        let Some(status) = self.child.try_wait()? else { return Ok(()) };
        let mut stderr = Vec::new();
        self.stderr.rewind()?;
        self.stderr.read_to_end(&mut stderr)?;
        let stderr = String::from_utf8_lossy(&stderr).trim().to_owned();
        Err(Error::Ended { status: status.to_string(), stderr })
    }

    /// Why a connection to QEMU broke: how it ended, if it ends; else `error` itself.
    pub(crate) fn reason(&mut self, error: Error) -> Error {
        for _ in 0..200 {
            if let Err(ended) = self.check() {
                return ended;
            }
            if !matches!(error, Error::Io(_)) {
                break;
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
