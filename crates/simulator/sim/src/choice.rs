//! A simulated machine as people choose it: by the names of its parts, with some constants changed.

use crate::documents::Profiling;
use crate::environment::{system, words};
use crate::workload::end_station::EndStation;
use crate::workload::forward::line_pps;
use crate::{Activity, AnySetup, AppKind, ForwardingTestbed, RateLimitedSetup, Receiving, Setup, SetupError};
use kpps_documents::Environment;
use kpps_documents::grid::{Axis, Setting};
use kpps_frames::{Size, rate};
use kpps_methods::grid::{Combinations, Job};
use kpps_methods::units::RateSpec;
use kpps_methods::{Load, NamedTestbed, Points, Testbed, TrialError};
use kpps_profiles::{Change, Error, Kind};
use std::collections::BTreeMap;
use std::str::FromStr;

/// The prefix of a simulated machine's name: `sim:MACHINE/DRIVER/APP`.
pub const PREFIX: &str = "sim:";
/// The program that receives.
pub const NETRECEIVE: &str = "netreceive";
/// The number of machines in which a constant is searched.
const MACHINES: usize = 1000;

/// A simulated machine by the names of its parts. Parts that are `None` have defaults.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Choice {
    /// The machine: a profile's name or file. By default one whose stack can run the app.
    pub machine: Option<String>,
    /// The chip: a profile's name or file; by default the machine's own.
    pub chip: Option<String>,
    /// The rate-limited NIC in place of chip and driver: a profile's name or file.
    pub nic: Option<String>,
    /// The driver preset: a profile's name or file; by default that of this project.
    pub driver: Option<String>,
    /// The app between two cards; without one, frames end at a receiver on one card.
    pub app: Option<AppKind>,
    /// Whether the app gets its load on the first card only.
    pub one_way: bool,
    /// The machine's activity, if the app does not determine it.
    pub activity: Option<Activity>,
    /// Constants with other values than the profiles have.
    pub set: Vec<Change>,
}

impl FromStr for Choice {
    type Err = String;

    /// `sim:MACHINE/DRIVER/APP`; each part may be empty or missing.
    fn from_str(name: &str) -> Result<Self, String> {
        let parts = name.strip_prefix(PREFIX).unwrap_or(name).split('/');
        let mut parts = parts.map(|part| (!part.is_empty()).then(|| part.to_owned()));
        let mut part = || parts.next().flatten();
        let (machine, driver, app) = (part(), part(), part());
        if parts.next().is_some() {
            return Err(format!("'{name}' has too many parts: give sim:MACHINE/DRIVER/APP"));
        }
        let app = app.map(|app| app.parse()).transpose()?;
        Ok(Self { machine, driver, app, ..Self::default() })
    }
}

/// Another value of a constant, by its path. A value `*1.1` multiplies the constant's own.
///
/// # Errors
/// The path does not begin with a kind of profile.
pub fn change(path: &str, value: &Setting) -> Result<Change, SetupError> {
    let change = match value {
        Setting::Switch(on) => Change::set(path, *on),
        Setting::Whole(whole) => Change::set(path, *whole),
        Setting::Number(number) => Change::set(path, *number),
        Setting::Word(word) => Change::set(path, word.as_str()),
    };
    change.map_err(SetupError::Mismatch)
}

impl Choice {
    /// The suffix of an app's name in results if it gets its load on the first card only.
    pub const ONE_WAY: &str = " one way";

    /// The machine's name.
    pub fn machine(&self) -> &str {
        let default = if self.app.is_some() { "lunz2003" } else { "morris2000" };
        self.machine.as_deref().unwrap_or(default)
    }

    /// The driver preset's name.
    pub fn driver(&self) -> &str {
        self.driver.as_deref().unwrap_or("kpps")
    }

