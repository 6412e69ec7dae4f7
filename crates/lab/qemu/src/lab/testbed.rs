//! A guest as a testbed: a load is offered, and a driver in the guest takes as many frames as it can.
//!
//! On the wall clock the host offers it. On the clock of instructions a source within the guest's time does:
//! cards whose period is that of the PC. Loads that are known in advance and that are multiples of one rate
//! share a boot, in which more or fewer of the cards send, and the driver runs from trial to trial. For any
//! other load a guest is booted.
//!
//! A frame counts as delivered when its consumer has counted it: the kernel's early drop or the queue that it
//! sends from, testpmd, kpps. The measured time lies between two observations of all counters, the
//! guest's and the host's. Each takes a few milliseconds, while the load goes on. Latency, the bus,
//! allocations and idle polls cannot be observed: they are `None`.

use crate::lab::feed::Feed;
use crate::lab::measure::{Observation, RECEIVE_PAUSE, registers};
use crate::lab::workload::{self, Backend, Driver, Running, Settings, Work};
use crate::lab::{
    Cache, Clock, Error, Guest, Kernel, Model, Options, Paced, Result, Userland, kernel, newer, program,
};
use kpps_documents::{Environment, Ledger, Registers, Trial};
use kpps_frames::rate::Rate;
use kpps_frames::{Mix, Size, rate};
use kpps_methods::{Load, Testbed, TrialError, only_size};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::time::{Duration, Instant};

/// The shortest time under load before measuring: the wire's own buffers are full then.
const WARMUP: Duration = Duration::from_millis(200);
/// How long frames may still arrive when the load has ended: frames that QEMU delivers
/// later count as lost.
const AFTERWARDS: Duration = Duration::from_millis(kpps_methods::AFTERWARDS_MS as u64);
/// How long such late frames may trickle in before the next trial, and how long silence must last to be
/// believed.
const DRAIN: Duration = Duration::from_secs(60);
const SILENCE: Duration = Duration::from_millis(100);

/// The prefix of guests' names on the command line.
pub const PREFIX: &str = "lab:";

/// The apps of a guest, by their names on the command line.
const APPS: [(&str, Work); 3] =
    [("receive", Work::Receive), ("forward", Work::Forward), ("bridge", Work::Bridge)];

/// An earlier name of the app that forwards. Only Linux routes: the other drivers forward frames unchanged.
const ROUTE: &str = "route";

/// Which guest: "linux-6.1/e1000", after another slash "linux", "kpps-uio", "kpps-vfio", "dpdk-uio" or
/// "dpdk-vfio", and after one more "receive", "forward" or "bridge".
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GuestSpec {
    /// The kernel.
    pub kernel: String,
    /// The card.
    pub model: Model,
    /// Its driver.
    pub driver: Driver,
    /// How it reaches its card.
    pub backend: Backend,
    /// Its work: to receive, forward or bridge.
    pub work: Work,
}

impl FromStr for GuestSpec {
    type Err = String;

