//! Foreign guests on our model: firmware of Debian, and the bench of bugs (`lab/bugs`). They need Debian's
//! mirror once, and are part of `make lab`.
#![allow(clippy::unwrap_used)]

use kpps_audit::{FaultKind, Faults, GuestPlan, Quirk, Stimulus};
use kpps_documents::guest_audit::{GuestAudit, Severity};
use kpps_qemu::lab::foreign::Setup;
use kpps_qemu::lab::{Arch, Cache, Kernel, Userland, firmware, initrd};
use kpps_rendering::Forms;
use kpps_rendering::text::TextStyle;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

fn plan(arch: Arch, options: &[&str], stimuli: &[Stimulus]) -> GuestPlan {
    GuestPlan {
        setup: Setup {
            arch,
            options: options.iter().map(|it| (*it).to_owned()).collect(),
            ..Setup::default()
        },
        chip: "82540em".into(),
        bus: "pci-32-33".into(),
        quirks: vec![],
        stimuli: stimuli.into(),
        faults: Faults::default(),
        address: [10, 0, 2, 15].into(),
        typed: vec![],
        until: None,
        at_most: Duration::from_secs(300),
        beside_qemu: false,
        beside_linux: false,
    }
}

/// The same with an 82574L.
fn on_82574l(plan: GuestPlan) -> GuestPlan {
    GuestPlan { chip: "82574l".into(), bus: "pcie-x1".into(), ..plan }
}

fn run(plan: &GuestPlan) -> GuestAudit {
    let audit = plan.run(&(), || true).unwrap();
    println!("{}", audit.screen(TextStyle::default(), ""));
    audit
}

/// The rules of a severity.
fn rules(audit: &GuestAudit, severity: Severity) -> Vec<&str> {
    let mut rules: Vec<_> =
        audit.findings.iter().filter(|it| it.severity == severity).map(|it| &*it.rule).collect();
    rules.sort_unstable();
    rules.dedup();
    rules
}

#[test]
#[ignore = "guests for a minute: `make lab`"]
fn ipxe_loads_a_file_under_bios_and_uefi() {
    let root = firmware::get(&Cache::open().unwrap()).unwrap();
    let card =
        |rom: &str| format!("@CARD@,addr=3,romfile={}", root.join("usr/lib/ipxe/qemu").join(rom).display());
    let (bios, uefi) = (card("pxe-e1000.rom"), card("efi-e1000.rom"));
    let ovmf = root.join("usr/share/ovmf/OVMF.fd").display().to_string();
    for options in [vec!["-boot", "n", "-device", &bios], vec!["-bios", &ovmf, "-device", &uefi]] {
        let audit = run(&plan(Arch::X86_64, &options, &[Stimulus::Dhcp, Stimulus::Tftp]));
        assert_eq!(audit.missed().count(), 0, "{:?}", audit.steps);
        assert_eq!(rules(&audit, Severity::Must), ["transmit-too-short"]);
        assert_eq!(rules(&audit, Severity::Should), ["flow-control-unset", "gap-too-short", "reserved-bits"]);
        assert_eq!(rules(&audit, Severity::Info), ["icr-polled"]);
    }
    let (bios, uefi) = (card("pxe-e1000e.rom"), card("efi-e1000e.rom"));
    for options in [vec!["-boot", "n", "-device", &bios], vec!["-bios", &ovmf, "-device", &uefi]] {
        let options = [vec!["-M", "q35"], options].concat();
        let audit = run(&on_82574l(plan(Arch::X86_64, &options, &[Stimulus::Dhcp, Stimulus::Tftp])));
        assert_eq!(audit.missed().count(), 0, "{:?}", audit.steps);
        let found = [Severity::Must, Severity::Should, Severity::Info].map(|it| rules(&audit, it));
        assert_eq!(found, [vec![], vec![], vec!["icr-polled"]]);
    }
}

