//! A guest of somebody else: QEMU with the options of the guest's owner, one network card, and the guest's
//! serial console.

use crate::lab::arch::Arch;
use crate::lab::{Error, Result};
use crate::process::{Launch, Process};
use crate::qmp::Monitor;
use crate::{Wire, lab};
use std::io::{ErrorKind, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};

/// In the options of a guest: the network card, as in `-device @CARD@,addr=3`.
pub const CARD: &str = "@CARD@";
/// The identifier of the guest's memory.
const MEMORY: &str = "kpps.memory";
/// The memory of a machine that has no `-m`: QEMU's own default.
const DEFAULT_MEMORY: &str = "128M";
/// Settings of the card that are numbers in QEMU's options, all others are text.
const NUMBERS: [&str; 2] = ["bootindex", "rombar"];
/// The most bytes that are read from a console at once.
const CHUNK: usize = 16 << 10;
/// The most bytes that may wait for a guest that does not read its console.
const MOST_WAITING: usize = 64 << 10;
/// The identifier of an emulated card.
const EMULATED: &str = "kpps-card";
/// Options of QEMU that say what networks there are.
const NETWORKS: [&str; 3] = ["-nic", "-net", "-netdev"];

/// The network card of a guest.
#[derive(Clone, Copy, Debug)]
pub enum Card<'c> {
    /// The one that a process serves at this socket (vfio-user).
    Served(&'c Path),
    /// One that QEMU emulates, by QEMU's name, with this address; its cable ends at the host.
    Emulated(&'c str, [u8; 6]),
}

/// How to start a guest.
#[derive(Clone, Debug, Default)]
pub struct Setup {
    /// Its architecture.
    pub arch: Arch,
    /// The QEMU to use, if not that of Debian's backports.
    pub qemu: Option<PathBuf>,
    /// QEMU's options for its machine, kernel, disks and so on.
    pub options: Vec<String>,
}

/// A running guest; it ends when this is dropped.
#[derive(Debug)]
pub struct Foreign {
    process: Process,
    monitor: Monitor,
    version: String,
    console: UnixStream,
    /// Text that the guest's console has not taken yet.
    waiting: Vec<u8>,
    /// The host's end of the cable of an emulated card.
    pub wire: Option<Wire>,
}

impl Setup {
    /// Refuses options that contradict what kpps adds.
    ///
    /// # Errors
    /// [`Error::Input`] says which option, and what to write instead.
    pub fn check(&self) -> Result<()> {
        let pairs = self.options.iter().zip(self.options.iter().skip(1));
        for (option, value) in pairs.clone() {
            let model = value.split(',').next().unwrap_or_default();
            // QEMU takes one dash or two.
            let is_card = match option.trim_start_matches('-') {
                "device" => model.starts_with("e1000") || model.starts_with("i8254"),
                "net" | "nic" => value.contains("e1000") || model == "nic",
                _ => false,
            };
            if is_card {
                return Err(Error::Input(format!(
                    "{option} {value}: kpps brings the network card; leave this out, or write -device {CARD} in its place"
                )));
            }
        }
        let cards: Vec<_> = self.options.iter().filter(|option| option.contains(CARD)).collect();
        let devices = pairs.filter(|(option, value)| option.ends_with("-device") && value.starts_with(CARD));
        match cards.as_slice() {
            [] => Ok(()),
            [_] if devices.count() == 1 => Ok(()),
            [_] => Err(Error::Input(format!("{CARD} stands for a device: write -device {CARD},addr=…"))),
            _ => Err(Error::Input(format!("{CARD} is given twice: the guest has one card"))),
        }
    }

    /// The QEMU that runs it, fetched if it is not in the cache.
    ///
    /// # Errors
    /// If it cannot be fetched, or has no cards by vfio-user although one is `served`.
    pub fn fetch(&self, served: bool) -> Result<Program> {
        let Some(path) = &self.qemu else {
            let folder = lab::newer::for_arch(&lab::Cache::open()?, self.arch)?;
            return Ok(Program::Unpacked(folder, self.arch));
        };
        let program = Program::Own(path.clone());
        let shown = path.display();
        let output =
            program.launch().output(&["-device", "vfio-user-pci,help"]).map_err(|error| {
                match error.kind() {
                    ErrorKind::NotFound => Error::Input(format!("there is no program {shown}")),
                    _ => Error::file(path, error),
                }
            })?;
        if served && !output.status.success() {
            return Err(Error::Input(format!(
                "{shown} has no vfio-user-pci: kpps needs QEMU 10.1 or later, built with vfio-user; without \
                 a QEMU of your own, kpps fetches one"
            )));
        }
        Ok(program)
    }

    /// QEMU's arguments, without the connections to it.
    fn arguments(&self, card: Card<'_>) -> Result<Vec<String>> {
        let mut all: Vec<String> = Vec::new();
        let has = |names: &[&str]| {
            let bare = |option: &String| option.trim_start_matches('-').to_owned();
            self.options.iter().any(|option| {
                option.starts_with('-')
                    && names.iter().any(|name| bare(option) == name.trim_start_matches('-'))
            })
        };
        let mut add = |arguments: &[&str]| all.extend(arguments.iter().map(|it| (*it).to_owned()));
        add(&["-no-reboot", "-display", "none"]);
        if !has(&["-accel", "-enable-kvm"]) {
            add(&["-accel", "tcg"]);
        }
        if !has(&["-machine", "-M"]) {
            add(self.arch.machine());
        }
        if !has(&NETWORKS) {
            add(&["-nic", "none"]);
        }
        if !self.options.iter().any(|option| option.contains("memory-backend")) {
            let size = self.memory()?;
            let memory = format!("memory-backend-memfd,id={MEMORY},size={size},share=on");
            add(&["-object", &memory, "-machine", &format!("memory-backend={MEMORY}")]);
            if !has(&["-m"]) {
                add(&["-m", &size]);
            }
        }
        let mut placed = false;
        for option in &self.options {
            let option = match option.strip_prefix(CARD) {
                Some(settings) => {
                    placed = true;
                    device(card, settings)?
                }
                None => option.clone(),
            };
            all.push(option);
        }
        if !placed {
            all.extend(["-device".to_owned(), device(card, "")?]);
        }
        Ok(all)
    }

    /// The size of the guest's memory, as QEMU writes it: "512M".
    fn memory(&self) -> Result<String> {
        let at = self.options.iter().position(|option| matches!(option.strip_prefix('-'), Some("m" | "-m")));
        let Some(at) = at else { return Ok(DEFAULT_MEMORY.into()) };
        let value = self.options.get(at + 1).map_or("", String::as_str);
        let first = value.split(',').next().unwrap_or_default();
        let size = first.strip_prefix("size=").unwrap_or(first);
        let digits = size.trim_end_matches(|last: char| last.is_ascii_alphabetic());
        match (digits.parse::<u64>(), &size[digits.len()..]) {
            (Ok(1..), "") => Ok(format!("{size}M")),
            (Ok(1..), "k" | "K" | "m" | "M" | "g" | "G") => Ok(size.to_owned()),
            _ => Err(Error::Input(format!("-m {value}: no size of a memory; write -m 512M"))),
        }
    }
}

/// The `-device` of a card, with `settings` that begin with a comma: ",addr=3,bootindex=1".
fn device(card: Card<'_>, settings: &str) -> Result<String> {
    let wrong = || Error::Input(format!("{CARD}{settings}: write settings as {CARD},addr=3,bootindex=1"));
    let settings = match settings.strip_prefix(',') {
        Some(rest) => rest.split(',').map(|one| one.split_once('=').ok_or_else(wrong)).collect(),
        None if settings.is_empty() => Ok(Vec::new()),
        None => Err(wrong()),
    }?;
    match card {
        Card::Served(socket) => {
            // On a busy host an answer may take a while.
            let mut device = serde_json::json!({
                "driver": "vfio-user-pci",
                "socket": { "type": "unix", "path": socket },
                "x-msg-timeout": 60_000,
            });
            for (name, value) in settings {
                device[name] = match value.parse::<u32>() {
                    Ok(number) if NUMBERS.contains(&name) => number.into(),
                    _ => value.into(),
                };
            }
            Ok(device.to_string())
        }
        Card::Emulated(model, mac) => {
            let mac = mac.map(|byte| format!("{byte:02x}")).join(":");
            let settings: String = settings.iter().map(|(name, value)| format!(",{name}={value}")).collect();
            Ok(format!("{model},id={EMULATED},netdev=kpps0,mac={mac}{settings}"))
        }
    }
}

/// A QEMU.
#[derive(Clone, Debug)]
pub enum Program {
    /// Of Debian's packages, unpacked in this folder.
    Unpacked(PathBuf, Arch),
    /// The user's.
    Own(PathBuf),
}

impl Program {
    fn launch(&self) -> Launch {
        match self {
            Self::Unpacked(folder, arch) => Launch::in_folder(folder, arch.program()),
            Self::Own(path) => Launch::new(&path.display().to_string()),
        }
    }

    /// Starts a guest with this QEMU.
    ///
    /// # Errors
    /// If the options are wrong, or QEMU ends at once, which it does if it cannot load an image.
    pub fn start(&self, setup: &Setup, card: Card<'_>) -> Result<Foreign> {
        let mut qemu = self.launch();
        let monitor = qemu.monitor()?;
        let console = qemu.chardev("console")?;
        // The first serial port, whatever other ones the guest has.
        qemu.args(["-serial", "chardev:console"]);
        let wire = match card {
            Card::Served(_) => None,
            Card::Emulated(..) => Some(Wire::new(qemu.cable("kpps0")?)?),
        };
        qemu.args(setup.arguments(card)?);
        let mut process = qemu.start()?;
        console.set_nonblocking(true)?;
        let begun = Monitor::new(monitor).and_then(|mut monitor| Ok((monitor.version()?, monitor)));
        let (version, monitor) = begun.map_err(|error| process.cause(error))?;
        Ok(Foreign { process, monitor, version, console, waiting: Vec::new(), wire })
    }
}

impl Foreign {
    /// QEMU's version.
    pub fn version(&self) -> &str {
        &self.version
    }

    /// Adds what the guest has written on its console since the last call to `heard`: at most some kilobytes.
    ///
    /// # Errors
    /// If the connection fails.
    pub fn listen(&mut self, heard: &mut Vec<u8>) -> Result<()> {
        let mut chunk = [0; CHUNK];
        match self.console.read(&mut chunk) {
            Ok(count) => heard.extend_from_slice(&chunk[..count]),
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => {}
            Err(error) => return Err(error.into()),
        }
        self.say(&[])
    }

    /// Types `text` on the guest's console, now or as soon as the guest reads.
    ///
    /// # Errors
    /// If the connection fails, or the guest does not read its console.
    pub fn say(&mut self, text: &[u8]) -> Result<()> {
        self.waiting.extend_from_slice(text);
        while !self.waiting.is_empty() {
            match self.console.write(&self.waiting) {
                Ok(count) => drop(self.waiting.drain(..count)),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                Err(error) => return Err(error.into()),
            }
        }
        if self.waiting.len() > MOST_WAITING {
            return Err(Error::Input("the guest does not read what is typed on its console".into()));
        }
        Ok(())
    }

    /// Plugs the cable of an emulated card in or out.
    ///
    /// # Errors
    /// If the monitor does not answer.
    pub fn set_link(&mut self, up: bool) -> Result<()> {
        Ok(self.monitor.set_link(EMULATED, up)?)
    }

    /// Why QEMU has ended, if it has: its exit status, and what it printed.
    pub fn ended(&mut self) -> Option<String> {
        match self.process.check() {
            Ok(()) => None,
            Err(crate::Error::Ended { status, stderr }) if stderr.is_empty() => Some(status),
            Err(crate::Error::Ended { status, stderr }) => Some(format!("{status}: {stderr}")),
            Err(other) => Some(other.to_string()),
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn setup(options: &[&str]) -> Setup {
        Setup { options: options.iter().map(|it| (*it).to_owned()).collect(), ..Setup::default() }
    }

    fn arguments(options: &[&str]) -> String {
        setup(options).arguments(Card::Served(Path::new("/s"))).unwrap().join(" ")
    }

    #[test]
    fn the_card_is_where_the_options_place_it() {
        let text = arguments(&["-kernel", "k", "-device", "@CARD@,addr=3,bootindex=1", "-m", "64"]);
        for part in ["\"addr\":\"3\"", "\"bootindex\":1", "\"path\":\"/s\"", "size=64M", "-nic none"] {
            assert!(text.contains(part), "{part}: {text}");
        }
        assert_eq!(text.matches("-device").count(), 1);
        let text = arguments(&["-m", "size=1G,slots=2", "-netdev", "user,id=n", "-M", "q35"]);
        assert!(text.contains("size=1G,share=on") && !text.contains("-nic none"), "{text}");
        assert!(text.ends_with('}') && !text.contains("-m 1G"), "{text}");
        let card = Card::Emulated("e1000", [2, 0, 0, 0, 0, 1]);
        let text = setup(&["-device", "@CARD@,addr=3"]).arguments(card).unwrap().join(" ");
        assert!(
            text.contains("-device e1000,id=kpps-card,netdev=kpps0,mac=02:00:00:00:00:01,addr=3"),
            "{text}"
        );
        let arm = Setup { arch: Arch::Aarch64, ..Setup::default() };
        let text = arm.arguments(Card::Served(Path::new("/s"))).unwrap().join(" ");
        assert!(text.contains("-machine virt -cpu max") && text.contains("-m 128M"), "{text}");
    }

    #[test]
    fn contradictions_are_refused_with_what_to_write() {
        let told = |options: &[&str]| setup(options).check().unwrap_err().to_string();
        assert!(told(&["-device", "e1000,netdev=n"]).contains("write -device @CARD@"));
        assert!(told(&["-nic", "user,model=e1000"]).contains("kpps brings the network card"));
        assert!(told(&["-kernel", "@CARD@"]).contains("stands for a device"));
        assert!(told(&["-device", "@CARD@", "-device", "@CARD@,addr=4"]).contains("twice"));
        setup(&["-device", "@CARD@", "-device", "virtio-blk-pci"]).check().unwrap();
        let wrong = setup(&["-device", "@CARD@,addr"]).arguments(Card::Served(Path::new("/s"))).unwrap_err();
        assert!(wrong.to_string().contains("@CARD@,addr=3"), "{wrong}");
        for bad in ["", "0", "lots", "3T5"] {
            assert!(setup(&["-m", bad]).memory().is_err(), "{bad}");
        }
    }
}
