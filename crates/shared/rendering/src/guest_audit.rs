//! The audit of a foreign guest: on a terminal, as a page, and as JUnit's report for CI.

use crate::Rows;
use crate::forms::{Forms, plain};
use crate::text::TextStyle;
use kpps_documents::guest_audit::{Finding, GuestAudit, LinuxWork, Reached, Severity, Step, Work};
use maud::html;
use std::fmt::Write;

/// The least width of the names of steps.
const NAME_COLUMN: usize = 13;
/// Registers that are named on a screen.
const MOST_REGISTERS: usize = 8;

impl Forms for GuestAudit {
    fn screen(&self, style: TextStyle, notes: &str) -> String {
        screen(self, style) + notes
    }
    fn rows(&self) -> Rows {
        Rows::of(&self.findings)
    }
    fn page(&self, _: usize) -> Option<String> {
        Some(plain(&format!("A guest on a model of the {}", self.environment.chip), self))
    }
    fn is_empty(&self) -> bool {
        self.steps.is_empty() && self.findings.is_empty()
    }
}

/// The steps of the guest, the findings about its driver, and the driver's work with the card.
fn screen(audit: &GuestAudit, style: TextStyle) -> String {
    let on = &audit.environment;
    let mut text = format!(
        "A guest ({}, QEMU {}) with our model of the {} on {}: {:.1} s, ended because {}\n\n",
        on.system("arch"),
        on.system("QEMU"),
        on.chip,
        on.bus,
        audit.seconds,
        audit.ended
    );
    steps(&mut text, audit);
    faults(&mut text, audit);
    let counts = Severity::ALL.map(|severity| format!("{} {}", audit.count(severity), severity.name()));
    let _ = writeln!(text, "\nAgainst the manual: {}", counts.join(", "));
    for finding in &audit.findings {
        text.push('\n');
        text += &paragraph(finding, style.width);
    }
    work(&mut text, audit);
    if !audit.complete && !audit.console.is_empty() {
        let _ = writeln!(text, "\nThe console's last words:");
        audit.console.iter().for_each(|line| {
            let _ = writeln!(text, "  {line}");
        });
    }
    text
}

/// The table of steps: on our model, and on QEMU's card if it was tried.
fn steps(text: &mut String, audit: &GuestAudit) {
    let names = audit.steps.iter().map(|step| step.name.len()).fold(NAME_COLUMN, usize::max);
    let ours: Vec<_> = audit.steps.iter().map(|step| reached(&step.ours)).collect();
    let width = ours.iter().map(|text| text.chars().count()).max().unwrap_or_default();
    if audit.steps.iter().any(|step| step.qemu.is_some()) {
        let _ = writeln!(text, "{:<names$} {:<width$}  QEMU's card", "", "our model");
    }
    for (Step { name, qemu, .. }, ours) in audit.steps.iter().zip(ours) {
        let qemu = qemu.as_ref().map(reached).unwrap_or_default();
        let _ = writeln!(text, "{}", format!("{name:<names$} {ours:<width$}  {qemu}").trim_end());
    }
}

fn reached(it: &Reached) -> String {
    let verdict = match it.reached {
        Some(true) => "yes",
        Some(false) => "no",
        None => "–",
    };
    let at = it.at_s.map(|at| format!("{at:6.1} s")).unwrap_or_default();
    format!("{verdict:<4}{at:<9}{}", it.detail).trim_end().to_owned()
}

fn faults(text: &mut String, audit: &GuestAudit) {
    if audit.faults.is_empty() {
        return;
    }
    let chosen = audit.environment.system("faults");
    if !chosen.is_empty() {
        let _ = writeln!(text, "\nFaults after the stimuli: {chosen}");
    }
    let _ = writeln!(text, "\n{:<24} {:>8}  the guest did not answer for", "fault", "at");
    for fault in &audit.faults {
        let deaf = match fault.deaf_s {
            Some(deaf_s) => format!("{deaf_s:.1} s"),
            None => "the rest of the run".to_owned(),
        };
        let _ = writeln!(text, "{:<24} {:>6.1} s  {deaf}", fault.name, fault.at_s);
    }
}