#[test]
#[ignore = "guests for a minute: `make lab`"]
fn u_boot_needs_a_register_that_the_manual_does_not_have() {
    let root = firmware::get(&Cache::open().unwrap()).unwrap().join("usr/lib/u-boot");
    for (arch, image) in [
        (Arch::X86_64, "qemu-x86_64/u-boot.rom"),
        (Arch::Aarch64, "qemu_arm64/u-boot.bin"),
        (Arch::Riscv64, "qemu-riscv64/u-boot.bin"),
    ] {
        let image = root.join(image).display().to_string();
        let bare = plan(arch, &["-bios", &image], &[Stimulus::Dhcp, Stimulus::Tftp]);
        let with = GuestPlan { quirks: vec![Quirk::Swsm], ..bare.clone() };
        let without = run(&GuestPlan { until: Some("No ethernet found".into()), stimuli: vec![], ..bare });
        assert!(rules(&without, Severity::Should).contains(&"no-register"), "{:?}", without.findings);
        assert_eq!(without.work.sent, 0);
        let audit = run(&with);
        assert_eq!(audit.missed().count(), 0, "{:?}", audit.steps);
        assert_eq!(rules(&audit, Severity::Must), ["re-enabled-without-reset", "transmit-too-short"]);
        assert!(rules(&audit, Severity::Should).contains(&"receiver-before-ring"));
    }
}

/// Linux's first process: the driver of the 82574L with its parameter `IntMode` from the command line, an
/// address, and the interrupts that the card has.
const INIT: &str = "#!/bin/busybox sh
/bin/busybox --install -s /bin
export PATH=/bin
mount -t proc none /proc
insmod /modules/e1000e.ko $(sed 's/.*kpps=//; s/ .*//' /proc/cmdline)
ip link set eth0 up
ip addr add 10.0.2.15/24 dev eth0
grep eth0 /proc/interrupts
sleep 1000
";

/// Linux's e1000e with MSI-X, with MSI and with the interrupt line.
#[test]
#[ignore = "guests for a minute: `make lab`"]
fn linux_drives_the_82574l_with_each_kind_of_interrupt() {
    let cache = Cache::open().unwrap();
    let (kernel, userland) = (Kernel::get(&cache, "linux-6.1").unwrap(), Userland::get(&cache).unwrap());
    let initrd = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(initrd.path(), initrd::small(&kernel, &userland, &["e1000e"], INIT).unwrap()).unwrap();
    let (image, initrd) = (kernel.image.display().to_string(), initrd.path().display().to_string());
    for (mode, interrupt) in [(2, "eth0-rx-0"), (1, "PCI-MSI"), (0, "IO-APIC")] {
        let append = format!("console=ttyS0 quiet panic=-1 net.ifnames=0 kpps=IntMode={mode}");
        let options = ["-M", "q35", "-m", "256", "-kernel", &image, "-initrd", &initrd, "-append", &append];
        let stimuli = [Stimulus::Arp, Stimulus::Ping, Stimulus::Flood, Stimulus::Overrun, Stimulus::LinkFlap];
        let audit = run(&GuestPlan {
            until: Some(interrupt.into()),
            ..on_82574l(plan(Arch::X86_64, &options, &stimuli))
        });
        assert_eq!(audit.missed().count(), 0, "IntMode {mode}: {:?}", audit.steps);
        assert!(audit.work.interrupts > 100, "IntMode {mode}: {:?}", audit.work);
        assert_eq!(rules(&audit, Severity::Must), [""; 0], "IntMode {mode}");
        // Linux sets RCTL.EN before it sets the ring up.
        let should = rules(&audit, Severity::Should);
        assert_eq!(should, ["receiver-before-ring", "ring-while-enabled"], "IntMode {mode}");
        let with_vectors = audit.work.writes.get("EIAC").is_some_and(|count| *count > 0);
        assert_eq!(with_vectors, mode == 2, "IntMode {mode}: {:?}", audit.work.writes);
    }
}

/// The images of the bench of bugs.
fn images() -> [(Arch, PathBuf, &'static [&'static str]); 2] {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../lab/bugs");
    let built = Command::new(root.join("build.sh")).output().unwrap();
    assert!(built.status.success(), "{}", String::from_utf8_lossy(&built.stderr));
    let text = String::from_utf8(built.stdout).unwrap();
    let mut paths = text.lines().map(PathBuf::from);
    let mut next = || paths.next().unwrap();
    [(Arch::X86_64, next(), &["-M", "q35"]), (Arch::Riscv64, next(), &["-bios", "none"])]
}

