//! A constant that is set acts, or it is refused: every entry of the profiles, one at a time, in every kind
//! of simulation that the command has.

use kpps_documents::grid::Setting;
use kpps_frames::Size;
use kpps_methods::Load;
use kpps_profiles::{Kind, Profile};
use kpps_sim::choice::change;
use kpps_sim::{
    Activity, AppKind, By, Choice, Features, Pieces, Sender, SendingProgram, Setup, documents, transmit_with,
};
use std::collections::BTreeSet;
use toml::Value;

/// Entries that change no result of the simulations below, each with the reason.
const SILENT: [(&str, &str); 34] = [
    ("driver.kernels", "a list: says where the driver existed"),
    ("stack.kernel", "the driver's description changes; another family of kernels has other entries"),
    ("driver.interrupts.link", "the link does not change while it is measured"),
    ("driver.interrupts.rx_sequence", "no frame is damaged on the wire"),
    ("driver.interrupts.rx_overrun", "an overrun comes with another cause"),
    ("driver.interrupts.rx_low", "the timer's interrupt comes no later than this one"),
    ("driver.interrupts.tx_empty", "comes with the report of the last frame"),
    ("driver.rescue", "no interrupt is lost"),
    ("driver.rx_low", "the timer's interrupt comes no later"),
    ("driver.promiscuous", "all frames are addressed to the card, or it is a port of an app"),
    ("driver.vlan", "an app says itself whether tags are stripped"),
    ("driver.rx_buffer_bytes", "a frame fits any buffer"),
    ("driver.max_frame_bytes", "no frame is longer"),
    ("driver.rx_checksum", "counts where a stack checks checksums"),
    ("driver.checksum_status", "counts where a stack checks checksums"),
    ("driver.rx_format", "a descriptor has 16 bytes in both formats"),
    ("driver.rx_thresholds.hthresh", "counts where fewer free descriptors than this are left"),
    ("driver.strip_fcs", "the stack gets no FCS either way"),
    ("driver.flush_unmask", "counts where interrupts are unmasked after a poll"),
    ("chip.chip", "which chip it is: another chip is another profile"),
    ("chip.bus_66mhz", "a fact about the card, which the choice of a bus follows"),
    ("chip.bus_64bit", "a fact about the card, which the choice of a bus follows"),
    ("host.cache_bytes", "counts where buffers no longer are in the cache"),
    ("host.copy_byte_ps", "counts where frames are copied"),
    ("work.recycle_cycles", "counts where buffers are kept in an array of their own"),
    ("work.batch_cycles", "counts where an allocator moves buffers in batches"),
    ("work.shrink_cycles", "counts where an allocator gives memory back"),
    ("bus.posted_writes", "counts where a CPU writes faster than the bus"),
    ("machine.drivers", "a list: give the drivers themselves"),
    ("stack.mbuf_bytes", "counts in whole cache lines, where they are cold"),
    ("stack.softirq_time_ps", "a limit of tens of milliseconds, longer than these trials"),
    ("stack.polling.burst_max", "grows over hundreds of ticks of the clock; these trials have three"),
    ("stack.polling.reg_frac", "counts ticks of the clock; these trials have three"),
    ("stack.polling.user_frac", "shares out ticks of the clock; these trials have three"),
];

/// Limits of queues that are refused or reached at some loads only; these trials are too short to fill them.
const QUEUES: [&str; 4] =
    ["stack.transmit_queue", "stack.to_device_queue", "stack.backlog_weight", "driver.transmit_queue"];

/// Entries that are read, and change nothing in some of the simulations below, with the reason.
const SILENT_HERE: [(&str, &str); 15] = [
    ("stack.switch_cycles", "counts where a process sleeps on a full transmit queue"),
    ("chip.link_ps", "the link comes up before the load"),
    ("chip.rdtr_from", "counts with the receive timer"),
    ("chip.tidv_from", "counts with the transmit timer"),
    ("chip.rx_burst_descriptors", "counts while a sender's ring is filled at the start"),
    ("chip.rx_idle_report_ps", "counts where reports of received frames wait"),
    ("chip.tx_engine_ps", "counts where sending is the limit"),
    ("stack.softirq_budget", "counts where a softirq has more work"),
    ("stack.softirq_restarts", "counts where a softirq has more work"),
    ("stack.thread_slice_ps", "counts where a thread has others beside it"),
    ("stack.from_device_burst", "counts where frames wait for Click"),
    ("stack.from_device_queue", "counts where frames wait for Click"),
    ("stack.to_device_burst", "counts where frames wait for the card"),
    ("stack.clock_cycles", "counts where the CPU is full"),
    ("stack.receive_cycles", "counts in FreeBSD's apps where a frame is dropped"),
];

