//! The lab's main job: each driver with each workload on each card, and the ratios between drivers.
//!
//! There is one boot for each card and PC. Within it the drivers take turns, in rounds, so that drifts of the
//! host affect all of them. A ratio is the median of the rounds' ratios.

use crate::lab::initrd::Contents;
use crate::lab::measure::{Job, Measured, Sample};
use crate::lab::profile::Executed;
use crate::lab::workload::{self, Backend, Driver, Settings, Work};
use crate::lab::{
    Cache, Clock, Error, Guest, Kernel, Machine, Model, Options, Result, Userland, newer, qemu,
};
use kpps_documents::Registers;
use kpps_documents::lab::{Lab, Profile, Ratio, Row, median};
use kpps_frames::rate::Rate;
use kpps_methods::Observer;
use kpps_methods::finished::{self, Finished, digest};
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// The comparison to be done.
#[derive(Clone, Debug)]
pub struct LabPlan {
    /// The kernel's name, or the folder that it is in.
    pub kernel: String,
    /// A module to load in place of the kernel's own.
    pub driver_module: Option<PathBuf>,
    /// Cards.
    pub models: Vec<Model>,
    /// How drivers in user space access the cards.
    pub backends: Vec<Backend>,
    /// The drivers.
    pub drivers: Vec<Driver>,
    /// The workloads.
    pub works: Vec<Work>,
    /// The clock of the guests.
    pub clock: Clock,
    /// A folder with the DPDK to use in place of Debian's.
    pub dpdk: Option<PathBuf>,
    /// The number of rounds. Each driver is started anew in each.
    pub rounds: u32,
    /// Windows that are measured in each round.
    pub windows: u32,
    /// The length of a window.
    pub window: Duration,
    /// The load, for workloads that need one.
    pub rate: Rate,
    /// Settings of the kernel's driver.
    pub settings: Settings,
    /// Whether to record where the instructions go. That needs the clock of instructions.
    pub profile: bool,
    /// The time limit. No job begins after it.
    pub at_most: Option<Duration>,
    /// The program that is kpps in the guest.
    pub kpps: PathBuf,
}

/// The error of a command if not everything could be measured; `None` if only the time was too short.
pub fn failure(lab: &Lab) -> Option<String> {
    let broken: Vec<_> = lab.failures.iter().filter(|what| !what.ends_with("no time left")).collect();
    broken.first().map(|first| format!("{} could not be measured; {first}", broken.len()))
}

/// The longest cause of a failure that is shown, in characters.
const LONGEST_REASON: usize = 300;

/// A driver with a workload.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Task {
    work: Work,
    driver: Driver,
    backend: Backend,
}

/// The jobs of one boot.
#[derive(Clone, Debug)]
struct Boot {
    model: Model,
    machine: Machine,
    tasks: Vec<Task>,
}

impl Boot {
    fn name(&self, task: &Task) -> String {
        [self.model.name(), task.work.name(), task.driver.name(), task.backend.name()].join(" ")
    }
}

impl LabPlan {
    /// The same in at most three minutes, boots included: one round with four short windows for each driver.
    #[must_use]
    pub fn quick(self) -> Self {
        let (window, at_most) = (Duration::from_millis(200), Some(Duration::from_secs(170)));
        Self { rounds: 1, windows: 4, window, at_most, ..self }
    }