fn bug(image: &(Arch, PathBuf, &[&str]), name: &str, stimuli: &[Stimulus]) -> GuestPlan {
    let (arch, path, machine) = image;
    let path = path.display().to_string();
    let options: Vec<_> = machine.iter().copied().chain(["-m", "64", "-kernel", &path]).collect();
    let typed = format!("bugs> =>run {name}").parse().unwrap();
    GuestPlan { typed: vec![typed], at_most: Duration::from_secs(100), ..plan(*arch, &options, stimuli) }
}

const ALL: &[Stimulus] =
    &[Stimulus::Arp, Stimulus::Ping, Stimulus::Flood, Stimulus::Udp, Stimulus::Overrun, Stimulus::LinkFlap];

#[test]
#[ignore = "guests for a minute: `make lab`"]
fn the_guest_without_a_bug_reaches_everything_and_breaks_no_rule() {
    for image in images() {
        for name in ["", "plain"] {
            let faults = Faults { seed: None, kinds: FaultKind::ALL.into() };
            let plan = GuestPlan { faults, at_most: Duration::from_secs(300), ..bug(&image, name, ALL) };
            let audit = run(&plan);
            assert_eq!(audit.findings, [], "{name}");
            assert_eq!(audit.missed().count(), 0, "{name}: {:?}", audit.steps);
            assert!(audit.complete && audit.faults.iter().all(|fault| fault.came_back), "{:?}", audit.faults);
        }
    }
}

/// A kernel of a few instructions of 32-bit x86 for QEMU: an image with a multiboot header.
fn kernel(folder: &Path, code: &[u8]) -> PathBuf {
    const AT: u32 = 0x10_0000;
    const MAGIC: u32 = 0x1bad_b002;
    const HAS_ADDRESSES: u32 = 1 << 16;
    let checksum = 0u32.wrapping_sub(MAGIC).wrapping_sub(HAS_ADDRESSES);
    // The addresses of header and image; those of its end and its BSS are not needed. Then the entry.
    let header = [MAGIC, HAS_ADDRESSES, checksum, AT, AT, 0, 0, AT + 32];
    let path = folder.join("kernel");
    std::fs::write(&path, [&header.map(u32::to_le_bytes).concat(), code].concat()).unwrap();
    path
}

/// Instructions that write `text` to the first serial port; DX is the port then.
fn print(text: &[u8]) -> Vec<u8> {
    let port = [0x66, 0xba, 0xf8, 0x03];
    port.into_iter().chain(text.iter().flat_map(|byte| [0xb0, *byte, 0xee])).collect()
}

/// Jumps back over all `code`.
fn forever(code: &[u8]) -> Vec<u8> {
    let back = i8::try_from(-(code.len() as isize) - 2).unwrap();
    [code, &[0xeb, back.cast_unsigned()]].concat()
}

/// The result of a guest that consists of these instructions, after two seconds at most.
fn tiny(code: &[u8], but: impl FnOnce(GuestPlan) -> GuestPlan) -> GuestAudit {
    let folder = tempfile::tempdir().unwrap();
    let path = kernel(folder.path(), code).display().to_string();
    let plan = plan(Arch::X86_64, &["-kernel", &path], &[Stimulus::Arp]);
    run(&but(GuestPlan { at_most: Duration::from_secs(2), ..plan }))
}

const HALT: &[u8] = &[0xf4, 0xeb, 0xfd];