/// A finding in sentences.
fn paragraph(finding: &Finding, width: usize) -> String {
    let Finding { rule, severity, section, place, sentence, silicon, advice, count, first_s, first, .. } =
        finding;
    let times = if *count == 1 { "once".to_owned() } else { format!("{count} times") };
    let mut text =
        format!("{:<6} {rule} ({place}; {section}), {times}, first at {first_s:.1} s\n", severity.name());
    let mut sentences = vec![sentence.clone()];
    if !silicon.is_empty() {
        sentences.push(format!("A real card: {silicon}"));
    }
    if !advice.is_empty() {
        sentences.push(format!("Remedy: {advice}"));
    }
    if finding.qemu_does_not_care == Some(true) {
        sentences.push("QEMU's card does not care: there the guest reached every step.".to_owned());
    }
    if !first.is_empty() {
        sentences.push(format!("Seen at: {first}"));
    }
    for sentence in sentences {
        for line in wrapped(&sentence, width.saturating_sub(7).max(40)) {
            let _ = writeln!(text, "       {line}");
        }
    }
    text
}

/// `text` in lines of at most `width` characters, if its words allow it.
fn wrapped(text: &str, width: usize) -> Vec<String> {
    let mut lines = vec![String::new()];
    for word in text.split_whitespace() {
        let line = lines.last_mut().filter(|line| line.chars().count() + 1 + word.chars().count() <= width);
        match line {
            Some(line) if line.is_empty() => line.push_str(word),
            Some(line) => {
                line.push(' ');
                line.push_str(word);
            }
            None => lines.push(word.to_owned()),
        }
    }
    lines
}

/// The driver's work with the card, for each frame.
fn work(text: &mut String, audit: &GuestAudit) {
    let work = &audit.work;
    let _ = writeln!(
        text,
        "\nFrames: {} sent, {} sent with a wrong FCS, {} arrived, {} received, {} dropped by the card",
        work.sent, work.sent_bad_fcs, work.arrived, work.received, work.dropped
    );
    let each = [
        ("register reads", work.reads_per_frame),
        ("writes", work.writes_per_frame),
        ("interrupts", work.interrupts_per_frame),
    ];
    let each: Vec<_> =
        each.iter().filter_map(|(name, value)| Some(format!("{name} {:.2}", (*value)?))).collect();
    match &audit.linux {
        Some(linux) => beside_linux(text, work, linux),
        None if !each.is_empty() => drop(writeln!(text, "For each frame: {}", each.join(", "))),
        None => {}
    }
    let mut registers: Vec<_> = work.reads.iter().map(|(name, count)| (*count, "read", name)).collect();
    registers.extend(work.writes.iter().map(|(name, count)| (*count, "written", name)));
    registers.sort_by(|a, b| b.cmp(a));
    let shown: Vec<_> = registers
        .iter()
        .take(MOST_REGISTERS)
        .map(|(count, how, name)| format!("{name} {how} {count} times"))
        .collect();
    if !shown.is_empty() {
        let _ = writeln!(text, "Most used: {}", shown.join(", "));
    }
}

/// The counts for each frame beside those of Linux's driver, with what they count.
fn beside_linux(text: &mut String, guest: &Work, linux: &LinuxWork) {
    let each = |value: Option<f64>| value.map_or("–".to_owned(), |value| format!("{value:.2}"));
    let frames = |work: &Work| (work.sent + work.sent_bad_fcs + work.received).to_string();
    let rows = [
        ("frames sent and received", frames(guest), frames(&linux.work)),
        ("register reads for each", each(guest.reads_per_frame), each(linux.work.reads_per_frame)),
        ("register writes for each", each(guest.writes_per_frame), each(linux.work.writes_per_frame)),
        ("interrupts for each", each(guest.interrupts_per_frame), each(linux.work.interrupts_per_frame)),
    ];
    let _ = writeln!(text, "\n{:<26} {:>12} {:>12}", "", "this guest", "Linux");
    for (name, guest, linux) in rows {
        let _ = writeln!(text, "{name:<26} {guest:>12} {linux:>12}");
    }
    let _ = writeln!(
        text,
        "Linux {} under {}. Values for each frame leave out the set-up of the drivers; they depend on how fast \
         this host emulates.",
        linux.kernel,
        linux.stimuli.join(", ")
    );
}

