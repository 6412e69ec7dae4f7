//! The points as comma-separated values.

use crate::Rows;
use kpps_results::{Cpu, Curve, Trial};
use std::collections::BTreeSet;

/// One line for each point of each series, under a header with units. Places have a column each:
/// `dropped[place]` and `in_flight_at[place]`, in packets. An empty field means that there is
/// no such value: the testbed does not observe it, or no packet was delivered.
pub fn csv(curve: &Curve) -> String {
    rows(curve).csv()
}

/// A row for each point of each series.
pub(crate) fn rows(curve: &Curve) -> Rows {
    let columns = Columns::of(curve.series.iter().flat_map(|series| &series.points));
    let points = curve.series.iter().flat_map(|series| series.points.iter().map(move |it| (series, it)));
    Rows {
        rows: points.map(|(series, it)| [vec![series.name.clone()], columns.row(it)].concat()).collect(),
        columns: [vec!["series".to_owned()], columns.header()].concat(),
    }
}

/// The columns of points that have lost frames at these places.
pub(crate) struct Columns<'a> {
    dropped: BTreeSet<&'a String>,
    in_flight: BTreeSet<&'a String>,
    /// Whether a tester received: what it could not take in, if it counted that.
    overflow: bool,
    /// Whether an earlier run measured some of them.
    age: bool,
}

impl<'a> Columns<'a> {
    pub(crate) fn of(points: impl Iterator<Item = &'a Trial> + Clone) -> Self {
        Self {
            dropped: points.clone().flat_map(|p| p.ledger.dropped.keys()).collect(),
            in_flight: points.clone().flat_map(|p| p.ledger.in_flight_at.keys()).collect(),
            overflow: points.clone().any(|p| p.overflow.is_some() || p.overflow_unknown),
            age: points.clone().any(|p| p.age_s.is_some()),
        }
    }

    pub(crate) fn header(&self) -> Vec<String> {
        let mut header: Vec<String> = [
            "offered_pps",
            "sent_pps",
            "delivered_pps",
            "loss_ratio",
            "cpu_busy",
            "cpu_hardirq",
            "cpu_softirq",
            "cpu_thread",
            "cpu_idle_polls",
            "bus_busy",
            "interrupts_per_s",
            "latency_p50_ns",
            "latency_p99_ns",
            "latency_p999_ns",
            "latency_max_ns",
            "register_reads_per_packet",
            "register_writes_per_packet",
            "allocations_per_packet",
            "sent",
            "shortfall",
            "delivered",
            "in_flight",
        ]
        .map(String::from)
        .into();
        header.extend(self.overflow.then(|| "overflow".to_owned()));
        header.extend(self.age.then(|| "age_s".to_owned()));
        header.extend(self.dropped.iter().map(|place| format!("dropped[{place}]")));
        header.extend(self.in_flight.iter().map(|place| format!("in_flight_at[{place}]")));
        header
    }

    pub(crate) fn row(&self, p: &Trial) -> Vec<String> {
        let rates = [p.offered_pps, p.sent_pps, p.delivered_pps, p.loss_ratio].map(Some);
        let cpu = |of: fn(&Cpu) -> Option<f64>| p.cpu.as_ref().and_then(of);
        let shares = [
            p.cpu_busy,
            cpu(|cpu| Some(cpu.hardirq)),
            cpu(|cpu| Some(cpu.softirq)),
            cpu(|cpu| Some(cpu.thread)),
            cpu(|cpu| cpu.idle_polls),
            p.bus_busy,
            p.interrupts_per_s,
        ];
        let mut row: Vec<String> = rates.into_iter().chain(shares).map(field).collect();
        let times = p.latency_ns;
        row.extend([times.p50, times.p99, times.p999, times.max].map(field));
        let registers = p.registers_per_packet;
        let accesses = [registers.map(|each| each.read), registers.map(|each| each.write)];
        row.extend(accesses.into_iter().chain([p.allocations_per_packet]).map(field));
        let l = &p.ledger;
        row.extend([l.sent, l.shortfall, l.delivered, l.in_flight].map(|n| n.to_string()));
        row.extend(self.overflow.then(|| field(p.overflow)));
        row.extend(self.age.then(|| field(p.age_s)));
        row.extend(self.dropped.iter().map(|place| l.dropped.get(*place).unwrap_or(&0).to_string()));
        row.extend(self.in_flight.iter().map(|place| l.in_flight_at.get(*place).unwrap_or(&0).to_string()));
        row
    }
}

/// A value, or nothing if there is none.
fn field<T: ToString>(value: Option<T>) -> String {
    value.map_or_else(String::new, |value| value.to_string())
}
