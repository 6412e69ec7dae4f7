//! Unmodified drivers on our model, in guests. They need Debian's mirror once, and are part of `make lab`.
#![allow(clippy::unwrap_used)]

use kpps_audit::{AuditPlan, Cable, Cards, Server};
use kpps_documents::audit::{Audit, Row};
use kpps_frames::rate::Rate;
use kpps_profiles::{Kind, Profile};
use kpps_qemu::lab::workload::{Driver, Settings, Work};
use kpps_qemu::lab::{Cache, Error, Guest, Kernel, Machine, Options, Userland, mac, newer};
use kpps_rendering::audit::screen;
use std::path::PathBuf;
use std::time::Duration;

/// Everything is to be counted; the document is printed.
fn audit(drivers: &[Driver], works: &[Work], plan: impl FnOnce(AuditPlan) -> AuditPlan) -> Audit {
    let plan = plan(AuditPlan {
        kernel: "linux-6.1".into(),
        driver_module: None,
        chip: "82540em".into(),
        bus: "pci-32-33".into(),
        drivers: drivers.into(),
        works: works.into(),
        rate: Rate::Pps(1000.0),
        duration: Duration::from_secs(2),
        count: None,
        settings: Settings::default(),
        kpps: binary(),
    });
    let audit = plan.run(&(), || true).unwrap();
    println!("{}", screen(&audit));
    assert_eq!(audit.failures, [""; 0]);
    audit
}

/// kpps, beside the folder of the tests.
fn binary() -> PathBuf {
    let own = std::env::var_os("KPPS_LAB_BINARY").map(PathBuf::from);
    own.unwrap_or_else(|| std::env::current_exe().unwrap().parent().unwrap().with_file_name("kpps"))
}

fn row<'a>(audit: &'a Audit, work: &str, driver: &str) -> &'a Row {
    audit.rows.iter().find(|row| (&*row.workload, &*row.driver) == (work, driver)).unwrap()
}

#[test]
#[ignore = "guests for a minute: `make lab`"]
fn drivers_beside_each_other_on_our_model() {
    let works = [Work::Transmit, Work::Receive, Work::Bridge];
    let audit = audit(&[Driver::Kpps, Driver::Linux, Driver::Dpdk], &works, |plan| plan);
    assert_eq!(audit.rows.len(), 8, "testpmd is no bridge");
    for row in &audit.rows {
        let name = format!("{} {}", row.workload, row.driver);
        assert!(row.frames > 100 && row.bus_us_per_frame > 0.3, "{name}: {row:?}");
        // One burst with data for each frame of the least size, one for each piece of the others.
        assert!(row.data_bursts_per_frame > 0.9 && row.write_backs_per_frame > 0.01, "{name}: {row:?}");
        let is_linux = row.driver == "linux";
        assert_eq!(row.interrupts_per_frame > 0.001, is_linux, "{name}: {}", row.interrupts_per_frame);
        let icr = row.registers.get("ICR").map_or(0.0, |icr| icr.reads);
        let as_expected = match row.driver.as_str() {
            "linux" => icr > 0.001,
            // Its watchdog reads it a few times a second.
            "kpps" => icr < 0.01,
            _ => icr <= 0.001,
        };
        assert!(as_expected, "{name}: {row:?}");
        if row.driver == "kpps" {
            // Reads of statistics are all.
            assert!(row.reads_per_frame < 0.05, "{name}: {row:?}");
            assert_eq!(row.violations, [], "{name}");
        }
    }
    // At 1 kpps most frames have an interrupt for themselves: a read of ICR, and writes of IMC and IMS.
    let receive = row(&audit, "receive", "linux");
    assert!(receive.reads_per_frame > 0.2, "{receive:?}");
    for driver in ["kpps", "linux"] {
        let bridge = row(&audit, "bridge", driver);
        assert_eq!((bridge.lost, bridge.changed), (Some(0), Some(0)), "{bridge:?}");
    }
}

#[test]
#[ignore = "a guest for a minute: `make lab`"]
fn a_million_frames_of_all_sizes_pass_linux_whole_and_in_order() {
    let audit = audit(&[Driver::Linux], &[Work::Bridge], |plan| AuditPlan {
        rate: Rate::Max,
        count: Some(1_000_000),
        ..plan
    });
    let bridge = row(&audit, "bridge", "linux");
    assert!(bridge.frames >= 1_000_000, "{bridge:?}");
    assert_eq!((bridge.lost, bridge.changed), (Some(0), Some(0)));
}

