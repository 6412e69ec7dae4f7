//! Receive queues of a card with RSS, an igb of QEMU (82576) with Linux's driver: the queue of each flow is
//! the predicted one, and where one queue is starved, the lost frames are those of its flows.

use super::{HOST, Shared, is_wanted, kpps};
use kpps_namespaces::until_undisturbed;
use kpps_qemu::lab::{Cable, Cache, Card, Guest, Kernel, Machine, Model, Options, Userland, address, newer};
use serde_json::Value;
use std::time::Duration;

/// Receive queues, each on a processor of its own.
const QUEUES: u8 = 4;
/// Flows of a trial.
const FLOWS: u64 = 400;
/// The longest time of a trial on a busy host.
const TRIAL_TIMEOUT: Duration = Duration::from_secs(600);

/// A guest with two igb cards that are connected to each other, up.
fn boot_igb() -> Shared {
    let turn = HOST.read().unwrap_or_else(|poisoned| poisoned.into_inner());
    let cache = Cache::open().unwrap();
    let kernel = Kernel::get(&cache, "linux-6.1").unwrap();
    let userland = Userland::get(&cache).unwrap();
    let card = Card { model: Model::Igb, cable: Cable::Hub(0) };
    let qemu = Some(newer::get(&cache).unwrap());
    let options = Options { vcpus: QUEUES, qemu, ..Options::new(Machine::Plain, vec![card; 2]) };
    let boot = || Guest::boot(&options, &kernel, &userland, false, Some(&kpps()));
    // On a busy host a kernel may give up on its timers and end its machine.
    let mut guest = boot().or_else(|_| boot()).or_else(|_| boot()).unwrap();
    guest.load("af_packet", "").unwrap();
    guest.load("igb", "").unwrap();
    for card in ["eth0", "eth1"] {
        guest.run(&format!("/bin/ip link set {card} arp off && ip link set {card} up")).unwrap();
        guest
            .run(&format!("while [ $(cat /sys/class/net/{card}/carrier) != 1 ]; do usleep 20000; done"))
            .unwrap();
    }
    Shared { guest, _turn: turn }
}

/// The document of a trial from the first card to this port of the second, with these options.
fn trial(guest: &mut Guest, port: &str, options: &str) -> Value {
    let command = format!(
        "kpps trial --ports packet:eth0,{port} {options} --retries 0 --max-shortfall 99% --drain 3s --json \
         > /tmp/trial 2> /tmp/said"
    );
    let code = guest.output(&command, TRIAL_TIMEOUT).unwrap().code;
    assert_eq!(code, 0, "{options}: {}", guest.run("cat /tmp/said").unwrap());
    serde_json::from_str(&guest.run("cat /tmp/trial").unwrap()).unwrap()
}

/// The only direction of a trial, in which a core reads each queue.
fn on_all_queues(guest: &mut Guest, options: &str) -> Value {
    trial(guest, "xdp:eth1", &format!("--cores {QUEUES} {options}"))["directions"][0].clone()
}

/// Checks that all flows came to the queues that were predicted for them, and that each queue has some.
fn are_predicted(direction: &Value) {
    let queues = &direction["queues"];
    println!("{queues}");
    for (name, count) in [("flows_elsewhere", 0), ("unknown_flows", 0)] {
        assert_eq!(queues[name], count, "{queues}");
    }
    let rows = queues["each"].as_array().unwrap();
    assert_eq!(rows.len(), usize::from(QUEUES), "{queues}");
    for row in rows {
        assert_eq!((&row["elsewhere"], &row["of_others"]), (&0.into(), &0.into()), "{queues}");
        assert!(number(&row["flows"]) > 0 && number(&row["received"]) > 0, "{queues}");
    }
    assert_eq!(rows.iter().map(|row| number(&row["flows"])).sum::<u64>(), FLOWS, "{queues}");
    // Few frames are lost, whatever else the host does, so each flow has shown its queue.
    let silent = number(&direction["flows"]["silent"]);
    assert!(silent < FLOWS / 20, "{silent} flows did not arrive");
}

fn number(value: &Value) -> u64 {
    value.as_u64().unwrap()
}

/// Flows whose addresses differ in many bits, and flows whose ports do: each queue gets some of them.
const IPV4: &str = "--src random:10.0.0.0-10.255.255.255 --dst 11.0.0.1 --sport 1000 --dport 9";
const IPV6: &str = "--src random:2001:2::-2001:2::ff:ffff --dst 2001:2:0:1::1 --sport 1000 --dport 9";
const PORTS_V4: &str = "--src 10.0.0.1 --dst 11.0.0.1 --sport random:1024-65535 --dport 9";
const PORTS_V6: &str = "--src 2001:2::1 --dst 2001:2:0:1::1 --sport random:1024-65535 --dport 9";

