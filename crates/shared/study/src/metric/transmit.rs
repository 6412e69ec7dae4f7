//! Transmitting: a driver whose application always has another frame.

use super::setting::{Setting, configuration};
use super::{Context, Values, ms};
use kpps_frames::Size;
use kpps_sim::workload::transmit::transmit_by_nic;
use kpps_sim::{Features, Pieces, RateLimitedSetup, transmit_with};
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

/// `pps`, `card_idle`, `wire_idle` (shares of the time), `interrupts_per_s`, `reads_per_frame`,
/// `writes_per_frame`, `data_bursts_per_frame`, `cpu_busy`, `cpu_used` (without idle polls).
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
    let registers = sent.registers_per_frame;
    let values: [(&str, Option<f64>); 9] = [
        ("pps", sent.pps.into()),
        ("card_idle", sent.card_idle.into()),
        ("wire_idle", sent.wire_idle),
        ("interrupts_per_s", sent.interrupts_per_s.into()),
        ("reads_per_frame", registers.map(|(reads, _)| reads)),
        ("writes_per_frame", registers.map(|(_, writes)| writes)),
        ("data_bursts_per_frame", sent.data_bursts_per_frame),
        ("cpu_busy", sent.cpu.busy().into()),
        ("cpu_used", sent.cpu.used().into()),
    ];
    Ok(values.into_iter().map(|(name, value)| (name.to_owned(), value.into())).collect())
}

#[derive(Deserialize)]
struct OfNic {
    machine: String,
    nic: String,
    #[serde(default)]
    set: toml::Table,
    #[serde(default = "least")]
    size: u16,
    #[serde(default = "ms::<10>")]
    warmup_ms: u32,
    #[serde(default = "ms::<50>")]
    duration_ms: u32,
}

fn least() -> u16 {
    Size::MIN.bytes_with_fcs() as u16
}

/// For a rate-limited NIC: `pps`, `card_idle`, `interrupts_per_s`, `cpu_busy`.
pub(super) fn nic(of: toml::Table, context: &Context) -> Result<Values, String> {
    let of: OfNic = configuration(of)?;
    let changes = super::changes(&of.set, &[], context)?;
    let setup = RateLimitedSetup::changed(&of.machine, Some(&of.nic), &changes).map_err(|e| e.to_string())?;
    let times = (of.warmup_ms, of.duration_ms);
    let sent =
        transmit_by_nic(&setup, Size::with_fcs(of.size), times, context.go_on).map_err(|e| e.to_string())?;
    let values = [
        ("pps", sent.pps),
        ("card_idle", sent.card_idle),
        ("interrupts_per_s", sent.interrupts_per_s),
        ("cpu_busy", sent.cpu.busy()),
    ];
    Ok(values.map(|(name, value)| (name.to_owned(), value.into())).into())
}
