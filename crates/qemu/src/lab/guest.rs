//! A machine in QEMU with a stock kernel and a few cards, and what can be done to it from outside.

use crate::lab::console::{Console, Output};
use crate::lab::initrd::Contents;
use crate::lab::kernel::Kernel;
use crate::lab::qmp::Monitor;
use crate::lab::userland::Userland;
use crate::lab::wire::Wire;
use crate::lab::{Error, Result, qemu};
use std::collections::BTreeSet;
use std::fs::File;
use std::path::Path;
use std::str::FromStr;
use std::time::{Duration, Instant};

/// How long a kernel may take to boot: seconds, unless the host is very busy.
const BOOT_PATIENCE: Duration = Duration::from_secs(120);
/// How long an ordinary command may take.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// A card that QEMU emulates.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Model {
    /// 82540EM.
    E1000,
    /// 82574L.
    E1000e,
}

impl Model {
    /// Both.
    pub const ALL: [Self; 2] = [Self::E1000, Self::E1000e];

    /// QEMU's name for it, which is also that of Linux's driver.
    pub const fn name(self) -> &'static str {
        match self {
            Self::E1000 => "e1000",
            Self::E1000e => "e1000e",
        }
    }
}

impl FromStr for Model {
    type Err = String;

    fn from_str(text: &str) -> std::result::Result<Self, String> {
        let known = Self::ALL.into_iter().find(|model| model.name() == text);
        known.ok_or_else(|| format!("there is no device called '{text}': known are e1000 and e1000e"))
    }
}

/// Where a card's cable ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cable {
    /// Nowhere: what is sent is gone.
    Open,
    /// At a hub of the machine, with all others that name it.
    Hub(u8),
    /// At the host: a [`Wire`].
    Host,
}

/// A card of the machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Card {
    /// Which.
    pub model: Model,
    /// Its cable.
    pub cable: Cable,
}

/// Whether there is an IOMMU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Machine {
    /// None: for the kernel's drivers and UIO.
    Plain,
    /// Intel's, for VFIO. The kernel's own drivers pass it by.
    Iommu,
}

/// A machine to boot.
#[derive(Clone, Debug)]
pub struct Options {
    /// Whether there is an IOMMU.
    pub machine: Machine,
    /// Processors.
    pub vcpus: u8,
    /// Memory in MiB.
    pub memory_mib: u32,
    /// Huge pages of 2 MiB each, which are part of the memory.
    pub huge_pages: u32,
    /// Cards: the first is 0000:00:10.0, the next 0000:00:11.0, and so on.
    pub cards: Vec<Card>,
    /// Words for the kernel's command line.
    pub append: String,
}

impl Options {
    /// One processor, 768 MiB, 64 huge pages.
    pub fn new(machine: Machine, cards: Vec<Card>) -> Self {
        Self { machine, vcpus: 1, memory_mib: 768, huge_pages: 64, cards, append: String::new() }
    }

    /// The kernel's command line. On a busy host the kernel finds the processor's clock unstable and takes another, which
    /// costs microseconds each time and jumps: it is told to rely on it. Nor is it to check its timer's interrupts, which
    /// may come too late. Registers are to be seen by `devmem`.
    pub(crate) fn command_line(&self) -> String {
        // Passed through for the kernel's own drivers: they are to be what they are without an IOMMU.
        let iommu = if self.machine == Machine::Iommu { " intel_iommu=on iommu=pt" } else { "" };
        format!(
            "console=ttyS0 quiet panic=-1 mitigations=off ipv6.disable=1 net.ifnames=0 iomem=relaxed tsc=reliable no_timer_check \
             hugepagesz=2M hugepages={}{iommu} {}",
            self.huge_pages, self.append
        )
    }
}

/// The PCI address of the `index`-th card.
pub fn address(index: usize) -> String {
    format!("0000:00:{:02x}.0", 0x10 + index)
}

/// The station address of the `index`-th card.
pub fn mac(index: usize) -> [u8; 6] {
    [0x52, 0x54, 0, 0, 0, index as u8]
}

/// A running guest. It ends when this is dropped, or when the thread that booted it ends.
#[derive(Debug)]
pub struct Guest {
    process: qemu::Process,
    monitor: Monitor,
    console: Console,
    link_control: Console,
    commands: Console,
    wires: Vec<Option<Wire>>,
    trace: File,
    /// The card whose cable the guest may ask to be pulled.
    linked: usize,
    kernel: Kernel,
    dpdk_drivers: Vec<String>,
    loaded: BTreeSet<String>,
    go_on: fn() -> bool,
    /// How long it took from QEMU's start to the first command.
    pub boot_time: Duration,
}

