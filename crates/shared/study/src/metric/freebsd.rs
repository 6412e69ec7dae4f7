//! Machines with FreeBSD: programs that send and receive, the kernel that receives, a router between VLANs
//! ([`kpps_sim::workload::freebsd`]).

use super::offered::Offered;
use super::random;
use super::setting::configuration;
use super::{Context, Value, Values, columns, ms, per};
use kpps_frames::{Mix, Size, rate};
use kpps_profiles::To;
use kpps_sim::workload::freebsd::{
    Moment, Process, Program, Received, Until, receive, route_vlans, send, timeline,
};
use kpps_sim::{AnySetup, RateLimitedSetup, SendingProgram, Setup};
use serde::Deserialize;

/// A machine with its rate-limited NIC, or with a chip and a driver preset instead.
#[derive(Deserialize)]
struct Setting {
    machine: String,
    nic: Option<String>,
    chip: Option<String>,
    driver: Option<String>,
    #[serde(default)]
    set: toml::Table,
    #[serde(default = "ms::<50>")]
    warmup_ms: u32,
    #[serde(default = "ms::<200>")]
    duration_ms: u32,
}

impl Setting {
    fn machine(&self, context: &Context) -> Result<AnySetup, String> {
        let changes = super::changes(&self.set, &[], context)?;
        let machine = match &self.driver {
            Some(driver) => {
                Setup::changed(&self.machine, self.chip.as_deref(), driver, &changes).map(AnySetup::from)
            }
            None => {
                RateLimitedSetup::changed(&self.machine, self.nic.as_deref(), &changes).map(AnySetup::from)
            }
        };
        machine.map_err(|error| error.to_string())
    }

    fn times_ms(&self) -> (u32, u32) {
        (self.warmup_ms, self.duration_ms)
    }
}

#[derive(Deserialize)]
struct OfSend {
    #[serde(flatten)]
    setting: Setting,
    /// Bytes of a datagram.
    payload: u16,
    program: SendingProgram,
    /// The sleep of `ttcp` on a full queue.
    sleep_us: Option<u64>,
    /// The rate that `netsend` is to send, in datagrams a second.
    pps: Option<f64>,
}

impl OfSend {
    fn program(&self) -> Result<Program, String> {
        self.program.with(self.sleep_us, self.pps)
    }
}

/// The figures of a program that sends:
///
/// - `pps`; `idle`, the share of the time in which the card and its wire had nothing; `interrupts_per_s`,
///   `packets_per_interrupt`; `refused` system calls for each successful one;
/// - `wasted` CPU, and for an e1000 `queue` and `unreclaimed` frames ([`Process`]);
/// - shares of the CPU's time `interrupt_load`, `system_load`, `user_load`, `cpu_busy`; of the handlers' time
///   `useful`;
/// - CPU time of a frame in nanoseconds: all of it `cpu_ns`, of interrupts `interrupt_ns`, of system calls
///   `system_ns`.
pub(super) fn run_send(of: toml::Table, context: &Context) -> Result<Values, String> {
    let of: OfSend = configuration(of)?;
    let machine = of.setting.machine(context)?;
    let sent = send(&machine, of.payload, of.program()?, of.setting.times_ms(), context.go_on)
        .map_err(|error| error.to_string())?;
    let (frames, process) = (&sent.frames, &sent.process);
    let each_ns = |share: f64| per(share * 1e9, frames.pps);
    let load = &process.load;
    let mut values = columns(vec![vec![
        ("pps", Some(frames.pps)),
        ("idle", Some(frames.card_idle)),
        ("interrupts_per_s", Some(frames.interrupts_per_s)),
        ("packets_per_interrupt", per(frames.pps, frames.interrupts_per_s)),
        ("refused", Some(process.refused)),
        ("wasted", Some(process.wasted)),
        ("interrupt_load", Some(load.interrupt)),
        ("system_load", Some(load.system)),
        ("user_load", Some(load.user)),
        ("cpu_busy", Some(load.busy())),
        ("useful", Some(load.useful)),
        ("cpu_ns", each_ns(load.busy())),
        ("interrupt_ns", each_ns(load.interrupt)),
        ("system_ns", each_ns(load.system)),
    ]])?;
    values.extend(queue(process));
    Ok(values)
}

#[derive(Deserialize)]
struct OfTimeline {
    #[serde(flatten)]
    send: OfSend,
    every_us: u64,
}

