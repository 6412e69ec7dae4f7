//! The documents of the simulator's measurements other than curves.

use crate::trace::{Port, Trace, regimes};
use crate::workload::freebsd::Process;
use crate::workload::rss::{Limit, Scaled, Scaling, stop};
use crate::workload::trace::Tracing;
use crate::{AnySetup, Function, Level, PerFrame, Profile, RateLimitedSetup, Sent, Setup, Transmit};
use kpps_documents::{Environment, Registers, known, rounded, simulation};
use kpps_frames::{Size, rate};
use kpps_host::bus::{Event, EventKind, Master, Transaction};
use kpps_methods::Load;

/// The rates of drivers for frames of `size`, measured for `duration_ms`. There are fewer results than
/// drivers after an interruption. `program` is the name of the process that sends, if there is one.
pub fn transmit(
    setups: &[AnySetup],
    program: Option<String>,
    sent: &[Sent],
    size: Size,
    duration_ms: u64,
) -> simulation::Transmit {
    let environment = Environment {
        frame_bytes_with_fcs: Some(size.bytes_with_fcs()),
        duration_s: Some(duration_ms as f64 / 1e3),
        line_rate_pps: setups
            .first()
            .map(|setup| rounded(rate::line_rate_pps(setup.link_bits_per_s(), size))),
        program,
        ..AnySetup::environment_of(setups)
    };
    let process = |sent: &Transmit, process: Process| simulation::SendingProcess {
        refused_per_sent: Some(rounded(process.refused)).filter(|_| sent.pps > 0.0),
        wasted: rounded(process.wasted),
        interrupt_load: rounded(process.load.interrupt),
        system_load: rounded(process.load.system),
        user_load: rounded(process.load.user),
    };
    let row = |setup: &AnySetup, Sent { frames: sent, process: by, gaps }: &Sent| simulation::TransmitRow {
        name: setup.name().to_owned(),
        sent_pps: rounded(sent.pps),
        card_idle: rounded(sent.card_idle),
        wire_idle: sent.wire_idle.and_then(known),
        cpu_busy: rounded(sent.cpu.busy()),
        cpu_used: rounded(sent.cpu.used()),
        bus_busy: rounded(sent.bus_busy),
        data_bursts_per_frame: sent.data_bursts_per_frame.and_then(known),
        interrupts_per_s: rounded(sent.interrupts_per_s),
        registers_per_frame: sent
            .registers_per_frame
            .map(|(read, write)| Registers { read: rounded(read), write: rounded(write) }),
        process: by.map(|by| process(sent, by)),
        gaps: gaps.map(|gaps| simulation::ExactGaps {
            fillers_per_frame: rounded(gaps.fillers_per_frame),
            rounded: rounded(gaps.rounded),
            most_rounded_ns: gaps.most_rounded_ns,
            most_deviation_ns: gaps.most_deviation_ns,
        }),
    };
    simulation::Transmit {
        environment,
        rows: setups.iter().zip(sent).map(|(setup, sent)| row(setup, sent)).collect(),
        complete: sent.len() == setups.len(),
        ..simulation::Transmit::default()
    }
}

/// Where more CPUs stop helping, in a sentence.
fn sentence(rows: &[Scaled]) -> String {
    let why = |limit: Limit| match limit {
        Limit::Load => "all that was offered was delivered".to_owned(),
        limit => format!("the limit is {limit}"),
    };
    match (stop(rows), rows.last()) {
        (Some((_, Limit::Load)), Some(row)) if row.cpus == 1 => "All that was offered was delivered.".into(),
        (Some((1, limit)), _) => format!("More than one CPU does not raise the rate: {}.", why(limit)),
        (Some((enough, limit)), _) => {
            format!("More than {enough} CPUs do not raise the rate: {}.", why(limit))
        }
        (None, Some(row)) if row.cpus == 1 => {
            format!("Only one CPU was tried: the limit is {}.", row.limit)
        }
        (None, Some(row)) => {
            format!("The rate still rises with {} CPUs: the limit there is {}.", row.cpus, row.limit)
        }
        (None, None) => String::new(),
    }
}

