//! Results of the simulator on the screen: transmit rates, CPU profiles, scaling over CPUs, bus traces.

use crate::Rows;
use crate::forms::{Forms, plain};
use crate::text::TextStyle;
use kpps_documents::Environment;
use kpps_documents::simulation::{BusTrace, Profile, Scale, ScaleRow, Transmit};
use std::collections::BTreeMap;
use std::fmt::Write;

impl Forms for Transmit {
    fn screen(&self, _: TextStyle, notes: &str) -> String {
        transmit(self) + notes
    }
    fn rows(&self) -> Rows {
        Rows::of(&self.rows)
    }
    fn page(&self, _: usize) -> Option<String> {
        Some(plain(&format!("Transmit rates on {}", self.environment.machine), self))
    }
    fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }
}

impl Forms for Profile {
    fn screen(&self, _: TextStyle, notes: &str) -> String {
        profile(self) + notes
    }
    fn rows(&self) -> Rows {
        Rows::of(&self.rows)
    }
    fn page(&self, _: usize) -> Option<String> {
        Some(plain(&format!("CPU profile of {}", self.environment.machine), self))
    }
}

impl Forms for Scale {
    fn screen(&self, _: TextStyle, notes: &str) -> String {
        scale(self) + notes
    }
    fn rows(&self) -> Rows {
        Rows::of(&self.rows)
    }
    fn page(&self, _: usize) -> Option<String> {
        Some(plain(&format!("Frames per second against CPUs on {}", self.environment.machine), self))
    }
    fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }
}

impl Forms for BusTrace {
    fn screen(&self, _: TextStyle, notes: &str) -> String {
        trace(self) + notes
    }
    fn rows(&self) -> Rows {
        Rows::of(&self.transactions)
    }
    fn page(&self, _: usize) -> Option<String> {
        Some(plain(&format!("Bus trace of {}", self.environment.machine), self))
    }
}

/// The line rate in frames per second; by default that of Gigabit Ethernet, where preamble and gap take 20
/// bytes.
fn line_rate_pps(on: &Environment) -> f64 {
    on.line_rate_pps.unwrap_or(1e9 / (f64::from(on.bytes_with_fcs() + 20) * 8.0))
}

/// The rate of each driver, and its cost.
fn transmit(document: &Transmit) -> String {
    let mut text = String::new();
    let on = &document.environment;
    let _ = writeln!(
        text,
        "Sent from {}: {} on {}{}, frames of {} B with FCS, line rate {:.0} pps\n",
        on.machine,
        or_dash(on.card()),
        on.bus,
        on.program.as_ref().map(|program| format!(", {program}")).unwrap_or_default(),
        on.bytes_with_fcs(),
        line_rate_pps(on).floor()
    );
    let width = document.rows.iter().map(|row| row.name.len()).max().unwrap_or(0).max(6);
    let mut line = |name: &str, fields: [String; 9]| {
        let [sent, idle, busy, used, interrupts, registers, reads, bursts, bus] = fields;
        let _ = writeln!(
            text,
            "{name:width$}  {sent:>9}  {idle:>9}  {busy:>9}  {used:>9}  {interrupts:>8}  {registers:>12}  \
             {reads:>12}  {bursts:>9}  {bus:>9}"
        );
    };
    let words = |words: [&str; 9]| words.map(str::to_owned);
    line(
        "driver",
        words([
            "sent",
            "card idle",
            "CPU busy",
            "CPU used",
            "inter-",
            "registers/",
            "of which",
            "bursts/",
            "bus busy",
        ]),
    );
    line("", words(["kpps", "%", "%", "%", "rupts/s", "frame", "reads", "frame", "%"]));
    for row in &document.rows {
        let registers = row.registers_per_frame;
        line(
            &row.name,
            [
                format!("{:.1}", row.sent_pps / 1e3),
                format!("{:.1}", row.card_idle * 100.0),
                format!("{:.1}", row.cpu_busy * 100.0),
                format!("{:.1}", row.cpu_used * 100.0),
                format!("{:.0}", row.interrupts_per_s),
                shown(registers.map(|each| each.read + each.write), 3),
                shown(registers.map(|each| each.read), 3),
                shown(row.data_bursts_per_frame, 3),
                format!("{:.1}", row.bus_busy * 100.0),
            ],
        );
    }
    for table in [sending_process(document, width), exact_gaps(document, width)] {
        if !table.is_empty() {
            text += "\n";
            text += &table;
        }
    }
    text
}

