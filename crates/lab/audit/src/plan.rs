//! Drivers and workloads in turns on the cards of one guest.

use crate::cards::{Cable, Cards, Counts, Next};
use crate::rules::Breach;
use crate::serve::Server;
use crate::traffic::Numbered;
use kpps_datasheet::Chip;
use kpps_documents::Environment;
use kpps_documents::audit::{Accesses, Audit, Row, Violation};
use kpps_documents::guest_audit::Severity;
use kpps_frames::Size;
use kpps_frames::build::Flow;
use kpps_frames::rate::Rate;
use kpps_host::bus::{self, What};
use kpps_methods::Observer;
use kpps_profiles::{Kind, Profile};
use kpps_qemu::lab::workload::{self, Backend, Driver, LOADED, OPEN, PAIR, Settings, Work};
use kpps_qemu::lab::{Cache, Error, Guest, Kernel, Machine, Model, Options, Result, Userland, mac, newer};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// How long the first frame may take.
const FIRST: Duration = Duration::from_secs(60);
/// From the first frame to the counting.
const SETTLE: Duration = Duration::from_millis(200);
/// How long no frame may come until a bridge is considered empty.
const QUIET: Duration = Duration::from_secs(2);
/// The interval at which the cards are polled.
const LOOK: Duration = Duration::from_millis(10);
/// How long a count of frames may take without a frame.
const STALLED: Duration = Duration::from_secs(30);
/// Rings of the drivers in user space, if the chip can have them.
const LONG_RING: u16 = 2048;
/// The Linux driver of all chips that are modelled.
const MODULE: Model = Model::E1000;

/// The plan of an audit.
#[derive(Clone, Debug)]
pub struct AuditPlan {
    /// The kernel's name, or the folder that it is in.
    pub kernel: String,
    /// A module to load in place of the kernel's own.
    pub driver_module: Option<PathBuf>,
    /// The chip's profile.
    pub chip: String,
    /// The bus's profile.
    pub bus: String,
    /// The drivers.
    pub drivers: Vec<Driver>,
    /// The workloads.
    pub works: Vec<Work>,
    /// The load for workloads that receive.
    pub rate: Rate,
    /// How long is counted.
    pub duration: Duration,
    /// The number of frames to count instead.
    pub count: Option<u64>,
    /// Settings of drivers.
    pub settings: Settings,
    /// The program that is kpps in the guest.
    pub kpps: PathBuf,
}

/// The chip and the bus of these profiles, for the cards of a stock kernel.
fn stock_profiles(chip: &str, bus: &str) -> Result<(kpps_card::Params, bus::Params)> {
    let (params, bus) = profiles(chip, bus)?;
    if params.chip.is_pci_express() {
        let why = "stock drivers are audited on chips of PCI only; a guest of your own can have it";
        return Err(Error::Input(format!("the {} cannot be audited: {why}", params.chip)));
    }
    Ok((params, bus))
}

/// The chip and the bus of these profiles.
pub(crate) fn profiles(chip: &str, bus: &str) -> Result<(kpps_card::Params, bus::Params)> {
    let wrong = |error: kpps_profiles::Error| Error::Input(error.to_string());
    let params: kpps_card::Params =
        Profile::named(Kind::Chip, chip).and_then(|it| it.get()).map_err(wrong)?;
    let why = match params.chip {
        Chip::I82542 => Some("its registers are not where the manual has them"),
        _ => None,
    };
    if let Some(why) = why {
        return Err(Error::Input(format!("the {} cannot be audited: {why}", chip)));
    }
    let bus: bus::Params = Profile::named(Kind::Bus, bus).and_then(|it| it.get()).map_err(wrong)?;
    bus.check().map_err(Error::Input)?;
    Ok((params, bus))
}

/// A driver with a workload.
#[derive(Clone, Copy)]
struct Task {
    work: Work,
    driver: Driver,
    backend: Backend,
}

impl Task {
    fn name(self) -> String {
        [self.work.name(), self.driver.name(), self.backend.name()].join(" ")
    }

    /// Frames that it has dealt with.
    fn frames(self, counts: &Counts) -> u64 {
        if self.work == Work::Receive { counts.stored } else { counts.sent }
    }
}

/// The kernel, the programs and the QEMU of a guest, and the model of its cards.
struct Bench<'p> {
    plan: &'p AuditPlan,
    card: kpps_card::Params,
    bus: bus::Params,
    kernel: Kernel,
    userland: Userland,
    options: Options,
    go_on: Arc<dyn Fn() -> bool + Send + Sync>,
}

