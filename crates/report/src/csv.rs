//! The points as comma-separated values.

use crate::{Column, Field, Kind, Rows};
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
        rows: points
            .map(|(series, it)| [vec![series.name.clone().into()], columns.row(it)].concat())
            .collect(),
        columns: [vec!["series".into()], columns.header()].concat(),
    }
}

/// The row of one trial.
pub(crate) fn row(trial: &Trial) -> Rows {
    let columns = Columns::of(std::iter::once(trial));
    Rows { columns: columns.header(), rows: vec![columns.row(trial)] }
}

/// The columns that every point has.
const COLUMNS: [(&str, Kind); 22] = [
    ("offered_pps", Kind::Number),
    ("sent_pps", Kind::Number),
    ("delivered_pps", Kind::Number),
    ("loss_ratio", Kind::Number),
    ("cpu_busy", Kind::Number),
    ("cpu_hardirq", Kind::Number),
    ("cpu_softirq", Kind::Number),
    ("cpu_thread", Kind::Number),
    ("cpu_idle_polls", Kind::Number),
    ("bus_busy", Kind::Number),
    ("interrupts_per_s", Kind::Number),
    ("latency_p50_ns", Kind::Whole),
    ("latency_p99_ns", Kind::Whole),
    ("latency_p999_ns", Kind::Whole),
    ("latency_max_ns", Kind::Whole),
    ("register_reads_per_packet", Kind::Number),
    ("register_writes_per_packet", Kind::Number),
    ("allocations_per_packet", Kind::Number),
    ("sent", Kind::Whole),
    ("shortfall", Kind::Whole),
    ("delivered", Kind::Whole),
    ("in_flight", Kind::Whole),
];

/// The columns of points that have lost frames at these places.
#[derive(Default)]
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

    pub(crate) fn header(&self) -> Vec<Column> {
        let mut header: Vec<Column> =
            COLUMNS.map(|(name, kind)| Column { name: name.into(), kind: Some(kind) }).into();
        header.extend(self.overflow.then(|| "overflow".into()));
        header.extend(self.age.then(|| "age_s".into()));
        header.extend(self.dropped.iter().map(|place| format!("dropped[{place}]").into()));
        header.extend(self.in_flight.iter().map(|place| format!("in_flight_at[{place}]").into()));
        header
    }

    pub(crate) fn row(&self, p: &Trial) -> Vec<Field> {
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
        let mut row: Vec<Field> = rates.into_iter().chain(shares).map(Field::from).collect();
        let times = p.latency_ns;
        row.extend([times.p50, times.p99, times.p999, times.max].map(Field::from));
        let registers = p.registers_per_packet;
        let accesses = [registers.map(|each| each.read), registers.map(|each| each.write)];
        row.extend(accesses.into_iter().chain([p.allocations_per_packet]).map(Field::from));
        let l = &p.ledger;
        row.extend([l.sent, l.shortfall, l.delivered, l.in_flight].map(Field::from));
        row.extend(self.overflow.then(|| p.overflow.into()));
        row.extend(self.age.then(|| p.age_s.into()));
        row.extend(self.dropped.iter().map(|place| (*l.dropped.get(*place).unwrap_or(&0)).into()));
        row.extend(self.in_flight.iter().map(|place| (*l.in_flight_at.get(*place).unwrap_or(&0)).into()));
        row
    }
}
