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
/// The first words of what every QEMU prints for `-version`.
const VERSION: &str = "QEMU emulator version";
/// The QEMU that kpps needs.
const NEEDED: &str = "kpps needs QEMU 10.1 or later, built with vfio-user";
/// Options with which QEMU runs no guest, or leaves this process.
const NO_GUEST: [&str; 5] = ["daemonize", "version", "help", "h", "preconfig"];
/// The most characters of QEMU's message that are repeated.
const MOST_CHARACTERS: usize = 600;

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
    /// The folder in which QEMU runs, at which relative paths in the options start. `None`: that of this
    /// process.
    pub folder: Option<PathBuf>,
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
            let is_card = match option.strip_prefix('-').map(|it| it.strip_prefix('-').unwrap_or(it)) {
                Some("device") => {
                    let model = model.strip_prefix("driver=").unwrap_or(model);
                    let is_e1000 = |name: &str| name.starts_with("e1000") || name.starts_with("i8254");
                    is_e1000(model) || value.starts_with('{') && value.contains("\"e1000")
                }
                // Without a model it is that of the machine: an e1000 on most.
                Some("nic") => !matches!(model, "none" | CARD) && !has_other_model(value),
                Some("net") => model == "nic" && !has_other_model(value),
                _ => false,
            };
            if is_card {
                return Err(Error::Input(format!(
                    "{option} {value}: kpps brings the network card; leave this out, or write -device {CARD} in its place"
                )));
            }
        }
        if let Some(option) = self
            .options
            .iter()
            .find(|it| it.starts_with('-') && NO_GUEST.contains(&it.trim_start_matches('-')))
        {
            return Err(Error::Input(format!("{option}: QEMU would run no guest for kpps; leave this out")));
        }
        let cards: Vec<_> = self.options.iter().filter(|option| option.contains(CARD)).collect();
        let devices = pairs.filter(|(option, value)| option.ends_with("-device") && value.starts_with(CARD));
        match cards.as_slice() {
            [] => {}
            [_] if devices.count() == 1 => {}
            [_] => {
                return Err(Error::Input(format!("{CARD} stands for a device: write -device {CARD},addr=…")));
            }
            _ => return Err(Error::Input(format!("{CARD} is given twice: the guest has one card"))),
        }
        self.arguments(Card::Served(Path::new(""))).map(drop)
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
        let shown = path.display();
        let wrong =
            |what: String| Error::Input(format!("{what}; without a QEMU of your own, kpps fetches one"));
        // QEMU may run in another folder, and a name without a folder is searched in PATH.
        let path = match path.components().count() {
            1 => path.clone(),
            _ => std::path::absolute(path).map_err(|error| wrong(format!("{shown} cannot run: {error}")))?,
        };
        let program = Program::Own(path);
        let output = |arguments: &[&str]| {
            program.launch().output(arguments).map_err(|error| match error.kind() {
                ErrorKind::NotFound => wrong(format!("there is no program {shown}")),
                _ => wrong(format!("{shown} cannot run: {error}")),
            })
        };
        let version = output(&["-version"])?;
        if !version.starts_with(VERSION) {
            return Err(wrong(format!("{shown} is no QEMU: it does not print a version of QEMU")));
        }
        if served && !output(&["-device", "vfio-user-pci,help"])?.contains("vfio-user-pci") {
            let version = version.lines().next().unwrap_or_default().trim_start_matches(VERSION).trim();
            return Err(wrong(format!("{shown} has no vfio-user-pci: {NEEDED}, and this is {version}")));
        }
        Ok(program)
    }

    /// The error of a QEMU that ended before the guest began, with QEMU's message.
    fn not_started(&self, status: &str, message: &str) -> Error {
        let arch = self.arch.name();
        let message = if message.is_empty() { "it printed nothing" } else { message };
        let has_kernel = self.options.iter().any(|option| option.trim_start_matches('-') == "kernel");
        let is_of_image =
            ["kernel", "elf", "header", "ROM", "architecture"].iter().any(|it| message.contains(it));
        let remedy = match (has_kernel && is_of_image, self.arch) {
            (true, Arch::X86_64) => {
                "give -kernel the path of a Linux kernel, or of an ELF file for x86 with a multiboot header or \
                 a PVH note"
                    .into()
            }
            (true, _) => format!("give -kernel the path of a file for {arch}"),
            (false, _) => "correct the options for QEMU".to_owned(),
        };
        Error::Input(format!("QEMU ({arch}) does not start the guest ({status}): {message}; {remedy}"))
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
        // A card in another process reaches memory only if it is shared.
        let is_private = |option: &&String| {
            option.starts_with("memory-backend-")
                && !["share=on", "share=true"].iter().any(|it| option.contains(it))
        };
        if let Some(option) = self.options.iter().find(is_private) {
            return Err(Error::Input(format!(
                "{option}: kpps' card reaches only shared memory; write memory-backend-memfd and share=on, or leave \
                 this out"
            )));
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
            (Ok(1..), "k" | "K" | "m" | "M" | "g" | "G" | "t" | "T") => Ok(size.to_owned()),
            _ => {
                let option = format!("-m {value}");
                Err(Error::Input(format!("{}: no size of a memory; write -m 512M", option.trim_end())))
            }
        }
    }
}

/// Whether the options of a network card name a model that is no e1000.
fn has_other_model(value: &str) -> bool {
    value.split(',').filter_map(|it| it.strip_prefix("model=")).any(|model| !model.starts_with("e1000"))
}

