//! Set-ups: the names and files of machine, chip and driver become parameters.

mod preset;
mod system;

use crate::device::e1000::DriverModel;
use crate::device::policy::OwnPolicy;
use crate::device::rate_limited;
use crate::effect::{Activity, Readers, ServedBy};
use crate::stack_params::{StackParams, kernel};
use kpps_datasheet::Chip;
use kpps_driver::Config;
use kpps_driver::config::Service;
use kpps_frames::Size;
use kpps_host::{S, bus, host, limits};
use kpps_methods::TrialError;
use kpps_profiles::{Change, Constant, Kind, Profile, To};
use preset::{MOST_BYTES, Preset};
use serde::Deserialize;
use std::collections::BTreeMap;
use std::path::Path;
use system::System;

/// The contents of a machine profile: names of other profiles.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct MachineProfile {
    host: String,
    stack: String,
    chip: String,
    /// Its rate-limited NIC, if it has one.
    nic: Option<String>,
    /// The bus of a chip or rate-limited NIC in this machine; `any` is for those not listed.
    bus: BTreeMap<String, String>,
    /// CPUs; one if it does not say.
    cpus: Option<usize>,
    /// The CPUs that take the interrupts of its cards.
    #[serde(default)]
    affinity: Affinity,
    /// The driver presets that are compared on it if none are given.
    drivers: Option<Vec<String>>,
}

/// The CPUs that take the interrupts of several cards.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Affinity {
    /// The first takes all.
    #[default]
    One,
    /// Each card has its own, as far as there are CPUs.
    Spread,
}

/// The source of an own profile's value without another.
const OWN: &str = "own";

/// The entries of a machine's own file that are for one activity. Others, as its buses and its NIC, apply to
/// any card.
fn own_entries(machine: &Profile) -> Vec<Change> {
    let is_own = |constant: &&Constant| constant.name == "cpus" && constant.source == OWN;
    let own = machine.constants().iter().filter(is_own);
    own.map(|Constant { name, value, .. }| Change {
        kind: Kind::Machine,
        profile: None,
        constant: name.clone(),
        to: To::Set(value.clone()),
    })
    .collect()
}

/// The work of kernels and drivers that all machines have in common.
const COMMON: &str = "common";

/// The clock that polling(4) of FreeBSD asks for: "HZ=1000 … strongly recommended".
const POLLING_HZ: u64 = 1000;

/// CPUs that a machine may have.
const CPUS: std::ops::RangeInclusive<usize> = 1..=8;

/// The driver presets that are compared on a machine whose profile names none: those of its kernel.
const COMPARED: &[&str] = &[
    "intel-2.5.11",
    "intel-2.5.11-tuned",
    "click-polling",
    "intel-5.7.6",
    "linux-6.1-e1000",
    "em-1.7.35",
    "kpps",
];

kpps_profiles::read_as!(MachineProfile, NicProfile, DriverModel);

impl MachineProfile {
    /// The machine's profile, and its contents. Refuses a change of its drivers: a list cannot be set.
    fn named(machine: &str, changes: &[Change]) -> Result<(Profile, Self), SetupError> {
        if changes.iter().any(|change| change.kind == Kind::Machine && change.constant == "drivers") {
            return Err(SetupError::Mismatch(
                "machine.drivers cannot be set: choose a driver instead".into(),
            ));
        }
        let profile = Profile::named(Kind::Machine, machine)?.changed(changes)?;
        let place = profile.get::<Self>()?.beside(Path::new(machine));
        place
            .check_bus()
            .map_err(|problem| SetupError::Mismatch(format!("machine profile '{machine}': {problem}")))?;
        Ok((profile, place))
    }

    /// Refuses a bus of a card that there is not: a mistyped name would leave the card on another bus.
    fn check_bus(&self) -> Result<(), String> {
        let cards =
            Chip::E1000.iter().map(|chip| chip.name().to_owned()).chain(kpps_profiles::names(Kind::Nic));
        let known: Vec<_> = std::iter::once("any".to_owned()).chain(cards).collect();
        match self.bus.keys().find(|key| !key.ends_with(".toml") && !known.contains(key)) {
            Some(key) => Err(format!("bus: there is no card '{key}'; known are {}", known.join(", "))),
            None => Ok(()),
        }
    }