#[test]
#[ignore = "guests for a minute: `make lab`"]
fn guests_that_end_early_have_a_cause_and_last_words() {
    let long = |plan| GuestPlan { at_most: Duration::from_secs(60), ..plan };
    // ACPI's register PM1a_CNT of QEMU's PC.
    let off = [0x66, 0xba, 0x04, 0x06, 0x66, 0xb8, 0x00, 0x20, 0x66, 0xef];
    let audit = tiny(&[&print(b"bye\n"), &off[..], HALT].concat(), long);
    let failure = audit.failure.unwrap();
    assert!(failure.starts_with("the guest powered itself off, and the guest never accessed"), "{failure}");
    assert!(failure.ends_with("the console's last words: bye") && !audit.complete, "{failure}");
    // An empty table of interrupts, and an interrupt; QEMU does not start the guest again.
    let fault = [0x31, 0xc0, 0x50, 0x50, 0x0f, 0x01, 0x1c, 0x24, 0xcc];
    let keyboard = [0xb0, 0xfe, 0xe6, 0x64];
    for reboot in [&fault[..], &keyboard] {
        let audit = tiny(&[&print(b"boot\n"), reboot, HALT].concat(), long);
        let failure = audit.failure.unwrap();
        assert!(failure.starts_with("the guest rebooted") && failure.ends_with("words: boot"), "{failure}");
    }
    // It runs, and does nothing.
    let audit = tiny(&[&print(b"hello\n"), HALT].concat(), |plan| plan);
    let failure = audit.failure.unwrap();
    assert!(failure.contains("waited for arp, and the guest never accessed the card"), "{failure}");
    assert!(failure.ends_with("words: hello") && audit.ended.contains("arp"), "{failure}");
    // A prompt, and a text, that never come.
    for (typed, until) in [(vec!["$ =>x".parse().unwrap()], None), (vec![], Some("$ ".to_owned()))] {
        let audit = tiny(&[&print(b"hello"), HALT].concat(), |plan| GuestPlan { typed, until, ..plan });
        let failure = audit.failure.unwrap();
        assert!(failure.starts_with("'$ ' did not appear") && failure.ends_with("words: hello"), "{failure}");
    }
}

#[test]
#[ignore = "guests for a minute: `make lab`"]
fn a_console_without_end_takes_bounded_time_and_memory() {
    for text in [&b"x"[..], b"\xff\xc3", b"\x1b[2J\x1b]0;", b"\n", b"\0", b"a\r"] {
        let code = forever(&print(text));
        let since = std::time::Instant::now();
        let audit = tiny(&code, |plan| GuestPlan { until: Some("never".into()), ..plan });
        assert!(since.elapsed() < Duration::from_secs(60), "{text:?}");
        assert!(audit.failure.unwrap().starts_with("'never' did not appear"), "{text:?}");
        let characters: usize = audit.console.iter().map(|line| line.chars().count()).sum();
        assert!(characters < 10_000, "{text:?}: {characters}");
    }
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    let peak_kib: u64 = peak.split_whitespace().next().unwrap().parse().unwrap();
    assert!(peak_kib < 300 << 10, "{peak_kib} KiB");
}

#[test]
#[ignore = "guests for a minute: `make lab`"]
fn an_interrupted_run_keeps_what_was_measured() {
    let [image, _] = images();
    let plan = bug(&image, "tipg-missing", &[Stimulus::Ping]);
    // The run goes on until the text appears, and that is never: it is interrupted after the ping.
    let plan = GuestPlan { until: Some("never".into()), beside_qemu: true, ..plan };
    let since = std::time::Instant::now();
    let audit = plan.run(&(), || since.elapsed() < Duration::from_secs(30)).unwrap();
    assert!(!audit.complete && audit.ended.starts_with("it was interrupted") && audit.failure.is_none());
    assert_eq!(rules(&audit, Severity::Should), ["gap-too-short"], "{:?}", audit.findings);
    assert!(audit.work.sent > 0 && !audit.steps.is_empty());
}

#[test]
#[ignore = "guests for a minute: `make lab`"]
fn linux_is_measured_under_the_same_stimuli() {
    let [image, _] = images();
    let plan = bug(&image, "plain", &[Stimulus::Ping, Stimulus::Flood, Stimulus::Dhcp]);
    let audit = run(&GuestPlan { beside_linux: true, at_most: Duration::from_secs(60), ..plan });
    let linux = audit.linux.unwrap();
    assert_eq!(linux.stimuli, ["ping", "flood"], "a kernel gets no address by itself");
    // 520 requests and as many answers, and some frames of Linux's own.
    assert!((1040..1200).contains(&(linux.work.sent + linux.work.received)), "{:?}", linux.work);
    assert!(linux.work.reads_per_frame.unwrap() > 0.0 && linux.work.interrupts > 0, "{:?}", linux.work);
    assert!(audit.failure.is_none(), "{:?}", audit.failure);
}

