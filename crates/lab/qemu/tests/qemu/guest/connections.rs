//! TCP connections through a NAT of Linux whose connection tracker is full at 1000: a limit of the whole
//! system, which a guest may have.

use super::{Shared, boot, is_wanted};
use kpps_qemu::lab::{Guest, Machine, Model};
use serde_json::Value;
use std::time::Duration;

/// a-ra, a router with NAT in a namespace of its own, rb-b.
const ROUTER: &str = "mkdir -p /run/netns /var/run && /bin/ip netns add dut && \
    /bin/ip link add name a type veth peer name ra netns dut && \
    /bin/ip link add name b type veth peer name rb netns dut && \
    /bin/ip link set dev a up && /bin/ip link set dev b up && \
    /bin/ip -n dut address add 198.18.0.254/24 dev ra && /bin/ip -n dut address add 198.19.0.254/24 dev rb && \
    /bin/ip -n dut link set dev ra up && /bin/ip -n dut link set dev rb up && \
    /bin/ip netns exec dut sh -c 'echo 1 > /proc/sys/net/ipv4/ip_forward'";
const NAT: &str = "/bin/ip netns exec dut /bin/nft 'add table ip t; \
    add chain ip t p { type nat hook postrouting priority 100; }; add rule ip t p oifname rb masquerade'";
/// The longest wait for a search in a guest: each trial ends with connections that get no answer.
const SEARCH_TIMEOUT: Duration = Duration::from_secs(1800);
/// Connections that the tracker keeps.
const LIMIT: u64 = 1000;

/// A guest with the router, whose tracker has the limit.
fn boot_router() -> Shared {
    let mut shared = boot(Model::E1000, Machine::Plain, &[]);
    let guest = &mut shared.guest;
    for module in ["veth", "af_packet", "crc32c_generic", "nft_chain_nat", "nft_ct", "nft_masq"] {
        guest.load(module, "").unwrap();
    }
    guest.run(ROUTER).unwrap();
    guest.run(NAT).unwrap();
    guest.run(&format!("echo {LIMIT} > /proc/sys/net/netfilter/nf_conntrack_max")).unwrap();
    shared
}

/// Runs `kpps connections` on the router's ports. Returns its document.
fn connections(guest: &mut Guest, more: &str) -> Value {
    let command = format!(
        "kpps connections --ports packet:a,packet:b --gateway 198.18.0.254 {more} --json > /tmp/found 2> /tmp/said"
    );
    let code = guest.output(&command, SEARCH_TIMEOUT).unwrap().code;
    assert_eq!(code, 0, "{}", guest.run("cat /tmp/said").unwrap());
    serde_json::from_str(&guest.run("cat /tmp/found").unwrap()).unwrap()
}

/// The search finds the limit, exactly. The tracker forgets closed connections after a second, and not after
/// two minutes, but not at once: trials before that are repeated.
#[test]
#[ignore = "`make lab` runs it"]
fn the_search_finds_the_limit_of_a_connection_tracker() {
    if !is_wanted() {
        return;
    }
    let Shared { mut guest, _turn } = boot_router();
    for state in ["time_wait", "close", "fin_wait", "close_wait", "last_ack"] {
        let timeout = format!("/proc/sys/net/netfilter/nf_conntrack_tcp_timeout_{state}");
        guest.run(&format!("/bin/ip netns exec dut sh -c 'echo 1 > {timeout}'")).unwrap();
    }
    let found = connections(
        &mut guest,
        "--find concurrent --most 1300 --rate 1000 --duration 500ms --drain 3s --tries 3 --pause 1s \
         --longest-pause 100s --max-shortfall 99%",
    );
    let search = &found["search"];
    assert_eq!(
        (&search["concurrent_connections"], &search["failed_at"], &search["limited_by_tester"]),
        (&LIMIT.into(), &(LIMIT + 1).into(), &false.into()),
        "{found}"
    );
}

#[test]
#[ignore = "`make lab` runs it"]
fn a_full_connection_tracker_is_seen() {
    if !is_wanted() {
        return;
    }
    let Shared { mut guest, _turn } = boot_router();
    let found = connections(
        &mut guest,
        "--concurrent 1200 --rate 2000 --duration 500ms --drain 3s --max-shortfall 99%",
    );
    let client = &found["trials"][0]["client"];
    // A full tracker drops half-open connections for new ones, and the client may have seen these
    // established already: on a slow guest a few more than the limit.
    let [opened, most, closed] =
        ["opened", "most_established", "closed"].map(|name| client[name].as_u64().unwrap());
    assert!(opened == 1200 && (LIMIT..1200).contains(&most) && closed < opened, "{found}");
    // The kernel says so, too.
    let messages = guest.run("dmesg").unwrap();
    assert!(messages.contains("table full, dropping packet"), "{messages}");
}
