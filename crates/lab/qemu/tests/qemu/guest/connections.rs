//! TCP connections through a NAT of Linux whose connection tracker is full at 1000: a limit of the whole
//! system, which a guest may have.

use super::{GUEST_TIMEOUT, Shared, boot, is_wanted};
use kpps_qemu::lab::{Machine, Model};
use serde_json::Value;

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
/// Connections that the tracker keeps.
const LIMIT: u64 = 1000;

#[test]
#[ignore = "`make lab` runs it"]
fn a_full_connection_tracker_is_seen() {
    if !is_wanted() {
        return;
    }
    let Shared { mut guest, _turn } = boot(Model::E1000, Machine::Plain, &[]);
    for module in ["veth", "af_packet", "crc32c_generic", "nft_chain_nat", "nft_ct", "nft_masq"] {
        guest.load(module, "").unwrap();
    }
    guest.run(ROUTER).unwrap();
    guest.run(NAT).unwrap();
    guest.run(&format!("echo {LIMIT} > /proc/sys/net/netfilter/nf_conntrack_max")).unwrap();
    let command = "kpps connections --ports packet:a,packet:b --gateway 198.18.0.254 --concurrent 1200 \
        --rate 2000 --duration 500ms --drain 3s --max-shortfall 99% --json > /tmp/found 2> /tmp/said";
    let code = guest.output(command, GUEST_TIMEOUT).unwrap().code;
    assert_eq!(code, 0, "{}", guest.run("cat /tmp/said").unwrap());
    let found: Value = serde_json::from_str(&guest.run("cat /tmp/found").unwrap()).unwrap();
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
