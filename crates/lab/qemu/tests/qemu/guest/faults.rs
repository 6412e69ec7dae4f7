//! Faults of the world: cables, programs, cards, peers. Traffic must resume, every frame must be accounted
//! for, and nothing may be left over.

use super::ours::Ours;
use super::{BACKENDS, GUEST_TIMEOUT, Shared, bind, boot, is_wanted, until};
use kpps_frames::Size;
use kpps_frames::build::{Flow, udp_test};
use kpps_frames::rate::Rate;
use kpps_qemu::lab::load::Load;
use kpps_qemu::lab::workload::Backend;
use kpps_qemu::lab::{Cable, Guest, Model};
use std::time::Duration;

const PPS: Rate = Rate::Pps(5000.0);
/// Registers that turn the receiver and the transmitter on, and the bit of both that does.
const RCTL: u32 = 0x100;
const TCTL: u32 = 0x400;
const ENABLE: u32 = 2;

fn load(guest: &mut Guest, rate: Rate) -> Load {
    let frame = udp_test(&Flow::default(), Size::MIN).unwrap();
    Load::start(guest.take_wire(0).unwrap(), rate, frame).unwrap()
}

fn each_backend(test: fn(&mut Guest, Backend, String)) {
    if !is_wanted() {
        return;
    }
    for backend in BACKENDS {
        let Shared { mut guest, _turn } = boot(Model::E1000, backend.machine(), &[Cable::Host]);
        let port = bind(&mut guest, backend, 0);
        test(&mut guest, backend, port);
    }
}

/// The guest's free huge pages, and its interrupt handlers of user space.
fn left(guest: &mut Guest) -> (u64, String) {
    let pages = guest.run("grep HugePages_Free /proc/meminfo | tr -cd 0-9").unwrap();
    let handlers = guest.run("grep -o -e vfio.* -e uio.* /proc/interrupts || true").unwrap();
    (pages.trim().parse().unwrap(), handlers)
}

/// The open files of the running kpps.
fn open_files(guest: &mut Guest) -> String {
    let files = guest.run("ls -l /proc/$(pidof kpps)/fd | sed -n 's/.* -> //p' | sort").unwrap();
    assert!(files.contains("eventfd") || files.contains("uio"), "{files}");
    files
}

/// Where the guest has a register of the first card.
fn register(guest: &mut Guest, offset: u32) -> u64 {
    let base = guest.run("head -1 /sys/bus/pci/devices/0000:00:02.0/resource").unwrap();
    let base = base.split_whitespace().next().unwrap().trim_start_matches("0x").to_owned();
    u64::from_str_radix(&base, 16).unwrap() + u64::from(offset)
}

/// Writes 0 to a register, RCTL or TCTL, behind the driver's back, and waits until the driver has reset the
/// card.
fn turn_off_until_reset(guest: &mut Guest, offset: u32) {
    let register = register(guest, offset);
    guest.run(&format!("devmem {register:#x} 32 0")).unwrap();
    until("the card to be reset", || {
        let value = guest.run(&format!("devmem {register:#x}")).unwrap();
        (u32::from_str_radix(value.trim().trim_start_matches("0x"), 16).unwrap() & ENABLE != 0).then_some(())
    });
}

#[test]
#[ignore = "`make lab` runs it"]
fn a_cable_is_pulled_and_plugged_in_under_load() {
    each_backend(|guest, _, port| {
        let ours = Ours::start(guest, &format!("count {port} --duration 1h"));
        let load = load(guest, PPS);
        ours.moves(guest);
        guest.set_link(0, false).unwrap();
        std::thread::sleep(Duration::from_millis(300));
        let before = ours.so_far(guest);
        std::thread::sleep(Duration::from_millis(500));
        assert_eq!(ours.so_far(guest), before, "frames came through no cable");
        guest.set_link(0, true).unwrap();
        ours.moves(guest);
        load.quiet();
        let results = ours.end(guest);
        assert_eq!(results["streams"][0]["duplicated"], 0);
        assert_eq!(results["streams"][0]["corrupted"], 0);
        load.stop().unwrap();
    });
}

#[test]
#[ignore = "`make lab` runs it"]
fn a_sender_outlives_its_cable() {
    each_backend(|guest, _, port| {
        let ours = Ours::start(guest, &format!("send {port} --load 5kpps --duration 1h"));
        ours.moves(guest);
        guest.set_link(0, false).unwrap();
        std::thread::sleep(Duration::from_secs(1));
        guest.set_link(0, true).unwrap();
        ours.moves(guest);
        let results = ours.end(guest);
        assert_eq!(results["ports"][0]["drops"]["errors"], 0);
    });
}

