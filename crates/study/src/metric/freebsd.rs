//! Machines with FreeBSD: a process that sends, the kernel that receives, a router between VLANs ([`kpps_testbed::freebsd`]).

use super::offered::Offered;
use super::random;
use super::setting::configuration;
use super::{Context, Values, columns, ms};
use kpps_frames::{Mix, Size, rate};
use kpps_profiles::{Change, To};
use kpps_testbed::freebsd::{OnFull, Place, Received, receive, route_vlans, send};
use kpps_testbed::{RingSetup, Setup};
use serde::Deserialize;

/// A machine with its ring NIC, or with a chip and a driver preset in its place.
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
    fn place(&self, context: &Context) -> Result<Place, String> {
        let own = self.set.iter().map(|(path, value)| Change::set(path, value.clone()));
        let mut changes = own.collect::<Result<Vec<_>, _>>()?;
        changes.extend_from_slice(&context.changes);
        let place = match &self.driver {
            Some(driver) => Setup::changed(&self.machine, self.chip.as_deref(), driver, &changes)
                .map(|setup| Place::Intel(Box::new(setup))),
            None => RingSetup::changed(&self.machine, self.nic.as_deref(), &changes)
                .map(|setup| Place::Ring(Box::new(setup))),
        };
        place.map_err(|error| error.to_string())
    }

    fn times_ms(&self) -> (u32, u32) {
        (self.warmup_ms, self.duration_ms)
    }
}

/// What the program does when the transmit queue is full.
#[derive(Clone, Copy, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum WhenFull {
    Sleep,
    Retry,
    Wait,
}

#[derive(Deserialize)]
struct OfSend {
    #[serde(flatten)]
    setting: Setting,
    /// Bytes of a datagram.
    payload: u16,
    on_full: WhenFull,
    #[serde(default = "sleep_us")]
    sleep_us: u64,
}

fn sleep_us() -> u64 {
    1000
}

/// `pps`, `idle` (share of the time in which the card and its wire had nothing), `interrupts_per_s`, `packets_per_interrupt`; `refused`
/// system calls for each that was not; `wasted` CPU, `queue` and `unreclaimed` frames of one of Intel's cards ([`kpps_testbed::freebsd::Sent`]); shares of the CPU's time `interrupt_load`, `system_load`, `user_load`, `cpu_busy`, and of the
/// handlers' time `useful`; CPU time of a frame in nanoseconds, all of it, of interrupts and of system calls: `cpu_ns`, `interrupt_ns`, `system_ns`.
pub(super) fn run_send(of: toml::Table, context: &Context) -> Result<Values, String> {
    let of: OfSend = configuration(of)?;
    let on_full = match of.on_full {
        WhenFull::Sleep => OnFull::Sleep(of.sleep_us),
        WhenFull::Retry => OnFull::Retry,
        WhenFull::Wait => OnFull::Wait,
    };
    let place = of.setting.place(context)?;
    let sent = send(&place, of.payload, on_full, of.setting.times_ms(), context.go_on)
        .map_err(|error| error.to_string())?;
    let each_ns = |share: f64| share * 1e9 / sent.pps.max(1e-3);
    let load = &sent.load;
    let (queue, unreclaimed) = sent.queue.unwrap_or_default();
    columns(vec![vec![
        ("queue", queue as f64),
        ("unreclaimed", unreclaimed as f64),
        ("pps", sent.pps),
        ("idle", sent.idle),
        ("interrupts_per_s", sent.interrupts_per_s),
        ("packets_per_interrupt", sent.pps / sent.interrupts_per_s.max(1e-3)),
        ("refused", sent.refused),
        ("wasted", sent.wasted),
        ("interrupt_load", load.interrupt),
        ("system_load", load.system),
        ("user_load", load.user),
        ("cpu_busy", load.busy()),
        ("useful", load.useful),
        ("cpu_ns", each_ns(load.busy())),
        ("interrupt_ns", each_ns(load.interrupt)),
        ("system_ns", each_ns(load.system)),
    ]])
}

#[derive(Deserialize)]
struct OfSender {
    #[serde(flatten)]
    setting: Setting,
    payload: u16,
    seed: u64,
    /// Constants, and what they may be.
    random: toml::Table,
}