/// Packets per second against CPUs. There is at least one trial, and there are fewer results than trials
/// after an interruption.
pub fn scale(trials: &[(&RateLimitedSetup, Scaling)], rows: &[Scaled]) -> simulation::Scale {
    let Some((setup, what)) = trials.first() else { return simulation::Scale::default() };
    let environment = Environment {
        flows: Some(what.flows),
        shared_lines: Some(what.shared_lines),
        seed: Some(what.load.seed),
        frame_bytes_with_fcs: Some(what.load.sizes.mean_bytes_with_fcs() as u32),
        duration_s: Some(what.load.seconds()),
        ..setup.environment()
    };
    let each = |row: &Scaled| {
        let busy = &row.busy;
        simulation::ScaleRow {
            cpus: row.cpus,
            offered_pps: rounded(row.offered_pps),
            delivered_pps: rounded(row.delivered_pps),
            stopped_by: row.limit.to_string(),
            latency_ns: row.latency_ns,
            busy: simulation::ScaleBusy {
                wire: rounded(busy.wire),
                card: rounded(busy.card),
                card_engine: rounded(busy.engine),
                bus: rounded(busy.bus),
                memory: busy.memory.map(rounded),
                cpus: busy.cpus.iter().copied().map(rounded).collect(),
            },
            cpus_waiting: rounded(busy.shared),
            header_misses_per_frame: row.header_misses.and_then(known),
            cache_misses_per_frame: row.per_frame.and_then(|each| known(each.cache_misses)),
            bus_transactions_per_frame: row.per_frame.and_then(|each| known(each.bus_transactions)),
            ledger: row.ledger.clone(),
        }
    };
    simulation::Scale {
        environment,
        rows: rows.iter().map(each).collect(),
        stops_at_cpus: stop(rows).map(|(cpus, _)| cpus),
        summary: sentence(rows),
        complete: rows.len() == trials.len(),
        ..simulation::Scale::default()
    }
}

/// A profile of a machine under load.
pub struct Profiling {
    /// The machine.
    pub setup: Setup,
    /// The name of the app between two cards, if there is one.
    pub app: Option<String>,
    /// The load.
    pub load: Load,
    /// Its rate in frames per second.
    pub offered_pps: f64,
    /// Frames delivered per second.
    pub delivered_pps: f64,
    /// Frames that the driver took from its device; `None` if it does not say.
    pub frames: Option<u64>,
    /// Measured time in s.
    pub seconds: f64,
    /// CPU time by function and level.
    pub profile: Profile,
    /// The cost of each frame; `None` without frames.
    pub per_frame: Option<PerFrame>,
}

impl Profiling {
    fn ns_per_frame(&self, ps: u64) -> Option<f64> {
        let frames = self.frames.filter(|&frames| frames > 0)?;
        Some(ps as f64 / 1e3 / frames as f64)
    }

    /// The counts for each frame that the driver took, by name.
    fn counts(&self) -> [(&'static str, Option<f64>); 8] {
        let each = |of: fn(&PerFrame) -> f64| self.per_frame.as_ref().map(of);
        [
            ("interrupts", each(|frame| frame.interrupts)),
            ("register_reads", each(|frame| frame.register_reads)),
            ("register_writes", each(|frame| frame.register_writes)),
            ("bus_transactions", each(|frame| frame.bus_transactions)),
            ("allocations", each(|frame| frame.allocations)),
            ("allocated_bytes", each(|frame| frame.allocated_bytes)),
            ("cache_misses", each(|frame| frame.cache_misses)),
            ("line_transfers", each(|frame| frame.line_transfers)),
        ]
    }
}

fn word(level: Level) -> &'static str {
    match level {
        Level::Process => "process",
        Level::Thread => "thread",
        Level::Softirq => "softirq",
        Level::Hardirq => "interrupt",
    }
}

/// Where CPU time goes.
pub fn profile(outcome: &Profiling) -> simulation::Profile {
    let Profiling { setup, profile, load, .. } = outcome;
    let total = profile.total_ps().max(1) as f64;
    let row = |function: Function, level: Option<Level>, ps: u64| simulation::ProfileRow {
        function: function.name().into(),
        level: level.map(|level| word(level).into()),
        share: rounded(ps as f64 / total),
        ns_per_frame: outcome.ns_per_frame(ps).and_then(known),
    };
    simulation::Profile {
        environment: Environment {
            app: outcome.app.clone(),
            frame_bytes_with_fcs: Some(load.sizes.mean_bytes_with_fcs() as u32),
            duration_s: Some(load.seconds()),
            ..setup.environment()
        },
        offered_pps: rounded(outcome.offered_pps),
        delivered_pps: rounded(outcome.delivered_pps),
        cpu_busy: rounded(profile.total_ps() as f64 / outcome.seconds / 1e12),
        per_frame: outcome.counts().map(|(name, count)| (name.into(), count.and_then(known))).into(),
        functions: profile.functions().iter().map(|&(f, ps)| row(f, None, ps)).collect(),
        rows: profile.rows().iter().map(|&(l, f, ps)| row(f, Some(l), ps)).collect(),
        ..simulation::Profile::default()
    }
}