    /// Runs all jobs that are not `finished`, or as many as the time limit allows. In any case the results
    /// have the measurements so far.
    ///
    /// # Errors
    /// If a kernel or package cannot be fetched or a guest does not boot. A driver that fails is a row
    /// without figures.
    pub fn run(
        &self,
        observer: &dyn Observer,
        go_on: impl Fn() -> bool + Send + Sync + 'static,
        finished: &Finished<Measured>,
    ) -> Result<Lab> {
        if self.profile && self.clock == Clock::Wall {
            return Err(Error::Input("a profile counts instructions: choose the clock instructions".into()));
        }
        if finished.is_kept() && self.clock == Clock::Wall {
            let why = "only runs with the clock instructions can be resumed, because results by the wall clock of two runs cannot be compared";
            return Err(Error::Input(why.into()));
        }
        if let (Some(model), [Driver::Kpps]) =
            (self.models.iter().find(|it| !it.is_ours()), &self.drivers[..])
        {
            let ours = Model::OURS.map(Model::name).join(", ");
            let card = model.name();
            return Err(Error::Input(format!("kpps has no driver for {card}: choose a device of {ours}")));
        }
        let go_on: Arc<dyn Fn() -> bool + Send + Sync> = Arc::new(go_on);
        let since = Instant::now();
        let boots = self.boots();
        observer.trials(boots.iter().map(|boot| boot.tasks.len() * self.rounds as usize).sum());
        observer.begins("fetching the kernel and the packages", None);
        let cache = Cache::open()?;
        let kernel = self.kernel(&cache)?;
        let userland = Userland::get(&cache)?;
        let userland = match &self.dpdk {
            Some(folder) => userland.with_dpdk(folder)?,
            None => userland,
        };
        // Downloads do not count against the time limit.
        let since = if since.elapsed() > Duration::from_secs(20) { Instant::now() } else { since };
        let lab = Lab {
            kpps_version: env!("CARGO_PKG_VERSION").into(),
            kernel: kernel.name.clone(),
            kernel_version: kernel.version.clone(),
            clock: self.clock,
            rounds: self.rounds,
            window_ms: u64::try_from(self.window.as_millis()).unwrap_or(u64::MAX),
            load_pps: self.rate.pps(),
            kpps_ring: self.settings.kpps_ring(),
            dpdk_ring: self.settings.dpdk_ring(),
            settings: (self.driver_module.iter())
                .map(|path| format!("driver module {}", path.display()))
                .chain(self.dpdk.iter().map(|path| format!("DPDK of {}", path.display())))
                .chain(self.settings.0.iter().map(ToString::to_string))
                .collect(),
            complete: true,
            ..Lab::default()
        };
        let mut found = Found { lab, ..Found::default() };
        let newer = newer::get(&cache)?;
        let (number, version) = qemu::version(&newer)?;
        found.lab.qemu = number;
        let dpdk = self.drivers.contains(&Driver::Dpdk);
        // The source of frames is kpps, too.
        let is_fed = self.works.iter().any(|work| work.is_loaded()) && self.clock == Clock::Instructions;
        let kpps = (is_fed || self.drivers.contains(&Driver::Kpps)).then_some(self.kpps.as_path());
        let initrd = Contents { kernel: &kernel, userland: &userland, dpdk, kpps }.build()?;
        // Whatever runs in a guest has an influence.
        let runs = match finished.is_kept() {
            true => [version, digest(&std::fs::read(&kernel.image)?), digest(&initrd)],
            false => Default::default(),
        };
        for boot in boots {
            if !go_on() {
                found.lab.complete = false;
                break;
            }
            let pc = workload::pc(boot.machine, boot.model, self.clock, self.rate);
            let options = Options { qemu: Some(newer.clone()), ..pc };
            let start = || {
                observer.begins(&format!("booting {} with {}", self.kernel, boot.model.name()), None);
                let mut guest = Guest::boot_with(&options, &kernel, &userland, kpps, &initrd)?;
                guest.interruptible(go_on.clone());
                Ok(guest)
            };
            let system = finished::name(&(&runs, &options));
            if !self.rounds(&start, &boot, since, &mut found, observer, (finished, &system))? {
                found.lab.complete = false;
                break;
            }
        }
        found.conclude();
        Ok(found.lab)
    }

    /// The kernel, which must have the features that the drivers need.
    fn kernel(&self, cache: &Cache) -> Result<Kernel> {
        let kernel = Kernel::get(cache, &self.kernel)?;
        let names: Vec<&str> = self.models.iter().map(|model| model.module()).collect();
        let kernel = match &self.driver_module {
            Some(path) => kernel.with_module(path, &names)?,
            None => kernel,
        };
        if self.drivers.contains(&Driver::Linux) {
            kernel.modules(&names)?;
        }
        if self.drivers != [Driver::Linux] && self.backends.contains(&Backend::Uio) {
            kernel.modules(&["uio_pci_generic"])?;
        }
        Ok(kernel)
    }

