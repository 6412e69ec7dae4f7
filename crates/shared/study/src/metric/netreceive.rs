//! A process that reads a UDP socket under Linux ([`kpps_sim::workload::netreceive`]).

use super::offered::Offered;
use super::setting::{Setting, configuration};
use super::{Context, Values, columns, ms};
use kpps_frames::rate;
use kpps_sim::workload::netreceive::netreceive;
use serde::Deserialize;

#[derive(Deserialize)]
struct Of {
    #[serde(flatten)]
    setting: Setting,
    offered: Offered,
    #[serde(default = "ms::<20>")]
    warmup_ms: u32,
    #[serde(default = "ms::<100>")]
    duration_ms: u32,
}

/// For each load: `offered_pps`, `taken_pps` (by the kernel from the driver), `dropped_backlog_pps`,
/// `dropped_socket_pps`, `pps` (read by the process), `interrupts_per_s`; `cpu_busy` of the CPU that serves
/// the card, and `cpu_busy_last` of the CPU that runs the process.
pub(super) fn run(of: toml::Table, context: &Context) -> Result<Values, String> {
    let of: Of = configuration(of)?;
    let (setup, size) = (of.setting.setup(context)?, of.setting.size());
    let rows = of.offered.pps(rate::line_rate_pps(rate::GIGABIT, size)).into_iter().map(|offered_pps| {
        let received = netreceive(&setup, size, offered_pps, (of.warmup_ms, of.duration_ms), context.go_on);
        let received = received.map_err(|error| error.to_string())?;
        Ok(vec![
            ("offered_pps", received.offered_pps),
            ("taken_pps", received.taken_pps),
            ("dropped_backlog_pps", received.dropped_backlog_pps),
            ("dropped_socket_pps", received.dropped_socket_pps),
            ("pps", received.pps),
            ("interrupts_per_s", received.interrupts_per_s),
            ("cpu_busy", received.cpu.busy()),
            ("cpu_busy_last", received.cpu_last.busy()),
        ])
    });
    columns(rows.collect::<Result<_, String>>()?)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::Value;

    fn at(offered: f64, more: &str) -> impl Fn(&str) -> f64 {
        let of = format!("machine = 'ols2005'\noffered = {offered:?}\nduration_ms = 50\n{more}");
        let values = run(of.parse().unwrap(), &Context { changes: Vec::new(), go_on: &|| true }).unwrap();
        move |name| match values[name] {
            Value::Number(Some(number)) => number,
            _ => panic!("one number that was observed"),
        }
    }

    #[test]
    fn a_process_reads_what_the_softirq_and_its_socket_leave_it() {
        let quiet = at(5e4, "driver = 'intel-5.7.6'");
        assert!((quiet("pps") - 5e4).abs() < 500.0, "{}", quiet("pps"));
        assert!(quiet("dropped_socket_pps") == 0.0 && quiet("dropped_backlog_pps") == 0.0);
        // With a CPU of its own it gets all datagrams that the softirq hands up; NAPI takes no more than it
        // can handle.
        let flooded = at(8e5, "driver = 'intel-5.7.6'");
        assert!((1e5..6e5).contains(&flooded("pps")), "{}", flooded("pps"));
        let missing = flooded("taken_pps") - flooded("dropped_socket_pps") - flooded("pps");
        assert!(missing.abs() < 0.01 * flooded("taken_pps"), "{missing}");
        // On one CPU the softirq comes first, and the process gets what its thread leaves.
        let alone = at(8e5, "driver = 'intel-5.7.6'\nset = { 'machine.cpus' = 1 }");
        assert!(alone("pps") < 0.8 * flooded("pps"), "{} {}", alone("pps"), flooded("pps"));
    }
}