#[test]
#[ignore = "guests for a minute: `make lab`"]
fn a_qemu_that_does_not_start_says_why() {
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str, contents: &[u8]| {
        let path = folder.path().join(name);
        std::fs::write(&path, contents).unwrap();
        path.display().to_string()
    };
    let [_, (_, riscv, _)] = images();
    let (empty, text) = (file("empty", b""), file("text", &b"no kernel\n".repeat(1000)));
    let (missing, riscv) = (folder.path().join("missing").display().to_string(), riscv.display().to_string());
    let rows: [(&[&str], &[&str]); 8] = [
        (&["-kernel", &empty], &["empty", "give -kernel the path"]),
        (&["-kernel", &text], &["header", "give -kernel the path"]),
        (&["-kernel", &missing], &["could not open", "No such file"]),
        (&["-kernel", &riscv], &["give -kernel the path of a Linux kernel, or of an ELF file for x86"]),
        (&["-foo"], &["-foo: invalid option; correct the options for QEMU"]),
        (&["-M", "nosuch"], &["unsupported machine type"]),
        (&["-m", "100T"], &["(x86_64) does not start"]),
        (&["-device", "@CARD@,foo=1"], &["foo"]),
    ];
    for (options, parts) in rows {
        let error = plan(Arch::X86_64, options, &[Stimulus::Arp]).run(&(), || true).unwrap_err();
        let error = error.to_string();
        assert!(error.starts_with("QEMU (x86_64) does not start the guest"), "{options:?}: {error}");
        assert!(parts.iter().all(|part| error.contains(part)), "{options:?}: {error}");
        assert!(!error.contains('\n') && !error.contains("warning"), "{options:?}: {error}");
    }
}

/// The same on the 82574L.
#[test]
#[ignore = "guests for a minute: `make lab`"]
fn the_guest_without_a_bug_is_right_on_the_82574l_too() {
    let [x86, _] = images();
    for name in ["", "plain"] {
        let faults = Faults { seed: None, kinds: FaultKind::ALL.into() };
        let at_most = Duration::from_secs(300);
        let audit = run(&GuestPlan { faults, at_most, ..on_82574l(bug(&x86, name, ALL)) });
        assert_eq!(audit.findings, [], "{name}");
        assert_eq!(audit.missed().count(), 0, "{name}: {:?}", audit.steps);
    }
}