impl<'p> Bench<'p> {
    /// Fetches kernel, programs and QEMU.
    fn fetch(
        plan: &'p AuditPlan,
        card: kpps_card::Params,
        bus: bus::Params,
        go_on: Arc<dyn Fn() -> bool + Send + Sync>,
    ) -> Result<Self> {
        let cache = Cache::open()?;
        let kernel = Kernel::get(&cache, &plan.kernel)?;
        let kernel = match &plan.driver_module {
            Some(path) => kernel.with_module(path, &[MODULE.name()])?,
            None => kernel,
        };
        if plan.drivers.contains(&Driver::Linux) {
            kernel.modules(&[MODULE.name()])?;
        }
        let userland = Userland::get(&cache)?;
        let mut options = Options::new(Machine::Plain, Vec::new());
        options.qemu = Some(newer::get(&cache)?);
        Ok(Self { plan, card, bus, kernel, userland, options, go_on })
    }

    /// Boots a guest with new cards. The guest must end before what serves its cards: it is first.
    fn start(&self) -> Result<(Guest, Server)> {
        let cables = [Cable::Open, Cable::To(PAIR[1]), Cable::To(PAIR[0]), Cable::Open];
        let cards: Vec<_> = cables.into_iter().enumerate().map(|(i, cable)| (cable, mac(i))).collect();
        let server = Server::start(Cards::new(&self.card, &self.bus, &cards))?;
        let options = Options { served: server.sockets(), ..self.options.clone() };
        let drivers = &self.plan.drivers;
        let dpdk = drivers.contains(&Driver::Dpdk);
        let kpps = drivers.contains(&Driver::Kpps).then_some(self.plan.kpps.as_path());
        let mut guest = Guest::boot(&options, &self.kernel, &self.userland, dpdk, kpps)?;
        guest.interruptible(self.go_on.clone());
        Ok((guest, server))
    }
}

impl AuditPlan {
    /// Runs all drivers with all workloads. In any case the result has the measurements so far.
    ///
    /// # Errors
    /// If a kernel or package cannot be fetched, a profile is wrong, or the guest does not boot. A driver
    /// that fails is a line in the result.
    pub fn run(
        &self,
        observer: &dyn Observer,
        go_on: impl Fn() -> bool + Send + Sync + 'static,
    ) -> Result<Audit> {
        let tasks = self.tasks();
        observer.trials(tasks.len());
        let (card, bus) = stock_profiles(&self.chip, &self.bus)?;
        observer.begins("fetching the kernel, the packages and a QEMU with vfio-user", None);
        let bench = Bench::fetch(self, card, bus, Arc::new(go_on))?;
        let mut audit = self.begun(&bench);
        let settings = self.settings(bench.card.chip)?;
        observer
            .begins(&format!("booting {} with a model of the {}", self.kernel, audit.environment.chip), None);
        let (mut guest, server) = bench.start()?;
        audit.environment.system.insert("QEMU".into(), guest.qemu_version()?);
        let mut running = Some((guest, server));
        for task in tasks {
            observer.begins(&task.name(), None);
            let (guest, server) = match running.take().map_or_else(|| bench.start(), Ok) {
                Ok(system) => running.insert(system),
                Err(error) => {
                    audit.complete = false;
                    audit.failures.push(format!("{}: the guest does not start again: {error}", task.name()));
                    break;
                }
            };
            match self.audit((guest, server), task, &settings, bench.go_on.as_ref()) {
                Ok(row) => {
                    audit.failures.extend(self.stalled(task, &row));
                    audit.rows.push(row);
                }
                Err(Error::Interrupted) => {
                    audit.complete = false;
                    break;
                }
                Err(error) => {
                    audit.complete = false;
                    audit.failures.push(format!("{}: {error}", task.name()));
                    // A driver that still runs would disturb the next one.
                    running = None;
                }
            }
            observer.done();
        }
        Ok(audit)
    }

    /// The result before the first measurement.
    fn begun(&self, bench: &Bench<'_>) -> Audit {
        Audit {
            environment: Environment {
                chip: bench.card.chip.name().into(),
                bus: self.bus.clone(),
                stack: bench.kernel.name.clone(),
                system: [("kernel".to_owned(), bench.kernel.version.clone())].into(),
                ..Environment::on(["lab"])
            },
            load_pps: self.rate.pps(),
            settings: (self.driver_module.iter())
                .map(|path| format!("driver module {}", path.display()))
                .chain(self.settings.0.iter().map(ToString::to_string))
                .collect(),
            complete: true,
            ..Audit::default()
        }
    }