/// How exact the gaps between frames were, with fillers between them.
fn exact_gaps(document: &Transmit, width: usize) -> String {
    let mut text = String::new();
    for row in &document.rows {
        let Some(gaps) = row.gaps else { continue };
        if text.is_empty() {
            let _ = writeln!(
                text,
                "{:width$}  {:>9}  {:>9}  {:>10}  {:>12}\n{:width$}  {:>9}  {:>9}  {:>10}  {:>12}",
                "driver",
                "fillers/",
                "rounded",
                "rounded by",
                "off the plan",
                "",
                "frame",
                "%",
                "at most ns",
                "at most ns"
            );
        }
        let _ = writeln!(
            text,
            "{:width$}  {:>9.3}  {:>9.2}  {:>10.0}  {:>12.0}",
            row.name,
            gaps.fillers_per_frame,
            gaps.rounded * 100.0,
            gaps.most_rounded_ns,
            gaps.most_deviation_ns
        );
    }
    text
}

/// The calls of the process that sends, and where the CPU's time went.
fn sending_process(document: &Transmit, width: usize) -> String {
    let mut text = String::new();
    let mut line = |name: &str, fields: [String; 5]| {
        let [refused, wasted, interrupts, system, user] = fields;
        let _ = writeln!(
            text,
            "{name:width$}  {refused:>9}  {wasted:>9}  {interrupts:>10}  {system:>8}  {user:>8}"
        );
    };
    let words = |words: [&str; 5]| words.map(str::to_owned);
    let mut has_begun = false;
    for row in &document.rows {
        let Some(process) = row.process else { continue };
        if !std::mem::replace(&mut has_begun, true) {
            line("driver", words(["refused/", "wasted", "interrupts", "system", "user"]));
            line("", words(["sent", "%", "%", "%", "%"]));
        }
        let percent = |share: f64| format!("{:.1}", share * 100.0);
        line(
            &row.name,
            [
                shown(process.refused_per_sent, 3),
                percent(process.wasted),
                percent(process.interrupt_load),
                percent(process.system_load),
                percent(process.user_load),
            ],
        );
    }
    text
}

/// Where CPU time goes, by function and level, and the cost of each frame.
fn profile(document: &Profile) -> String {
    let mut text = String::new();
    let on = &document.environment;
    let app = on.app.is_some();
    let _ = writeln!(
        text,
        "{}: {} on {}, {}{}, frames of {} B with FCS, line rate {:.0} pps{}\n\
         offered {:.1} kpps, {} {:.1} kpps, CPU busy {:.1} %\n",
        on.machine,
        or_dash(&on.chip),
        on.bus,
        or_dash(&on.driver),
        on.app.as_ref().map(|app| format!(", {app}")).unwrap_or_default(),
        on.bytes_with_fcs(),
        line_rate_pps(on),
        if app { " each way" } else { "" },
        document.offered_pps / 1e3,
        if app { "forwarded" } else { "delivered" },
        document.delivered_pps / 1e3,
        document.cpu_busy * 100.0,
    );
    let _ = writeln!(text, "{:>6}  {:>9}  {:<9}  function", "%", "ns/frame", "level");
    for row in &document.rows {
        let _ = writeln!(
            text,
            "{:>6.1}  {:>9}  {:<9}  {}",
            row.share * 100.0,
            shown(row.ns_per_frame, 1),
            row.level.as_deref().unwrap_or("–"),
            row.function
        );
    }
    let _ = writeln!(text, "\n each frame  count");
    for (name, count) in &document.per_frame {
        let _ = writeln!(text, "{:>11}  {}", shown(*count, 3), name.replace('_', " "));
    }
    text
}

/// Frames per second against CPUs, and what limits them.
fn scale(document: &Scale) -> String {
    let on = &document.environment;
    let mut text = format!(
        "{}: {} on {}, {}, {}\nframes of {} B with FCS in {}, offered {:.0} pps\n\n",
        on.machine,
        or_dash(&on.nic),
        on.bus,
        on.host,
        on.stack,
        on.bytes_with_fcs(),
        match on.flows {
            None | Some(1) => "1 flow".to_owned(),
            Some(flows) => format!("{flows} flows"),
        },
        document.rows.first().map_or(0.0, |row| row.offered_pps),
    );
    text += "CPUs  delivered   wire   card    bus  memory     CPUs busy    waiting   header  limit\n";
    text += "           kpps      %      %      %       %   least %  most %         %   misses\n";
    for row in &document.rows {
        let ScaleRow { busy, .. } = row;
        let least = busy.cpus.iter().copied().fold(f64::INFINITY, f64::min);
        let most = busy.cpus.iter().copied().fold(0.0, f64::max);
        let _ = writeln!(
            text,
            "{:>4}  {:>9.1}  {:>5.1}  {:>5.1}  {:>5.1}  {:>6}  {:>8.1}  {:>6.1}  {:>8.1}  {:>7}  {}",
            row.cpus,
            row.delivered_pps / 1e3,
            busy.wire * 100.0,
            busy.card * 100.0,
            busy.bus * 100.0,
            shown(busy.memory.map(|share| share * 100.0), 1),
            least * 100.0,
            most * 100.0,
            row.cpus_waiting * 100.0,
            shown(row.header_misses_per_frame, 3),
            row.stopped_by
        );
    }
    let _ = writeln!(text, "\n{}", document.summary);
    text
}

