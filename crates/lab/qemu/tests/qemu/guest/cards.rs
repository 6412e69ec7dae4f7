//! Permission to use a card, and the memory for it.

use super::{GUEST_TIMEOUT, Shared, bind, boot, is_wanted, until};
use kpps_qemu::lab::workload::Backend;
use kpps_qemu::lab::{Cable, Guest, Model};

const CARD: &str = "0000:00:02.0";

/// Runs kpps, which must end with this exit code. Returns its output.
fn ends(guest: &mut Guest, code: i32, command: &str) -> String {
    let output = guest.output(command, GUEST_TIMEOUT).unwrap();
    println!("{command}\n  {}", output.text);
    assert_eq!(output.code, code, "{command}: {}", output.text);
    output.text
}

#[test]
#[ignore = "`make lab` runs it"]
fn a_card_is_not_taken_from_what_is_on_top_of_it_nor_from_another_namespace() {
    if !is_wanted() {
        return;
    }
    let Shared { mut guest, _turn } = boot(Model::E1000, Backend::Uio.machine(), &[Cable::Open]);
    let guest = &mut guest;
    guest.load("uio_pci_generic", "").unwrap();
    guest.load("8021q", "").unwrap();
    guest.load("e1000", "").unwrap();
    let bind = format!("kpps device bind {CARD} --backend uio");
    guest.run("ip link set eth0 up && /bin/ip link add link eth0 name eth0.5 type vlan id 5").unwrap();
    guest.run("/bin/ip addr add 10.0.0.1/24 dev eth0.5 && ip link set eth0.5 up").unwrap();
    assert!(ends(guest, 2, &bind).contains("carries eth0.5"));
    assert!(ends(guest, 0, "kpps device list").contains("carries eth0.5"));
    guest.run("/bin/ip link del eth0.5").unwrap();

    let holder = guest.spawn("exec unshare -n sleep 1000", "/tmp/holder").unwrap();
    until("another namespace", || {
        let [here, there] = ["self", &holder.to_string()]
            .map(|id| guest.run(&format!("readlink /proc/{id}/ns/net")).unwrap());
        (here != there).then_some(())
    });
    guest.run(&format!("/bin/ip link set eth0 netns {holder}")).unwrap();
    assert!(ends(guest, 2, &bind).contains("another network namespace"));
    assert!(ends(guest, 0, "kpps device list").contains("another network namespace"));
    ends(guest, 0, &format!("{bind} --force"));
    assert!(ends(guest, 0, "kpps device list").contains("ready: uio:"));
}

#[test]
#[ignore = "`make lab` runs it"]
fn a_user_has_rings_for_the_memory_that_he_may_lock() {
    if !is_wanted() {
        return;
    }
    let cables = [Cable::Host, Cable::Host];
    let Shared { mut guest, _turn } = boot(Model::E1000e, Backend::Vfio.machine(), &cables);
    let guest = &mut guest;
    let ports = [0, 1].map(|index| bind(guest, Backend::Vfio, index));
    guest.run("mkdir -p /etc && echo 'user::1000:1000::/tmp:/bin/sh' > /etc/passwd").unwrap();
    guest.run("chown user /dev/vfio/[0-9]* && chmod 666 /dev/vfio/vfio").unwrap();
    let user = |limit_kib: u32, command: &str| {
        format!("su -c 'ulimit -l {limit_kib} && [ $(id -u) = 1000 ] && exec kpps {command}' user")
    };
    let send = format!("send {} --count 1000 --load 10kpps", ports[0]);
    ends(guest, 0, &user(8192, &send));
    ends(guest, 0, &user(8192, &format!("{send} --ring 256")));
    // Two cards have more buffers, and rings of 256 are too large already.
    ends(guest, 0, &user(8192, &format!("forward {} {} --duration 300ms", ports[0], ports[1])));
    let told = ends(guest, 2, &user(8192, &format!("{send} --ring 2048")));
    assert!(
        told.contains("a ring of 256 descriptors needs less, or `sudo prlimit --memlock=unlimited --pid $$`"),
        "{told}"
    );
    // Nothing does with so little, and a smaller ring is no advice.
    let told = ends(guest, 2, &user(64, &send));
    assert!(told.contains("may not lock") && told.contains("prlimit") && !told.contains("--ring"), "{told}");
}

#[test]
#[ignore = "`make lab` runs it"]
fn the_smallest_ring_works_and_smaller_ones_are_refused() {
    if !is_wanted() {
        return;
    }
    let Shared { mut guest, _turn } = boot(Model::E1000, Backend::Uio.machine(), &[Cable::Host]);
    let guest = &mut guest;
    let port = bind(guest, Backend::Uio, 0);
    // There is no memory for it, but another mistake is reported first.
    let pages = guest.run("cat /proc/sys/vm/nr_hugepages; echo 0 > /proc/sys/vm/nr_hugepages").unwrap();
    let told = ends(guest, 2, &format!("kpps count {port} --ring 8"));
    guest.run(&format!("echo {} > /proc/sys/vm/nr_hugepages", pages.trim())).unwrap();
    let least = told.split("a multiple of 8 from ").nth(1).and_then(|rest| rest.split(' ').next());
    let least: u16 = least.and_then(|text| text.parse().ok()).unwrap_or_else(|| panic!("{told}"));
    assert!(told.contains("to 4096 on the 82540em"), "{told}");
    ends(guest, 2, &format!("kpps count {port} --ring {}", least - 8));
    ends(guest, 0, &format!("kpps send {port} --ring {least} --count 5000 --load 10kpps"));
}

/// QEMU's cards do not keep the speed of their link, and take fillers for frames. The command sends the
/// frames of its plan all the same, and counts only these.
#[test]
#[ignore = "`make lab` runs it"]
fn fillers_are_no_frames_of_a_card() {
    if !is_wanted() {
        return;
    }
    let Shared { mut guest, _turn } = boot(Model::E1000, Backend::Uio.machine(), &[Cable::Host]);
    let guest = &mut guest;
    let port = bind(guest, Backend::Uio, 0);
    for shape in ["constant", "poisson", "bursts:32"] {
        let send = format!("kpps send {port} --count 3000 --load 10kpps --shape {shape} --fillers");
        let told = ends(guest, 0, &send);
        println!("{told}");
        for words in ["3000 due, 3000 sent, generator shortfall 0", " fillers were sent; "] {
            assert!(told.contains(words), "{shape}: {told}");
        }
    }
    let told = ends(guest, 2, &format!("kpps send {port} --load 2Mpps --fillers"));
    assert!(told.contains("give a lower --load"), "{told}");
}