    /// The bus of this card, behind the entry of `bus` that names it.
    fn bus_of<'p>(&'p self, card: &str) -> Option<(&'p str, &'p str)> {
        let entry = self.bus.get_key_value(card).or_else(|| self.bus.get_key_value("any"));
        entry.map(|(entry, bus)| (entry.as_str(), bus.as_str()))
    }

    /// The same, with the files that it names looked up beside the file at `path`.
    fn beside(mut self, path: &Path) -> Self {
        let folder = path.parent().unwrap_or(Path::new(""));
        let names = [&mut self.host, &mut self.stack, &mut self.chip]
            .into_iter()
            .chain(&mut self.nic)
            .chain(self.bus.values_mut())
            .chain(self.drivers.iter_mut().flatten());
        for name in names {
            if name.ends_with(".toml") {
                *name = folder.join(&*name).display().to_string();
            }
        }
        self
    }
}

/// Why a testbed cannot be set up.
#[derive(Debug, thiserror::Error)]
pub enum SetupError {
    /// A profile is missing or bad.
    #[error(transparent)]
    Profile(#[from] kpps_profiles::Error),
    /// The profiles do not fit each other.
    #[error("{0}")]
    Mismatch(String),
}

impl SetupError {
    /// A problem of a profile's constants.
    fn of(kind: Kind, profile: &Profile, problem: &str) -> Self {
        Self::Mismatch(format!("{kind} profile '{}': {problem}", profile.name()))
    }
}

/// Refuses changes of kinds of profiles that a set-up does not have: they would be ignored. A change that
/// names a profile is for any set-up that has this profile.
fn refuse_others(changes: &[Change], others: &[Kind]) -> Result<(), SetupError> {
    let is_for_all = |change: &&Change| change.is_named() && change.profile.is_none();
    match changes.iter().filter(is_for_all).find(|change| others.contains(&change.kind)) {
        Some(Change { kind, constant, .. }) => {
            let (word, what) = (kind.word(), others.iter().map(|kind| kind.word()).collect::<Vec<_>>());
            Err(SetupError::Mismatch(format!(
                "{word}.{constant} has no effect: this simulation has no {}",
                what.join(" and no ")
            )))
        }
        None => Ok(()),
    }
}

/// Refuses a profile whose constants cannot be those of its kind, whatever the others are.
///
/// # Errors
/// The mistake in the constants.
pub fn check_profile(kind: Kind, profile: &Profile) -> Result<(), SetupError> {
    let bad = |problem: String| SetupError::of(kind, profile, &problem);
    match kind {
        Kind::Chip => check_card(&profile.get()?).map_err(bad),
        Kind::Nic => Ok(profile.get::<NicProfile>().map(drop)?),
        Kind::Bus => profile.get::<bus::Params>()?.check().map_err(bad),
        Kind::Host => profile.get::<host::Host>()?.check().map_err(bad),
        Kind::Work => profile.get::<host::Work>()?.check().map_err(bad),
        Kind::Stack => StackParams::of(profile)?.check().map_err(bad),
        Kind::Machine => profile.get::<MachineProfile>()?.check_bus().map_err(bad),
        Kind::Driver => {
            let (model, own) = profile.split(&DriverModel::CONSTANTS);
            let DriverModel { .. } = model.get()?;
            let config = own.get::<Config>().map_err(|error| error.also_known(&DriverModel::CONSTANTS))?;
            let mut refused = None;
            let fits = |chip: &Chip| config.validate(*chip).map_err(|e| refused.get_or_insert(e)).is_ok();
            match Chip::E1000.iter().any(fits) {
                true => Ok(()),
                false => Err(bad(refused.map_or_else(String::new, |refused| refused.to_string()))),
            }
        }
    }
}

/// Refuses an activity that the system does not have: its processes, or what they cost.
fn check_activity(
    activity: Activity,
    (stack, params): (&str, &StackParams),
    (host, host_params): (&str, &host::Params),
) -> Result<(), SetupError> {
    type Has = fn(&StackParams) -> bool;
    let (does, system, has): (&str, &str, Has) = match activity {
        Activity::SendByProcess => ("sends", "FreeBSD", |it| matches!(it, StackParams::FreeBsd(_))),
        Activity::ReceiveByProcess => {
            ("receives", "FreeBSD or Linux 2.4 or later", |it| !matches!(it, StackParams::Linux22(_)))
        }
        _ => return Ok(()),
    };
    if !has(params) {
        let machines = machines_with(has).join(", ");
        return Err(SetupError::Mismatch(format!(
            "stack '{stack}' has no program that {does}: choose a machine with {system}, one of {machines}"
        )));
    }
    match activity == Activity::ReceiveByProcess && host_params.copy_byte_ps == 0 {
        true => Err(SetupError::Mismatch(cannot_copy(host))),
        false => Ok(()),
    }
}

/// The names of the machines whose stack is such a one.
fn machines_with(has: fn(&StackParams) -> bool) -> Vec<String> {
    let stack = |machine: &String| {
        let (_, place) = MachineProfile::named(machine, &[]).ok()?;
        StackParams::of(&Profile::named(Kind::Stack, &place.stack).ok()?).ok()
    };
    let mut machines = kpps_profiles::names(Kind::Machine);
    machines.retain(|machine| stack(machine).is_some_and(|stack| has(&stack)));
    machines
}

/// Refuses a driver that never runs: FreeBSD's clock is too slow to poll it.
fn check_clock(driver: &str, is_polled: bool, stack: &StackParams) -> Result<(), SetupError> {
    match stack {
        StackParams::FreeBsd(params) if is_polled && params.hz < POLLING_HZ => {
            Err(SetupError::Mismatch(format!(
                "{driver} is polled at the ticks of FreeBSD's clock, and stack.hz={} is too low: polling(4) \
                 needs {POLLING_HZ} or more",
                params.hz
            )))
        }
        _ => Ok(()),
    }
}

/// The reason why this host cannot copy frames: its profile does not say what a byte costs.
pub(crate) fn cannot_copy(host: &str) -> String {
    format!("host profile '{host}' has no cost of copying a byte: set host.copy_byte_ps")
}

/// Checks a card's constants: the model takes any, but a trial should end.
fn check_card(card: &kpps_card::Params) -> Result<(), String> {
    limits::check(&[
        ("rx_engine_ps", card.rx_engine_ps, limits::STEP_PS),
        ("tx_engine_ps", card.tx_engine_ps, limits::STEP_PS),
        ("tx_context_ps", card.tx_context_ps, limits::STEP_PS),
        ("rx_idle_report_ps", card.rx_idle_report_ps, limits::STEP_PS),
        ("rx_fifo_overhead_bytes", card.rx_fifo_overhead_bytes.into(), 0..=4096),
        ("tx_fifo_overhead_bytes", card.tx_fifo_overhead_bytes.into(), 0..=4096),
        ("link_ps", card.link_ps, 0..=4 * S),
        ("mdi_ps", card.mdi_ps, limits::STEP_PS),
        ("eeprom_ps", card.eeprom_ps, limits::STEP_PS),
    ])
}

/// Everything that a simulation is built from, with the names of its profiles.
#[derive(Clone, Debug)]
pub struct Setup {
    /// The machine's name.
    pub machine: String,
    /// The chip's name.
    pub chip: String,
    /// The bus's name.
    pub bus: String,
    /// The host's name.
    pub host: String,
    /// The stack's name.
    pub stack: String,
    /// The driver preset's name.
    pub driver: String,
    /// The description of the driver preset, in a sentence.
    pub driver_description: String,
    /// The card.
    pub card: kpps_card::Params,
    /// The bus.
    pub bus_params: bus::Params,
    /// The host.
    pub host_params: host::Params,
    /// The stack.
    pub stack_params: StackParams,
    /// CPUs of the machine.
    pub cpus: usize,
    /// The CPUs that take the interrupts of its cards, where an app is between two.
    pub affinity: Affinity,
    /// The driver's choices.
    pub config: Config,
    /// How the driver behaves towards the operating system.
    pub driver_model: DriverModel,
    /// The texts of those profiles that are not built in.
    pub own_profiles: Vec<String>,
    /// The service policy, if it is the calling program's.
    pub policy: Option<OwnPolicy>,
    /// Constants with other values than the profiles have.
    pub set: Vec<Change>,
    /// The entry of the machine's `bus` that names this one.
    bus_entry: String,
    /// The longest frame that the driver accepts, if it was set and is no preset's.
    set_frame_bytes: Option<u16>,
    /// Entries of the machine's own file that are checked like changes.
    own_entries: Vec<Change>,
    /// Whether the chip is another than the machine's own.
    chip_is_given: bool,
}

impl Setup {
    /// Looks up `machine`, `driver`, and `chip` if it differs from the machine's own. Each may be the path of
    /// a `.toml` file.
    pub fn named(machine: &str, chip: Option<&str>, driver: &str) -> Result<Self, SetupError> {
        Self::changed(machine, chip, driver, &[])
    }