/// A kind of simulation with a machine whose parts it uses.
struct Case {
    machine: &'static str,
    driver: &'static str,
    app: Option<AppKind>,
    activity: Option<Activity>,
}

const fn case(
    machine: &'static str,
    driver: &'static str,
    app: Option<AppKind>,
    activity: Option<Activity>,
) -> Case {
    Case { machine, driver, app, activity }
}

const SENDS: Option<Activity> = Some(Activity::Send);
const A_PROCESS_SENDS: Option<Activity> = Some(Activity::SendByProcess);
const A_PROCESS_READS: Option<Activity> = Some(Activity::ReceiveByProcess);

/// The results, as texts: rates, and where the CPU's time goes, at light and full load. Each is simulated
/// when it is asked for.
fn found<'a>(choice: &'a Choice, setup: &'a Setup) -> Box<dyn Iterator<Item = String> + 'a> {
    let go_on = || true;
    if choice.activity == SENDS {
        let plain = Features { pieces: Pieces::One, checksum: By::Nobody, vlan: By::Nobody, segments: 1 };
        let parts = Features { pieces: Pieces::of(4, true), checksum: By::Cpu, ..plain };
        let sends = [(Size::MIN, plain), (Size::with_fcs(512), parts)].into_iter();
        return Box::new(sends.map(move |(size, features)| {
            format!("{:?}", transmit_with(setup, size, &features, (1, 3), &go_on))
        }));
    }
    if choice.activity == A_PROCESS_SENDS {
        let ttcp = SendingProgram::Ttcp.with(None, None).unwrap();
        let send = move |size| Sender::Process(ttcp).send(&setup.clone().into(), size, (1, 40), &go_on);
        return Box::new([Size::MIN].into_iter().map(move |size| format!("{:?}", send(size))));
    }
    let size = choice.default_size();
    let line = choice.line_rate_pps(size);
    if choice.activity == A_PROCESS_READS {
        let at = move |share: f64| {
            let load = Load::of(share * line, size).lasting_ms(1, 3);
            format!("{:?}", choice.testbed(setup.clone()).trial_while(&load, &go_on))
        };
        return Box::new([0.03, 0.2, 0.9].into_iter().map(at));
    }
    let at = move |share: f64| {
        let load = Load::of(share * line, size).lasting_ms(1, 2);
        let profile = choice.profiled(setup.clone(), &load, &go_on).map(|it| documents::profile(&it));
        format!("{:?}", profile.map(|it| (it.rows, it.per_frame, it.delivered_pps)))
    };
    Box::new([0.03, 0.2, 0.9].into_iter().map(at))
}

/// Whether a result is not as in `plain`. The simulations end with the first one that differs.
fn acts(choice: &Choice, setup: &Setup, plain: &[String]) -> bool {
    !found(choice, setup).eq(plain.iter().cloned())
}

/// The paths of the entries of a profile, with their values.
fn leaves(kind: Kind, name: &str) -> Vec<(String, Value)> {
    fn walk(path: String, value: &Value, leaves: &mut Vec<(String, Value)>) {
        match value {
            Value::Table(table) => table.iter().for_each(|(key, value)| {
                walk(format!("{path}.{key}"), value, leaves);
            }),
            value => leaves.push((path, value.clone())),
        }
    }
    let mut all = Vec::new();
    for constant in Profile::named(kind, name).unwrap().constants() {
        walk(format!("{}.{}", kind.word(), constant.name), &constant.value, &mut all);
    }
    all
}