/// QEMU's messages on standard error in one line: without its name, and without warnings if there is more.
fn in_a_line(stderr: &str) -> String {
    let lines = stderr.lines().map(|line| line.trim_matches(|c: char| c == '\0' || c.is_whitespace()));
    let lines: Vec<_> = lines.filter(|line| !line.is_empty()).collect();
    let errors: Vec<_> = lines.iter().copied().filter(|line| !line.contains("warning:")).collect();
    let shown = if errors.is_empty() { lines } else { errors };
    let bare = shown.iter().map(|line| match line.split_once(": ") {
        Some((name, rest)) if name.starts_with("qemu") => rest,
        _ => line,
    });
    // The options of a served card are those of kpps.
    let bare =
        bare.map(|line| match line.strip_prefix("-device {").and_then(|rest| rest.split_once("}: ")) {
            Some((_, message)) => format!("-device {CARD}: {message}"),
            None => line.to_owned(),
        });
    bare.collect::<Vec<_>>().join("; ").chars().take(MOST_CHARACTERS).collect()
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
        if let Some(folder) = &setup.folder {
            qemu.run_in(folder);
        }
        let mut process = qemu.start()?;
        console.set_nonblocking(true)?;
        let begun = Monitor::new(monitor).and_then(|mut monitor| Ok((monitor.version()?, monitor)));
        let (version, monitor) = begun.map_err(|error| match process.cause(error) {
            crate::Error::Ended { status, stderr } => setup.not_started(&status, &in_a_line(&stderr)),
            other => other.into(),
        })?;
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

    /// Why QEMU has ended, if it has, in words: the action of the guest, or QEMU's exit status and messages.
    pub fn ended(&mut self) -> Option<String> {
        let (status, stderr) = match self.process.check() {
            Ok(()) => return None,
            Err(crate::Error::Ended { status, stderr }) => (status, in_a_line(&stderr)),
            Err(other) => return Some(other.to_string()),
        };
        let reason = self.monitor.reason_of_end();
        Some(match (reason.as_deref(), stderr.is_empty()) {
            (Some("guest-shutdown"), _) => "the guest powered itself off".to_owned(),
            (Some("guest-reset"), _) => {
                "the guest rebooted, by its own request or by a triple fault".to_owned()
            }
            (Some("guest-panic"), _) => "the guest's kernel reported a panic".to_owned(),
            (_, true) => format!("QEMU ended ({status})"),
            (_, false) => format!("QEMU ended ({status}): {stderr}"),
        })
    }

    /// The same after a connection to QEMU has broken: the process may need a moment to end.
    pub fn ended_soon(&mut self) -> Option<String> {
        let broken = std::io::Error::from(ErrorKind::BrokenPipe).into();
        let _ = self.process.cause(broken);
        self.ended()
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
        for (option, value) in [
            ("-nic", "user,model=e1000"),
            ("-nic", "user"),
            ("-net", "nic"),
            ("--device", "driver=e1000-82545em"),
            ("-device", r#"{"driver": "e1000"}"#),
        ] {
            assert!(told(&[option, value]).contains("kpps brings the network card"), "{option} {value}");
        }
        for (option, value) in [
            ("-nic", "none"),
            ("-nic", "user,model=virtio-net-pci"),
            ("-net", "user"),
            ("-netdev", "user,id=n"),
        ] {
            setup(&[option, value]).check().unwrap();
        }
        assert!(told(&["-daemonize"]).contains("leave this out"));
        assert!(told(&["-m", "0"]).contains("write -m 512M"), "before a QEMU is fetched");
        assert!(told(&["-kernel", "@CARD@"]).contains("stands for a device"));
        assert!(told(&["-device", "@CARD@", "-device", "@CARD@,addr=4"]).contains("twice"));
        setup(&["-device", "@CARD@", "-device", "virtio-blk-pci"]).check().unwrap();
        let wrong = setup(&["-device", "@CARD@,addr"]).arguments(Card::Served(Path::new("/s"))).unwrap_err();
        assert!(wrong.to_string().contains("@CARD@,addr=3"), "{wrong}");
        for bad in ["", "0", "lots", "3T5"] {
            assert!(setup(&["-m", bad]).memory().is_err(), "{bad}");
        }
    }

    #[test]
    fn qemu_s_messages_are_one_line_with_a_remedy() {
        let stderr =
            "qemu-system-x86_64: -mon monitor: warning: '-mon' is deprecated\nqemu: invalid kernel header\n";
        assert_eq!(in_a_line(stderr), "invalid kernel header");
        assert_eq!(in_a_line("qemu: warning: a\n\0\0\n b"), "b");
        assert_eq!(in_a_line("qemu: warning: only this"), "warning: only this");
        let card =
            "qemu-system-x86_64: -device {\"socket\":{\"path\":\"/s\"},\"foo\":\"1\"}: no property foo";
        assert_eq!(in_a_line(card), "-device @CARD@: no property foo");
        assert_eq!(in_a_line(&"x".repeat(10_000)).len(), MOST_CHARACTERS);
        let told = |options: &[&str], message: &str| {
            setup(options).not_started("exit status: 1", message).to_string()
        };
        assert!(told(&["-kernel", "k"], "invalid kernel header").ends_with("multiboot header or a PVH note"));
        assert!(
            told(&["-foo"], "-foo: invalid option").contains("-foo: invalid option; correct the options")
        );
        assert!(told(&[], "").contains("it printed nothing"));
    }

    #[test]
    fn a_program_that_is_no_qemu_is_refused() {
        let told = |program: &str| {
            let setup = Setup { qemu: Some(program.into()), ..Setup::default() };
            setup.fetch(true).unwrap_err().to_string()
        };
        assert!(told("/nosuch/qemu").starts_with("there is no program /nosuch/qemu; without"));
        assert!(told("true").starts_with("true is no QEMU"));
        assert!(told("/").starts_with("/ cannot run: "), "{}", told("/"));
    }
}