/// How the audit finds a bug.
#[derive(Clone, Copy)]
enum By {
    /// A rule names it.
    Rule(&'static str),
    /// The guest does not reach this step, which the guest without a bug reaches.
    Step(Stimulus),
    /// A rule names it under this fault.
    RuleUnder(FaultKind, &'static str),
    /// The guest does not bear this fault, which the guest without a bug bears.
    Fault(FaultKind),
}
use By::{Fault, Rule, RuleUnder, Step};

/// The bugs that the audit finds, and how.
const FOUND: &[(&str, By)] = &[
    ("bus-master-forgotten", Rule("not-bus-master")),
    ("slu-missing", Rule("slu-missing")),
    ("bam-missing", Rule("bam-missing")),
    ("mpe-for-bam", Rule("bam-missing")),
    ("rah-av-missing", Rule("rah-av-missing")),
    ("mta-not-cleared", Rule("mta-not-cleared")),
    ("tipg-missing", Rule("gap-too-short")),
    ("speed-forced", Fault(FaultKind::Partner100)),
    ("collisions-missing", RuleUnder(FaultKind::PartnerHalf, "half-duplex-collisions")),
    ("gap-of-full-duplex", RuleUnder(FaultKind::PartnerHalf, "half-duplex-gap")),
    ("base-high-missing", Rule("ring-high-unset")),
    ("reserved-bits", Rule("reserved-bits")),
    ("word-register-write", Rule("width")),
    ("byte-register-read", Rule("width")),
    ("reset-not-awaited", Fault(FaultKind::SlowReset)),
    ("rx-enabled-before-ring", Rule("receiver-before-ring")),
    ("tx-enabled-before-ring", Rule("transmitter-before-ring")),
    ("fcs-counted", Rule("frame-too-long")),
    ("icr-never-read", Rule("interrupt-held")),
    ("icr-polled-without-end", Rule("icr-polled")),
    ("interrupts-stay-masked", Rule("left-masked")),
    ("one-frame-per-interrupt", Step(Stimulus::Flood)),
    ("dead-after-overrun", Step(Stimulus::Overrun)),
    ("dead-after-link-flap", Step(Stimulus::LinkFlap)),
    ("dead-after-spurious", Fault(FaultKind::SpuriousInterrupts)),
    ("interrupt-awaited-briefly", Fault(FaultKind::LateInterrupts)),
    ("status-compared-whole", Fault(FaultKind::PauseFlood)),
    ("speed-zero-is-down", Fault(FaultKind::Partner10)),
    ("ring-of-one", Rule("ring-length-unaligned")),
    ("ring-of-four", Rule("ring-length-unaligned")),
    ("ring-unaligned", Rule("ring-base-unaligned")),
    ("ring-changed-while-enabled", Rule("ring-while-enabled")),
    ("tail-equals-head", Rule("ring-full-looks-empty")),
    ("tail-beyond-ring", Rule("tail-beyond-ring")),
    ("tail-never-moved", Step(Stimulus::Flood)),
    ("tail-passes-head", RuleUnder(FaultKind::LateReports, "report-not-awaited")),
    ("dd-not-checked-rx", Step(Stimulus::Flood)),
    ("dd-not-cleared", Rule("status-set-on-handover")),
    ("head-for-dd", Rule("head-for-done")),
    ("one-buffer-for-all", Rule("buffers-overlap")),
    ("buffer-over-ring", Rule("buffers-overlap")),
    ("buffer-shorter-than-bsize", Rule("buffers-overlap")),
    ("dma-to-nowhere", Rule("dma-to-nowhere")),
    ("buffer-reused-early", Step(Stimulus::Flood)),
    ("ifcs-missing", Rule("ifcs-missing")),
    ("eop-missing", Rule("eop-missing")),
    ("no-rs", Step(Stimulus::Flood)),
    ("psp-missing-and-no-pad", Rule("runt")),
    ("length-zero", Rule("transmit-empty")),
    ("length-too-long", Rule("transmit-too-long")),
    ("eop-ignored", Rule("frame-over-buffers")),
    ("bad-frames-taken", Fault(FaultKind::BadFcs)),
    ("tx-wait-without-end", Fault(FaultKind::LateReports)),
    ("copy-without-length-check", Fault(FaultKind::OddFrames)),
    ("no-watchdog", Fault(FaultKind::MasterAbort)),
];

/// Whether the audit finds a bug of an image as it should.
fn finds(image: &(Arch, PathBuf, &[&str]), (name, by): (&str, By)) -> bool {
    let stimuli = match by {
        Step(fault @ (Stimulus::Overrun | Stimulus::LinkFlap)) => vec![Stimulus::Ping, fault],
        // A ring that is never filled again ends a flood.
        Fault(_) | RuleUnder(..) => vec![Stimulus::Ping],
        _ => vec![Stimulus::Ping, Stimulus::Flood],
    };
    let kinds = match by {
        Fault(kind) | RuleUnder(kind, _) => vec![kind],
        _ => vec![],
    };
    let at_most = Duration::from_secs(match by {
        Step(_) | Fault(_) | RuleUnder(..) => 100,
        Rule(_) => 30,
    });
    let faults = Faults { seed: None, kinds };
    let audit = run(&GuestPlan { at_most, faults, ..bug(image, name, &stimuli) });
    match by {
        Rule(rule) | RuleUnder(_, rule) => audit.findings.iter().any(|finding| finding.rule == rule),
        Step(step) => audit.missed().any(|missed| missed.name == step.name()),
        Fault(kind) => audit.missed().any(|missed| missed.name == kind.name()),
    }
}

#[test]
#[ignore = "guests for a quarter of an hour: `make lab`"]
fn planted_bugs_are_found() {
    let [x86, riscv] = images();
    let on_riscv = FOUND.iter().step_by(8).map(|bug| (&riscv, *bug));
    let all: Vec<_> = FOUND.iter().map(|bug| (&x86, *bug)).chain(on_riscv).collect();
    let half = all.len() / 2;
    let missed = std::thread::scope(|scope| {
        let parts = [&all[..half], &all[half..]].map(|part| {
            let missing = |(image, bug): &(&(Arch, PathBuf, &'static [&'static str]), (&'static str, By))| {
                // The emulation stalls now and then, and a fault of a second ends before the guest goes on.
                let found = (0..3).any(|_| finds(image, *bug));
                (!found).then_some((image.0, bug.0))
            };
            scope.spawn(move || part.iter().filter_map(missing).collect::<Vec<_>>())
        });
        parts.map(|part| part.join().unwrap()).concat()
    });
    assert_eq!(missed, [], "bugs that were not found");
}