/// A sending program from moment to moment: `us`, `queued` frames, and `waiting` with those in the ring. And
/// of each time when the program found the queue full, on average: `space_after_us` until there was space in
/// it, `empty_after_us` until the card had nothing left to send, and `idle_us` until it had again.
pub(super) fn run_timeline(of: toml::Table, context: &Context) -> Result<Values, String> {
    let of: OfTimeline = configuration(of)?;
    let machine = of.send.setting.machine(context)?;
    let (times, every_ps) = (of.send.setting.times_ms(), of.every_us.max(1) * 1_000_000);
    let moments = timeline(&machine, of.send.payload, of.send.program()?, times, every_ps, context.go_on)
        .map_err(|error| error.to_string())?;
    let us = |ps: u64| ps as f64 * 1e-6;
    let most = moments.iter().map(|moment| moment.queued).max().unwrap_or(0);
    let mut spans: [Vec<f64>; 3] = Default::default();
    for at in 1..moments.len() {
        if moments[at].refused == moments[at - 1].refused {
            continue;
        }
        // Indices of the moments at which there is space, the card is idle, and it is no longer.
        let later = |from: usize, is: &dyn Fn(usize) -> bool| (from..moments.len()).find(|&i| is(i));
        let idle = |i: usize| moments[i].idle_ps > moments[i - 1].idle_ps;
        let Some(space) = later(at, &|i| moments[i].queued < most) else { continue };
        let Some(empty) = later(space.max(1), &idle) else { continue };
        let Some(again) = later(empty, &|i| !idle(i)) else { continue };
        let since = |from: usize, to: usize| us(moments[to].at_ps - moments[from].at_ps);
        for (spans, span) in spans.iter_mut().zip([since(at, space), since(at, empty), since(empty, again)]) {
            spans.push(span);
        }
    }
    let mean = |spans: &Vec<f64>| (!spans.is_empty()).then(|| spans.iter().sum::<f64>() / spans.len() as f64);
    let list = |of: &dyn Fn(&Moment) -> f64| Value::from(moments.iter().map(of).collect::<Vec<_>>());
    let mut values: Values = ["space_after_us", "empty_after_us", "idle_us"]
        .into_iter()
        .zip(&spans)
        .map(|(name, spans)| (name.to_owned(), mean(spans).into()))
        .collect();
    values.insert("us".into(), list(&|moment| us(moment.at_ps)));
    values.insert("queued".into(), list(&|moment| moment.queued as f64));
    values.insert("waiting".into(), list(&|moment| (moment.queued + moment.in_ring) as f64));
    Ok(values)
}

/// `queue` and `unreclaimed` frames: absent where the driver does not report them.
fn queue(process: &Process) -> [(String, Value); 2] {
    let of = |frames: fn((usize, usize)) -> usize| process.queue.map(|queue| frames(queue) as f64).into();
    [("queue".into(), of(|(queue, _)| queue)), ("unreclaimed".into(), of(|(_, unreclaimed)| unreclaimed))]
}

#[derive(Deserialize)]
struct OfSender {
    #[serde(flatten)]
    setting: Setting,
    payload: u16,
    seed: u64,
    /// Constants, and their permitted values.
    random: toml::Table,
}

/// A process on a machine drawn at random. In a first run it tries again at once when the transmit queue is
/// full. In a second run it waits until it is woken.
///
/// The machine's `seed`, and each number that was drawn, by its constant's name (`hz`). The first run's
/// `most_pps`. The second run's `pps`, `of_most` (of the first's), `wasted`, `idle`, `interrupts_per_frame`,
/// `queue`, `unreclaimed`, and `of_rule`: `queue` over an eighth of FreeBSD's rule, or 64 if that is more.
pub(super) fn run_sender(of: toml::Table, context: &Context) -> Result<Values, String> {
    let of: OfSender = configuration(of)?;
    let drawn = random::changes(&of.random, of.seed)?;
    let send = |program| {
        let changes = [&context.changes[..], &drawn].concat();
        let machine = of.setting.machine(&Context { changes, ..*context })?;
        send(&machine, of.payload, program, of.setting.times_ms(), context.go_on)
            .map_err(|error| error.to_string())
    };
    // A program that tries again at once keeps ring and queue full: then the card never waits.
    let most = send(Program::NETBLAST)?.frames;
    let sent = send(Program::WAITING)?;
    let mut row: Vec<(String, f64)> = Vec::new();
    for change in drawn {
        if let To::Set(toml::Value::Integer(number)) = change.to {
            row.push((change.constant.replace(['.', '-'], "_"), number as f64));
        }
    }
    let number = |name: &str| row.iter().find(|(other, _)| other == name).map_or(0.0, |(_, number)| *number);
    // Evans 2005: the ring, and frames of 4 us for two ticks or 10 ms.
    let rule = number("tx_ring") + (2e6 / number("hz").max(1.0)).max(10_000.0) / 4.0;
    let of_rule = |(queue, _): (usize, usize)| queue as f64 / (rule / 8.0).max(64.0);
    let found = [
        ("seed", Some(of.seed as f64)),
        ("most_pps", Some(most.pps)),
        ("pps", Some(sent.frames.pps)),
        ("of_most", per(sent.frames.pps, most.pps)),
        ("wasted", Some(sent.process.wasted)),
        ("idle", Some(sent.frames.card_idle)),
        ("interrupts_per_frame", per(sent.frames.interrupts_per_s, sent.frames.pps)),
    ];
    let mut values: Values = row.into_iter().map(|(name, number)| (name, number.into())).collect();
    values.extend(found.map(|(name, number)| (name.to_owned(), number.into())));
    values.insert("of_rule".into(), sent.process.queue.map(of_rule).into());
    values.extend(queue(&sent.process));
    Ok(values)
}

