//! A bridge, or another app, between two ports of a tester ([`kpps_sim::workload::forward`]).

use super::offered::{Offered, OneOrMany};
use super::setting::{Setting, configuration};
use super::{Context, Values, columns, ms};
use kpps_frames::Size;
use kpps_methods::Load;
use kpps_sim::workload::forward::line_pps;
use kpps_sim::{AppKind, ForwardingTestbed, PerFrame};
use serde::Deserialize;

#[derive(Deserialize)]
struct Of {
    #[serde(flatten)]
    setting: Setting,
    #[serde(default)]
    app: AppKind,
    /// The whole load comes in by the first port.
    #[serde(default)]
    one_way: bool,
    /// Loads of both ports together. A load above the rate of the wires is reduced to that rate.
    offered: Offered,
    /// Frame sizes in bytes with FCS, instead of the setting's.
    sizes: Option<OneOrMany<u16>>,
    #[serde(default = "ms::<20>")]
    warmup_ms: u32,
    #[serde(default = "ms::<40>")]
    duration_ms: u32,
}

impl Of {
    fn testbed(&self, context: &Context) -> Result<ForwardingTestbed, String> {
        let setup = self.setting.setup(context)?;
        let forwarding = ForwardingTestbed::new(setup, self.app);
        Ok(if self.one_way { forwarding.one_way() } else { forwarding })
    }

    /// The loads of every size.
    fn loads(&self) -> Vec<Load> {
        let sizes = match &self.sizes {
            None => vec![self.setting.size()],
            Some(sizes) => sizes.list().into_iter().map(Size::with_fcs).collect(),
        };
        let loads = |size| {
            let line_pps = if self.one_way { line_pps(size) / 2.0 } else { line_pps(size) };
            self.offered.pps(line_pps).into_iter().map(move |offered_pps| {
                Load::of(offered_pps.min(line_pps), size).lasting_ms(self.warmup_ms, self.duration_ms)
            })
        };
        sizes.into_iter().flat_map(loads).collect()
    }
}

/// For each size and load:
///
/// - `size`, `offered_pps`, `forwarded_pps`; for each direction `sent_0`, `forwarded_0`, `sent_1`,
///   `forwarded_1`;
/// - `wrong` and `overtaken` frames;
/// - of the whole trial `ledger_sent`, `ledger_delivered`, `ledger_dropped`, `ledger_in_flight`,
///   `unexplained`;
/// - `cpu_busy` of the first CPU and `cpu_busy_last` of the last; `bus_busy`;
/// - for each frame taken `interrupts_per_frame`, `reads_per_frame`, `writes_per_frame`,
///   `transactions_per_frame`, `allocations_per_frame`, `line_transfers_per_frame`;
/// - `mask_writes` in the measured time.
pub(super) fn run(of: toml::Table, context: &Context) -> Result<Values, String> {
    let of: Of = configuration(of)?;
    let testbed = of.testbed(context)?;
    let row = |load: Load| {
        let bridged = testbed.forwarded(&load, context.go_on).map_err(|e| e.to_string())?;
        let (trial, [there, back]) = (&bridged.trial, bridged.directions);
        let each = |of: fn(&PerFrame) -> f64| bridged.per_frame.as_ref().map(of);
        let ledger = &trial.ledger;
        let (Some(bus_busy), Some(first), Some(last)) =
            (trial.bus_busy, bridged.cpus.first(), bridged.cpus.last())
        else {
            return Err("the trial has no values of the bus and of CPUs".into());
        };
        Ok(vec![
            ("size", Some(load.sizes.mean_bytes_with_fcs())),
            ("offered_pps", load.rate.pps()),
            ("forwarded_pps", Some(bridged.pps())),
            ("sent_0", Some(there.sent as f64)),
            ("forwarded_0", Some(there.forwarded as f64)),
            ("sent_1", Some(back.sent as f64)),
            ("forwarded_1", Some(back.forwarded as f64)),
            ("wrong", Some(bridged.wrong as f64)),
            ("overtaken", Some(bridged.overtaken as f64)),
            ("ledger_sent", Some(ledger.sent as f64)),
            ("ledger_delivered", Some(ledger.delivered as f64)),
            ("ledger_dropped", Some(ledger.dropped.values().sum::<u64>() as f64)),
            ("ledger_in_flight", Some(ledger.in_flight as f64)),
            ("unexplained", Some(ledger.unexplained as f64)),
            ("cpu_busy", Some(first.busy())),
            ("cpu_busy_last", Some(last.busy())),
            ("bus_busy", Some(bus_busy)),
            ("interrupts_per_frame", each(|frame| frame.interrupts)),
            ("reads_per_frame", each(|frame| frame.register_reads)),
            ("writes_per_frame", each(|frame| frame.register_writes)),
            ("transactions_per_frame", each(|frame| frame.bus_transactions)),
            ("allocations_per_frame", each(|frame| frame.allocations)),
            ("line_transfers_per_frame", each(|frame| frame.line_transfers)),
            ("mask_writes", Some(bridged.mask_writes as f64)),
        ])
    };
    columns(of.loads().into_iter().map(row).collect::<Result<Vec<_>, String>>()?)
}

/// For each size and load: `timeouts`, the transmit queues that stopped for longer than the kernel's watchdog
/// allows; `longest_stop_ms`; and `simulated_ms` under load. The configuration's times are not used.
pub(super) fn watchdog(of: toml::Table, context: &Context) -> Result<Values, String> {
    let of: Of = configuration(of)?;
    let testbed = of.testbed(context)?;
    let row = |load: Load| {
        let seen = testbed.watchdogs(&load, context.go_on).map_err(|e| e.to_string())?;
        Ok(vec![
            ("timeouts", f64::from(seen.timeouts)),
            ("longest_stop_ms", seen.longest_stop_ms),
            ("simulated_ms", f64::from(seen.simulated_ms)),
        ])
    };
    columns(of.loads().into_iter().map(row).collect::<Result<Vec<_>, String>>()?)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn of(text: &str) -> Result<Of, toml::de::Error> {
        toml::from_str(&format!("machine = 'lunz2003'\ndriver = 'kpps'\noffered = 'line'\n{text}"))
    }

    #[test]
    fn one_way_offers_what_one_wire_carries() {
        let offered = |text: &str| of(text).unwrap().loads()[0].rate.pps().unwrap();
        assert_eq!(offered("app = 'route'").round(), 2_976_190.0);
        assert_eq!(offered("app = 'route'\none_way = true").round(), 1_488_095.0);
        let error = of("app = 'fly'").err().unwrap().to_string();
        assert!(error.contains("there is no app 'fly'"), "{error}");
    }
}
