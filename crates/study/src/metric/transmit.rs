//! Sending.

use super::setting::{Setting, configuration};
use super::{Context, Values};
use serde::Deserialize;

#[derive(Deserialize)]
struct Of {
    #[serde(flatten)]
    setting: Setting,
    #[serde(default = "warmup_ms")]
    warmup_ms: u32,
    #[serde(default = "duration_ms")]
    duration_ms: u32,
}

fn warmup_ms() -> u32 {
    10
}

fn duration_ms() -> u32 {
    50
}

/// `pps`, `card_idle`, `wire_idle` (shares of the time), `interrupts_per_s`, `reads_per_packet`, `writes_per_packet`,
/// `cpu_busy`.
pub(super) fn transmit(of: toml::Table, context: &Context) -> Result<Values, String> {
    let of: Of = configuration(of)?;
    let setup = of.setting.setup(context)?;
    let sent = kpps_testbed::transmit(&setup, of.setting.size(), of.warmup_ms, of.duration_ms)
        .map_err(|error| error.to_string())?;
    let (reads, writes) = sent.registers_per_packet;
    let values = [
        ("pps", sent.pps),
        ("card_idle", sent.card_idle),
        ("wire_idle", sent.wire_idle),
        ("interrupts_per_s", sent.interrupts_per_s),
        ("reads_per_packet", reads),
        ("writes_per_packet", writes),
        ("cpu_busy", sent.cpu.busy()),
    ];
    Ok(values.into_iter().map(|(name, value)| (name.to_owned(), value.into())).collect())
}
