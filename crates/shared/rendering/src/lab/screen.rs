//! The lab's results on a terminal.

use kpps_documents::lab::{Clock, Function, Lab, Profile, Ratio, Row, median};
use std::fmt::Write;

/// The most functions of a profile that are shown, and the least share of one.
const SHOWN: usize = 15;
const LEAST_SHARE: f64 = 0.005;

/// A line for each driver at each workload, and kpps against the others.
pub fn table(lab: &Lab) -> String {
    let counts = lab.clock == Clock::Instructions;
    let clock = if counts {
        "Time is counted in instructions of the guest's CPU, a nanosecond each. Caches cost nothing, and an access to\n\
         a register costs no more than its instruction: these are no rates of any machine.\n"
    } else {
        "QEMU's cards have no wire limit: rates above 1488 kpps are those of the emulation.\n"
    };
    let mut text = format!(
        "{} ({}) in QEMU {} (TCG, one cpu, frames of 64 B with FCS), clock: {}\n{clock}rings: kpps {}, DPDK {}{}\n\n",
        lab.kernel,
        lab.kernel_version,
        lab.qemu,
        lab.clock.name(),
        lab.kpps_ring,
        lab.dpdk_ring,
        lab.settings.iter().map(|setting| format!("; {setting}")).collect::<String>()
    );
    let _ = writeln!(
        text,
        "{:<7} {:<8} {:<6} {:<7} {:>9} {:>19}  {:>8} {:>9} {:>6} {:>9}  lost",
        "device",
        "workload",
        "driver",
        "backend",
        "kpps",
        if counts { "instructions/pkt" } else { "min–max" },
        "offered",
        "IRQs/s",
        "CPU %",
        "regs/pkt"
    );
    for row in &lab.rows {
        text += &line(row);
    }
    if !lab.ratios.is_empty() {
        let boot = match lab.resumed {
            0 => "in the same boot",
            _ => "some of them of earlier boots",
        };
        text += &match counts {
            true => format!(
                "\nInstructions of the others for each one of kpps, {boot}: the median, and min–max\n"
            ),
            false => format!("\nkpps against the others, {boot}: the median of the rounds, and min–max\n"),
        };
    }
    for ratio in &lab.ratios {
        let Ratio { workload, over, backend, device, ratio, min, max } = ratio;
        let _ = writeln!(
            text,
            "{device:<7} {workload:<8} {backend:<4} over {over:<5} {ratio:>7.2}  {min:.2}–{max:.2}"
        );
    }
    let costs: Vec<_> = lab.rows.iter().filter_map(|row| row.source_per_frame).collect();
    if let Some(most) = costs.iter().max_by(|a, b| a.instructions.total_cmp(&b.instructions)) {
        let _ = writeln!(
            text,
            "\nA source in the guest offers the frames. It takes up to {:.1} ± {:.1} instructions for each frame, measured\n\
             alone. instructions/pkt does not include them; kpps (frames per second of the guest's time) does.",
            most.instructions, most.error
        );
    }
    lab.profiles.iter().for_each(|profile| text += &where_to(profile));
    if !lab.profiles.is_empty() {
        text += "\nShares are means over the stretches, ± twice the standard error. Instructions/pkt is the share of the row's\n\
                 instructions, those of the source included. All code of a file without symbols is one line, and code\n\
                 of no known file is (unknown).\n\
                 CARGO_PROFILE_RELEASE_STRIP=debuginfo cargo build --release builds a kpps with symbols.\n";
    }
    for failure in &lab.failures {
        let _ = write!(text, "\nNot measured: {failure}");
    }
    text
}

/// The functions of a profile, the largest number of instructions first, and the sum of the others.
fn where_to(profile: &Profile) -> String {
    let Profile { device, workload, driver, backend, instructions, stretches, functions, .. } = profile;
    let mut text = format!(
        "\nWhere the instructions of {device} {workload} {driver} {backend} go: all {instructions} of {stretches} stretches\n\
         {:>16} {:>7} {:>6}  function\n",
        "instructions/pkt", "share", "±"
    );
    let mut line = |each: Option<f64>, share: f64, error: Option<f64>, what: &str| {
        let or_dash = |value: Option<String>| value.unwrap_or_else(|| "–".into());
        let each = or_dash(each.map(|each| format!("{each:.1}")));
        let error = or_dash(error.map(|error| format!("{:.1}", error * 100.0)));
        let _ = writeln!(text, "{each:>16} {:>6.1}% {error:>6}  {what}", share * 100.0);
    };
    let is_shown = |(index, it): &(usize, &Function)| *index < SHOWN && it.share >= LEAST_SHARE;
    let (shown, rest): (Vec<_>, Vec<_>) = functions.iter().enumerate().partition(is_shown);
    for (_, function) in shown {
        let Function { name, of, share, error, instructions_per_frame } = function;
        let what = match of.as_deref().filter(|of| !name.starts_with(&format!("{of} ("))) {
            Some(of) => format!("{name} ({of})"),
            None => name.clone(),
        };
        line(*instructions_per_frame, *share, *error, &what);
    }
    if !rest.is_empty() {
        let each = rest.iter().map(|(_, it)| it.instructions_per_frame).sum();
        let share = rest.iter().map(|(_, it)| it.share).sum();
        line(each, share, None, &format!("{} others", rest.len()));
    }
    text
}

