//! A running guest: a stock kernel in QEMU with a few cards, controlled from the host.

use crate::Wire;
use crate::lab::console::{Console, Output};
use crate::lab::initrd::Contents;
use crate::lab::kernel::{BOOT_MODULES, Kernel};
use crate::lab::options::{Options, Paced};
use crate::lab::userland::{Userland, host_libraries};
use crate::lab::{Error, Result, qemu};
use crate::process::Process;
use crate::qmp::Monitor;
use kpps_documents::lab::Clock;
use rustix::fs::FallocateFlags;
use std::collections::BTreeSet;
use std::fmt;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// How long a kernel may take to boot. It takes seconds; on a host whose processors are all busy, minutes.
const BOOT_TIMEOUT: Duration = Duration::from_secs(300);
/// How long an ordinary command may take in real time.
pub const COMMAND_TIMEOUT: Duration = Duration::from_secs(60);
/// The least length of a line of QEMU's log of executed blocks.
const LOGGED_BYTES: u64 = 70;
/// How many times as long a guest may take on the clock of instructions. A busy host only delays its answer.
const INSTRUCTIONS_TIMEOUT_FACTOR: u32 = 10;

/// Returns whether the work may go on.
struct GoOn(Arc<dyn Fn() -> bool + Send + Sync>);

impl fmt::Debug for GoOn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("GoOn")
    }
}

/// A running guest. It ends when this is dropped, or when the thread that booted it ends.
#[derive(Debug)]
pub struct Guest {
    process: Process,
    monitor: Monitor,
    console: Console,
    link_control: Console,
    commands: Console,
    wires: Vec<Option<Wire>>,
    trace: File,
    /// The card whose cable the guest may control.
    linked: usize,
    kernel: Kernel,
    userland: Userland,
    kpps: Option<PathBuf>,
    loaded: BTreeSet<String>,
    go_on: GoOn,
    clock: Clock,
    paced: Option<Paced>,
    /// The time from QEMU's start to the first command.
    pub boot_time: Duration,
}

