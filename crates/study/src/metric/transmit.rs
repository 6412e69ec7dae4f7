//! Transmitting: a driver whose application always has another frame.

use super::setting::{Setting, configuration};
use super::{Context, Values, ms};
use kpps_sim::{Features, Pieces, transmit_with};
use serde::Deserialize;

#[derive(Deserialize)]
struct Of {
    #[serde(flatten)]
    setting: Setting,
    /// Buffers that a frame comes in.
    #[serde(default = "one")]
    fragments: usize,
    /// The driver copies them into one.
    #[serde(default)]
    coalesce: bool,
    #[serde(default = "ms::<10>")]
    warmup_ms: u32,
    #[serde(default = "ms::<50>")]
    duration_ms: u32,
}

fn one() -> usize {
    1
}

/// `pps`, `card_idle`, `wire_idle` (shares of the time), `interrupts_per_s`, `reads_per_packet`,
/// `writes_per_packet`, `data_bursts_per_packet`, `cpu_busy`, `cpu_used` (without idle polls).
pub(super) fn transmit(of: toml::Table, context: &Context) -> Result<Values, String> {
    let of: Of = configuration(of)?;
    let setup = of.setting.setup(context)?;
    let pieces = match (of.fragments, of.coalesce) {
        (1, _) => Pieces::One,
        (_, true) => Pieces::Coalesced,
        (many, false) => Pieces::Many(many),
    };
    let features = Features { pieces, ..Features::default() };
    let sent =
        transmit_with(&setup, of.setting.size(), &features, (of.warmup_ms, of.duration_ms), context.go_on)
            .map_err(|error| error.to_string())?;
    let registers = sent.registers_per_packet;
    let values: [(&str, Option<f64>); 9] = [
        ("pps", sent.pps.into()),
        ("card_idle", sent.card_idle.into()),
        ("wire_idle", sent.wire_idle.into()),
        ("interrupts_per_s", sent.interrupts_per_s.into()),
        ("reads_per_packet", registers.map(|(reads, _)| reads)),
        ("writes_per_packet", registers.map(|(_, writes)| writes)),
        ("data_bursts_per_packet", sent.data_bursts_per_packet),
        ("cpu_busy", sent.cpu.busy().into()),
        ("cpu_used", sent.cpu.used().into()),
    ];
    Ok(values.into_iter().map(|(name, value)| (name.to_owned(), value.into())).collect())
}
