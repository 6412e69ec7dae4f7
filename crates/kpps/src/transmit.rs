//! `kpps transmit`: how many frames each driver sends.

use crate::error::{Failure, print};
use crate::units;
use clap::Args;
use kpps_frames::{Size, rate};
use kpps_testbed::{Setup, Transmit, transmit};
use std::fmt::Write;
use std::time::Duration;

/// Arguments of `kpps transmit`.
#[derive(Args)]
pub struct Arguments {
    /// The machine: a name (`kpps list machines`) or a .toml file
    #[arg(long, default_value = "morris2000")]
    machine: String,
    /// The chip, if not the machine's own: a name (`kpps list chips`) or a .toml file
    #[arg(long)]
    chip: Option<String>,
    /// Driver presets: names (`kpps list drivers`) or .toml files
    #[arg(long, value_delimiter = ',', default_values = ["intel-2.5.11", "intel-2.5.11-fix", "click-polling", "intel-5.7.6", "kpps"])]
    driver: Vec<String>,
    /// Frame size in bytes with FCS
    #[arg(long, default_value = "64", value_parser = units::size)]
    size: Size,
    /// How long to measure, in virtual time
    #[arg(long, default_value = "50ms", value_parser = units::duration)]
    duration: Duration,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Runs `kpps transmit`.
pub fn run(arguments: &Arguments) -> Result<(), Failure> {
    let setups: Vec<Setup> = arguments
        .driver
        .iter()
        .map(|driver| Setup::named(&arguments.machine, arguments.chip.as_deref(), driver))
        .collect::<Result<_, _>>()?;
    crate::error::refuse_twice(setups.iter().map(|s| s.driver.as_str()))?;
    let millis = u32::try_from(arguments.duration.as_millis()).unwrap_or(u32::MAX);
    let rows: Vec<(&Setup, Transmit)> = setups
        .iter()
        .map(|setup| Ok((setup, transmit(setup, arguments.size, 10, millis)?)))
        .collect::<Result<_, Failure>>()?;
    print(&if arguments.json { json(arguments, &rows) } else { table(arguments, &rows) })
}

fn table(arguments: &Arguments, rows: &[(&Setup, Transmit)]) -> String {
    let mut text = String::new();
    if let Some((setup, _)) = rows.first() {
        let _ = writeln!(
            text,
            "Sent from {}: {} on {}, frames of {} B with FCS, line rate {:.0} pps\n",
            setup.machine,
            setup.chip,
            setup.bus,
            arguments.size.bytes_with_fcs(),
            rate::line_rate_pps(rate::GIGABIT, arguments.size).floor()
        );
    }
    let width = rows.iter().map(|(s, _)| s.driver.len()).max().unwrap_or(0).max(6);
    let _ = writeln!(
        text,
        "{:width$}  {:>9}  {:>9}  {:>9}  {:>8}  {:>12}  {:>12}",
        "driver", "sent", "card idle", "CPU busy", "inter-", "registers/", "of which"
    );
    let _ = writeln!(
        text,
        "{:width$}  {:>9}  {:>9}  {:>9}  {:>8}  {:>12}  {:>12}",
        "", "kpps", "%", "%", "rupts/s", "packet", "reads"
    );
    for (setup, sent) in rows {
        let (reads, writes) = sent.registers_per_packet;
        let _ = writeln!(
            text,
            "{:width$}  {:>9.1}  {:>9.1}  {:>9.1}  {:>8.0}  {:>12.3}  {:>12.3}",
            setup.driver,
            sent.pps / 1e3,
            sent.card_idle * 100.0,
            sent.cpu.busy() * 100.0,
            sent.interrupts_per_s,
            reads + writes,
            reads
        );
    }
    text
}

fn json(arguments: &Arguments, rows: &[(&Setup, Transmit)]) -> String {
    let round = |value: f64| (value * 1e6).round() / 1e6;
    let environment = rows.first().map(|(setup, _)| {
        serde_json::json!({
            "kpps": env!("CARGO_PKG_VERSION"), "testbed": "sim", "machine": setup.machine, "chip": setup.chip,
            "bus": setup.bus, "host": setup.host, "stack": setup.stack,
            "frame_bytes_with_fcs": arguments.size.bytes_with_fcs(),
            "duration_ms": arguments.duration.as_millis() as u64,
            "profiles_hash": kpps_profiles::hash(&setup.own_profiles),
        })
    });
    let rows: Vec<_> = rows
        .iter()
        .map(|(setup, sent)| {
            serde_json::json!({
                "name": setup.driver,
                "sent_pps": round(sent.pps),
                "card_idle": round(sent.card_idle),
                "wire_idle": round(sent.wire_idle),
                "cpu_busy": round(sent.cpu.busy()),
                "interrupts_per_s": round(sent.interrupts_per_s),
                "registers_per_packet": {
                    "read": round(sent.registers_per_packet.0), "write": round(sent.registers_per_packet.1),
                },
            })
        })
        .collect();
    let document = serde_json::json!({"kind": "transmit", "environment": environment, "rows": rows});
    format!("{document:#}")
}