    /// The settings of the drivers: rings as long as the chip takes, unless others are given, which come
    /// later.
    fn settings(&self, chip: Chip) -> Result<Settings> {
        let longest = chip.max_ring();
        let rings = if longest < LONG_RING {
            vec![format!("kpps.ring={longest}"), format!("dpdk.ring={longest}")]
        } else {
            vec![]
        };
        let rings = rings.iter().map(|ring| ring.parse()).collect::<std::result::Result<Vec<_>, String>>();
        Ok(Settings([rings.map_err(Error::Input)?, self.settings.0.clone()].concat()))
    }

    /// The failure of a task with fewer frames than were to be counted.
    fn stalled(&self, task: Task, row: &Row) -> Option<String> {
        let count = self.count.filter(|count| row.frames < *count)?;
        let (frames, seconds) = (row.frames, STALLED.as_secs());
        Some(format!(
            "{}: only {frames} of {count} frames arrived, none in the last {seconds} s",
            task.name()
        ))
    }

    /// The requested combinations that exist.
    fn tasks(&self) -> Vec<Task> {
        let mut tasks = Vec::new();
        for &work in &self.works {
            for &driver in &self.drivers {
                let backend = if driver == Driver::Linux { Backend::Kernel } else { Backend::Uio };
                if workload::exists(MODULE, driver, backend, work) {
                    tasks.push(Task { work, driver, backend });
                }
            }
        }
        tasks
    }

    /// Starts a driver, offers it frames, counts, and ends it.
    fn audit(
        &self,
        (guest, server): (&mut Guest, &Server),
        task: Task,
        settings: &Settings,
        go_on: &dyn Fn() -> bool,
    ) -> Result<Row> {
        let Task { work, driver, backend } = task;
        let breaches = server.with(|cards, _| cards.breaches());
        let running = workload::start(guest, MODULE, driver, backend, work, settings)?;
        let begin = server.with(Cards::counts);
        let flow = Flow::default();
        let numbered = Numbered::new(flow.to_mac, flow.from_mac, self.count.unwrap_or(u64::MAX));
        if work.is_loaded() {
            let pps = self.rate.pps();
            let (source, sink) = (numbered.clone(), numbered.clone());
            let fixed = workload::frame(work, Size::MIN)?;
            server.with(|cards, now| {
                if work == Work::Bridge {
                    cards.watch(OPEN, Some(Box::new(move |frame| sink.returned(frame))));
                    cards.offer(LOADED, now, pps, Box::new(move |frame| source.next(frame)));
                } else {
                    let offer = move |frame: &mut Vec<u8>| {
                        frame.extend_from_slice(&fixed);
                        Next::Frame
                    };
                    cards.offer(LOADED, now, pps, Box::new(offer));
                }
            });
        }
        let counted = self.count_frames(server, task, &begin, go_on);
        server.with(|cards, _| cards.end_offer(LOADED));
        let (lost, changed) = if work == Work::Bridge {
            until_quiet(&numbered);
            let ((offered, returned), (changed, out_of_order)) = (numbered.so_far(), numbered.damage());
            (Some(offered.saturating_sub(returned)), Some(changed + out_of_order))
        } else {
            (None, None)
        };
        server.with(|cards, _| cards.watch(OPEN, None));
        let finished = running.finish(guest);
        let (counts, seconds) = counted?;
        finished?;
        let after = server.with(|cards, _| cards.breaches());
        let violations = since(&breaches, after);
        let row = row(task, &counts, seconds);
        Ok(Row { lost, changed, violations, ..row })
    }

