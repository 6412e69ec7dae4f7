//! The functional suite on real PCI, and traffic against the kernel's driver.

use super::{BACKENDS, GUEST_TIMEOUT, Shared, bind, boot, boot_cards, is_wanted};
use kpps_namespaces::until_undisturbed;
use kpps_qemu::lab::workload::Backend;
use kpps_qemu::lab::{Cable, Card, Guest, Model};
use std::time::Duration;

/// A card of ours and one of the kernel's on one hub, as the suite wants them. The latter is an e1000: QEMU's
/// e1000e does not send everything.
fn pair(model: Model, backend: Backend) -> (Shared, String) {
    let cable = Cable::Hub(0);
    let cards = vec![Card { model, cable }, Card { model: Model::E1000, cable }];
    let mut alone = boot_cards(backend.machine(), cards);
    let guest = &mut alone.guest;
    guest.load("af_packet", "").unwrap();
    let port = bind(guest, backend, 0);
    guest.load("e1000", "").unwrap();
    // Frames are to be seen as they are on the wire.
    guest.run("ethtool -K eth0 rx off tx off sg off tso off gso off gro off rxvlan off txvlan off").unwrap();
    // Debian's queue discipline sorts frames by flow: those with a tag overtake those without.
    guest.run("/bin/tc qdisc replace dev eth0 root pfifo limit 2000").unwrap();
    guest.run("ip link set eth0 mtu 9000 && /bin/ip link set eth0 arp off && ip link set eth0 up").unwrap();
    guest.run("while [ $(cat /sys/class/net/eth0/carrier) != 1 ]; do usleep 20000; done").unwrap();
    guest.control_link_of(0);
    (alone, port)
}

fn suite(model: Model, backend: Backend) {
    let (Shared { mut guest, _turn }, port) = pair(model, backend);
    let command = format!("kpps conformance --on {port} --peer eth0 --link-control /dev/ttyS1");
    let output = guest.output(&command, Duration::from_secs(600)).unwrap();
    println!("{}", output.text);
    assert_eq!(output.code, 0, "{}", output.text);
}

#[test]
fn the_suite_holds_on_e1000e_through_vfio() {
    if is_wanted() {
        suite(Model::E1000e, Backend::Vfio);
    }
}

#[test]
#[ignore = "another minute or two: `make lab` runs it"]
fn the_suite_holds_on_e1000e_through_uio() {
    if is_wanted() {
        suite(Model::E1000e, Backend::Uio);
    }
}

#[test]
#[ignore = "another minute or two: `make lab` runs it"]
fn the_suite_holds_on_e1000_through_vfio() {
    if is_wanted() {
        suite(Model::E1000, Backend::Vfio);
    }
}

#[test]
#[ignore = "another minute or two: `make lab` runs it"]
fn the_suite_holds_on_e1000_through_uio() {
    if is_wanted() {
        suite(Model::E1000, Backend::Uio);
    }
}

const COUNT: u64 = 1500;

/// Sends `frames` (sizes, tags) from one port to the other: all of them arrive once, in order and unchanged.
/// It is tried again only if a card or a socket counted each absent frame as missed, for want of room: so a
/// guest loses frames on a busy host.
fn passes(guest: &mut Guest, from: &str, to: &str, frames: &str) {
    until_undisturbed("a guest in time for a thousand frames a second", || {
        let missed_before = missed_by_kernel(guest);
        let text = sent_and_counted(guest, from, to, frames);
        let received = number_before(&text, " received, ");
        let missed = number_before(&text, " missed ") + missed_by_kernel(guest) - missed_before;
        assert!(received + missed >= COUNT, "{from} to {to}, {frames}: {missed} missed; {text}");
        if received < COUNT {
            return false;
        }
        assert!(text.trim().ends_with('0'), "{from} to {to}, {frames}: {text}");
        assert!(text.contains(&format!("{COUNT} received, 0 lost, 0 duplicated, 0 reordered")), "{text}");
        true
    });
}

/// The number that stands before these words; 0 if they are absent.
fn number_before(text: &str, words: &str) -> u64 {
    let before = text.split_once(words).and_then(|(before, _)| before.split_whitespace().next_back());
    before.map_or(0, |number| number.parse().unwrap())
}