    /// Runs the jobs of one boot that are not finished, in guests that are this `system`. Returns whether to
    /// go on.
    ///
    /// # Errors
    /// If the first guest does not boot.
    fn rounds(
        &self,
        start: &dyn Fn() -> Result<Guest>,
        boot: &Boot,
        since: Instant,
        found: &mut Found,
        observer: &dyn Observer,
        (finished, system): (&Finished<Measured>, &str),
    ) -> Result<bool> {
        let mut guest = None;
        for round in 0..self.rounds {
            for task in &boot.tasks {
                let name = boot.name(task);
                let job = Job {
                    model: boot.model,
                    driver: task.driver,
                    backend: task.backend,
                    work: task.work,
                    settings: &self.settings,
                    rate: self.rate,
                    windows: self.windows,
                    window: self.window,
                    traced: round == 0,
                    profiled: self.profile && round == 0,
                };
                let key = finished::name(&(system, job, round));
                if let Some(measured) = finished.find(&key) {
                    found.add(boot, task, round, measured);
                    found.lab.resumed += 1;
                    observer.done();
                    continue;
                }
                if found.is_late(self, since) {
                    found.leave_out(name, 1, observer);
                    continue;
                }
                let guest = match &mut guest {
                    Some(guest) => guest,
                    none => none.insert(start()?),
                };
                observer.begins(&name, None);
                let begun = Instant::now();
                match job.run(guest) {
                    Ok(measured) => {
                        finished.keep(&key, &measured);
                        found.add(boot, task, round, measured);
                    }
                    Err(Error::Interrupted) => return Ok(false),
                    Err(error) => {
                        found.lab.complete = false;
                        let why: String = error.to_string().chars().take(LONGEST_REASON).collect();
                        found.lab.failures.push(format!("{name}: {why}"));
                        // A program that still runs would disturb the next measurement.
                        match start() {
                            Ok(fresh) => *guest = fresh,
                            Err(error) => {
                                found
                                    .lab
                                    .failures
                                    .push(format!("{name}: the guest could not be restarted: {error}"));
                                return Ok(true);
                            }
                        }
                    }
                }
                found.longest = found.longest.max(begun.elapsed());
                observer.done();
            }
        }
        Ok(true)
    }

    /// The boots, and the jobs of each.
    fn boots(&self) -> Vec<Boot> {
        let mut boots = Vec::new();
        for machine in [Machine::Plain, Machine::Iommu] {
            let users = [Backend::Uio, Backend::Vfio].into_iter();
            let users: Vec<Backend> = users
                .filter(|backend| backend.machine() == machine && self.backends.contains(backend))
                .collect();
            // The kernel's driver is measured without an IOMMU; with one only for comparison with others
            // there.
            let in_haste = self.at_most.is_some();
            let linux = machine == Machine::Plain || !users.is_empty() && !in_haste;
            for &model in &self.models {
                let mut tasks = Vec::new();
                for &work in &self.works {
                    // A bridge has no counterpart but the kernel's.
                    if work == Work::Bridge && in_haste && !linux {
                        continue;
                    }
                    for &driver in &self.drivers {
                        let backends = match driver {
                            Driver::Linux if linux => &[Backend::Kernel][..],
                            Driver::Linux => &[],
                            Driver::Kpps | Driver::Dpdk => &users,
                        };
                        let possible =
                            backends.iter().filter(|it| workload::exists(model, driver, **it, work));
                        tasks.extend(possible.map(|&backend| Task { work, driver, backend }));
                    }
                }
                if !tasks.is_empty() {
                    boots.push(Boot { model, machine, tasks });
                }
            }
        }
        boots
    }
}

/// The results so far.
#[derive(Default)]
struct Found {
    lab: Lab,
    /// By card, IOMMU, task and round.
    measured: BTreeMap<(Model, bool, Task), BTreeMap<u32, Measured>>,
    longest: Duration,
}

impl Found {
    fn is_late(&self, plan: &LabPlan, since: Instant) -> bool {
        // A job that would exceed the time limit is not begun.
        plan.at_most.is_some_and(|at_most| since.elapsed() + self.longest > at_most)
    }