#[test]
#[ignore = "`make lab` runs it"]
fn after_kill_9_the_next_start_works_and_nothing_is_left() {
    each_backend(|guest, _, port| {
        let before = left(guest);
        let mut files = None;
        for round in 0..4 {
            let ours = Ours::start(guest, &format!("count {port} --duration 1h"));
            let load = load(guest, PPS);
            ours.moves(guest);
            assert!(left(guest).0 < before.0, "kpps has no huge pages: {before:?}");
            let opened = open_files(guest).lines().count();
            assert_eq!(*files.get_or_insert(opened), opened, "round {round}");
            if round < 3 {
                guest.run("killall -9 kpps").unwrap();
            } else {
                assert!(ours.end(guest)["ports"][0]["received"].as_u64().unwrap() > 0);
            }
            until("all to be as before", || {
                let now = left(guest);
                println!("round {round}: {before:?}, now {now:?}");
                (now == before).then_some(())
            });
            let (wire, counts) = load.stop().unwrap();
            guest.give_wire(0, wire);
            assert!(counts.sent > 0, "round {round}");
        }
    });
}

#[test]
#[ignore = "`make lab` runs it"]
fn a_ring_that_was_full_for_seconds_empties_and_the_ledger_closes() {
    each_backend(|guest, _, port| {
        let ours = Ours::start(guest, &format!("count {port} --duration 1h"));
        // QEMU's e1000 receives nothing for a second after its setup; frames sent before wait.
        let load = load(guest, PPS);
        ours.moves(guest);
        guest.run("killall -STOP kpps").unwrap();
        std::thread::sleep(Duration::from_secs(2));
        guest.run("killall -CONT kpps").unwrap();
        ours.moves(guest);
        load.quiet();
        let mut last = ours.so_far(guest);
        until("the last frame", || {
            std::thread::sleep(Duration::from_millis(300));
            let now = ours.so_far(guest);
            std::mem::replace(&mut last, now).eq(&now).then_some(())
        });
        let results = ours.end(guest);
        let (_, counts) = load.stop().unwrap();
        let port = &results["ports"][0];
        let (received, missed) =
            (port["received"].as_u64().unwrap(), port["drops"]["missed"].as_u64().unwrap());
        // Frames that the ring has no room for are dropped and counted by QEMU, or held back and delivered
        // later.
        assert_eq!(received + missed, counts.sent, "{port}");
        assert_eq!(results["streams"][0]["received"], received);
        assert_eq!(results["streams"][0]["lost"], missed);
    });
}

#[test]
#[ignore = "`make lab` runs it"]
fn a_card_that_stops_sending_is_reset() {
    each_backend(|guest, _, port| {
        let ours = Ours::start(guest, &format!("send {port} --load 5kpps --duration 1h"));
        ours.moves(guest);
        turn_off_until_reset(guest, TCTL);
        ours.moves(guest);
        let results = ours.end(guest);
        assert!(results["ports"][0]["resets"].as_u64().unwrap() >= 1, "{results}");
    });
}

#[test]
#[ignore = "`make lab` runs it"]
fn a_card_that_stops_receiving_is_reset_and_resets_leave_nothing_open() {
    each_backend(|guest, _, port| {
        let ours = Ours::start(guest, &format!("count {port} --duration 1h"));
        let load = load(guest, PPS);
        ours.moves(guest);
        let before = (left(guest), open_files(guest));
        for _ in 0..3 {
            turn_off_until_reset(guest, RCTL);
            ours.moves(guest);
        }
        assert_eq!((left(guest), open_files(guest)), before);
        let results = ours.end(guest);
        assert_eq!(results["ports"][0]["resets"], 3, "{results}");
        assert_eq!(results["streams"][0]["duplicated"], 0, "{results}");
        load.stop().unwrap();
    });
}

#[test]
#[ignore = "`make lab` runs it"]
fn a_peer_goes_and_comes_back() {
    if !is_wanted() {
        return;
    }
    let Shared { mut guest, _turn } =
        boot(Model::E1000, Backend::Uio.machine(), &[Cable::Hub(0), Cable::Hub(0)]);
    let guest = &mut guest;
    let port = bind(guest, Backend::Uio, 0);
    guest.load("e1000", "").unwrap();
    guest.run("ip link set eth0 up promisc on").unwrap();
    let ours = Ours::start(guest, &format!("send {port} --load 2kpps --duration 1h"));
    let came = |guest: &mut Guest| -> u64 {
        guest
            .run("grep eth0 /proc/interrupts | tr -s ' ' | cut -d' ' -f3")
            .unwrap()
            .trim()
            .parse()
            .unwrap_or(0)
    };
    until("frames at the peer", || (came(guest) > 5).then_some(()));
    guest.run("echo 0000:00:11.0 > /sys/bus/pci/drivers/e1000/unbind").unwrap();
    std::thread::sleep(Duration::from_secs(1));
    ours.moves(guest);
    guest.run("echo 0000:00:11.0 > /sys/bus/pci/drivers/e1000/bind; ip link set eth0 up promisc on").unwrap();
    until("frames at the peer again", || (came(guest) > 5).then_some(()));
    ours.end(guest);
}

#[test]
#[ignore = "`make lab` runs it"]
fn under_flood_frames_are_taken_and_the_console_answers() {
    each_backend(|guest, _, port| {
        let ours = Ours::start(guest, &format!("count {port} --duration 1h"));
        let load = load(guest, Rate::Max);
        ours.moves(guest);
        for _ in 0..3 {
            guest.console_answers(GUEST_TIMEOUT).unwrap();
            ours.moves(guest);
        }
        load.stop().unwrap();
        ours.end(guest);
    });
}