/// Frames for which the kernel's card had no room so far.
fn missed_by_kernel(guest: &mut Guest) -> u64 {
    guest.run("cat /sys/class/net/eth0/statistics/rx_missed_errors").unwrap().trim().parse().unwrap()
}

/// The output of `kpps count` about the frames of `kpps send`, and its exit code.
fn sent_and_counted(guest: &mut Guest, from: &str, to: &str, frames: &str) -> String {
    let counter =
        format!("kpps count {to} --expect {COUNT} --duration 1h --every 20ms > /tmp/count 2> /tmp/lines");
    guest
        .run(&format!(
            "rm -f /tmp/code /tmp/lines; (setsid {counter}; echo $? > /tmp/code) > /dev/null 2>&1 &"
        ))
        .unwrap();
    guest.run("while ! grep -q seconds /tmp/lines && [ ! -e /tmp/code ]; do usleep 10000; done").unwrap();
    // QEMU's e1000 receives nothing for a second after its setup.
    guest.run("sleep 1.2").unwrap();
    let sent = guest
        .output(&format!("kpps send {from} {frames} --load 1kpps --count {COUNT}"), GUEST_TIMEOUT)
        .unwrap();
    assert_eq!(sent.code, 0, "{from} to {to}, {frames}: {}", sent.text);
    // The counter ends with the last frame. If one is absent, it is interrupted.
    guest.run("for i in $(seq 250); do [ ! -e /tmp/code ] || break; usleep 20000; done").unwrap();
    guest.run("[ -e /tmp/code ] || kill -INT $(pidof kpps)").unwrap();
    guest.run("while [ ! -e /tmp/code ]; do usleep 20000; done").unwrap();
    guest.run("cat /tmp/count /tmp/lines | grep -v '^{'; cat /tmp/code").unwrap()
}

/// Offloads, and frames of all lengths, are the suite's; these are the kernel's own frames of a busy wire.
fn in_both_directions(model: Model, backend: Backend) {
    let (Shared { mut guest, _turn }, port) = pair(model, backend);
    for frames in ["--size 64", "--size imix-csit", "--size 1518", "--size 128 --vlan 5"] {
        passes(&mut guest, &port, "packet:eth0", frames);
        passes(&mut guest, "packet:eth0", &port, frames);
    }
}

#[test]
#[ignore = "`make lab` runs it"]
fn frames_pass_between_our_driver_and_the_kernels_in_both_directions() {
    if is_wanted() {
        Model::OURS.into_iter().zip(BACKENDS).for_each(|(model, backend)| in_both_directions(model, backend));
    }
}

#[test]
#[ignore = "`make lab` runs it"]
fn frames_pass_in_both_directions_with_the_other_backend_too() {
    if is_wanted() {
        Model::OURS
            .into_iter()
            .zip(BACKENDS.into_iter().rev())
            .for_each(|(model, backend)| in_both_directions(model, backend));
    }
}

#[test]
#[ignore = "`make lab` runs it"]
fn bad_input_is_told_in_one_line() {
    if !is_wanted() {
        return;
    }
    let Shared { mut guest, _turn } = boot(Model::E1000, Backend::Uio.machine(), &[Cable::Open]);
    let guest = &mut guest;
    guest.load("e1000", "").unwrap();
    let mut told = |command: &str| {
        let output = guest.output(command, GUEST_TIMEOUT).unwrap();
        println!("{command}\n  {}", output.text);
        assert_eq!((output.code, output.text.trim().lines().count()), (2, 1), "{command}: {}", output.text);
        output.text
    };
    assert!(told("kpps count uio:0000:00:1f.7").contains("kpps device list"));
    assert!(told("kpps count uio:0000:00:02.0").contains("kpps device bind"));
    assert!(told("kpps count uio:nonsense").contains("nonsense"));
    told("kpps device bind 0000:00:02.0 --backend vfio");
    told("kpps count packet:eth7");
    bind(guest, Backend::Uio, 0);
    guest.run("echo 0 > /proc/sys/vm/nr_hugepages").unwrap();
    let output = guest.output("kpps count uio:0000:00:02.0", GUEST_TIMEOUT).unwrap();
    assert_eq!((output.code, output.text.trim().lines().count()), (2, 1), "{}", output.text);
    assert!(output.text.contains("nr_hugepages"), "{}", output.text);
}
