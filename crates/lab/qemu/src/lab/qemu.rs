//! The guest's PC: its QEMU arguments.

use crate::Wire;
use crate::lab::options::{Cable, Machine, Options, Paced, mac, slot};
use crate::lab::{Error, Result};
use crate::process::{Launch, PROGRAM, Process};
use kpps_documents::lab::Clock;
use std::fs::File;
use std::io::ErrorKind;
use std::os::unix::net::UnixStream;
use std::path::Path;

/// Bytes that may wait between host and QEMU on a cable, the kernel's bookkeeping included. QEMU takes all
/// waiting bytes at once and gives them to the card as one burst. This limits a burst to some 150 small
/// frames, which a card's ring can hold, as on a real wire. Bursts of 64 KiB overran a ring of 256.
const SEND_BUFFER: usize = 16 << 10;

/// A started QEMU and the connections to it.
pub(super) struct Started {
    pub(super) process: Process,
    pub(super) monitor: UnixStream,
    pub(super) console: UnixStream,
    pub(super) link_control: UnixStream,
    pub(super) commands: UnixStream,
    /// The cables that end at the host, in the order of the cards.
    pub(super) wires: Vec<Wire>,
    /// Where QEMU writes traced register accesses.
    pub(super) trace: File,
}

/// The version of the QEMU in a folder: its number, as "7.2.22", and the line that it prints.
pub(super) fn version(folder: &Path) -> Result<(String, String)> {
    let text =
        Launch::in_folder(folder, PROGRAM).output(&["--version"]).map_err(|error| match error.kind() {
            ErrorKind::NotFound => crate::Error::NotInstalled { program: PROGRAM.to_owned() }.into(),
            _ => Error::from(error),
        })?;
    // "QEMU emulator version 7.2.22 (Debian 1:7.2+dfsg-7+deb12u18)".
    let line = text.lines().next().unwrap_or_default();
    let number = line.split_whitespace().find(|word| word.starts_with(|first: char| first.is_ascii_digit()));
    let both = number.map(|number| (number.to_owned(), line.to_owned()));
    both.ok_or_else(|| Error::Input(format!("{PROGRAM} --version printed no version: {line}")))
}

/// The QEMU in a folder, or the host's.
fn launch(folder: Option<&Path>) -> Launch {
    folder.map_or_else(|| Launch::new(PROGRAM), |folder| Launch::in_folder(folder, PROGRAM)).bare()
}

pub(super) fn start(options: &Options, image: &Path, initrd: &[u8]) -> Result<Started> {
    let mut qemu = launch(options.qemu.as_deref());
    let (_, initrd) = qemu.file("initrd", initrd)?;
    let (trace, trace_path) = qemu.file("trace", &[])?;
    // DPDK needs more CPU features than the default CPU has. Five levels of page tables would only cost time.
    qemu.args(["-no-reboot", "-cpu", "max,la57=off"])
        .args(["-m", &format!("{}M", options.memory_mib), "-smp", &options.vcpus.to_string()])
        .args([Path::new("-kernel"), image])
        .args(["-initrd", &initrd, "-D", &trace_path, "-append", &options.command_line()])
        .args(["-machine", "q35,sata=off,smbus=off,usb=off,hpet=off"]);
    if options.clock == Clock::Instructions {
        // One nanosecond of the guest's time for each of its instructions, and no waiting while it is idle.
        // The date and random values are the same in every boot.
        qemu.args(["-icount", "shift=0,sleep=off", "-rtc", "base=2000-01-01,clock=vm", "-seed", "1"]);
    }
    let monitor = qemu.monitor()?;
    let console = qemu.chardev("console")?;
    let link_control = qemu.chardev("link")?;
    let commands = qemu.chardev("commands")?;
    qemu.args(["-serial", "chardev:console", "-serial", "chardev:link"]);
    if options.machine == Machine::Iommu {
        qemu.args(["-device", "intel-iommu,intremap=off"]);
    }
    qemu.args(["-device", "virtio-serial-pci,addr=0x1e"])
        .args(["-device", "virtserialport,chardev=commands,name=kpps.commands"]);
    let mut wires = Vec::new();
    for (index, card) in options.cards.iter().enumerate() {
        let netdev = format!("net{index}");
        let hub = match card.cable {
            Cable::Open => Some(100 + index),
            Cable::Hub(hub) => Some(hub.into()),
            Cable::Host => None,
        };
        match hub {
            Some(hub) => {
                qemu.args(["-netdev", &format!("hubport,id={netdev},hubid={hub}")]);
                if card.cable == Cable::Open {
                    add_sink(&mut qemu, hub);
                }
            }
            None => {
                let wire = Wire::new(qemu.cable(&netdev)?)?;
                wire.limit(SEND_BUFFER)?;
                wires.push(wire);
            }
        }
        let (model, slot) = (card.model.device(), slot(index));
        let mac = mac(index).map(|byte| format!("{byte:02x}")).join(":");
        qemu.args(["-device", &format!("{model},id=card{index},netdev={netdev},mac={mac},addr={slot:#x}")]);
    }
    if !options.served.is_empty() {
        add_served(&mut qemu, options);
    }
    if let Some(paced) = options.paced {
        add_paced(&mut qemu, paced);
    }
    Ok(Started { process: qemu.start()?, monitor, console, link_control, commands, wires, trace })
}

/// Cards that another process serves, which needs the guest's memory.
fn add_served(qemu: &mut Launch, options: &Options) {
    qemu.args(["-object", &format!("memory-backend-memfd,id=ram,size={}M,share=on", options.memory_mib)])
        .args(["-machine", "memory-backend=ram"]);
    for (index, socket) in options.served.iter().enumerate() {
        let slot = slot(options.cards.len() + index);
        // On a busy host an answer may take a while.
        let device = serde_json::json!({
            "driver": "vfio-user-pci",
            "socket": { "type": "unix", "path": socket },
            "addr": format!("{slot:02x}.0"),
            "x-msg-timeout": 60_000,
        });
        qemu.args(["-device", &device.to_string()]);
    }
}

/// The cards of a source within the guest's time.
fn add_paced(qemu: &mut Launch, paced: Paced) {
    let hub = paced.hub;
    for index in 0..paced.cards() {
        let (slot, function) = Paced::slot(index);
        let period = paced.period_ns();
        qemu.args(["-netdev", &format!("hubport,id=paced{index},hubid={hub}")]).args([
            "-device",
            &format!(
                "virtio-net-pci,netdev=paced{index},addr={slot:#x}.{function},multifunction=on,romfile=,disable-modern=on,\
                 tx=timer,x-txburst=1,x-txtimer={period}"
            ),
        ]);
    }
    // So that the source does not wait: QEMU queues frames that the card under test does not take in time, up
    // to 10,000.
    add_sink(qemu, hub.into());
}

/// A port without a card, which takes all frames: a hub takes a frame if any of its other ports does. A
/// virtio card waits until its frame is taken.
fn add_sink(qemu: &mut Launch, hub: usize) {
    qemu.args(["-netdev", &format!("hubport,id=sink{hub},hubid={hub}")]);
}
