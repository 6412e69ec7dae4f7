//! UDP datagrams in fragments, and the work that a card's packet checksums spare the stack.

use super::offered::OneOrMany;
use super::setting::{Setting, configuration};
use super::{Context, Values, columns};
use kpps_sim::workload::fragments::receive;
use serde::Deserialize;

#[derive(Deserialize)]
struct Of {
    #[serde(flatten)]
    setting: Setting,
    /// Bytes of UDP payload; several give lists.
    payload: OneOrMany<u16>,
    /// Whether datagrams have a UDP checksum.
    #[serde(default = "yes")]
    udp_checksum: bool,
}

fn yes() -> bool {
    true
}

/// For each payload: `frames` of the datagram, `checked_by_card` and `helped` of them, `summed_bytes` that
/// the stack sums itself, `accepted` (1 or 0), and of copies with one bit wrong how many there are,
/// `damaged`, and how many the stack `refused`. See [`kpps_sim::workload::fragments::Checked`].
pub(super) fn run(of: toml::Table, context: &Context) -> Result<Values, String> {
    let of: Of = configuration(of)?;
    let chip = of.setting.setup(context)?.card.chip;
    let row = |payload| {
        let checked = receive(chip, payload, of.udp_checksum)?;
        let count = |count: usize| count as f64;
        Ok(vec![
            ("payload_bytes", f64::from(payload)),
            ("frames", count(checked.frames)),
            ("checked_by_card", count(checked.checked_by_card)),
            ("helped", count(checked.helped)),
            ("summed_bytes", count(checked.summed_bytes)),
            ("accepted", count(checked.accepted.into())),
            ("damaged", count(checked.damaged)),
            ("refused", count(checked.refused)),
        ])
    };
    columns(of.payload.list().into_iter().map(row).collect::<Result<_, String>>()?)
}