    fn from_str(text: &str) -> std::result::Result<Self, String> {
        let text = text.strip_prefix(PREFIX).unwrap_or(text);
        let help = "give KERNEL/DEVICE as linux-6.1/e1000, KERNEL/DEVICE/DRIVER-BACKEND as linux-6.1/e1000/dpdk-uio, \
                    or KERNEL/DEVICE/DRIVER/APP as linux-6.1/e1000/linux/forward";
        let parts: Vec<&str> = text.split('/').collect();
        let (kernel, model, driver, app) = match parts[..] {
            [kernel, model] => (kernel, model, None, "receive"),
            [kernel, model, driver] => (kernel, model, Some(driver), "receive"),
            [kernel, model, driver, ROUTE] => (kernel, model, Some(driver), "forward"),
            [kernel, model, driver, app] => (kernel, model, Some(driver), app),
            _ => return Err(format!("'{text}' is no guest: {help}")),
        };
        let known = kernel::known().map_err(|e| e.to_string())?;
        if !known.iter().any(|it| it.name == kernel) {
            let names: Vec<_> = known.iter().map(|it| it.name.as_str()).collect();
            return Err(format!("there is no kernel called '{kernel}': known are {}", names.join(", ")));
        }
        let (driver, backend) = match driver.and_then(|driver| driver.split_once('-')) {
            Some((driver, backend)) => (driver.parse()?, backend.parse()?),
            None if driver.is_none_or(|driver| driver == "linux") => (Driver::Linux, Backend::Kernel),
            None => return Err(format!("'{text}' does not say how the driver reaches its card: {help}")),
        };
        let model: Model = model.parse()?;
        if !workload::exists(model, driver, backend, Work::Receive) {
            let what = [driver.name(), model.name(), backend.name()];
            return Err(format!("{} does not drive {} through {}: {help}", what[0], what[1], what[2]));
        }
        let names = |possible: &dyn Fn(Work) -> bool| {
            let names = APPS.iter().filter(|(_, work)| possible(*work)).map(|(name, _)| *name);
            names.collect::<Vec<_>>().join(", ")
        };
        let Some((_, work)) = APPS.into_iter().find(|(name, _)| *name == app) else {
            return Err(format!("a guest has no app '{app}': known are {}", names(&|_| true)));
        };
        let exists = |work| workload::exists(model, driver, backend, work);
        if !exists(work) {
            let driver = driver.name();
            return Err(format!("{driver} cannot {app} in a guest: it can {}", names(&exists)));
        }
        Ok(Self { kernel: kernel.into(), model, driver, backend, work })
    }
}

impl GuestSpec {
    /// The guests with these names.
    ///
    /// # Errors
    /// A name that is of no guest.
    pub fn all(names: &[String]) -> std::result::Result<Vec<Self>, String> {
        if names.iter().any(|name| !name.starts_with(PREFIX)) {
            return Err("guests cannot be mixed with other testbeds".into());
        }
        names.iter().map(|name| name.parse()).collect()
    }

    /// Its name in results: "linux-6.1 e1000", "linux-6.1 e1000 dpdk-uio", "linux-6.1 e1000 linux forward".
    pub fn name(&self) -> String {
        let Self { kernel, model, driver, backend, work } = self;
        let driver = match driver {
            Driver::Linux if *work == Work::Receive => String::new(),
            Driver::Linux => " linux".to_owned(),
            _ => format!(" {}-{}", driver.name(), backend.name()),
        };
        let app = APPS.iter().find(|(_, it)| it == work && *work != Work::Receive);
        let app = app.map_or(String::new(), |(name, _)| format!(" {name}"));
        format!("{kernel} {}{driver}{app}", model.name())
    }

    /// A description in words.
    pub fn description(&self) -> String {
        let what = match (self.driver, self.work) {
            (Driver::Linux, Work::Forward) => "the kernel's own driver, routing",
            (Driver::Linux, Work::Bridge) => "the kernel's own driver, bridging",
            (Driver::Linux, _) => "the kernel's own driver, early drop by tc",
            // It does not look at the frames.
            (Driver::Dpdk, Work::Forward) => "testpmd io",
            (Driver::Dpdk, _) => "testpmd rxonly",
            (Driver::Kpps, Work::Forward) => "kpps forward",
            (Driver::Kpps, Work::Bridge) => "kpps bridge",
            (Driver::Kpps, _) => "kpps count",
        };
        let whose = match self.driver {
            Driver::Linux => what.to_owned(),
            _ => format!("{what} through {}", self.backend.name()),
        };
        format!("{} on QEMU's {}, {whose}", self.kernel, self.model.name())
    }
}

/// Testbeds, each with its name, and the environment of all.
pub type GuestTestbeds = (Vec<(String, Box<dyn Testbed>)>, Environment);