/// The transactions of the bus by kind, and the regimes of the first card's reception.
fn trace(document: &BusTrace) -> String {
    let on = &document.environment;
    let mut text = format!(
        "{}: {} on {}, {}, {:.0} frames/s of {} B with FCS to each of {} {}, {:.1} ms from the first frame on\n",
        on.machine,
        or_dash(&on.chip),
        on.bus,
        or_dash(&on.driver),
        document.offered_pps,
        on.bytes_with_fcs(),
        document.cards.len(),
        if document.cards.len() == 1 { "card" } else { "cards" },
        document.seconds * 1e3,
    );
    for (number, card) in document.cards.iter().enumerate() {
        let _ = writeln!(
            text,
            "card {number}: {} sent, {} delivered, {} missed; {} descriptor fetches were cut short by a tail update",
            card.sent, card.delivered, card.missed, card.fetches_cut
        );
    }
    let _ = writeln!(
        text,
        "bus busy {:.1} %, {:.0} MB/s; a clock is {} ps\n",
        document.bus_busy * 100.0,
        document.bus_bytes_per_s / 1e6,
        document.clock_ps
    );
    let _ =
        writeln!(text, "{:16} {:>9} {:>10} {:>10} {:>7}", "on the bus", "number", "bytes", "clocks", "cut");
    let mut kinds: BTreeMap<&str, [u64; 4]> = BTreeMap::new();
    for it in &document.transactions {
        let [number, bytes, clocks, cut] = kinds.entry(&it.what).or_default();
        *number += 1;
        *bytes += u64::from(it.bytes);
        *clocks += it.clocks;
        *cut += u64::from(it.cut);
    }
    for (what, [number, bytes, clocks, cut]) in kinds {
        let _ = writeln!(text, "{what:16} {number:>9} {bytes:>10} {clocks:>10} {cut:>7}");
    }
    if document.not_kept > 0 {
        let _ = writeln!(text, "({} earlier transactions and events were not kept)", document.not_kept);
    }
    let smooth = &document.enough_descriptors;
    let clocks = shown(smooth.clocks, 0);
    let frames = if smooth.frames == 1 { "frame" } else { "frames" };
    let _ = writeln!(text, "\nenough descriptors for {clocks} clocks, {} {frames}", smooth.frames);
    text += &quantities(&[
        ("frames per us", smooth.frames_per_us),
        ("clocks between frames, mean", smooth.frame_gap_clocks),
        ("  within a group, median", smooth.group_gap_clocks),
        ("frames to a write-back", smooth.frames_per_write_back),
        ("clocks to the write-back, from the start of the last frame", smooth.write_back_after_clocks),
        ("  from its end", smooth.write_back_gap_clocks),
        ("descriptors written back together", smooth.write_back_descriptors),
        ("frames from fetch to fetch", smooth.frames_per_fetch),
        ("bursts of a fetch", smooth.fetch_bursts),
        ("descriptors of a burst", smooth.burst_descriptors),
        ("tail updates in a row", smooth.tail_updates),
        ("descriptors of a tail update", smooth.tail_descriptors),
    ]);
    if let Some(short) = &document.short_of_descriptors {
        let _ = writeln!(text, "then frames wait for descriptors");
        text += &quantities(&[
            ("frames per us", short.frames_per_us),
            ("clocks without a frame, the longest of 64, mean", short.longest_gap_clocks),
            ("clocks between frames of a burst, the least", short.shortest_gap_clocks),
            ("  the median", short.median_gap_clocks),
        ]);
    }
    text
}

/// A line for each quantity; a dash for an unknown quantity.
fn quantities(rows: &[(&str, Option<f64>)]) -> String {
    rows.iter().map(|(name, value)| format!("  {name:58} {:>10}\n", shown(*value, 2))).collect()
}

/// A value with `decimals` decimals; a dash if it is unknown.
fn shown(value: Option<f64>, decimals: usize) -> String {
    value.map_or("–".into(), |value| format!("{value:.decimals$}"))
}

/// A name; a dash if there is none.
fn or_dash(name: &str) -> &str {
    if name.is_empty() { "–" } else { name }
}