/// A process on a machine drawn at random, once trying again at once when the transmit queue is full, once waiting to be told of room: `seed`, and each
/// number that was drawn, by its constant's name (`hz`). `most_pps` is what the first sends; of the second `pps`, `of_most` (of the first's), `wasted`,
/// `idle`, `interrupts_per_packet`, `queue`, `unreclaimed`, and `of_rule`: `queue` over an eighth of FreeBSD's rule, or 64 if that is more.
pub(super) fn run_sender(of: toml::Table, context: &Context) -> Result<Values, String> {
    let of: OfSender = configuration(of)?;
    let drawn = random::changes(&of.random, of.seed)?;
    let send = |on_full, more: &[Change]| {
        let changes = [&context.changes[..], &drawn, more].concat();
        let place = of.setting.place(&Context { changes, ..*context })?;
        send(&place, of.payload, on_full, of.setting.times_ms(), context.go_on)
            .map_err(|error| error.to_string())
    };
    // Who tries again at once has a long queue before the driver's: then the card never waits.
    let most = send(OnFull::Retry, &[Change::set("stack.transmit_queue", 511)?])?;
    let sent = send(OnFull::Wait, &[])?;
    let mut row: Vec<(String, f64)> = Vec::new();
    for change in drawn {
        if let To::Set(toml::Value::Integer(number)) = change.to {
            row.push((change.constant.replace(['.', '-'], "_"), number as f64));
        }
    }
    let number = |name: &str| row.iter().find(|(other, _)| other == name).map_or(0.0, |(_, number)| *number);
    // Evans 2005: the ring, and frames of 4 us for two ticks or 10 ms.
    let rule = number("tx_ring") + (2e6 / number("hz").max(1.0)).max(10_000.0) / 4.0;
    let (queue, unreclaimed) = sent.queue.unwrap_or_default();
    let values = [
        ("seed", of.seed as f64),
        ("most_pps", most.pps),
        ("pps", sent.pps),
        ("of_most", sent.pps / most.pps.max(1e-3)),
        ("wasted", sent.wasted),
        ("idle", sent.idle),
        ("interrupts_per_packet", sent.interrupts_per_s / sent.pps.max(1e-3)),
        ("queue", queue as f64),
        ("of_rule", queue as f64 / (rule / 8.0).max(64.0)),
        ("unreclaimed", unreclaimed as f64),
    ];
    row.extend(values.map(|(name, number)| (name.to_owned(), number)));
    Ok(row.into_iter().map(|(name, number)| (name, number.into())).collect())
}

fn row(received: &Received) -> Vec<(&'static str, f64)> {
    let load = &received.load;
    vec![
        ("offered_pps", received.offered_pps),
        ("taken_pps", received.taken_pps),
        ("pps", received.pps),
        ("mbps", received.mbps),
        ("interrupts_per_s", received.interrupts_per_s),
        ("interrupt_load", load.interrupt),
        ("system_load", load.system),
        ("cpu_busy", load.busy()),
        ("empty_polls", load.empty_polls),
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
    offered: Offered,
}

/// What fills the smallest frame.
fn least() -> u16 {
    18
}

/// Ethernet, IPv4 and UDP headers.
const HEADER_BYTES: u16 = 42;

/// For each load: `offered_pps`, `taken_pps` (by the kernel from the driver), `pps`, `mbps` (frames with FCS), `interrupts_per_s`; shares of the CPU's time `interrupt_load`, `system_load`,
/// `cpu_busy`, of these `empty_polls`, and `cpu_left`.
pub(super) fn run_receive(of: toml::Table, context: &Context) -> Result<Values, String> {
    let of: OfReceive = configuration(of)?;
    let place = of.setting.place(context)?;
    let size = Size::without_fcs((of.payload + HEADER_BYTES).max(Size::MIN.bytes_without_fcs()));
    let rows = of.offered.pps(rate::line_rate_pps(rate::GIGABIT, size)).into_iter().map(|offered_pps| {
        let received = receive(&place, size, offered_pps, of.setting.times_ms(), context.go_on);
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
    let place = of.setting.place(context)?;
    let mix = Mix::imix_csit();
    let rows = of.offered.pps(mix.line_rate_pps(rate::GIGABIT)).into_iter().map(|offered_pps| {
        let routed = route_vlans(&place, &mix, offered_pps, of.setting.times_ms(), context.go_on);
        routed.map(|routed| row(&routed)).map_err(|error| error.to_string())
    });
    columns(rows.collect::<Result<_, _>>()?)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::Value;

    fn sent(on_full: &str, hz: i64, queue: i64) -> Values {
        let text = format!(
            "machine = 'evans2005-xp'\npayload = 5\non_full = '{on_full}'\nset = {{ 'stack.hz' = {hz}, 'stack.transmit_queue' = {queue} }}\nwarmup_ms = 20\nduration_ms = 60"
        );
        run_send(text.parse().unwrap(), &Context { changes: Vec::new(), go_on: &|| true }).unwrap()
    }

    #[test]
    fn who_sleeps_on_a_full_queue_loses_time_and_who_does_not_spins() {
        let of = |values: &Values, name: &str| match values[name] {
            Value::Number(number) => number,
            Value::List(_) => panic!("one number"),
        };
        let (sleeps, retries, waits) =
            (sent("sleep", 100, 50), sent("retry", 100, 50), sent("wait", 100, 50));
        assert!(of(&sleeps, "idle") > 0.5, "{sleeps:?}");
        assert!(of(&retries, "idle") == 0.0 && of(&retries, "cpu_busy") > 0.99, "{retries:?}");
        assert!(of(&waits, "idle") == 0.0 && of(&waits, "cpu_busy") < 0.8, "{waits:?}");
        let quick = sent("sleep", 1000, 511);
        assert!(of(&quick, "idle") == 0.0, "two ticks are shorter than the queue: {quick:?}");
    }
}