    fn leave_out(&mut self, name: String, rounds: u32, observer: &dyn Observer) {
        let what = format!("{name}: no time left");
        if !self.lab.failures.contains(&what) {
            self.lab.failures.push(what);
        }
        (0..rounds).for_each(|_| observer.done());
        self.lab.complete = false;
    }

    fn add(&mut self, boot: &Boot, task: &Task, round: u32, measured: Measured) {
        let key = (boot.model, boot.machine == Machine::Iommu, *task);
        self.measured.entry(key).or_default().insert(round, measured);
    }

    /// Rows and ratios of the measurements.
    fn conclude(&mut self) {
        for (&(model, iommu, task), rounds) in &self.measured {
            let row = row(model, iommu, task, rounds);
            let executed = rounds.values().find_map(|measured| measured.executed.clone());
            self.lab.profiles.extend(executed.map(|executed| profile(&row, executed)));
            self.lab.rows.push(row);
        }
        for (&(model, iommu, task), ours) in &self.measured {
            if task.driver != Driver::Kpps {
                continue;
            }
            for (over, backend) in [(Driver::Dpdk, task.backend), (Driver::Linux, Backend::Kernel)] {
                let other = Task { driver: over, backend, ..task };
                let Some(others) = self.measured.get(&(model, iommu, other)) else { continue };
                let ratios = ratios(ours, others);
                self.lab.ratios.extend(Ratio::of(&row(model, iommu, task, ours), over.name(), &ratios));
            }
        }
    }
}

/// The profile of a row: functions have their shares of the row's instructions per frame, and of those of the
/// source of frames, which were executed, too.
fn profile(row: &Row, executed: Executed) -> Profile {
    let Executed { instructions, stretches, mut functions, mut stacks } = executed;
    let source = row.source_per_frame.map_or(0.0, |source| source.instructions);
    let each = median(row.instructions_per_frame.iter().copied()).map(|each| each + source);
    let rounded = |value: f64, digits: f64| (value * digits).round() / digits;
    for function in &mut functions {
        function.instructions_per_frame = each.map(|each| rounded(each * function.share, 100.0));
        function.share = rounded(function.share, 1e6);
        function.error = function.error.map(|error| rounded(error, 1e6));
    }
    stacks.iter_mut().for_each(|stack| stack.share = rounded(stack.share, 1e6));
    Profile {
        workload: row.workload.clone(),
        driver: row.driver.clone(),
        backend: row.backend.clone(),
        device: row.device.clone(),
        iommu: row.iommu,
        instructions,
        stretches,
        functions,
        stacks,
    }
}

/// The ratio of two drivers by rounds; with one round, by windows.
fn ratios(ours: &BTreeMap<u32, Measured>, others: &BTreeMap<u32, Measured>) -> Vec<f64> {
    let ratio = |a: Option<f64>, b: Option<f64>| Some(a? / b.filter(|b| *b > 0.0)?);
    // Frames per second also depend on the source's share of the CPU.
    let speed = |sample: &Sample| sample.instructions.map(f64::recip).or(sample.pps);
    let middle = |measured: &Measured| median(measured.samples.iter().filter_map(speed));
    let pairs: Vec<_> = ours.iter().filter_map(|(round, ours)| Some((ours, others.get(round)?))).collect();
    match pairs[..] {
        [(a, b)] => a.samples.iter().zip(&b.samples).filter_map(|(a, b)| ratio(speed(a), speed(b))).collect(),
        _ => pairs.into_iter().filter_map(|(a, b)| ratio(middle(a), middle(b))).collect(),
    }
}