/// The report that CI systems show (JUnit's XML): a test for the run itself, which fails if the audit
/// names a failure, one for each step that was asked for, and one for each finding. Findings of severity
/// *must* fail; others are skipped tests with a message.
pub fn junit(audit: &GuestAudit) -> String {
    let wanted: Vec<_> = audit.steps.iter().filter(|step| step.wanted).collect();
    let musts = audit.count(Severity::Must);
    let failed = audit.failure.as_ref();
    let tests = 1 + wanted.len() + audit.findings.len();
    let failures = usize::from(failed.is_some()) + audit.missed().count() + musts;
    let suite = format!("kpps audit: {}", audit.environment.chip);
    let markup = html! {
        testsuites {
            testsuite name=(suite) tests=(tests) failures=(failures) time=(format!("{:.1}", audit.seconds)) {
                testcase classname="kpps.audit" name="run" {
                    @if let Some(failed) = failed {
                        failure message=(failed) {}
                    }
                }
                @for step in wanted {
                    testcase classname="kpps.audit.steps" name=(step.name) {
                        @if step.ours.reached != Some(true) {
                            failure message=(format!("not reached; the run ended because {}", audit.ended)) {
                                (step.ours.detail)
                            }
                        }
                    }
                }
                @for finding in &audit.findings {
                    testcase classname="kpps.audit.rules" name=(finding.rule) {
                        @if finding.severity == Severity::Must {
                            failure message=(finding.sentence) { (paragraph(finding, 100)) }
                        } @else {
                            skipped message=(format!("{}: {}", finding.severity.name(), finding.sentence)) {}
                        }
                    }
                }
            }
        }
    };
    format!("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n{}\n", markup.into_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn audit() -> GuestAudit {
        let step = |name: &str, ours, qemu| Step {
            name: name.into(),
            wanted: true,
            ours: Reached { reached: Some(ours), at_s: ours.then_some(1.5), detail: String::new() },
            qemu: Some(Reached { reached: Some(qemu), ..Reached::default() }),
        };
        let finding = Finding {
            rule: "slu-missing".into(),
            severity: Severity::Must,
            section: "manual 13.4.1".into(),
            place: "CTRL".into(),
            sentence: "CTRL.SLU was never set, and <the> driver sent frames.".into(),
            silicon: "the link stays down, and nothing leaves.".into(),
            count: 1,
            advice: String::new(),
            first_s: 0.25,
            first: "TDT = 1".into(),
            qemu_does_not_care: Some(true),
        };
        let note =
            Finding { rule: "icr-polled".into(), severity: Severity::Info, count: 7, ..Finding::default() };
        GuestAudit {
            ended: "everything was tried".into(),
            complete: true,
            steps: vec![step("link", false, true), step("ping", true, true)],
            findings: vec![finding, note],
            ..GuestAudit::default()
        }
    }

    #[test]
    fn the_screen_answers_how_far_why_and_where() {
        let text = screen(&audit(), TextStyle::default());
        for part in [
            "ended because everything was tried",
            "link          no ",
            "QEMU's card\n",
            "ping          yes    1.5 s",
            "Against the manual: 1 must, 0 should, 1 info",
            "must   slu-missing (CTRL; manual 13.4.1), once, first at 0.2 s",
            "A real card: the link stays down",
            "QEMU's card does not care",
            "Seen at: TDT = 1",
            "7 times",
        ] {
            assert!(text.contains(part), "{part}: {text}");
        }
    }

    #[test]
    fn linux_stands_beside_the_guest_with_what_is_counted() {
        let of = |sent, reads| Work { sent, reads_per_frame: Some(reads), ..Work::default() };
        let linux = LinuxWork {
            kernel: "6.1.0".into(),
            stimuli: vec!["arp".into(), "ping".into()],
            work: of(41, 2.25),
        };
        let audit = GuestAudit { work: of(40, 180.0), linux: Some(linux), ..audit() };
        let text = screen(&audit, TextStyle::default());
        for part in [
            "this guest        Linux\n",
            "frames sent and received             40           41\n",
            "register reads for each          180.00         2.25\n",
            "interrupts for each                   –            –\n",
            "Linux 6.1.0 under arp, ping. Values for each frame leave out the set-up",
        ] {
            assert!(text.contains(part), "{part}: {text}");
        }
        assert!(!text.contains("For each frame"), "{text}");
    }

    #[test]
    fn a_failure_of_the_run_is_a_failed_test() {
        let failure = Some("'x' did not appear on the console in time".to_owned());
        let text = junit(&GuestAudit { failure, ..audit() });
        assert!(text.contains("tests=\"5\" failures=\"3\"") && text.contains("'x' did not appear"), "{text}");
    }

    #[test]
    fn junit_fails_for_steps_and_musts_and_escapes_text() {
        let text = junit(&audit());
        assert!(text.contains("tests=\"5\" failures=\"2\""), "{text}");
        assert!(text.contains("&lt;the&gt; driver") && text.contains("<skipped message=\"info: "), "{text}");
        assert_eq!(text.matches("<failure").count(), 2, "{text}");
    }

    #[test]
    fn whether_qemu_s_card_works_is_known_only_if_it_was_tried() {
        let mut audit = audit();
        assert_eq!(audit.works_on_qemu(), Some(true));
        audit.steps[0].qemu = None;
        assert_eq!((audit.works_on_qemu(), audit.missed().count()), (Some(true), 1), "the link is unknown");
        audit.steps[1].qemu = None;
        assert_eq!(audit.works_on_qemu(), None);
    }
}