    /// The driver presets that are compared on `machine` if none are given: the presets that its profile
    /// names, or if it names none, drivers of several times and ways to work. Presets that did not exist for
    /// its kernel are left out. If none existed, all presets that its profile names.
    ///
    /// # Errors
    /// The profile of the machine, or the profile of its stack, is missing or bad.
    pub fn default_drivers(machine: &str, changes: &[Change]) -> Result<Vec<String>, SetupError> {
        let (_, place) = MachineProfile::named(machine, changes)?;
        let named = place.drivers.filter(|drivers| !drivers.is_empty());
        let all = named.unwrap_or_else(|| COMPARED.iter().map(|&driver| driver.to_owned()).collect());
        let kernel = kernel(&Profile::named(Kind::Stack, &place.stack)?.changed(changes)?)?;
        // A preset that cannot be read is refused when it is set up.
        let existed = |driver: &&String| {
            let model = Profile::named(Kind::Driver, driver)
                .and_then(|preset| preset.split(&DriverModel::CONSTANTS).0.get::<DriverModel>());
            model.map_or(true, |model| model.existed_for(kernel))
        };
        let of_its_time: Vec<String> = all.iter().filter(existed).cloned().collect();
        Ok(if of_its_time.is_empty() { all } else { of_its_time })
    }