/// Other values of the same sort. Words are those of the entry's alternatives, which its error lists.
fn others(value: &Value, path: &str, choice: &Choice) -> Vec<Setting> {
    match value {
        Value::Boolean(on) => vec![Setting::Switch(!on)],
        Value::Integer(0) => vec![Setting::Whole(8), Setting::Whole(1)],
        Value::Integer(number) => {
            let of =
                |factor: f64| Setting::Whole(((*number as f64 * factor / 8.0).round() as i64).max(1) * 8);
            vec![of(0.25), of(2.0), Setting::Whole(number + 1), Setting::Whole(0), Setting::Whole(1)]
        }
        Value::Float(number) => vec![Setting::Number(number * 2.0), Setting::Number(number / 2.0)],
        Value::String(_) if path.starts_with("machine.bus.") => {
            ["pci-32-33", "pci-x-64-133"].map(|bus| Setting::Word(bus.into())).into()
        }
        Value::String(_) if path.ends_with(".itr") => vec![Setting::Whole(4000)],
        Value::String(word) => {
            let mut nonsense = choice.clone();
            nonsense.change(path, &Setting::Word("nonsense".into())).unwrap();
            let error = nonsense.setup().map(drop).unwrap_err().to_string();
            let listed = error.split("allowed are ").nth(1).unwrap_or_default();
            listed.split(", ").filter(|it| it != word).map(|it| Setting::Word(it.into())).collect()
        }
        _ => Vec::new(),
    }
}

#[test]
fn every_entry_acts_or_is_refused() {
    let cases = [
        case("morris2000", "intel-2.5.11-tuned", None, None),
        case("lab-e1000", "linux-6.1-e1000", None, None),
        case("xeon-8375c", "linux-6.1-e1000e", None, None),
        case("morris2000", "kpps", None, None),
        case("morris2000", "click-polling", None, None),
        case("lunz2003", "intel-4.4.x", Some(AppKind::Bridge), None),
        case("lunz2003", "kpps", Some(AppKind::Nat), None),
        case("morris2000", "intel-2.5.11", Some(AppKind::Route), None),
        case("morris2000-sender", "intel-2.5.11-fix", None, SENDS),
        case("ols2005", "kpps", None, SENDS),
        case("ols2005", "intel-5.7.6", None, SENDS),
        case("evans2005-em", "em-1.7.35", None, None),
        case("evans2005-em", "em-1.7.35", None, SENDS),
        case("evans2005-em", "em-1.7.35-polling", None, None),
        case("lunz2003", "sf1", Some(AppKind::VlanRoute), None),
    ];
    let silent: BTreeSet<&str> = SILENT.iter().map(|(path, _)| *path).chain(QUEUES).collect();
    let (mut acting, mut nothing) = (BTreeSet::new(), BTreeSet::new());
    for case in cases {
        let choice = Choice {
            machine: Some(case.machine.into()),
            driver: Some(case.driver.into()),
            app: case.app,
            activity: case.activity,
            // polling(4) asks for this clock.
            set: match case.driver.ends_with("-polling") && case.machine.starts_with("evans") {
                true => vec![change("stack.hz", &Setting::Whole(1000)).unwrap()],
                false => Vec::new(),
            },
            ..Choice::default()
        };
        let setup = choice.setup().unwrap();
        let plain: Vec<_> = found(&choice, &setup).collect();
        assert!(!acts(&choice, &setup, &plain), "equal simulations find the same");
        let profiles = [
            (Kind::Driver, case.driver),
            (Kind::Chip, &setup.chip),
            (Kind::Host, &setup.host),
            (Kind::Stack, &setup.stack),
            (Kind::Bus, &setup.bus),
            (Kind::Work, "common"),
            (Kind::Machine, case.machine),
        ];
        for (path, value) in profiles.into_iter().flat_map(|(kind, name)| leaves(kind, name)) {
            // Of machines, the names of other profiles are tried elsewhere.
            let is_name = path.starts_with("machine.") && value.is_str() && !path.starts_with("machine.bus");
            if acting.contains(&path) || silent.contains(path.as_str()) || is_name {
                continue;
            }
            let (mut is_acting, mut is_refused) = (false, false);
            for other in others(&value, &path, &choice) {
                let mut changed = choice.clone();
                changed.change(&path, &other).unwrap();
                match changed.setup() {
                    Ok(setup) => is_acting |= acts(&changed, &setup, &plain),
                    Err(why) => is_refused |= why.to_string().contains("has no effect"),
                }
                if is_acting {
                    break;
                }
            }
            if is_acting {
                nothing.remove(&path);
                acting.insert(path);
            } else if !is_refused {
                nothing.insert(path);
            }
        }
    }
    let nothing: Vec<_> = nothing.iter().filter(|path| !acting.contains(*path)).collect();
    assert!(nothing.is_empty(), "taken, and of no effect anywhere: {nothing:#?}");
    assert!(acting.len() > 100, "{}", acting.len());
}