/// The document of a machine's bus.
pub fn trace(setup: &Setup, what: &Tracing, trace: &Trace) -> simulation::BusTrace {
    let regimes = regimes(trace, 0);
    simulation::BusTrace {
        environment: Environment {
            frame_bytes_with_fcs: Some(what.size.bytes_with_fcs()),
            duration_s: Some(what.duration_us as f64 / 1e6),
            ..setup.environment()
        },
        offered_pps: rounded(what.offered_pps),
        seconds: rounded(trace.seconds()),
        clock_ps: trace.clock_ps,
        bus_busy: rounded(trace.bus_busy()),
        bus_bytes_per_s: rounded(trace.bus_mb_per_s() * 1e6).round(),
        cards: trace.ports.iter().map(traced_card).collect(),
        enough_descriptors: simulation::EnoughDescriptors {
            clocks: regimes.smooth_clocks.and_then(known),
            frames: regimes.smooth_frames as u64,
            frames_per_us: regimes.smooth_frames_per_us.and_then(known),
            frame_gap_clocks: regimes.frame_gap_clocks.and_then(known),
            group_gap_clocks: regimes.group_gap_clocks.and_then(known),
            frames_per_write_back: regimes.group_frames.and_then(known),
            write_back_after_clocks: regimes.write_back_after_clocks.and_then(known),
            write_back_gap_clocks: regimes.write_back_gap_clocks.and_then(known),
            write_back_descriptors: regimes.write_back_descriptors.and_then(known),
            frames_per_fetch: regimes.fetch_frames.and_then(known),
            fetch_bursts: regimes.fetch_bursts.and_then(known),
            burst_descriptors: regimes.fetch_descriptors.and_then(known),
            tail_updates: regimes.tail_updates.and_then(known),
            tail_descriptors: regimes.tail_descriptors.and_then(known),
        },
        short_of_descriptors: regimes.stumbled.then(|| simulation::ShortOfDescriptors {
            frames_per_us: regimes.stumble_frames_per_us.and_then(known),
            longest_gap_clocks: regimes.stumble_gap_clocks.and_then(known),
            shortest_gap_clocks: regimes.stumble_least_clocks.and_then(known),
            median_gap_clocks: regimes.stumble_gap_median_clocks.and_then(known),
        }),
        transactions: trace.log.transactions().map(|it| transaction(trace, it)).collect(),
        events: trace.log.events().map(|it| event(trace, it)).collect(),
        not_kept: trace.log.lost(),
        ..simulation::BusTrace::default()
    }
}

fn traced_card(port: &Port) -> simulation::TracedCard {
    simulation::TracedCard {
        sent: port.sent,
        delivered: port.delivered,
        missed: port.missed,
        fetches_cut: port.card.rx_fetches_cut - port.card_before.rx_fetches_cut,
    }
}

fn transaction(trace: &Trace, it: &Transaction) -> simulation::BusTransaction {
    let clock = (it.start_ps as f64 - trace.began_ps as f64) / trace.clock_ps as f64;
    simulation::BusTransaction {
        clock: (clock * 100.0).round() / 100.0,
        clocks: (it.end_ps - it.start_ps).div_ceil(trace.clock_ps),
        master: match it.master {
            Master::Bridge => "cpu".into(),
            Master::Card(slot) => format!("card{slot}"),
            Master::Background => "background".into(),
        },
        what: it.what.name().into(),
        address: format!("{:#x}", it.address),
        bytes: it.bytes,
        cut: it.cut,
    }
}

fn event(trace: &Trace, it: &Event) -> simulation::BusEvent {
    let since_ps = it.at_ps.saturating_sub(trace.began_ps);
    let (event, access) = match it.kind {
        EventKind::Interrupt => ("interrupt", None),
        EventKind::Read { offset, value } => ("read", Some((offset, value))),
        EventKind::Write { offset, value } => ("write", Some((offset, value))),
    };
    simulation::BusEvent {
        clock: since_ps / trace.clock_ps,
        ns: since_ps / 1000,
        card: it.slot,
        event: event.into(),
        register: access.map(|(offset, _)| format!("{offset:#06x}")),
        value: access.map(|(_, value)| format!("{value:#x}")),
    }
}