    /// The same with some constants changed.
    pub fn changed(
        machine: &str,
        chip: Option<&str>,
        driver: &str,
        changes: &[Change],
    ) -> Result<Self, SetupError> {
        refuse_others(changes, &[Kind::Nic])?;
        let (machine_profile, place) = MachineProfile::named(machine, changes)?;
        let card_profile = Profile::named(Kind::Chip, chip.unwrap_or(&place.chip))?.changed(changes)?;
        let mut card: kpps_card::Params = card_profile.get()?;
        let (bus_entry, bus_name) = place.bus_of(card.chip.name()).ok_or_else(|| {
            let name = card.chip.name();
            SetupError::Mismatch(format!(
                "machine profile '{machine}' names no bus for the chip {name}: add it to `bus`, or `any`"
            ))
        })?;
        let preset = Preset::named(driver, changes)?;
        preset.check_chip(card.chip)?;
        let system = System::named(&place, bus_name, changes)?;
        check_card(&card).map_err(|problem| SetupError::of(Kind::Chip, &card_profile, &problem))?;
        system.check()?;
        let cpus = place.cpus.unwrap_or(1);
        limits::check(&[("cpus", cpus, CPUS)])
            .map_err(|problem| SetupError::of(Kind::Machine, &machine_profile, &problem))?;
        let host_params = system.host_params();
        preset.check_system(&system, &host_params)?;
        let kernel = kernel(&system.stack_profile)?;
        // Firmware tells a card the host's cache line size (PCI 2.2, 6.2.4).
        card.cache_line_bytes = host_params.cache_line_bytes as u32;
        let profiles = [&machine_profile, &card_profile].into_iter().chain(system.profiles());
        let own_texts = profiles.chain([&preset.profile]).filter_map(|it| it.own_text().map(String::from));
        Ok(Self {
            machine: machine_profile.name().into(),
            chip: card_profile.name().into(),
            bus: system.bus_profile.name().into(),
            host: system.host_profile.name().into(),
            stack: system.stack_profile.name().into(),
            driver: preset.name().into(),
            driver_description: preset.description(kernel),
            own_profiles: own_texts.chain(preset.policy.iter().map(|policy| policy.text.clone())).collect(),
            card,
            bus_params: system.bus_params,
            host_params,
            stack_params: system.stack_params,
            cpus,
            affinity: place.affinity,
            set_frame_bytes: preset.set_frame_bytes(changes),
            config: preset.config,
            driver_model: preset.model,
            policy: preset.policy,
            set: changes.to_vec(),
            bus_entry: bus_entry.into(),
            own_entries: own_entries(&machine_profile),
            chip_is_given: chip.is_some(),
        })
    }