impl Guest {
    /// Boots `kernel` with `userland`, testpmd among it if `dpdk`, and with the program at `kpps` as the command `kpps`.
    ///
    /// # Errors
    /// If something is missing, or the guest does not come up.
    pub fn boot(
        options: &Options,
        kernel: &Kernel,
        userland: &Userland,
        dpdk: bool,
        kpps: Option<&Path>,
    ) -> Result<Self> {
        let initrd = Contents { kernel, userland, dpdk, kpps }.build()?;
        let since = Instant::now();
        let started = qemu::start(options, &kernel.image, &initrd)?;
        let mut process = started.process;
        let monitor = Monitor::new(started.monitor).map_err(|error| process.reason(error))?;
        let mut guest = Self {
            process,
            monitor,
            console: Console::new(started.console)?,
            link_control: Console::new(started.link_control)?,
            commands: Console::new(started.commands)?,
            wires: started.wires.into_iter().map(|wire| Wire::new(wire).map(Some)).collect::<Result<_>>()?,
            trace: started.trace,
            linked: 0,
            kernel: kernel.clone(),
            dpdk_drivers: userland.dpdk_drivers().to_vec(),
            loaded: BTreeSet::new(),
            go_on: || true,
            boot_time: Duration::ZERO,
        };
        let Self { process, commands, console, .. } = &mut guest;
        let up = commands.expect("\u{1}ready\n", BOOT_PATIENCE, &mut || process.check());
        up.map_err(|error| match error {
            Error::Silent { seconds, .. } => {
                // What the kernel said on its console tells more than our waiting.
                let _ = console.lines();
                let tail = format!("; the console's last words: {}", console.tail());
                Error::Silent { seconds, waiting_for: format!("{} to boot", kernel.version), tail }
            }
            other => process.reason(other),
        })?;
        guest.boot_time = since.elapsed();
        Ok(guest)
    }

    /// From now on every wait asks `go_on` whether to, and otherwise ends as [`Error::Interrupted`].
    pub fn interruptible(&mut self, go_on: fn() -> bool) {
        self.go_on = go_on;
    }

    /// The kernel that runs in it.
    pub fn kernel(&self) -> &Kernel {
        &self.kernel
    }

    /// The drivers that testpmd is to load.
    pub(crate) fn dpdk_drivers(&self) -> &[String] {
        &self.dpdk_drivers
    }

    /// QEMU's version.
    ///
    /// # Errors
    /// If the monitor does not answer.
    pub fn qemu_version(&mut self) -> Result<String> {
        self.monitor.version()
    }

    /// The process id of the QEMU that runs it.
    pub fn qemu_id(&self) -> u32 {
        self.process.id()
    }

    /// Runs `command`, one line of shell, as root, and returns what it printed.
    ///
    /// # Errors
    /// [`Error::Command`] if its exit code is not 0; [`Error::Silent`] if it does not end within [`PATIENCE`].
    pub fn run(&mut self, command: &str) -> Result<String> {
        let output = self.output(command, PATIENCE)?;
        if output.code == 0 {
            return Ok(output.text);
        }
        Err(Error::Command {
            command: command.into(),
            code: output.code,
            output: output.text.trim().to_owned(),
        })
    }

    /// Runs `command` for at most `patience` and returns what it printed and its exit code.
    ///
    /// # Errors
    /// If it does not end in time. The guest is still busy with it then.
    pub fn output(&mut self, command: &str, patience: Duration) -> Result<Output> {
        self.command(command, false, patience)
    }

    /// Runs a short `command` before every other process of the guest: counters under load.
    ///
    /// # Errors
    /// As [`run`](Self::run).
    pub fn at_once(&mut self, command: &str) -> Result<String> {
        let output = self.command(command, true, PATIENCE)?;
        if output.code == 0 {
            return Ok(output.text);
        }
        Err(Error::Command { command: command.into(), code: output.code, output: output.text })
    }

    fn command(&mut self, command: &str, at_once: bool, patience: Duration) -> Result<Output> {
        let Self { process, commands, link_control, monitor, linked, wires, go_on, .. } = self;
        let mut meanwhile = || {
            if !go_on() {
                return Err(Error::Interrupted);
            }
            process.check()?;
            // A guest that is not listened to may stop its wires.
            wires.iter_mut().flatten().try_for_each(Wire::discard)?;
            obey(link_control, monitor, *linked)
        };
        let result = commands.run(command, at_once, patience, &mut meanwhile);
        // Somebody may still wait for its cable.
        obey(link_control, monitor, *linked)?;
        result.map_err(|error| process.reason(error))
    }