    /// The driver presets to compare: those given, or if none are, those of the machine that can drive the
    /// chip under its stack. A constant of drivers that was set leaves none out. A rate-limited NIC has its
    /// own driver, and its name.
    ///
    /// # Errors
    /// None are given, and the machine's profile is missing or bad, or none of its presets can.
    pub fn drivers(&self, given: &[String]) -> Result<Vec<String>, SetupError> {
        if let Some(nic) = &self.nic {
            return Ok(vec![nic.clone()]);
        }
        if !given.is_empty() {
            return Ok(given.to_vec());
        }
        let mut plain = self.clone();
        plain.set.retain(|change| change.kind != Kind::Driver);
        let setup = |of: &Self, driver: &String| Self { driver: Some(driver.clone()), ..of.clone() }.setup();
        let mut unfit = None;
        let mut drivers = self.machines_drivers()?;
        drivers.retain(|driver| match setup(&plain, driver) {
            Err(error @ SetupError::Mismatch(_)) if setup(self, driver).is_err() => {
                unfit = Some(error);
                false
            }
            _ => true,
        });
        match unfit {
            Some(error) if drivers.is_empty() => Err(error),
            _ => Ok(drivers),
        }
    }

    /// The same with the first driver preset of the machine, if it has none of its own.
    ///
    /// # Errors
    /// The machine's profile is missing or bad.
    pub fn with_machines_driver(self) -> Result<Self, SetupError> {
        let driver = match self.driver {
            None => self.machines_drivers()?.into_iter().next(),
            given => given,
        };
        Ok(Self { driver, ..self })
    }

    fn machines_drivers(&self) -> Result<Vec<String>, SetupError> {
        Setup::default_drivers(self.machine(), &self.set)
    }

    /// The app's name in results.
    pub fn app_name(&self) -> Option<String> {
        self.app.map(|app| format!("{app}{}", if self.one_way { Self::ONE_WAY } else { "" }))
    }

    /// Its name in results.
    pub fn name(&self) -> String {
        let app = self.app_name().map(|app| format!(", {app}")).unwrap_or_default();
        format!("sim: {}, {}{app}", self.machine(), self.driver())
    }

    /// Changes a part (`machine`, `chip`, `driver`, `app`, `one-way`), or a constant by its path.
    ///
    /// # Errors
    /// There is no such app, or no such kind of profile.
    pub fn change(&mut self, parameter: &str, value: &Setting) -> Result<(), String> {
        let text = value.to_string();
        match parameter {
            "app" => self.app = Some(text.parse()?),
            "one-way" => {
                self.one_way = text.parse().map_err(|_| format!("one-way: '{text}' is not true or false"))?
            }
            "machine" => self.machine = Some(text),
            "chip" => self.chip = Some(text),
            "driver" => self.driver = Some(text),
            path => self.set.push(change(path, value).map_err(|error| error.to_string())?),
        }
        Ok(())
    }

    /// The set-up that it is built from.
    ///
    /// # Errors
    /// A profile is missing or bad, or the profiles do not fit each other, or the app.
    /// A constant that was set and has no effect is an error, too.
    pub fn setup(&self) -> Result<Setup, SetupError> {
        let setup = Setup::changed(self.machine(), self.chip.as_deref(), self.driver(), &self.set)?;
        if self.one_way && self.app.is_none() {
            return Err(SetupError::Mismatch(
                "one-way has no effect: there is no app between two cards".into(),
            ));
        }
        setup.check_effects(&self.set, self.activity())?;
        Ok(setup)
    }

    /// The machine's activity.
    fn activity(&self) -> Activity {
        let default = self.app.map_or(Activity::Receive, |app| Activity::Forward(app.name()));
        self.activity.unwrap_or(default)
    }

    /// The set-up with the driver preset, or with the rate-limited NIC if there is one.
    ///
    /// # Errors
    /// Errors of [`setup`](Self::setup). A rate-limited NIC has no app.
    pub fn any_setup(&self) -> Result<AnySetup, SetupError> {
        let Some(nic) = &self.nic else { return Ok(self.setup()?.into()) };
        if self.app.is_some() {
            return Err(SetupError::Mismatch("no app runs between rate-limited NICs".into()));
        }
        let setup = RateLimitedSetup::changed(self.machine(), Some(nic), &self.set)?;
        setup.check_effects(&self.set, self.activity())?;
        Ok(setup.into())
    }

    /// The size of frames if none is given: the smallest test frame.
    pub fn default_size(&self) -> Size {
        self.app.map_or(Size::MIN, AppKind::least_size)
    }