    /// Refuses changes that would change nothing, because nothing of this activity reads them; and a driver
    /// that never runs, because the system's clock is too slow to poll it.
    ///
    /// # Errors
    /// The constant, and the reason.
    pub fn check_effects(&self, changes: &[Change], activity: Activity) -> Result<(), SetupError> {
        check_activity(activity, (&self.stack, &self.stack_params), (&self.host, &self.host_params))?;
        let readers = Readers {
            activity,
            e1000: Some((self.card.chip, &self.config)),
            service: Some(ServedBy::of(&self.config.service)),
            stack: &self.stack_params,
            bus: &self.bus_entry,
            card_is_given: self.chip_is_given,
            spreads_interrupts: self.spreads_interrupts(),
        };
        readers.check(changes).map_err(SetupError::Mismatch)?;
        readers
            .check(&self.own_entries)
            .map_err(|why| SetupError::Mismatch(format!("machine profile '{}': {why}", self.machine)))?;
        let is_polled = matches!(self.config.service, Service::Polling { .. });
        check_clock(&format!("driver preset '{}'", self.driver), is_polled, &self.stack_params)
    }

    /// The share of the CPU that the driver leaves to others.
    pub fn reserve(&self) -> f64 {
        f64::from(self.config.service.reserved()) / 100.0
    }

    /// Refuses frames that are longer than the set maximum.
    ///
    /// # Errors
    /// Both lengths.
    pub(crate) fn check_size(&self, size: Size) -> Result<(), TrialError> {
        match self.set_frame_bytes {
            Some(most) if size.bytes_with_fcs() > most.into() => Err(TrialError::Load(format!(
                "frames of {} B are longer than driver.{MOST_BYTES} = {most}",
                size.bytes_with_fcs()
            ))),
            _ => Ok(()),
        }
    }

    /// Whether two cards with an app between them interrupt a CPU each. Only Linux 2.4 and later run on
    /// several CPUs.
    pub(crate) fn spreads_interrupts(&self) -> bool {
        let runs_on_several = matches!(self.stack_params, StackParams::Linux24(_));
        self.affinity == Affinity::Spread && runs_on_several && self.cpus > 1
    }