/// The guests, none of them booted, with these settings of their kernels and drivers, and with this module in
/// place of their kernels' own.
///
/// # Errors
/// A module where the kernel's own driver does not run, in one line.
pub fn open(
    specs: Vec<GuestSpec>,
    settings: &Settings,
    clock: Clock,
    driver_module: Option<&Path>,
) -> std::result::Result<GuestTestbeds, String> {
    if let (Some(other), Some(_)) = (specs.iter().find(|it| it.driver != Driver::Linux), driver_module) {
        let name = other.name();
        return Err(format!(
            "{name} does not use the kernel's own driver, which the module would replace: leave out the module"
        ));
    }
    let kpps = program().map_err(|error| error.to_string())?;
    let environment = environment(&specs, settings, clock, driver_module);
    let testbed = |spec: GuestSpec| -> (String, Box<dyn Testbed>) {
        let guest = GuestTestbed::new(spec, settings.clone(), clock, kpps.clone());
        (guest.spec.name(), Box::new(guest.with_driver_module(driver_module.map(Path::to_owned))))
    };
    Ok((specs.into_iter().map(testbed).collect(), environment))
}

/// The environment of results of these guests with these settings and this module in place of their kernels'
/// own, without what frames and load determine.
fn environment(
    specs: &[GuestSpec],
    settings: &Settings,
    clock: Clock,
    driver_module: Option<&Path>,
) -> Environment {
    let names = |each: fn(&GuestSpec) -> &str| {
        let names: BTreeSet<_> = specs.iter().map(each).collect();
        names.into_iter().collect::<Vec<_>>()
    };
    let drivers = names(|spec| spec.driver.name());
    let set: Vec<_> = settings.0.iter().map(ToString::to_string).collect();
    let set = (!set.is_empty()).then(|| ("set".to_owned(), set.join(", ")));
    let module = driver_module.map(|path| ("driver module".to_owned(), path.display().to_string()));
    let time = match clock {
        Clock::Wall => "real time",
        Clock::Instructions => "1 ns for each instruction, caches cost nothing",
    };
    Environment {
        machine: "guest".into(),
        chip: names(|spec| spec.model.name()).join(", "),
        bus: "QEMU's PCI".into(),
        host: format!("QEMU (TCG, one CPU, no wire limit, {time})"),
        stack: names(|spec| &spec.kernel).join(", "),
        driver: if let [only] = drivers[..] { only.to_owned() } else { String::new() },
        system: set
            .into_iter()
            .chain(module)
            .chain([("clock".to_owned(), clock.name().to_owned())])
            .collect(),
        presets: specs.iter().map(|spec| (spec.name(), spec.description())).collect(),
        ..Environment::on(["lab"])
    }
}

/// A guest that receives, routes or bridges. It is booted with the first trial.
pub struct GuestTestbed {
    spec: GuestSpec,
    settings: Settings,
    clock: Clock,
    kpps: PathBuf,
    driver_module: Option<PathBuf>,
    /// The source for all loads that are known in advance, if there is one.
    shared: Option<Paced>,
    up: Option<(Guest, Box<dyn Running>)>,
}

impl GuestTestbed {
    /// A guest that is not booted yet, with `kpps` as its kpps.
    pub fn new(spec: GuestSpec, settings: Settings, clock: Clock, kpps: PathBuf) -> Self {
        Self { spec, settings, clock, kpps, driver_module: None, shared: None, up: None }
    }

    /// The same with a module in place of its kernel's own driver.
    #[must_use]
    pub fn with_driver_module(self, driver_module: Option<PathBuf>) -> Self {
        Self { driver_module, ..self }
    }

    /// Which guest it is.
    pub fn spec(&self) -> &GuestSpec {
        &self.spec
    }

    /// The source of frames for a load, which is part of the PC.
    fn source(&self, pps: f64) -> Option<Paced> {
        let own = || Paced::of(workload::SOURCE_HUB, Rate::Pps(pps));
        let source = || self.shared.filter(|shared| shared.fits(pps)).unwrap_or_else(own);
        (self.clock == Clock::Instructions).then(source)
    }