#[test]
#[ignore = "`make lab` runs it"]
fn flows_come_to_the_predicted_queues() {
    if !is_wanted() {
        return;
    }
    let Shared { mut guest, _turn } = boot_igb();
    let guest = &mut guest;
    let load = format!("--load 1kpps --duration 3s --flows {FLOWS}");
    for addresses in [IPV4, IPV6] {
        are_predicted(&on_all_queues(guest, &format!("{load} {addresses}")));
    }
    // By default this driver hashes the addresses of UDP only: flows that differ in ports have one queue.
    let direction = on_all_queues(guest, &format!("{load} {PORTS_V4}"));
    let rows = direction["queues"]["each"].as_array().unwrap();
    let used = rows.iter().filter(|row| number(&row["flows"]) > 0);
    assert_eq!(used.map(|row| number(&row["flows"])).collect::<Vec<_>>(), [FLOWS], "{rows:?}");
    assert!(rows.iter().all(|row| number(&row["of_others"]) == 0), "{rows:?}");
    guest.run("ethtool -N eth1 rx-flow-hash udp4 sdfn && ethtool -N eth1 rx-flow-hash udp6 sdfn").unwrap();
    for ports in [PORTS_V4, PORTS_V6] {
        are_predicted(&on_all_queues(guest, &format!("{load} {ports}")));
    }
    // Another table moves the flows, and the prediction follows.
    guest.run("ethtool -X eth1 weight 1 5 1 1").unwrap();
    let direction = on_all_queues(guest, &format!("{load} {IPV4}"));
    are_predicted(&direction);
    let rows = direction["queues"]["each"].as_array().unwrap();
    assert!(number(&rows[1]["flows"]) > FLOWS / 2, "{rows:?}");
    // A port of one queue gets the frames of its flows, and no others.
    let only = trial(guest, "xdp:eth1:2", &format!("{load} {IPV4}"));
    let rows = only["directions"][0]["queues"]["each"].as_array().unwrap();
    println!("{rows:?}");
    for (queue, row) in rows.iter().enumerate() {
        let is_read = queue == 2;
        assert_eq!((&row["read"], &row["of_others"]), (&is_read.into(), &0.into()), "{rows:?}");
        assert_eq!(number(&row["received"]) > 0, is_read, "{rows:?}");
    }
    // If it is changed meanwhile, flows come to other queues, and the reason is known.
    let changes = "sent=/sys/class/net/eth0/statistics/tx_packets; before=$(cat $sent); \
        while [ $(cat $sent) -lt $((before + 300)) ]; do usleep 20000; done; \
        ethtool -X eth1 weight 0 0 0 1";
    until_undisturbed("a table that changes before the trial ends", || {
        guest.run("ethtool -X eth1 equal 4").unwrap();
        guest.spawn(changes, "/tmp/changes").unwrap();
        let direction = on_all_queues(guest, &format!("{load} --no-learning {IPV4}"));
        let queues = &direction["queues"];
        println!("{queues}");
        if number(&queues["flows_elsewhere"]) == 0 {
            return false;
        }
        assert_eq!(queues["reason"], "changed", "{queues}");
        true
    });
    let steers = format!("kpps trial --ports packet:eth0,xdp:eth1 --cores {QUEUES} {load} {IPV4} --steer");
    let steered = guest.output(&steers, TRIAL_TIMEOUT).unwrap();
    assert_eq!(steered.code, 2, "{}", steered.text);
    assert!(steered.text.contains("flows cannot be steered to its receive queues"), "{}", steered.text);
}

/// The queue that gets no interrupt.
const STARVED: usize = 2;

/// The driver's interrupt for a queue is masked in the card (EIMC, 82576 data sheet, 8.8.7), so nothing takes
/// the frames of this queue out of its ring. The first vector is that of other causes, and the next one that
/// of the first queue.
#[test]
#[ignore = "`make lab` runs it"]
fn the_lost_frames_of_a_starved_queue_are_those_of_its_flows() {
    if !is_wanted() {
        return;
    }
    let Shared { mut guest, _turn } = boot_igb();
    let guest = &mut guest;
    let registers = guest.run(&format!("head -1 /sys/bus/pci/devices/{}/resource", address(1))).unwrap();
    let registers = registers.split_whitespace().next().and_then(|at| at.strip_prefix("0x")).unwrap();
    let mask = u64::from_str_radix(registers, 16).unwrap() + 0x1528;
    // When the port is opened, the driver allows all interrupts, and after a poll that of its queue.
    let vector = 1 << (STARVED + 1);
    let starves = format!("while devmem {mask:#x} 32 {vector:#x}; do usleep 10000; done");
    guest.spawn(&starves, "/tmp/starves").unwrap();
    let options = format!("--load 1kpps --duration 4s --flows {FLOWS} {IPV4} --no-learning");
    let trial = trial(guest, "xdp:eth1", &format!("--cores {QUEUES} {options}"));
    let direction = &trial["directions"][0];
    println!("{}\n{}\n{}", direction["queues"], direction["cores"], trial["ledger"]);
    let queues = &direction["queues"];
    assert_eq!((&queues["flows_elsewhere"], &queues["unknown_flows"]), (&0.into(), &0.into()), "{queues}");
    for (queue, row) in queues["each"].as_array().unwrap().iter().enumerate() {
        let [flows, sent, received, lost] =
            ["flows", "sent", "received", "lost"].map(|name| number(&row[name]));
        assert_eq!(sent, received + lost, "{queues}");
        if queue == STARVED {
            assert!(flows > 0 && lost >= sent * 9 / 10, "{queues}");
            // All of its flows are silent, or nearly all.
            let silent = number(&direction["flows"]["silent"]);
            assert!(silent >= flows * 9 / 10, "{silent} of {flows} flows are silent");
        } else {
            assert!(flows > 0 && lost <= sent / 10, "{queues}");
        }
    }
}