    /// The same with a driver that accepts frames of `size`, each in one buffer: as an administrator would
    /// raise the MTU.
    pub fn for_frames(mut self, size: Size) -> Self {
        let bytes = size.bytes_with_fcs() as u16;
        self.config.max_frame_bytes = self.config.max_frame_bytes.max(bytes);
        self.config.rx_buffer_bytes = self.config.rx_buffer_bytes.max(bytes.next_power_of_two());
        self
    }
}

/// The profile of a rate-limited NIC: the card and its driver.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct NicProfile {
    tx_engine_ps: u64,
    /// The time of the card to load a descriptor of a frame to send, and how many descriptors it holds.
    #[serde(default)]
    tx_descriptor_ps: u64,
    #[serde(default = "one")]
    tx_descriptors: u32,
    rx_engine_ps: u64,
    rx_fifo_bytes: u32,
    tick_ps: u64,
    timer: kpps_card::rate_limited::Timer,
    link_mbps: u64,
    tx_ring: u32,
    rx_ring: u32,
    tx_interrupt_every: u32,
    tx_watermark: u32,
    moderation_us: u32,
    ticks_per_us: u32,
    moderation_frames: [u32; 2],
    polling: bool,
    /// Receive queues; one by default.
    #[serde(default = "one")]
    rx_queues: u32,
    #[serde(default = "one")]
    rx_fetch: u32,
    #[serde(default = "weight")]
    weight: u32,
    #[serde(default)]
    refill_every: u32,
    #[serde(default)]
    header_bytes: u32,
}

fn one() -> u32 {
    1
}

fn weight() -> u32 {
    64
}

impl NicProfile {
    fn split(self) -> (kpps_card::rate_limited::Params, rate_limited::Config) {
        let card = kpps_card::rate_limited::Params {
            tx_engine_ps: self.tx_engine_ps
                + self.tx_descriptor_ps.saturating_mul(self.tx_descriptors.into()),
            rx_engine_ps: self.rx_engine_ps,
            rx_fifo_bytes: self.rx_fifo_bytes,
            rx_queues: self.rx_queues,
            rx_fetch: self.rx_fetch,
            tick_ps: self.tick_ps,
            timer: self.timer,
            wire_byte_ps: 8_000_000 / self.link_mbps.max(1),
        };
        let config = rate_limited::Config {
            tx_ring: self.tx_ring,
            rx_ring: self.rx_ring,
            tx_interrupt_every: self.tx_interrupt_every,
            tx_watermark: self.tx_watermark,
            moderation_us: self.moderation_us,
            ticks_per_us: self.ticks_per_us,
            moderation_frames: self.moderation_frames,
            polling: self.polling,
            weight: self.weight,
            refill_every: self.refill_every,
            header_bytes: self.header_bytes,
        };
        (card, config)
    }
}

/// Everything that a simulation with a rate-limited NIC is built from, with the names of its profiles.
#[derive(Clone, Debug)]
pub struct RateLimitedSetup {
    /// The machine's name.
    pub machine: String,
    /// The NIC's name.
    pub nic: String,
    /// The description of the NIC and its driver, in a sentence.
    pub nic_description: String,
    /// The bus's name.
    pub bus: String,
    /// The host's name.
    pub host: String,
    /// The stack's name.
    pub stack: String,
    /// The card.
    pub card: kpps_card::rate_limited::Params,
    /// The driver's choices.
    pub config: rate_limited::Config,
    /// The bus.
    pub bus_params: bus::Params,
    /// The host.
    pub host_params: host::Params,
    /// The stack.
    pub stack_params: StackParams,
    /// CPUs of the machine.
    pub cpus: usize,
    /// The texts of those profiles that are not built in.
    pub own_profiles: Vec<String>,
    /// Constants with other values than the profiles have.
    pub set: Vec<Change>,
    /// The entry of the machine's `bus` that names this one.
    bus_entry: String,
    /// Whether the NIC is another than the machine's own.
    nic_is_given: bool,
}