    fn boot(&self, source: Option<Paced>) -> Result<(Guest, Box<dyn Running>)> {
        let GuestSpec { kernel, model, driver, backend, work } = &self.spec;
        let cache = Cache::open()?;
        let kernel = Kernel::get(&cache, kernel)?;
        let kernel = match &self.driver_module {
            Some(path) => kernel.with_module(path, &[model.module()])?,
            None => kernel,
        };
        let userland = Userland::get(&cache)?;
        let pc = workload::pc_with(backend.machine(), *model, source);
        let options = Options { qemu: Some(newer::get(&cache)?), ..pc };
        let has_kpps = *driver == Driver::Kpps || self.clock == Clock::Instructions;
        let program = has_kpps.then_some(self.kpps.as_path());
        let mut guest = Guest::boot(&options, &kernel, &userland, *driver == Driver::Dpdk, program)?;
        let running = workload::start(&mut guest, *model, *driver, *backend, *work, &self.settings)?;
        // QEMU's e1000 receives nothing at first: that must not affect a trial.
        if self.clock == Clock::Instructions {
            guest.wait(RECEIVE_PAUSE)?;
        } else {
            await_first(&mut guest, running.as_ref(), *work)?;
        }
        Ok((guest, running))
    }

    fn measure(&mut self, load: &Load, go_on: &dyn Fn() -> bool) -> Result<Trial> {
        let refused = |error: TrialError| Error::Input(error.to_string());
        let size = load.size().map_err(refused)?;
        let most_pps = self.line_rate_pps(&load.sizes).map_err(refused)?;
        if size > Size::MAX_STANDARD {
            let longest = Size::MAX_STANDARD.bytes_with_fcs();
            let asked = size.bytes_with_fcs();
            return Err(Error::Input(format!(
                "frames of {asked} B are too long: the guests' cards take at most {longest} B"
            )));
        }
        let offered_pps = load.rate.pps_of(most_pps);
        let rate = Rate::Pps(offered_pps);
        let source = self.source(offered_pps);
        let may_stay = source.is_none() || source == self.shared;
        if !may_stay || self.up.as_ref().is_none_or(|(guest, _)| guest.paced() != source) {
            self.up = None;
            self.up = Some(self.boot(source)?);
        }
        let Some((guest, running)) = &mut self.up else { return Err(Error::Interrupted) };
        let running = running.as_ref();
        let begin = Observation::take(guest, running, &Feed::None)?;
        let dropped = running.drops(guest)?;
        let feed = Feed::start(guest, rate, workload::frame(self.spec.work, size)?)?;
        let window = watch(guest, self.spec.model, running, &feed, load, go_on);
        let fed = feed.stop(guest)?;
        guest.wait(AFTERWARDS)?;
        let end = Observation::take(guest, running, &Feed::None)?;
        let drained = quiesced(guest, running);
        let (from, to, registers) = window?;
        let late = drained?.count.frames - end.count.frames;
        let mut places = running.drops(guest)?;
        for (place, count) in &mut places {
            *count -= dropped.get(place).copied().unwrap_or(0).min(*count);
        }
        places.insert("wire".into(), late);
        places.retain(|_, count| *count > 0);
        let ledger = Ledger {
            sent: fed.sent,
            shortfall: fed.shortfall,
            delivered: end.count.frames - begin.count.frames,
            dropped: places,
            ..Ledger::default()
        };
        let (seconds, sent, shortfall) = match source {
            None => {
                let (from, to) = (from.counts, to.counts);
                (None, to.sent - from.sent, to.shortfall - from.shortfall)
            }
            Some(source) => {
                if let Some(sent) = fed.source.filter(|sent| sent.starved > 0) {
                    return Err(Error::Input(format!(
                        "the source of frames could not sustain this rate: its queue was empty {} times",
                        sent.starved
                    )));
                }
                let seconds = to.snapshot.seconds_since(&from.snapshot);
                (Some(seconds), (source.at(rate).pps() * seconds).round() as u64, 0)
            }
        };
        let seconds = seconds.unwrap_or_else(|| to.host_seconds_since(&from));
        let taken = to.count.frames - from.count.frames;
        // The consumer's clock and this host's tick together, but are not read at the same moment.
        let sample = to.since(&from);
        let pps = sample.pps.ok_or_else(|| Error::Protocol {
            what: "the consumer's clock, which has not advanced".into(),
            answer: to.snapshot.text.clone(),
        })?;
        let delivered = (pps * seconds).round() as u64;
        let exact = sample.busy.filter(|_| self.clock == Clock::Instructions);
        let cpu = to.snapshot.cpu_since(&from.snapshot, exact);
        // The two observations are not of the same instant: a few frames of before may be counted.
        let counts = [sent, shortfall, delivered.min(sent)];
        let trial = Trial::new(offered_pps, seconds, counts, ledger)
            .ok_or_else(|| Error::Input(TrialError::nothing_due(load).to_string()))?
            .with_driver(taken, Some(to.snapshot.interrupts - from.snapshot.interrupts), None);
        let registers_per_frame = registers.map(|(read, write)| Registers { read, write });
        let trial = Trial { registers_per_frame, ..trial };
        Ok(match cpu {
            Some(cpu) => trial.with_cpu(cpu),
            None => trial,
        })
    }
}