    /// The highest load in frames per second: the line rate of one wire, or of two with an app.
    pub fn line_rate_pps(&self, size: Size) -> f64 {
        match self.app {
            Some(_) if !self.one_way => line_pps(size),
            _ => rate::line_rate_pps(rate::GIGABIT, size),
        }
    }

    /// The testbed of this set-up, with the app on it.
    pub fn testbed(&self, setup: impl Into<AnySetup>) -> Box<dyn Testbed> {
        match (setup.into(), self.app) {
            (AnySetup::E1000(setup), Some(app)) => Box::new(self.forwarding(*setup, app)),
            (AnySetup::E1000(setup), None) if self.activity != Some(Activity::ReceiveByProcess) => {
                Box::new(Receiving::new(*setup))
            }
            (setup, _) => Box::new(EndStation::new(setup, self.activity())),
        }
    }

    fn forwarding(&self, setup: Setup, app: AppKind) -> ForwardingTestbed {
        let forwarding = ForwardingTestbed::new(setup, app);
        if self.one_way { forwarding.one_way() } else { forwarding }
    }

    /// Refuses a value that [`change`](Self::change) does not take, or that names a profile which does not
    /// exist. Parts that exist and do not fit each other are no mistake: each grid has some.
    ///
    /// # Errors
    /// The mistake in the value.
    pub fn check(&self, parameter: &str, value: &Setting) -> Result<(), String> {
        let mut changed = self.clone();
        changed.change(parameter, value)?;
        let names_a_profile = !parameter.contains('.') || parameter.starts_with("machine.");
        if !names_a_profile {
            return Ok(());
        }
        match changed.setup() {
            Err(SetupError::Profile(missing @ (Error::Unknown { .. } | Error::Unreadable { .. }))) => {
                Err(missing.to_string())
            }
            _ => Ok(()),
        }
    }

    /// Refuses a constant that none of the machines has which these axes make of the choice.
    ///
    /// # Errors
    /// The constant, and its mistake.
    pub fn check_constants(&self, axes: &[Axis]) -> Result<(), String> {
        let is_constant = |axis: &&Axis| axis.parameter.contains('.');
        let is_part = |axis: &&Axis| ["app", "machine", "chip", "driver"].contains(&axis.parameter.as_str());
        let parts: Vec<Axis> = axes.iter().filter(is_part).cloned().collect();
        let mut machines = Vec::new();
        let all = Combinations::of(&parts)?;
        for number in all.numbers().take(MACHINES) {
            let mut machine = self.clone();
            for (axis, value) in parts.iter().zip(all.values(number)) {
                machine.change(&axis.parameter, value)?;
            }
            machines.push(machine);
        }
        for axis in axes.iter().filter(is_constant) {
            let Some(value) = axis.values.first() else { continue };
            let mut unknown = None;
            let lacks = |machine: &Self| {
                let mut changed = machine.clone();
                let set = changed.change(&axis.parameter, value).map(|()| changed.setup());
                match set {
                    Ok(Err(SetupError::Profile(error))) if error.is_unknown_constant() => {
                        unknown = Some(error.to_string());
                        true
                    }
                    _ => false,
                }
            };
            if machines.iter().all(lacks)
                && let Some(why) = unknown
            {
                return Err(format!("{}={value}: {why}", axis.parameter));
            }
        }
        Ok(())
    }