/// Two of our cards on one cable, each in a network namespace of the guest: echoes of all sizes, and TCP both
/// ways at once, whose contents must arrive as they were.
#[test]
#[ignore = "a guest for a minute: `make lab`"]
fn ping_and_tcp_between_two_of_our_cards() {
    for chip in ["82540em", "82543gc"] {
        let params: kpps_card::Params = Profile::named(Kind::Chip, chip).unwrap().get().unwrap();
        let bus = Profile::named(Kind::Bus, "pci-32-33").unwrap().get().unwrap();
        let cards = [(Cable::To(1), mac(0)), (Cable::To(0), mac(1))];
        let server = Server::start(Cards::new(&params, &bus, &cards)).unwrap();
        let cache = Cache::open().unwrap();
        let (kernel, userland) = (Kernel::get(&cache, "linux-6.1").unwrap(), Userland::get(&cache).unwrap());
        let mut options = Options::new(Machine::Plain, vec![]);
        (options.served, options.qemu) = (server.sockets(), Some(newer::get(&cache).unwrap()));
        let mut guest = Guest::boot(&options, &kernel, &userland, false, None).unwrap();
        guest.load("e1000", "").unwrap();
        let mut run = |command: &str| match guest.output(command, Duration::from_secs(300)).unwrap() {
            output if output.code == 0 => output.text,
            output => panic!("{command}: {output:?}"),
        };
        for (index, name) in [(0, "a"), (1, "b")] {
            run(&format!(
                "/bin/ip netns add {name} && /bin/ip link set eth{index} netns {name} && /bin/ip -n {name} link set lo up && \
                 /bin/ip -n {name} address add 198.18.0.{}/24 dev eth{index} && /bin/ip -n {name} link set eth{index} up",
                index + 1
            ));
        }
        run(
            "i=0; until /bin/ip netns exec a ping -c 1 -W 1 198.18.0.2; do i=$((i + 1)); [ $i -lt 20 ] || exit 1; done",
        );
        for bytes in [0, 1, 18, 500, 1472, 8000] {
            let told = run(&format!("/bin/ip netns exec a ping -c 50 -i 0.01 -s {bytes} -W 5 198.18.0.2"));
            assert!(told.contains(" 0% packet loss"), "{chip}, {bytes} B: {told}");
        }
        // 32 MiB each way: each side receives the bytes that the other sends.
        run("head -c 33554432 /dev/urandom > /tmp/data");
        let there = "/bin/ip netns exec b nc -l -p 7 > /tmp/there < /tmp/data & sleep 1; \
             /bin/ip netns exec a nc 198.18.0.2 7 < /tmp/data > /tmp/back; wait";
        run(there);
        let sums = run("md5sum < /tmp/data; md5sum < /tmp/there; md5sum < /tmp/back");
        let sums: Vec<_> = sums.lines().collect();
        assert!(sums.len() == 3 && sums.iter().all(|sum| *sum == sums[0]), "{chip}: {sums:?}");
        let (counts, breaches) = server.with(|cards, now| (cards.counts(now), cards.breaches()));
        println!(
            "{chip}: {} frames sent, {} arrived, {} dropped, {breaches:?}",
            counts.sent, counts.arrived, counts.dropped
        );
        assert!(counts.sent > 40_000 && counts.arrived == counts.sent, "{counts:?}");
        drop(guest);
    }
}

#[test]
fn what_cannot_be_audited_is_told_before_anything_is_fetched() {
    let plan = |chip: &str, bus: &str| {
        let plan = AuditPlan {
            kernel: "linux-6.1".into(),
            driver_module: None,
            chip: chip.into(),
            bus: bus.into(),
            drivers: vec![Driver::Linux],
            works: vec![Work::Receive],
            rate: Rate::Max,
            duration: Duration::from_secs(1),
            count: None,
            settings: Settings::default(),
            kpps: PathBuf::new(),
        };
        match plan.run(&(), || true).unwrap_err() {
            Error::Input(what) => what,
            other => panic!("{other}"),
        }
    };
    assert!(plan("82542", "pci-32-33").contains("the 82542 cannot be audited"));
    assert!(plan("ne2000", "pci-32-33").contains("ne2000"));
    assert!(plan("82540em", "isa").contains("isa"));
}