/// Offers frames until one arrives, and waits until no more do.
fn await_first(guest: &mut Guest, running: &dyn Running, work: Work) -> Result<()> {
    let frame = workload::frame(work, Size::MIN)?;
    let probe = Feed::start(guest, Rate::Pps(1000.0), frame)?;
    let since = Instant::now();
    let before = Observation::take(guest, running, &Feed::None)?.count.frames;
    while Observation::take(guest, running, &Feed::None)?.count.frames <= before {
        if since.elapsed() > Duration::from_secs(15) {
            return Err(Error::Silent {
                seconds: 15,
                waiting_for: "the first frame".into(),
                tail: String::new(),
            });
        }
        guest.wait(Duration::from_millis(20))?;
    }
    probe.stop(guest)?;
    quiesced(guest, running).map(drop)
}

/// Register reads and writes for each frame.
type RegisterRates = (f64, f64);

/// The measured time: observations at its begin and end, and register accesses for each frame if they are
/// counted.
fn watch(
    guest: &mut Guest,
    model: Model,
    running: &dyn Running,
    feed: &Feed,
    load: &Load,
    go_on: &dyn Fn() -> bool,
) -> Result<(Observation, Observation, Option<RegisterRates>)> {
    let warmup = WARMUP.max(load.warmup);
    let duration = load.duration;
    let wait = |guest: &mut Guest, time: Duration| {
        let until = Instant::now() + time;
        while Instant::now() < until {
            if !go_on() {
                return Err(Error::Interrupted);
            }
            guest.wait(until.saturating_duration_since(Instant::now()).min(Duration::from_millis(50)))?;
        }
        Ok(())
    };
    let (from, to) = match guest.clock() {
        Clock::Wall => {
            wait(guest, warmup)?;
            let from = Observation::take(guest, running, feed)?;
            wait(guest, duration)?;
            (from, Observation::take(guest, running, feed)?)
        }
        Clock::Instructions => {
            guest.wait(warmup)?;
            let seen: [Observation; 2] = Observation::series(guest, running, feed, duration, 2)?
                .try_into()
                .map_err(|_| Error::Input("two observations were wanted".into()))?;
            seen.into()
        }
    };
    let registers = registers(guest, model, running)?;
    Ok((from, to, registers))
}