    /// The job of a grid's cell, as [`Job::new`] has it, on a machine of its own.
    ///
    /// # Errors
    /// A mix of sizes, and those of [`setup`](Self::setup).
    pub fn job<'j>(
        self,
        (offered, load): (RateSpec, Load),
        go_on: &'j dyn Fn() -> bool,
    ) -> Result<Job<'j>, String> {
        let size = load.size().map_err(|error| error.to_string())?;
        let setup = self.setup().map_err(|error| error.to_string())?;
        let line_pps = self.line_rate_pps(size);
        // The key of a cell has its settings in an order of their own, whatever the order of the axes.
        let environment = Environment {
            system: BTreeMap::new(),
            ..self.environment(&[setup.clone().into()], load.seed).with_line_rate(Some(line_pps))
        };
        Ok(Job::new((offered, load), line_pps, environment, &words(&self.set), move |load| {
            Points::new(self.testbed(setup.clone())).measure(load, go_on)
        }))
    }

    /// Where the CPU time of this set-up goes under a load, with the app on it.
    ///
    /// # Errors
    /// Errors of a trial.
    pub fn profiled(
        &self,
        setup: Setup,
        load: &Load,
        go_on: &dyn Fn() -> bool,
    ) -> Result<Profiling, TrialError> {
        let (trial, profile, per_frame) = match self.app {
            Some(app) => {
                let forwarded = self.forwarding(setup.clone(), app).forwarded(load, go_on)?;
                (forwarded.trial, forwarded.profile, forwarded.per_frame)
            }
            None => {
                let profiled = Receiving::new(setup.clone()).profiled(load, go_on)?;
                (profiled.trial, profiled.profile, profiled.per_frame)
            }
        };
        let (frames, seconds) = (trial.taken, trial.seconds);
        let delivered_pps = trial.delivered as f64 / seconds;
        Ok(Profiling {
            setup,
            app: self.app_name(),
            offered_pps: trial.offered_pps,
            load: load.clone(),
            delivered_pps,
            frames,
            seconds,
            profile,
            per_frame,
        })
    }

    /// A set-up for each of these driver presets.
    ///
    /// # Errors
    /// Errors of [`any_setup`](Self::any_setup).
    pub fn setups(&self, drivers: Vec<String>) -> Result<Vec<AnySetup>, SetupError> {
        let with = |driver| Self { driver: Some(driver), ..self.clone() };
        drivers.into_iter().map(|driver| with(driver).any_setup()).collect()
    }

    /// A testbed for each of these driver presets, and the environment of results with this seed.
    ///
    /// # Errors
    /// If a profile is missing or wrong.
    pub fn compared(
        &self,
        drivers: Vec<String>,
        seed: u64,
    ) -> Result<(Vec<NamedTestbed>, Environment), SetupError> {
        let setups = self.setups(drivers)?;
        let environment = self.environment(&setups, seed);
        let named = |setup: AnySetup| NamedTestbed {
            name: setup.name().to_owned(),
            points: Points::new(self.testbed(setup)),
        };
        Ok((setups.into_iter().map(named).collect(), environment))
    }

    /// The environment of results of this set-up, the only one, with this seed.
    pub fn environment_of_one(&self, setup: &Setup, seed: u64) -> Environment {
        Environment { testbed: vec![self.name()], ..self.environment(&[setup.clone().into()], seed) }
    }

    /// The environment of results of set-ups that differ in their drivers only, with this seed.
    fn environment(&self, setups: &[AnySetup], seed: u64) -> Environment {
        Environment {
            app: self.app_name(),
            program: (self.activity == Some(Activity::ReceiveByProcess)).then(|| NETRECEIVE.to_owned()),
            seed: Some(seed),
            ..AnySetup::environment_of(setups)
        }
    }

    /// The constants that were set, as a fact about the system.
    pub fn system(&self) -> BTreeMap<String, String> {
        system(&self.set)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn names_are_read_part_by_part() {
        let choice: Choice = "sim:/click-polling".parse().unwrap();
        assert_eq!((choice.machine(), choice.driver(), choice.app), ("morris2000", "click-polling", None));
        let choice: Choice = "sim://nat".parse().unwrap();
        assert_eq!(choice.name(), "sim: lunz2003, kpps, nat");
        assert_eq!(Choice { one_way: true, ..choice }.name(), "sim: lunz2003, kpps, nat one way");
        assert!("sim:a/b/nat/d".parse::<Choice>().is_err());
        assert!("sim:a/b/no-such-app".parse::<Choice>().is_err());
    }

    #[test]
    fn parameters_change_parts_and_constants() {
        let mut choice = Choice::default();
        choice.change("driver", &Setting::Word("rdr".into())).unwrap();
        choice.change("driver.rx_ring", &Setting::Whole(80)).unwrap();
        assert_eq!((choice.driver(), words(&choice.set)), ("rdr", vec!["driver.rx_ring=80".to_owned()]));
        choice.change("host.interrupt_cycles", &Setting::Word("*1.5".into())).unwrap();
        choice.change("driver.service", &Setting::Word("napi".into())).unwrap();
        assert_eq!(words(&choice.set.split_off(1)), ["host.interrupt_cycles=*1.5", "driver.service=napi"]);
        assert_eq!(choice.setup().unwrap().config.rx_ring, 80);
        assert!(choice.change("nothing.rx_ring", &Setting::Whole(80)).is_err());
        assert!(choice.change("app", &Setting::Word("fly".into())).is_err());
    }

    #[test]
    fn the_drivers_of_each_machine_run_on_it() {
        for machine in kpps_profiles::names(Kind::Machine) {
            let choice = Choice { machine: Some(machine.clone()), ..Choice::default() };
            let drivers = Setup::default_drivers(&machine, &[]).unwrap();
            assert!(drivers.len() > 1 && drivers.contains(&"kpps".to_owned()), "{machine}: {drivers:?}");
            assert_eq!(choice.drivers(&[]).unwrap(), drivers, "{machine}: none is left out");
            for driver in drivers {
                Choice { driver: Some(driver), ..choice.clone() }.setup().unwrap();
            }
            let older = Choice { chip: Some("82542".into()), ..choice };
            assert!(!older.drivers(&[]).unwrap().is_empty(), "{machine}");
        }
    }

    #[test]
    fn drivers_that_do_not_fit_are_left_out_unless_none_fits() {
        let folder = tempfile::tempdir().unwrap();
        let own = |drivers: &str| {
            let path = folder.path().join("own.toml");
            let stack = r#"stack = "freebsd-5.4""#;
            std::fs::write(&path, format!("base = \"lunz2003\"\n{stack}\n{drivers}")).unwrap();
            Choice { machine: Some(path.display().to_string()), ..Choice::default() }
        };
        assert_eq!(own("").drivers(&[]).unwrap(), ["kpps"], "the others use NAPI");
        let none = own(r#"drivers = ["intel-4.4.x"]"#);
        let error = none.drivers(&[]).unwrap_err().to_string();
        assert!(error.contains("'intel-4.4.x' uses NAPI"), "{error}");
        let error = none.with_machines_driver().unwrap().setup().unwrap_err().to_string();
        assert!(error.contains("'intel-4.4.x' uses NAPI"), "the first is taken, and refused: {error}");
        let missing = own(r#"drivers = ["ne2000"]"#);
        assert_eq!(missing.drivers(&[]).unwrap(), ["ne2000"], "it is refused when it is set up");
        assert_eq!(own("drivers = []").drivers(&[]).unwrap(), ["em-1.7.35", "kpps"], "those of FreeBSD");
        let set = |path: &str, value: Setting| vec![change(path, &value).unwrap()];
        let linux = Choice { set: set("driver.rx_ring", Setting::Whole(16)), ..Choice::default() };
        assert_eq!(linux.drivers(&[]).unwrap().len(), 4, "a ring that is too short is refused later");
        let fits = own(r#"drivers = ["linux-6.1-e1000", "kpps"]"#);
        let fits = Choice { set: set("machine.stack", Setting::Word("linux-6.1".into())), ..fits };
        let on_p3 = |mut choice: Choice| {
            choice.set.extend(set("machine.host", Setting::Word("p3-800".into())));
            choice
        };
        assert_eq!(on_p3(fits.clone()).drivers(&[]).unwrap(), ["kpps"], "what copying costs is not known");
        let mut fits = on_p3(fits);
        fits.set.extend(set("driver.rx_copybreak_bytes", Setting::Whole(0)));
        assert_eq!(fits.drivers(&[]).unwrap(), ["linux-6.1-e1000", "kpps"]);
        let drivers = Choice { set: set("machine.drivers", Setting::Word("kpps".into())), ..linux };
        for refused in [drivers.drivers(&[]).map(drop), drivers.setup().map(drop)] {
            assert!(refused.unwrap_err().to_string().contains("choose a driver"));
        }
    }

    /// NAPI came with Linux 2.4.20 (kernel.org, its ChangeLog).
    #[test]
    fn a_driver_is_compared_on_kernels_that_it_existed_for() {
        const ELSEWHERE: &str = "it runs only in this simulator";
        let needs_napi = |driver: &str| driver.starts_with("intel-5") || driver.starts_with("linux-");
        for machine in kpps_profiles::names(Kind::Machine) {
            let choice = Choice { machine: Some(machine.clone()), ..Choice::default() };
            let named = kpps_profiles::Profile::named(Kind::Machine, &machine).unwrap();
            let named = named.constants().iter().find(|constant| constant.name == "drivers").unwrap();
            let all = named.value.as_array().unwrap().len();
            let drivers = choice.drivers(&[]).unwrap();
            assert_eq!(drivers.len(), all, "{machine}: its profile names no driver of another time");
            for driver in drivers {
                let setup = Choice { driver: Some(driver.clone()), ..choice.clone() }.setup().unwrap();
                assert!(!setup.driver_description.contains(ELSEWHERE), "{machine}: {driver}");
                assert!(
                    !(needs_napi(&driver) && setup.stack.starts_with("linux-2.2")),
                    "{machine}: {driver}"
                );
            }
        }
        let set = |path: &str, value: &str| change(path, &Setting::Word(value.into())).unwrap();
        // Another stack, a machine whose profile names no drivers, and a stack of one's own.
        let later = Choice { set: vec![set("machine.stack", "linux-2.4.20")], ..Choice::default() };
        assert_eq!(later.drivers(&[]).unwrap(), ["kpps"], "Morris's drivers are for Linux 2.2");
        let folder = tempfile::tempdir().unwrap();
        let own = |name: &str, text: &str| {
            let path = folder.path().join(name);
            std::fs::write(&path, text).unwrap();
            path.display().to_string()
        };
        let stack = own("mine.toml", "base = 'linux-2.6.12'\nbacklog = 200");
        let bare = own("bare.toml", &format!("base = 'morris2000'\ndrivers = []\nstack = '{stack}'"));
        let bare = Choice { machine: Some(bare), ..Choice::default() };
        assert_eq!(bare.drivers(&[]).unwrap(), ["intel-5.7.6", "kpps"]);
        // A foreign driver that the user asks for runs, and its description says that it never did so on this
        // kernel.
        for (driver, kernel, is_foreign) in [
            ("intel-5.7.6", "linux-2.2.16-click", true),
            ("intel-5.7.6", "linux-2.4.20", false),
            ("linux-6.1-e1000", "linux-2.6.12", true),
            ("click-polling", "linux-2.6.11", true),
            ("kpps", "linux-2.2.16-click", false),
        ] {
            let copies = change("driver.rx_copybreak_bytes", &Setting::Whole(0)).unwrap();
            let set = vec![set("machine.stack", kernel), copies];
            let choice = Choice { driver: Some(driver.into()), set, ..Choice::default() };
            let description = choice.setup().unwrap().driver_description;
            assert_eq!(description.contains(ELSEWHERE), is_foreign, "{driver} on {kernel}: {description}");
        }
    }

    #[test]
    fn a_profile_that_is_missing_is_a_mistake_and_one_that_does_not_fit_is_none() {
        let choice = Choice::default();
        for (parameter, value, says) in [
            ("driver", "ne2000", "no driver preset called 'ne2000'"),
            ("chip", "no/where.toml", "no/where.toml"),
            ("machine.chip", "8139", "no chip called '8139'"),
            ("app", "fly", "fly"),
        ] {
            let error = choice.check(parameter, &Setting::Word(value.into())).unwrap_err();
            assert!(error.contains(says), "{parameter}={value}: {error}");
        }
        assert_eq!(choice.check("driver.rx_ring", &Setting::Whole(12)), Ok(()));
        let axis = |text: &str| kpps_methods::parameter::axis(text).unwrap();
        let refused = choice.check_constants(&[axis("driver.nosuch=1..100000")]).unwrap_err();
        assert!(refused.starts_with("driver.nosuch=1: ") && refused.contains("nosuch"), "{refused}");
        // One of the drivers has it, and a wrong value is a cell that cannot be measured.
        for constant in ["driver.weight=7", "driver.rx_ring=7"] {
            let axes = [axis("driver=click-polling,intel-5.7.6"), axis(constant)];
            assert_eq!(choice.check_constants(&axes), Ok(()), "{constant}");
        }
        assert_eq!(choice.check("machine.chip", &Setting::Whole(82544)), Ok(()));
    }
}