    /// Counts for the wanted time from shortly after the first frame, or for the wanted number of frames.
    /// Returns the counts and the seconds.
    fn count_frames(
        &self,
        server: &Server,
        task: Task,
        begin: &Counts,
        go_on: &dyn Fn() -> bool,
    ) -> Result<(Counts, f64)> {
        let look = || {
            std::thread::sleep(LOOK);
            if go_on() { Ok(server.with(Cards::counts)) } else { Err(Error::Interrupted) }
        };
        let since = Instant::now();
        while task.frames(&look()?) <= task.frames(begin) {
            if since.elapsed() > FIRST {
                let waiting_for = format!("the first frame of {}", task.name());
                return Err(Error::Silent { seconds: FIRST.as_secs(), waiting_for, tail: String::new() });
            }
        }
        if self.count.is_none() {
            std::thread::sleep(SETTLE);
        }
        let from = if self.count.is_some() { begin.clone() } else { server.with(Cards::counts) };
        let since = Instant::now();
        let (mut last, mut progress) = (from.clone(), Instant::now());
        loop {
            let now = look()?;
            let frames = task.frames(&now) - task.frames(&from);
            let is_enough = match self.count {
                Some(count) => frames >= count,
                None => since.elapsed() >= self.duration,
            };
            if task.frames(&now) > task.frames(&last) {
                (last, progress) = (now.clone(), Instant::now());
            }
            // Lost frames never arrive.
            if is_enough || progress.elapsed() > STALLED {
                return Ok((now.since(&from), since.elapsed().as_secs_f64()));
            }
        }
    }
}

/// Waits until all frames have come back, or no more do.
fn until_quiet(numbered: &Numbered) {
    let (mut last, mut at) = (numbered.so_far(), Instant::now());
    while last.0 > last.1 && at.elapsed() < QUIET {
        std::thread::sleep(LOOK);
        let now = numbered.so_far();
        if now != last {
            (last, at) = (now, Instant::now());
        }
    }
}

/// The breaches since `before`, without information.
fn since(before: &[Breach], after: Vec<Breach>) -> Vec<Violation> {
    let new = after.into_iter().filter(|it| it.severity() < Severity::Info).filter_map(|it| {
        let old = before.iter().find(|old| (old.rule, &old.register) == (it.rule, &it.register));
        let count = it.count.saturating_sub(old.map_or(0, |old| old.count));
        (count > 0).then(|| Violation {
            what: it.rule.words().into(),
            register: it.register,
            section: it.section.into(),
            count,
            value: it.value,
        })
    });
    new.collect()
}

/// The row of the counts.
fn row(task: Task, counts: &Counts, seconds: f64) -> Row {
    let frames = task.frames(counts);
    let each = |count: u64| (count as f64 / frames.max(1) as f64 * 1e6).round() / 1e6;
    let bursts = |all: &[What]| each(all.iter().map(|what| counts.bursts[*what as usize]).sum());
    let mut registers = std::collections::BTreeMap::<String, Accesses>::new();
    for (name, count) in &counts.reads {
        registers.entry(name.clone()).or_default().reads = each(*count);
    }
    for (name, count) in &counts.writes {
        registers.entry(name.clone()).or_default().writes = each(*count);
    }
    let tails = ["RDT", "TDT"].iter().filter_map(|name| counts.writes.get(*name)).sum();
    Row {
        workload: task.work.name().into(),
        driver: task.driver.name().into(),
        backend: task.backend.name().into(),
        frames,
        load_pps: if seconds > 0.0 { (frames as f64 / seconds).round() } else { 0.0 },
        reads_per_frame: each(counts.reads.values().sum()),
        writes_per_frame: each(counts.writes.values().sum()),
        tails_per_frame: each(tails),
        interrupts_per_frame: each(counts.interrupts),
        fetches_per_frame: bursts(&[What::RxDescriptorFetch, What::TxDescriptorFetch]),
        write_backs_per_frame: bursts(&[What::RxWriteBack, What::TxWriteBack]),
        data_bursts_per_frame: bursts(&[What::RxData, What::TxData]),
        bus_us_per_frame: each(counts.bus_ps / 1000) / 1000.0,
        registers,
        ..Row::default()
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn a_row_has_everything_for_each_frame() {
        let mut counts = Counts {
            reads: [("ICR".to_owned(), 5)].into(),
            writes: [("TDT".to_owned(), 10), ("IMS".to_owned(), 5)].into(),
            interrupts: 5,
            bus_ps: 20_000_000,
            sent: 10,
            ..Counts::default()
        };
        counts.bursts[What::TxData as usize] = 20;
        let task = Task { work: Work::Transmit, driver: Driver::Linux, backend: Backend::Kernel };
        let row = row(task, &counts, 2.0);
        assert_eq!(
            (row.frames, row.load_pps, row.reads_per_frame, row.writes_per_frame),
            (10, 5.0, 0.5, 1.5)
        );
        assert_eq!((row.tails_per_frame, row.data_bursts_per_frame, row.bus_us_per_frame), (1.0, 2.0, 2.0));
        assert_eq!(row.registers["ICR"], Accesses { reads: 0.5, writes: 0.0 });
    }
}