/// Waits until nothing more arrives at the consumer.
fn quiesced(guest: &mut Guest, running: &dyn Running) -> Result<Observation> {
    let since = Instant::now();
    let mut last = Observation::take(guest, running, &Feed::None)?;
    loop {
        guest.wait(SILENCE)?;
        let now = Observation::take(guest, running, &Feed::None)?;
        if now.count.frames == last.count.frames || since.elapsed() > DRAIN {
            return Ok(now);
        }
        last = now;
    }
}

impl Testbed for GuestTestbed {
    /// That of a real gigabit wire. QEMU's has no limit.
    fn line_rate_pps(&self, sizes: &Mix) -> std::result::Result<f64, TrialError> {
        Ok(rate::line_rate_pps(rate::GIGABIT, only_size(sizes)?))
    }

    fn expect(&mut self, loads_pps: &[f64]) {
        self.shared = Paced::for_loads(workload::SOURCE_HUB, loads_pps);
    }

    fn trial_while(
        &mut self,
        load: &Load,
        go_on: &dyn Fn() -> bool,
    ) -> std::result::Result<Trial, TrialError> {
        self.measure(load, go_on).map_err(|error| match error {
            Error::Interrupted => TrialError::Interrupted,
            other => {
                // Whatever still runs there: the next trial begins with another guest.
                self.up = None;
                TrialError::Testbed(other.to_string())
            }
        })
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn guests_as_people_name_them() {
        let spec: GuestSpec = "linux-6.1/e1000".parse().unwrap();
        assert_eq!(
            (spec.driver, spec.backend, &*spec.name()),
            (Driver::Linux, Backend::Kernel, "linux-6.1 e1000")
        );
        let spec: GuestSpec = "linux-5.10/e1000e/dpdk-vfio".parse().unwrap();
        assert_eq!((spec.driver, spec.backend), (Driver::Dpdk, Backend::Vfio));
        assert_eq!(spec.name(), "linux-5.10 e1000e dpdk-vfio");
        let spec: GuestSpec = "lab:linux-6.1/e1000/linux".parse().unwrap();
        assert_eq!((spec.work, &*spec.name()), (Work::Receive, "linux-6.1 e1000"));
        for (text, work, name, what) in [
            ("linux/forward", Work::Forward, "linux forward", "the kernel's own driver, routing"),
            ("linux/bridge", Work::Bridge, "linux bridge", "the kernel's own driver, bridging"),
            ("dpdk-uio/forward", Work::Forward, "dpdk-uio forward", "testpmd io through uio"),
            ("dpdk-uio/route", Work::Forward, "dpdk-uio forward", "testpmd io through uio"),
            ("kpps-uio/bridge", Work::Bridge, "kpps-uio bridge", "kpps bridge through uio"),
            ("kpps-vfio/receive", Work::Receive, "kpps-vfio", "kpps count through vfio"),
        ] {
            let spec: GuestSpec = format!("lab:linux-6.1/e1000/{text}").parse().unwrap();
            assert_eq!((spec.work, spec.name()), (work, format!("linux-6.1 e1000 {name}")));
            assert_eq!(spec.description(), format!("linux-6.1 on QEMU's e1000, {what}"));
        }
        for (text, part) in [
            ("linux-6.1/e1000/linux/nat", "no app 'nat': known are receive, forward, bridge"),
            ("linux-6.1/e1000/dpdk-uio/bridge", "dpdk cannot bridge in a guest: it can receive, forward"),
            ("linux-6.1/e1000/linux/forward/2", "KERNEL/DEVICE/DRIVER/APP"),
            ("e1000", "is no guest"),
            ("linux-2.2/e1000", "known are linux-6.1"),
            ("linux-6.1/ne2000", "no device called"),
            ("linux-6.1/e1000/kpps", "how the driver reaches"),
            ("linux-6.1/e1000/linux-uio", "linux does not drive e1000 through uio"),
            ("linux-6.1/igb/kpps-uio", "kpps does not drive igb"),
        ] {
            let error = text.parse::<GuestSpec>().unwrap_err();
            assert!(error.contains(part), "{error}");
        }
    }
}