fn row(received: &Received) -> Vec<(&'static str, f64)> {
    let load = &received.load;
    vec![
        ("offered_pps", received.offered_pps),
        ("taken_pps", received.taken_pps),
        ("pps", received.pps),
        ("dropped_input_pps", received.dropped_input_pps),
        ("dropped_socket_pps", received.dropped_socket_pps),
        ("mbps", received.mbps),
        ("interrupts_per_s", received.interrupts_per_s),
        ("interrupt_load", load.interrupt),
        ("system_load", load.system),
        ("cpu_busy", load.busy()),
        ("idle_polls", load.idle_polls),
        ("cpu_left", 1.0 - load.busy()),
    ]
}

#[derive(Deserialize)]
struct OfReceive {
    #[serde(flatten)]
    setting: Setting,
    /// Bytes of a datagram.
    #[serde(default = "least")]
    payload: u16,
    /// A program that the datagrams are for; without one they end in the kernel.
    program: Option<Receives>,
    offered: Offered,
}

/// A program that receives.
#[derive(Clone, Copy, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Receives {
    Netreceive,
}

/// The payload that fills the smallest frame.
fn least() -> u16 {
    18
}

/// Ethernet, IPv4 and UDP headers.
const HEADER_BYTES: u16 = 42;

/// For each load: `offered_pps`; `taken_pps`, which the kernel takes from the driver; `pps`, which reach
/// their end; `dropped_input_pps`, `dropped_socket_pps`, `mbps` (frames with FCS), `interrupts_per_s`. Shares
/// of the CPU's time: `interrupt_load`, `system_load`, `cpu_busy`, of these `idle_polls`, and `cpu_left`.
pub(super) fn run_receive(of: toml::Table, context: &Context) -> Result<Values, String> {
    let of: OfReceive = configuration(of)?;
    let machine = of.setting.machine(context)?;
    let size = Size::without_fcs((of.payload + HEADER_BYTES).max(Size::MIN.bytes_without_fcs()));
    let until = of.program.map_or(Until::Kernel, |Receives::Netreceive| Until::Process);
    let rows = of.offered.pps(rate::line_rate_pps(rate::GIGABIT, size)).into_iter().map(|offered_pps| {
        let received = receive(&machine, until, size, offered_pps, of.setting.times_ms(), context.go_on);
        received.map(|received| row(&received)).map_err(|error| error.to_string())
    });
    columns(rows.collect::<Result<_, _>>()?)
}

#[derive(Deserialize)]
struct OfRoute {
    #[serde(flatten)]
    setting: Setting,
    offered: Offered,
}