/// The line of one driver at one workload.
fn line(row: &Row) -> String {
    let kpps = |pps: f64| format!("{:.1}", pps / 1e3);
    let or_dash = |value: Option<String>| value.unwrap_or_else(|| "–".into());
    let min = row.pps.iter().copied().fold(f64::INFINITY, f64::min);
    let max = row.pps.iter().copied().fold(0.0, f64::max);
    let range = (!row.pps.is_empty()).then(|| format!("{}–{}", kpps(min), kpps(max)));
    let instructions = median(row.instructions_per_frame.iter().copied()).map(|each| format!("{each:.1}"));
    format!(
        "{:<7} {:<8} {:<6} {:<7} {:>9} {:>19}  {:>8} {:>9} {:>6} {:>9}  {}\n",
        row.device,
        row.workload,
        row.driver,
        backend(row),
        or_dash(row.median_pps.map(kpps)),
        or_dash(instructions.or(range)),
        or_dash(row.sent_pps.map(kpps)),
        or_dash(row.interrupts_per_s.map(|each| format!("{each:.0}"))),
        or_dash(row.cpu_busy.map(|busy| format!("{:.0}", busy * 100.0))),
        or_dash(row.registers_per_frame.map(|each| format!("{:.3}", each.read + each.write))),
        losses(row),
    )
}

/// The backend of a row, and whether the kernel's driver works behind an IOMMU.
fn backend(row: &Row) -> String {
    let iommu = if row.iommu && row.backend == "kernel" { "+iommu" } else { "" };
    format!("{}{iommu}", row.backend)
}

/// The driver of a row with its backend.
pub(super) fn driver(row: &Row) -> String {
    format!("{} {}", row.driver, backend(row))
}

/// The losses of a row, by place.
pub(super) fn losses(row: &Row) -> String {
    let lost = row.drops.iter().filter(|(_, n)| **n > 0).map(|(place, n)| share(row, place, *n));
    let shortfall = (row.shortfall > 0).then(|| share(row, "shortfall", row.shortfall));
    let surplus = (row.surplus > 0).then(|| share(row, "more than sent", row.surplus));
    lost.chain(shortfall).chain(surplus).collect::<Vec<_>>().join(", ")
}

/// A loss as a share of the frames that were due: "ring 12 %".
fn share(row: &Row, place: &str, count: u64) -> String {
    match row.sent + row.shortfall {
        0 => format!("{place} {count}"),
        due => format!("{place} {:.1} %", count as f64 / due as f64 * 100.0),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use kpps_documents::Registers;
    use kpps_documents::lab::SourceCost;

    #[test]
    fn the_document_has_its_fields_and_the_table_its_lines() {
        let row = Row {
            workload: "receive".into(),
            driver: "kpps".into(),
            backend: "uio".into(),
            device: "e1000".into(),
            iommu: false,
            vcpus: 1,
            pps: vec![100.0, 300.0, 200.0],
            median_pps: Some(200.0),
            sent_pps: Some(1e6),
            interrupts_per_s: Some(5.0),
            cpu_busy: Some(0.5),
            registers_per_frame: Some(Registers { read: 0.25, write: 0.5 }),
            sent: 1000,
            shortfall: 0,
            drops: [("ring".to_owned(), 800)].into(),
            surplus: 0,
            ..Row::default()
        };
        let ratio = Ratio::of(&row, "linux", &[2.0, 4.0]).unwrap();
        assert_eq!(Ratio::of(&row, "linux", &[]), None);
        let lab =
            Lab { rows: vec![row], ratios: vec![ratio], failures: vec!["x: y".into()], ..Lab::default() };
        let json: serde_json::Value = serde_json::from_str(&lab.to_json().unwrap()).unwrap();
        assert_eq!((&json["schema"], &json["kind"]), (&"kpps/3".into(), &"lab".into()));
        assert_eq!(json["rows"][0]["median_pps"], 200.0);
        assert_eq!(json["rows"][0]["registers_per_frame"]["read"], 0.25);
        assert_eq!(json["ratios"][0]["ratio"], 3.0);
        let table = table(&lab);
        assert!(
            table.contains("ring 80.0 %") && table.contains("0.1–0.3") && table.contains("0.750"),
            "{table}"
        );
        assert!(!table.contains("instructions"), "{table}");
        assert!(table.contains("over linux") && table.ends_with("Not measured: x: y"), "{table}");
    }

    #[test]
    fn the_clock_of_instructions_is_named_with_what_it_leaves_out() {
        let row = Row {
            instructions_per_frame: vec![101.0, 100.0, 300.0],
            source_per_frame: Some(SourceCost { instructions: 1.25, error: 0.5 }),
            pps: vec![1e7],
            ..Row::default()
        };
        let lab = Lab { clock: Clock::Instructions, rows: vec![row], ..Lab::default() };
        let table = table(&lab);
        for part in ["clock: instructions", "Caches cost nothing", " 101.0 ", "up to 1.2 ± 0.5"] {
            assert!(table.contains(part), "{part}: {table}");
        }
        assert!(!table.contains("wire limit"), "{table}");
    }

    #[test]
    fn a_profile_has_its_functions_and_the_sum_of_those_that_are_not_shown() {
        let function = |name: &str, of: Option<&str>, share: f64| Function {
            name: name.into(),
            of: of.map(Into::into),
            share,
            error: (share > 0.5).then_some(0.0123),
            instructions_per_frame: Some(share * 100.0),
        };
        let mut functions =
            vec![function("e1000_clean", Some("e1000"), 0.9), function("(unknown)", None, 0.06)];
        functions.extend((0..20).map(|index| function(&format!("f{index}"), Some("kernel"), 0.002)));
        let profile = Profile { instructions: 5000, stretches: 16, functions, ..Profile::default() };
        let table = table(&Lab { profiles: vec![profile], ..Lab::default() });
        let has = |line: &str| assert!(table.contains(line), "{line}: {table}");
        has("all 5000 of 16 stretches");
        has("90.0   90.0%    1.2  e1000_clean (e1000)");
        has(" 6.0    6.0%      –  (unknown)\n");
        has(" 4.0    4.0%      –  20 others");
    }
}