impl Guest {
    /// Boots `kernel` with `userland`: with testpmd if `dpdk`, and with the program at `kpps` as the command
    /// `kpps`.
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
        Self::boot_with(options, kernel, userland, kpps, &initrd)
    }

    /// The same with a file system that was built before.
    ///
    /// # Errors
    /// Errors of [`boot`](Self::boot).
    pub(crate) fn boot_with(
        options: &Options,
        kernel: &Kernel,
        userland: &Userland,
        kpps: Option<&Path>,
        initrd: &[u8],
    ) -> Result<Self> {
        let since = Instant::now();
        let started = qemu::start(options, &kernel.image, initrd)?;
        let mut process = started.process;
        let monitor = Monitor::new(started.monitor).map_err(|error| process.cause(error))?;
        let mut guest = Self {
            process,
            monitor,
            console: Console::new(started.console)?,
            link_control: Console::new(started.link_control)?,
            commands: Console::new(started.commands)?,
            wires: started.wires.into_iter().map(Some).collect(),
            trace: started.trace,
            linked: 0,
            kernel: kernel.clone(),
            userland: userland.clone(),
            kpps: kpps.map(Path::to_owned),
            loaded: kernel.modules(&BOOT_MODULES)?.into_iter().map(|module| module.name).collect(),
            go_on: GoOn(Arc::new(|| true)),
            clock: options.clock,
            paced: options.paced,
            boot_time: Duration::ZERO,
        };
        let Self { process, commands, console, .. } = &mut guest;
        let up = commands.expect("\u{1}ready\n", BOOT_TIMEOUT, &mut || Ok(process.check()?));
        up.map_err(|error| match error {
            Error::Silent { seconds, .. } => {
                // The kernel's output on its console tells more.
                let tail = format!("; the console's last words: {}", console.last_words());
                Error::Silent { seconds, waiting_for: format!("{} to boot", kernel.version), tail }
            }
            other => cause(process, console, other),
        })?;
        guest.boot_time = since.elapsed();
        Ok(guest)
    }

    /// From now on every wait asks `go_on`, and ends with [`Error::Interrupted`] if that returns false.
    pub fn interruptible(&mut self, go_on: Arc<dyn Fn() -> bool + Send + Sync>) {
        self.go_on = GoOn(go_on);
    }

    /// The kernel that runs in it.
    pub fn kernel(&self) -> &Kernel {
        &self.kernel
    }

    /// Its clock.
    pub fn clock(&self) -> Clock {
        self.clock
    }

    /// Where frames come from within its own time, if they do.
    pub(crate) fn paced(&self) -> Option<Paced> {
        self.paced
    }

    /// Waits for `time` of the guest's clock.
    ///
    /// # Errors
    /// If the guest does not answer.
    pub fn wait(&mut self, time: Duration) -> Result<()> {
        match self.clock {
            Clock::Wall => std::thread::sleep(time),
            Clock::Instructions => drop(self.at_once(&format!("usleep {}", time.as_micros()))?),
        }
        Ok(())
    }

    /// The drivers that testpmd loads.
    pub(crate) fn dpdk_drivers(&self) -> &[String] {
        self.userland.dpdk_drivers()
    }

    /// The file of the host that a program or library of the guest is, by its path there.
    pub(crate) fn host_file(&self, path: &str) -> Option<PathBuf> {
        match (path, &self.kpps, self.userland.own_dpdk()) {
            ("/kpps/kpps", Some(kpps), _) => return Some(kpps.clone()),
            ("/dpdk/testpmd", _, Some(own)) => return Some(own.testpmd.clone()),
            _ => {}
        }
        let (folder, name) = path.rsplit_once('/')?;
        let own = self.userland.own_dpdk().map_or(&[][..], |own| &own.libraries);
        let places = match folder {
            "/kpps" => host_libraries(),
            "/dpdk" => [own, &host_libraries()].concat(),
            _ => self.userland.libraries(),
        };
        let found = places.iter().map(|place| place.join(name)).find(|file| file.is_file());
        found.or_else(|| self.userland.program(&format!("/usr/bin/dpdk-{name}")).ok())
    }

    /// QEMU's version.
    ///
    /// # Errors
    /// If the monitor does not answer.
    pub fn qemu_version(&mut self) -> Result<String> {
        Ok(self.monitor.version()?)
    }

    /// The process id of its QEMU.
    pub fn qemu_id(&self) -> u32 {
        self.process.id()
    }

    /// Runs `command`, a shell line, as root, and returns its output.
    ///
    /// # Errors
    /// [`Error::Command`] if its exit code is not 0; [`Error::Silent`] if it does not end in time.
    pub fn run(&mut self, command: &str) -> Result<String> {
        let output = self.output(command, COMMAND_TIMEOUT)?;
        if output.code == 0 {
            return Ok(output.text);
        }
        Err(Error::Command {
            command: command.into(),
            code: output.code,
            output: output.text.trim().to_owned(),
        })
    }

    /// Runs `command` for at most `timeout`. Returns its output and exit code.
    ///
    /// # Errors
    /// If it does not end in time. It still runs in the guest then.
    pub fn output(&mut self, command: &str, timeout: Duration) -> Result<Output> {
        self.command(command, false, timeout)
    }

    /// Runs a short `command` with priority over all other processes of the guest: for counters under load.
    ///
    /// # Errors
    /// As [`run`](Self::run).
    pub fn at_once(&mut self, command: &str) -> Result<String> {
        let output = self.command(command, true, COMMAND_TIMEOUT)?;
        if output.code == 0 {
            return Ok(output.text);
        }
        Err(Error::Command { command: command.into(), code: output.code, output: output.text })
    }

    fn command(&mut self, command: &str, at_once: bool, timeout: Duration) -> Result<Output> {
        let timeout =
            if self.clock == Clock::Instructions { INSTRUCTIONS_TIMEOUT_FACTOR * timeout } else { timeout };
        let Self { process, commands, console, link_control, monitor, linked, wires, go_on, .. } = self;
        let mut meanwhile = || {
            // A kernel that complains waits for its serial port, and a kernel that waits complains.
            console.lines()?;
            if !(go_on.0)() {
                return Err(Error::Interrupted);
            }
            process.check()?;
            // A QEMU that cannot deliver frames stops its cards.
            wires.iter_mut().flatten().try_for_each(Wire::discard)?;
            obey(link_control, monitor, *linked)
        };
        let result = commands.run(command, at_once, timeout, &mut meanwhile);
        // The guest may still wait for its cable.
        obey(link_control, monitor, *linked)?;
        result.map_err(|error| cause(process, console, error))
    }

    /// Starts `command` in the background at normal priority, with its output in the guest's file `log`.
    /// Returns its process id.
    ///
    /// # Errors
    /// If the guest does not answer.
    pub fn spawn(&mut self, command: &str, log: &str) -> Result<u32> {
        let answer = self.run(&format!("setsid sh -c '{command}' > {log} 2>&1 & echo $!"))?;
        answer.trim().parse().map_err(|_| Error::Protocol { what: "a process id".into(), answer })
    }

    /// Loads a kernel module and the modules that it needs, unless they are loaded. `parameters` are for the
    /// module itself.
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

    /// Asks the shell on the guest's first console. Returns the time until its answer.
    ///
    /// # Errors
    /// If it does not answer within `timeout`.
    pub fn console_answers(&mut self, timeout: Duration) -> Result<Duration> {
        let Self { process, console, wires, .. } = self;
        let since = Instant::now();
        let mut meanwhile = || {
            wires.iter_mut().flatten().try_for_each(Wire::discard)?;
            Ok(process.check()?)
        };
        console.lines()?;
        // The shell echoes its input; only the answer has the sum.
        let number = u64::from(since.elapsed().subsec_nanos()) % 1000 + 17;
        console.say(&format!("echo sum-$(({number} + 25))\n"))?;
        console.expect(&format!("sum-{}", number + 25), timeout, &mut meanwhile)?;
        Ok(since.elapsed())
    }

    /// The host's end of the `index`-th cable that ends there; `None` if it was taken before. Its owner must
    /// read it.
    pub fn take_wire(&mut self, index: usize) -> Option<Wire> {
        self.wires.get_mut(index).and_then(Option::take)
    }

    /// Gives a cable back. Its frames are dropped from now on.
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
        Ok(self.monitor.set_link(&format!("card{index}"), up)?)
    }

    /// Sets the card whose cable the guest controls, by writing "link up" or "link down" to its second serial
    /// port.
    pub fn control_link_of(&mut self, index: usize) {
        self.linked = index;
    }

    /// Lets QEMU log every instruction that the guest executes, until there are about `count` of them.
    /// Returns the log. Nothing is asked of the guest meanwhile: it would be in it.
    ///
    /// # Errors
    /// If the monitor does not answer, QEMU has no such log, or the guest executes nothing.
    pub(crate) fn executed(&mut self, count: u64) -> Result<Vec<u8>> {
        let begin = self.trace.metadata()?.len();
        // The command of QEMU 8.1 and later, and that of those before.
        let version = self.monitor.version()?;
        let numbers: Vec<u32> = version.split('.').map_while(|number| number.parse().ok()).collect();
        let single = if numbers[..] < [8, 1][..] { "singlestep" } else { "one-insn-per-tb" };
        for command in [&format!("{single} on"), "log exec,nochain"] {
            self.monitor.human(command)?;
        }
        let since = Instant::now();
        let enough = begin + count * LOGGED_BYTES;
        while self.trace.metadata()?.len() < enough && since.elapsed() < COMMAND_TIMEOUT {
            self.process.check()?;
            std::thread::sleep(Duration::from_millis(1));
        }
        for command in ["log none", &format!("{single} off")] {
            self.monitor.human(command)?;
        }
        let length = self.trace.metadata()?.len() - begin;
        let mut bytes = vec![0; usize::try_from(length).unwrap_or(0)];
        self.trace.read_exact_at(&mut bytes, begin)?;
        // Its room on the disk is given back, where the file system can.
        let hole = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
        let _ = rustix::fs::fallocate(&self.trace, hole, begin, length);
        Ok(bytes)
    }

    /// Lets QEMU trace every register access while `during` runs. Returns the trace.
    ///
    /// # Errors
    /// Errors of `during`, or if the monitor does not answer.
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

/// The cause of `error`: a broken connection means that QEMU ends ([`Process::cause`]). It also ends when the
/// guest's kernel has stopped, which tells why on its console.
fn cause(process: &mut Process, console: &mut Console, error: Error) -> Error {
    let cause = match error {
        Error::Qemu(error) => process.cause(error),
        Error::Io(error) => process.cause(error.into()),
        other => match process.check() {
            Ok(()) => return other,
            Err(ended) => ended,
        },
    };
    match cause {
        crate::Error::Ended { status, stderr } => {
            let stderr = format!("{stderr}; the console's last words: {}", console.last_words());
            crate::Error::Ended { status, stderr: stderr.trim_start_matches("; ").to_owned() }.into()
        }
        other => other.into(),
    }
}

/// Executes the guest's requests on its second serial port.
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