/// The same for a router between two VLANs on one wire, under CSIT's IMIX.
pub(super) fn run_route(of: toml::Table, context: &Context) -> Result<Values, String> {
    let of: OfRoute = configuration(of)?;
    let machine = of.setting.machine(context)?;
    let mix = Mix::imix_csit();
    let rows = of.offered.pps(mix.line_rate_pps(rate::GIGABIT)).into_iter().map(|offered_pps| {
        let routed = route_vlans(&machine, &mix, offered_pps, of.setting.times_ms(), context.go_on);
        routed.map(|routed| row(&routed)).map_err(|error| error.to_string())
    });
    columns(rows.collect::<Result<_, _>>()?)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn measured(run: fn(toml::Table, &Context) -> Result<Values, String>, of: &str) -> Values {
        run(of.parse().unwrap(), &Context { changes: Vec::new(), go_on: &|| true }).unwrap()
    }

    fn sent(program: &str, hz: i64, queue: i64) -> Values {
        let of = format!(
            "machine = 'evans2005-xp'\npayload = 5\n{program}\n\
             set = {{ 'stack.hz' = {hz}, 'stack.transmit_queue' = {queue} }}\n\
             warmup_ms = 20\nduration_ms = 60"
        );
        measured(run_send, &of)
    }

    fn of(values: &Values, name: &str) -> f64 {
        match values[name] {
            Value::Number(Some(number)) => number,
            _ => panic!("one number that was observed"),
        }
    }

    #[test]
    fn who_sleeps_on_a_full_queue_loses_time_and_who_does_not_spins() {
        let programs = ["ttcp-old", "ttcp-new", "selecting", "waiting"];
        let [sleeps, retries, selects, waits] =
            programs.map(|name| sent(&format!("program = '{name}'"), 100, 50));
        assert!(of(&sleeps, "idle") > 0.5, "{sleeps:?}");
        for spins in [&retries, &selects] {
            assert!(of(spins, "idle") == 0.0 && of(spins, "cpu_busy") > 0.99, "{spins:?}");
        }
        // To believe `select` is to ask for the same more dearly.
        assert!(of(&selects, "refused") < 0.99 * of(&retries, "refused"), "{selects:?} {retries:?}");
        assert!(of(&selects, "refused") > 0.1, "{selects:?}");
        assert!(of(&waits, "idle") == 0.0 && of(&waits, "cpu_busy") < 0.8, "{waits:?}");
        let quick = sent("program = 'ttcp-old'", 1000, 511);
        assert!(of(&quick, "idle") == 0.0, "two ticks are shorter than the queue: {quick:?}");
    }

    #[test]
    fn netsend_keeps_its_rate_and_loses_what_is_refused() {
        let slow = sent("program = 'netsend'\npps = 1e5", 1000, 511);
        assert!((of(&slow, "pps") - 1e5).abs() < 1e5 * 0.001, "{slow:?}");
        assert!(
            of(&slow, "refused") == 0.0 && of(&slow, "cpu_busy") > 0.99,
            "it looks at the clock: {slow:?}"
        );
        // The card takes 4 us for a frame.
        let fast = sent("program = 'netsend'\npps = 3e5", 1000, 511);
        let sent = of(&fast, "pps");
        assert!((sent - 2.5e5).abs() < 0.1e5, "{fast:?}");
        // The queue took some more before it was full.
        let lost = 3e5 / sent - 1.0;
        assert!((0.7 * lost..lost).contains(&of(&fast, "refused")), "{fast:?}");
        for wrong in
            ["program = 'netsend'", "program = 'netsend'\npps = 0.0", "program = 'ttcp-new'\npps = 1e5"]
        {
            let table = format!("machine = 'evans2005-xp'\npayload = 5\n{wrong}").parse().unwrap();
            let error = run_send(table, &Context { changes: Vec::new(), go_on: &|| true }).unwrap_err();
            assert!(error.contains("pps"), "{error}");
        }
    }

    #[test]
    fn a_datagram_that_no_frame_holds_leaves_in_two() {
        let paced = |payload: u16, queue: u16| {
            let of = format!(
                "machine = 'evans2005-xp'\npayload = {payload}\nprogram = 'netsend'\npps = 1e4\n\
                 set = {{ 'stack.hz' = 1000, 'stack.transmit_queue' = {queue} }}\nduration_ms = 50"
            );
            measured(run_send, &of)
        };
        assert!((of(&paced(1472, 511), "pps") - 1e4).abs() < 50.0);
        let split = paced(1473, 511);
        assert!((of(&split, "pps") - 2e4).abs() < 100.0 && of(&split, "refused") == 0.0, "{split:?}");
        // A queue that is too short for both fragments takes neither.
        let refused = paced(1473, 1);
        assert!(of(&refused, "pps") == 0.0 && of(&refused, "refused") > 100.0, "{refused:?}");
    }

    #[test]
    fn netreceive_gets_what_is_left_and_polling_leaves_it_something() {
        let at = |offered: f64, driver: &str, more: &str| {
            let of = format!(
                "machine = 'evans2005-em'\ndriver = '{driver}'\noffered = {offered:?}\n\
                 warmup_ms = 300\nduration_ms = 100\n{more}"
            );
            measured(run_receive, &of)
        };
        let process = "program = 'netreceive'";
        let quiet = at(2e4, "em-1.7.35", process);
        assert!((of(&quiet, "pps") - 2e4).abs() < 50.0, "{quiet:?}");
        assert!(of(&quiet, "dropped_socket_pps") + of(&quiet, "dropped_input_pps") == 0.0, "{quiet:?}");
        // Above the kernel's own capacity, interrupt threads leave nothing.
        let flooded = at(1.2e6, "em-1.7.35", process);
        assert!(of(&flooded, "pps") < 0.1 * of(&at(1.2e6, "em-1.7.35", ""), "taken_pps"), "{flooded:?}");
        // polling(4) reserves half of the time.
        let polling = format!("{process}\nset = {{ 'stack.hz' = 1000 }}");
        let polled = at(1.2e6, "em-1.7.35-polling", &polling);
        assert!(of(&polled, "pps") > 5.0 * of(&flooded, "pps").max(1e4), "{polled:?} {flooded:?}");
    }
}