/// In each kind of simulation, an entry of a stack or a chip either acts or is refused, never both.
#[test]
fn an_entry_is_refused_where_it_does_nothing_and_only_there() {
    let cases = [
        case("morris2000", "intel-2.5.11-tuned", None, None),
        case("morris2000", "kpps", None, None),
        case("morris2000", "click-polling", None, None),
        case("morris2000", "intel-5.7.6", None, None),
        case("morris2000", "intel-2.5.11", Some(AppKind::Route), None),
        case("morris2000", "click-polling", Some(AppKind::Bridge), None),
        case("morris2000-sender", "intel-2.5.11-fix", None, SENDS),
        case("morris2000-sender", "intel-5.7.6", None, SENDS),
        case("ols2005", "intel-2.5.11-tuned", None, None),
        case("ols2005", "intel-5.7.6", None, None),
        case("ols2005", "kpps", None, None),
        case("ols2005", "click-polling", None, None),
        case("ols2005", "intel-2.5.11-tuned", None, SENDS),
        case("ols2005", "intel-5.7.6", None, SENDS),
        case("ols2005", "kpps", None, SENDS),
        case("lunz2003", "intel-4.4.x", Some(AppKind::Bridge), None),
        case("lunz2003", "intel-2.5.11-tuned", Some(AppKind::Route), None),
        case("lunz2003", "kpps", Some(AppKind::Nat), None),
        case("evans2005-em", "em-1.7.35", None, None),
        case("evans2005-em", "kpps", None, None),
        case("evans2005-em", "em-1.7.35", None, SENDS),
        case("evans2005-em", "em-1.7.35", Some(AppKind::Bridge), None),
        case("evans2005-em", "em-1.7.35", None, A_PROCESS_SENDS),
        case("evans2005-em", "em-1.7.35", None, A_PROCESS_READS),
        case("ols2005", "intel-5.7.6", None, A_PROCESS_READS),
        case("ols2005", "intel-5.7.6-interrupts", None, A_PROCESS_READS),
    ];
    let silent: BTreeSet<&str> =
        SILENT.iter().chain(&SILENT_HERE).map(|(path, _)| *path).chain(QUEUES).collect();
    // Of polling(4), and of the allocator, whose arrays run out at some loads.
    let other_tests = |path: &str| path.starts_with("stack.polling.") || path.starts_with("stack.buffers.");
    let mut wrong = BTreeSet::new();
    for Case { machine, driver, app, activity } in cases {
        let choice = Choice {
            machine: Some(machine.into()),
            driver: Some(driver.into()),
            app,
            activity,
            ..Choice::default()
        };
        let setup = choice.setup().unwrap();
        let plain: Vec<_> = found(&choice, &setup).collect();
        let profiles = [(Kind::Stack, setup.stack.as_str()), (Kind::Chip, &setup.chip)];
        let entries = profiles.into_iter().flat_map(|(kind, name)| leaves(kind, name));
        let more = [("driver.flow_control".to_owned(), "off".into()), ("chip.port".to_owned(), 0.into())];
        for (path, value) in entries.chain(more).filter(|(path, _)| !other_tests(path)) {
            let (mut is_acting, mut is_refused) = (false, false);
            let tried = match (path.as_str(), value.as_integer()) {
                ("driver.flow_control", _) => vec![Setting::Word("full".into())],
                ("chip.port", _) => vec![Setting::Whole(1)],
                (_, Some(number)) => [number * 10, number / 4].map(|it| Setting::Whole(it.max(1))).into(),
                _ => others(&value, &path, &choice),
            };
            for other in tried {
                let mut changed = choice.clone();
                changed.change(&path, &other).unwrap();
                is_refused |= changed.setup().is_err_and(|why| why.to_string().contains("has no effect"));
                // Without the check for settings without an effect.
                let Ok(setup) = Setup::changed(machine, None, driver, &changed.set) else { continue };
                is_acting |= acts(&changed, &setup, &plain);
                if is_acting {
                    break;
                }
            }
            let here = format!("{path}: {machine} {driver} {app:?} {activity:?}");
            // Registers that the driver writes once as the link comes up are no effect of PAUSE frames.
            let at_start = path == "driver.flow_control" && app.is_none();
            if is_acting && is_refused && !at_start {
                wrong.insert(format!("acts and is refused: {here}"));
            } else if !is_acting && !is_refused && !silent.contains(&*path) {
                wrong.insert(format!("neither acts nor is refused: {here}"));
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

/// An entry that receiving reads is not refused as an entry of sending, and the other way round: each
/// direction's own entries act in it.
#[test]
fn a_direction_refuses_the_other_directions_entries() {
    let with = |machine: &str, driver: &str, activity, path: &str, value| Choice {
        machine: Some(machine.into()),
        driver: Some(driver.into()),
        activity,
        set: vec![change(path, &Setting::Whole(value)).unwrap()],
        ..Choice::default()
    };
    for (activity, path, value, is_refused) in [
        (None, "driver.rx_ring", 64, false),
        (None, "driver.tx_ring", 64, true),
        (None, "driver.moderation.tidv", 64, true),
        (None, "driver.report_every", 2, true),
        (None, "chip.tx_engine_ps", 1_000_000, true),
        (None, "chip.rx_engine_ps", 1_000_000, false),
        (SENDS, "driver.tx_ring", 64, false),
        (SENDS, "driver.rx_ring", 64, true),
        (SENDS, "driver.moderation.rdtr", 64, true),
        (SENDS, "chip.rx_engine_ps", 1_000_000, true),
        (SENDS, "chip.tx_engine_ps", 1_000_000, false),
        // The lists of this kernel's allocator depend on the number of CPUs.
        (None, "machine.cpus", 1, false),
        (SENDS, "machine.cpus", 1, false),
        (Some(Activity::ReceiveOnAll), "machine.cpus", 1, false),
    ] {
        let setup = with("ols2005", "intel-5.7.6", activity, path, value).setup();
        let refused = setup.as_ref().err().is_some_and(|why| why.to_string().contains("has no effect"));
        assert_eq!(refused, is_refused, "{activity:?} {path}: {:?}", setup.err());
        // An app does both.
        let app = Choice { app: Some(AppKind::Bridge), ..with("ols2005", "intel-5.7.6", None, path, value) };
        assert!(app.setup().is_ok(), "{path}");
    }
    let older = |activity| with("lunz2003", "intel-4.4.x", activity, "machine.cpus", 1).setup().unwrap_err();
    assert!([None, SENDS].into_iter().all(|it| older(it).to_string().contains("uses one CPU only")));
}

/// Intel's numbers and words for throttling do what they say: no more interrupts than they allow, and nearly
/// as many where each frame would interrupt.
#[test]
fn throttling_is_set_in_the_drivers_own_words() {
    let interrupts = |itr: Option<Setting>| {
        let choice = Choice {
            machine: Some("ols2005".into()),
            driver: Some("intel-5.7.6-interrupts".into()),
            set: itr.map(|itr| change("driver.itr", &itr).unwrap()).into_iter().collect(),
            ..Choice::default()
        };
        let setup = choice.setup().unwrap();
        let load = Load::of(60e3, Size::MIN).lasting_ms(20, 40);
        choice.testbed(setup).trial_while(&load, &|| true).unwrap().interrupts_per_s.unwrap()
    };
    let word = |word: &str| Some(Setting::Word(word.into()));
    let whole = |number| Some(Setting::Whole(number));
    for rate in [2_000, 8_000, 20_000] {
        let seen = interrupts(whole(rate));
        assert!((0.9..=1.01).contains(&(seen / rate as f64)), "{rate}: {seen}");
    }
    assert_eq!(interrupts(None), interrupts(whole(8_000)), "the preset's own");
    for (number, name) in [(0, "off"), (1, "dynamic"), (3, "conservative")] {
        assert_eq!(interrupts(whole(number)), interrupts(word(name)), "{name}");
    }
    assert!(interrupts(word("off")) > 40e3, "an interrupt for nearly each frame");
}