impl RateLimitedSetup {
    /// Looks up `machine`, and `nic` if it differs from the machine's own, with some constants changed.
    pub fn changed(machine: &str, nic: Option<&str>, changes: &[Change]) -> Result<Self, SetupError> {
        refuse_others(changes, &[Kind::Chip, Kind::Driver])?;
        let named = |kind, name: &str| Profile::named(kind, name)?.changed(changes);
        let (machine_profile, place) = MachineProfile::named(machine, changes)?;
        let mismatch = |what: &str| SetupError::Mismatch(format!("machine profile '{machine}': {what}"));
        let name = nic.or(place.nic.as_deref()).ok_or_else(|| mismatch("it has no rate-limited NIC"))?;
        let nic_profile = named(Kind::Nic, name)?;
        let (card, config) = nic_profile.get::<NicProfile>()?.split();
        let (bus_entry, bus_name) =
            place.bus_of(name).ok_or_else(|| mismatch("it names no bus for a rate-limited NIC"))?;
        let bus_profile = named(Kind::Bus, bus_name)?;
        let host_profile = named(Kind::Host, &place.host)?;
        let stack_profile = named(Kind::Stack, &place.stack)?;
        let bus_params: bus::Params = bus_profile.get()?;
        let host: host::Host = host_profile.get()?;
        let work: host::Work = named(Kind::Work, COMMON)?.get()?;
        let stack_params = StackParams::of(&stack_profile)?;
        let cpus = place.cpus.unwrap_or(1);
        for checked in [
            limits::check(&[
                ("tx_engine_ps", card.tx_engine_ps, limits::STEP_PS),
                ("rx_engine_ps", card.rx_engine_ps, limits::STEP_PS),
                ("tick_ps", card.tick_ps, 1..=S),
                ("wire_byte_ps", card.wire_byte_ps, 100..=80_000_000),
            ]),
            limits::check(&[
                ("rx_queues", card.rx_queues, 1..=kpps_card::rate_limited::QUEUES),
                ("rx_fetch", card.rx_fetch, 1..=256),
            ]),
            limits::check(&[("cpus", cpus, CPUS)]),
            config.check(),
            bus_params.check(),
            host.check(),
            work.check(),
            stack_params.check(),
        ] {
            checked.map_err(|problem| mismatch(&problem))?;
        }
        let profiles = [&machine_profile, &nic_profile, &bus_profile, &host_profile, &stack_profile];
        Ok(Self {
            machine: machine_profile.name().into(),
            nic: nic_profile.name().into(),
            nic_description: nic_profile.description().into(),
            bus: bus_profile.name().into(),
            host: host_profile.name().into(),
            stack: stack_profile.name().into(),
            card,
            config,
            bus_params,
            host_params: host::Params::new(&host, &stack_params.work(work)),
            stack_params,
            cpus,
            own_profiles: profiles.iter().filter_map(|p| p.own_text().map(String::from)).collect(),
            set: changes.to_vec(),
            bus_entry: bus_entry.into(),
            nic_is_given: nic.is_some(),
        })
    }

    /// Refuses changes that would change nothing, because nothing of this activity reads them.
    ///
    /// # Errors
    /// The constant, and the reason.
    pub fn check_effects(&self, changes: &[Change], activity: Activity) -> Result<(), SetupError> {
        check_activity(activity, (&self.stack, &self.stack_params), (&self.host, &self.host_params))?;
        let has_one_queue = activity != Activity::ReceiveOnAll;
        if has_one_queue && self.card.rx_queues > 1 {
            return Err(SetupError::Mismatch(format!(
                "the NIC '{}' has several receive queues, which only `kpps scale` simulates",
                self.nic
            )));
        }
        let service = if self.config.polling { ServedBy::Polling } else { ServedBy::Interrupt };
        let readers = Readers {
            activity,
            e1000: None,
            service: has_one_queue.then_some(service),
            stack: &self.stack_params,
            bus: &self.bus_entry,
            card_is_given: self.nic_is_given,
            spreads_interrupts: false,
        };
        readers.check(changes).map_err(SetupError::Mismatch)?;
        let is_polled = has_one_queue && self.config.polling;
        check_clock(&format!("the driver of the NIC '{}'", self.nic), is_polled, &self.stack_params)
    }

    /// Bits per second of its wire.
    pub fn link_bits_per_s(&self) -> u64 {
        8_000_000_000_000 / self.card.wire_byte_ps
    }
}