fn row(model: Model, iommu: bool, task: Task, rounds: &BTreeMap<u32, Measured>) -> Row {
    let Task { work, driver, backend } = task;
    let samples = || rounds.values().flat_map(|measured| &measured.samples);
    let middle = |value: fn(&Sample) -> Option<f64>| median(samples().filter_map(value));
    let rounded = |value: fn(&Sample) -> Option<f64>| middle(value).map(f64::round);
    let mut drops = BTreeMap::new();
    for (place, count) in rounds.values().flat_map(|measured| &measured.drops) {
        *drops.entry(place.clone()).or_insert(0) += count;
    }
    Row {
        workload: work.name().into(),
        driver: driver.name().into(),
        backend: backend.name().into(),
        device: model.name().into(),
        iommu,
        vcpus: 1,
        pps: samples().filter_map(|sample| sample.pps).map(f64::round).collect(),
        median_pps: rounded(|sample| sample.pps),
        instructions_per_frame: samples()
            .filter_map(|sample| sample.instructions)
            .map(|each| (each * 10.0).round() / 10.0)
            .collect(),
        source_per_frame: rounds.values().find_map(|measured| measured.source),
        sent_pps: rounded(|sample| sample.sent_pps).filter(|_| work.is_loaded()),
        interrupts_per_s: rounded(|sample| sample.interrupts_per_s),
        cpu_busy: middle(|sample| sample.busy),
        registers_per_frame: rounds
            .values()
            .find_map(|measured| measured.registers)
            .map(|(read, write)| Registers { read, write }),
        sent: rounds.values().map(|measured| measured.sent).sum(),
        shortfall: rounds.values().map(|measured| measured.shortfall).sum(),
        drops,
        surplus: rounds.values().map(|measured| measured.surplus).sum(),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn plan() -> LabPlan {
        LabPlan {
            kernel: "linux-6.1".into(),
            driver_module: None,
            dpdk: None,
            models: Model::OURS.into(),
            backends: vec![Backend::Uio, Backend::Vfio],
            drivers: Driver::ALL.into(),
            works: Work::ALL.into(),
            clock: Clock::Wall,
            rounds: 1,
            windows: 1,
            window: Duration::from_millis(1),
            rate: Rate::Max,
            settings: Settings::default(),
            profile: false,
            at_most: None,
            kpps: PathBuf::new(),
        }
    }

    #[test]
    fn one_boot_for_each_card_and_machine() {
        let boots = plan().boots();
        assert_eq!(boots.len(), 4);
        assert!(boots.iter().all(|boot| boot.tasks.len() == 13), "{boots:?}");
        let quick = LabPlan { at_most: Some(Duration::ZERO), ..plan() };
        assert_eq!(quick.boots()[3].tasks.len(), 8, "nothing of the kernel's in the second machine");
        let linux = LabPlan { drivers: vec![Driver::Linux], backends: vec![], ..plan() };
        assert_eq!(linux.boots().len(), 2);
    }

    #[test]
    fn a_ratio_is_the_median_of_the_rounds() {
        let measured = |pps: &[f64]| {
            let samples = pps.iter().map(|pps| Sample { pps: Some(*pps), ..Sample::default() }).collect();
            Measured { samples, drops: [("ring".to_owned(), 5)].into(), ..Measured::default() }
        };
        let mut found = Found::default();
        let boot = Boot { model: Model::E1000, machine: Machine::Plain, tasks: vec![] };
        let task = |driver| Task { work: Work::Loop, driver, backend: Backend::Uio };
        for (round, (ours, dpdk)) in (0..).zip([(300.0, 100.0), (200.0, 200.0), (400.0, 100.0)]) {
            found.add(&boot, &task(Driver::Kpps), round, measured(&[ours]));
            found.add(&boot, &task(Driver::Dpdk), round, measured(&[dpdk]));
        }
        // A round in which only one of them worked does not count.
        found.add(&boot, &task(Driver::Kpps), 3, measured(&[300.0]));
        found.conclude();
        let [ratio] = &found.lab.ratios[..] else { panic!("{:?}", found.lab.ratios) };
        assert_eq!((ratio.ratio, ratio.min, ratio.max, &*ratio.over), (3.0, 1.0, 4.0, "dpdk"));
        // Drops are summed over all rounds, that one included.
        let row = &found.lab.rows[0];
        assert_eq!((row.median_pps, row.drops["ring"]), (Some(300.0), 20));
        // CPU and interrupts were not observed.
        assert_eq!((row.cpu_busy, row.interrupts_per_s), (None, None));
    }
}