    /// Starts `command` in the background at normal priority. What it prints is in the guest's file `log`;
    /// its process id is returned.
    ///
    /// # Errors
    /// If the guest does not answer.
    pub fn spawn(&mut self, command: &str, log: &str) -> Result<u32> {
        let answer = self.run(&format!("setsid sh -c '{command}' > {log} 2>&1 & echo $!"))?;
        answer.trim().parse().map_err(|_| Error::Protocol { what: "a process id".into(), answer })
    }

    /// Loads a kernel module and what it needs, unless they are loaded. `parameters` are for the module itself.
    ///
    /// # Errors
    /// If there is no such module, or it refuses its parameters.
    pub fn load(&mut self, module: &str, parameters: &str) -> Result<()> {
        for module_needed in self.kernel.modules(&[module])? {
            let name = module_needed.name;
            if !self.loaded.contains(&name) {
                let parameters = if name == module { parameters } else { "" };
                self.run(&format!("insmod /modules/{name}.ko {parameters}"))?;
                self.loaded.insert(name);
            }
        }
        Ok(())
    }

    /// Unloads a kernel module if it is loaded.
    ///
    /// # Errors
    /// If it is in use.
    pub fn unload(&mut self, module: &str) -> Result<()> {
        if self.loaded.remove(module) {
            self.run(&format!("rmmod {module}"))?;
        }
        Ok(())
    }

    /// Asks the shell on the guest's first console for an answer, and tells how long it took.
    ///
    /// # Errors
    /// If it does not answer within `patience`.
    pub fn console_answers(&mut self, patience: Duration) -> Result<Duration> {
        let Self { process, console, wires, .. } = self;
        let since = Instant::now();
        let mut meanwhile = || {
            wires.iter_mut().flatten().try_for_each(Wire::discard)?;
            process.check()
        };
        console.lines()?;
        // The shell echoes what it is told; only the answer has the sum.
        let number = u64::from(since.elapsed().subsec_nanos()) % 1000 + 17;
        console.say(&format!("echo sum-$(({number} + 25))\n"))?;
        console.expect(&format!("sum-{}", number + 25), patience, &mut meanwhile)?;
        Ok(since.elapsed())
    }

    /// The host's end of the `index`-th cable that ends there; `None` if it was taken before. Whoever takes it reads it.
    pub fn take_wire(&mut self, index: usize) -> Option<Wire> {
        self.wires.get_mut(index).and_then(Option::take)
    }

    /// Gives a wire back, whose frames are thrown away from now on.
    pub fn give_wire(&mut self, index: usize, wire: Wire) {
        if let Some(place) = self.wires.get_mut(index) {
            *place = Some(wire);
        }
    }

    /// Plugs the cable of the `index`-th card in or pulls it.
    ///
    /// # Errors
    /// If the monitor does not answer.
    pub fn set_link(&mut self, index: usize, up: bool) -> Result<()> {
        self.monitor.set_link(&format!("card{index}"), up)
    }

    /// The card whose cable the guest itself controls, by writing "link up" or "link down" to its second serial port.
    pub fn control_link_of(&mut self, index: usize) {
        self.linked = index;
    }

    /// Lets QEMU write every register access into a file while `during` runs, and returns its contents.
    ///
    /// # Errors
    /// Those of `during`, or if the monitor does not answer.
    pub fn traced<T>(&mut self, during: impl FnOnce(&mut Self) -> Result<T>) -> Result<(T, Vec<u8>)> {
        use std::io::{Read, Seek};
        let events = ["memory_region_ops_read", "memory_region_ops_write"];
        let begin = self.trace.metadata()?.len();
        for event in events {
            self.monitor.trace(event, true)?;
        }
        let result = during(self);
        for event in events {
            self.monitor.trace(event, false)?;
        }
        let mut bytes = Vec::new();
        self.trace.seek(std::io::SeekFrom::Start(begin))?;
        self.trace.read_to_end(&mut bytes)?;
        Ok((result?, bytes))
    }
}

/// Does what the guest asks on its second serial port.
fn obey(link_control: &mut Console, monitor: &mut Monitor, card: usize) -> Result<()> {
    for line in link_control.lines()? {
        match line.as_str() {
            "link up" => monitor.set_link(&format!("card{card}"), true)?,
            "link down" => monitor.set_link(&format!("card{card}"), false)?,
            _ => {}
        }
    }
    Ok(())
}
