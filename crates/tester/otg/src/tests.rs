//! Tests of the translation, and of the readers together.

#![allow(clippy::unwrap_used)]

use crate::models::{Kind, Support};
use crate::problems::Problems;
use crate::translation::{Configuration, bytes_of, seconds};
use crate::value::Object;
use crate::{json, protobuf};
use kpps_frames::rate::GIGABIT;
use kpps_ports::port::run::Shape;
use proptest::prelude::*;
use serde_json::json;
use std::time::Duration;

fn read(config: &serde_json::Value) -> (Configuration, Problems) {
    read_as(config, false)
}

fn read_as(config: &serde_json::Value, is_lenient: bool) -> (Configuration, Problems) {
    let mut problems = Problems::new(is_lenient);
    let object = json::read("Config", config.to_string().as_bytes(), &mut problems);
    let configuration = object.map(|object| {
        // Protobuf says the same as JSON.
        let mut of_protobuf = Problems::new(is_lenient);
        let again = protobuf::read("Config", &protobuf::write(&object), &mut of_protobuf).unwrap();
        assert_eq!(serde_json::to_value(&again).unwrap(), serde_json::to_value(&object).unwrap());
        Configuration::read(&object, &mut problems)
    });
    (configuration.unwrap_or_default(), problems)
}

/// A configuration of two ports with a flow of these fields.
fn config(flow: serde_json::Value) -> serde_json::Value {
    let mut all = json!({
        "name": "f",
        "tx_rx": {"choice": "port", "port": {"tx_name": "p1", "rx_name": "p2"}},
        "packet": [{"ethernet": {}}, {"ipv4": {}}, {"udp": {}}],
    });
    all.as_object_mut().unwrap().extend(flow.as_object().unwrap().clone());
    json!({
        "ports": [{"name": "p1", "location": "eth1"}, {"name": "p2", "location": "eth2"}],
        "flows": [all],
    })
}

/// The stream of a leg of a flow, on a gigabit link.
fn stream_of(placed: &crate::translation::Placed, leg: usize) -> Option<kpps_tester::Stream> {
    placed.flow.stream("f".into(), &placed.legs[leg], &placed.parts[leg], GIGABIT)
}

/// The stream of a flow of these fields, on a gigabit link.
fn stream(flow: serde_json::Value) -> kpps_tester::Stream {
    let (all, problems) = read(&config(flow));
    assert_eq!(problems.refused, Vec::<String>::new());
    stream_of(&all.flows[0], 0).unwrap()
}

/// The lines about a flow that is refused.
fn refused(flow: serde_json::Value) -> Vec<String> {
    let (_, problems) = read(&config(flow));
    assert!(!problems.refused.is_empty());
    problems.refused
}

fn frame(flow: serde_json::Value, n: u64) -> Vec<u8> {
    bytes_of_frame(&stream(flow), n)
}

fn bytes_of_frame(stream: &kpps_tester::Stream, n: u64) -> Vec<u8> {
    let between = kpps_frames::stack::Between {
        macs: [kpps_frames::Mac([2, 0, 0, 0, 0, 1]), kpps_frames::Mac([2, 0, 0, 0, 0, 2])],
        ips: [[198, 18, 0, 1].into(), [198, 19, 0, 2].into()],
    };
    let templates = stream.stack.templates(&between, &stream.sizes).unwrap();
    let mut bytes = [0; 2000];
    let length = templates.write(n, &mut bytes);
    bytes[..usize::from(length.unwrap())].to_vec()
}

#[test]
fn rates_are_those_of_the_models() {
    let pps = |rate: serde_json::Value| stream(json!({"rate": rate, "size": {"fixed": 64}})).pps();
    assert_eq!(pps(json!({})), 1000.0);
    assert_eq!(pps(json!({"choice": "pps", "pps": 250})), 250.0);
    assert_eq!(pps(json!({"pps": "250"})), 250.0);
    // One smallest frame with preamble and gap.
    assert_eq!(pps(json!({"bps": 672})), 1.0);
    assert_eq!(pps(json!({"kbps": 672})), 1e3);
    assert_eq!(pps(json!({"mbps": 672})), 1e6);
    assert_eq!(pps(json!({"gbps": 1})).round(), 1_488_095.0);
    assert_eq!(pps(json!({"percentage": 10.0})).round(), 148_810.0);
    assert_eq!(
        refused(json!({"rate": {"percentage": 101}}))[0],
        "flows[0].rate.percentage: 101: give a number above 0, at most 100"
    );
    assert_eq!(
        refused(json!({"rate": {"pps": 0}}))[0],
        "flows[0].rate.pps: 0: give a number above 0, at most 1000000000000"
    );
    assert!(
        refused(json!({"rate": {"pps": -1}}))[0].starts_with("flows[0].rate.pps: -1 is not a whole number")
    );
}

#[test]
fn sizes_are_those_of_the_models() {
    let parts = |size: serde_json::Value| -> Vec<(u32, u32)> {
        let stream = stream(json!({"size": size}));
        stream.sizes.parts().iter().map(|(size, weight)| (size.bytes_with_fcs(), *weight)).collect()
    };
    assert_eq!(parts(json!({"fixed": 128})), [(128, 1)]);
    assert_eq!(
        parts(json!({"increment": {"start": 100, "end": 200, "step": 50}})),
        [(100, 1), (150, 1), (200, 1)]
    );
    assert_eq!(parts(json!({"random": {"min": 70, "max": 72}})), [(70, 1), (71, 1), (72, 1)]);
    assert_eq!(parts(json!({"weight_pairs": {"predefined": "imix"}})), [(64, 7), (570, 4), (1518, 1)]);
    let custom =
        json!({"weight_pairs": {"custom": [{"size": 64, "weight": 1.5}, {"size": 1000, "weight": 1}]}});
    assert_eq!(parts(custom), [(64, 3), (1000, 2)]);
    for name in ["ipsec_imix", "ipv6_imix", "standard_imix", "tcp_imix"] {
        let all = parts(json!({"weight_pairs": {"predefined": name}}));
        assert!(all.len() >= 3, "{all:?}");
    }
    // The models' default size is too small for these headers: without a size, the frames are larger.
    let tcp = json!([{"ethernet": {}}, {"ipv4": {}}, {"tcp": {}}]);
    let least = stream(json!({"packet": tcp})).sizes.only().unwrap().bytes_with_fcs();
    assert!(least > 64);
    let small = refused(json!({"packet": tcp, "size": {"fixed": 64}}));
    assert!(
        small[0].starts_with("flows[0].size: a frame of 64 B") && small[0].contains(&format!("{least} B"))
    );
    assert!(
        refused(json!({"size": {"fixed": 63}}))[0].starts_with("flows[0].size.fixed: 63 bytes: give 64 to")
    );
    // The bytes of frames of several sizes are those of their order.
    let (all, _) = read(&config(json!({"size": {"weight_pairs": {"predefined": "imix"}}})));
    let flow = &all.flows[0].flow;
    assert_eq!(bytes_of(flow.sizes(), 12 * 5), 5 * (7 * 64 + 4 * 570 + 1518));
    assert_eq!(bytes_of(flow.sizes(), 1), u64::from(flow.sizes().period()[0].bytes_with_fcs()));
}

#[test]
fn durations_are_those_of_the_models() {
    let of = |duration: serde_json::Value| {
        let stream = stream(json!({"duration": duration, "rate": {"pps": 1000}, "size": {"fixed": 100}}));
        (
            stream.count,
            stream.duration.map(|time| time.as_secs_f64()),
            stream.start.as_nanos(),
            seconds(&stream),
        )
    };
    assert_eq!(of(json!({})), (None, None, 0, None));
    assert_eq!(of(json!({"continuous": {"delay": {"microseconds": 3}}})), (None, None, 3000, None));
    assert_eq!(of(json!({"fixed_packets": {"packets": 500}})), (Some(500), None, 0, Some(0.5)));
    assert_eq!(of(json!({"fixed_seconds": {"seconds": 2.5, "delay": {"nanoseconds": 500}}})).1, Some(2.5));
    assert_eq!(of(json!({"fixed_packets": {"delay": {"bytes": 125}}})).2, 1000);
    let burst = stream(json!({
        "rate": {"pps": 10_000},
        "duration": {"burst": {"bursts": 3, "packets": 10, "inter_burst_gap": {"microseconds": 1000}}},
    }));
    assert_eq!((burst.count, burst.pps().round()), (Some(30), 5000.0));
    assert_eq!(burst.shape, Shape::SpacedBursts(10, Duration::from_micros(100)));
    assert_eq!(
        refused(json!({"duration": {"continuous": {"gap": 13}}}))[0],
        "flows[0].duration.continuous.gap: 13: only 12 bytes between frames are supported"
    );
}

#[test]
fn headers_have_the_fields_of_the_models() {
    let packet = json!([
        {"ethernet": {"dst": {"value": "00:11:22:33:44:55"}, "src": {"increment": {"start": "02:00:00:00:00:01", "step": "00:00:00:00:00:02", "count": 3}}}},
        {"vlan": {"id": {"value": 100}, "priority": {"value": 5}}},
        {"ipv4": {
            "src": {"values": ["10.0.0.1", "10.0.0.2"]}, "dst": {"decrement": {"start": "10.0.1.9", "step": "0.0.0.1", "count": 2}},
            "time_to_live": {"value": 7}, "priority": {"raw": {"value": 0xb9}}
        }},
        {"tcp": {"src_port": {"value": 5}, "dst_port": {"random": {"min": 10, "max": 12, "seed": 1, "count": 100}}, "ctl_syn": {"value": 1}, "ctl_ack": {"value": 1}, "window": {"value": 9}}}
    ]);
    let fields = |n: u64| {
        let frame = frame(json!({"packet": packet.clone(), "size": {"fixed": 128}}), n);
        assert_eq!(frame.len(), 124);
        assert_eq!(frame[..6], [0, 0x11, 0x22, 0x33, 0x44, 0x55]);
        assert_eq!(frame[12..18], [0x81, 0, 0xa0, 100, 8, 0]);
        assert_eq!((frame[19], frame[26]), (0xb9, 7));
        // Offset 5, SYN and ACK.
        assert_eq!(frame[38 + 12..38 + 16], [0x50, 0x12, 0, 9]);
        assert!((10..=12).contains(&frame[41]) && frame[38..41] == [0, 5, 0]);
        (frame[11], frame[33], frame[37])
    };
    assert_eq!([fields(0), fields(1), fields(2)], [(1, 1, 9), (3, 2, 8), (5, 1, 9)]);
    let of = |packet: serde_json::Value| frame(json!({"packet": packet, "size": {"fixed": 200}}), 0);
    let tos = of(
        json!([{"ethernet": {}}, {"ipv4": {"priority": {"tos": {"precedence": {"value": 5}, "delay": {"value": 1}}}}}]),
    );
    assert_eq!(tos[15], 0xb0);
    let dscp = of(
        json!([{"ethernet": {}}, {"ipv4": {"priority": {"dscp": {"phb": {"value": 46}, "ecn": {"value": 1}}}}}]),
    );
    assert_eq!(dscp[15], 46 << 2 | 1);
    let six = of(
        json!([{"ethernet": {}}, {"ipv6": {"traffic_class": {"value": 0x17}, "flow_label": {"value": 0x12345}, "hop_limit": {"value": 9}, "src": {"value": "2001:db8::1"}}}, {"icmpv6": {"echo": {"identifier": {"value": 3}}}}]),
    );
    assert_eq!(six[14..18], [0x61, 0x71, 0x23, 0x45]);
    assert_eq!((six[21], six[54], six[59]), (9, 128, 3));
    let tunnel = of(
        json!([{"ethernet": {}}, {"ipv4": {}}, {"udp": {}}, {"vxlan": {"vni": {"value": 7}}}, {"ethernet": {}}, {"ipv4": {"dst": {"value": "9.9.9.9"}}}]),
    );
    assert_eq!((tunnel[42], tunnel[48]), (8, 7));
    // The port of VXLAN (RFC 7348).
    assert_eq!(tunnel[36..38], 4789_u16.to_be_bytes());
    assert_eq!(tunnel[50 + 14 + 16..50 + 14 + 20], [9, 9, 9, 9]);
    let gre = of(json!([{"ethernet": {}}, {"ipv4": {}}, {"gre": {}}, {"ipv4": {}}]));
    assert_eq!(gre[34..38], [0, 0, 8, 0]);
    let mpls = of(json!([{"ethernet": {}}, {"mpls": {"label": {"value": 300}}}, {"mpls": {}}, {"ipv4": {}}]));
    assert_eq!(mpls[14..22], [0, 0x12, 0xc0, 64, 0, 1, 1, 64]);
    let icmp =
        of(json!([{"ethernet": {}}, {"ipv4": {}}, {"icmp": {"echo": {"sequence_number": {"value": 4}}}}]));
    assert_eq!((icmp[34], icmp[41]), (8, 4));
    let own = of(json!([{"ethernet": {"ether_type": {"value": 0x88cc}}}, {"custom": {"bytes": "01020304"}}]));
    assert_eq!(own[12..18], [0x88, 0xcc, 1, 2, 3, 4]);
    let service =
        of(json!([{"ethernet": {}}, {"vlan": {"tpid": {"value": 0x88a8}}}, {"vlan": {}}, {"ipv4": {}}]));
    assert_eq!(service[12..14], [0x88, 0xa8]);
    let arp = of(json!([{"ethernet": {}}, {"vlan": {}}, {"arp": {
        "operation": {"value": 2}, "sender_hardware_addr": {"value": "02:00:00:00:00:09"},
        "target_protocol_addr": {"value": "10.0.0.9"}
    }}]));
    assert_eq!(arp[16..26], [8, 6, 0, 1, 8, 0, 6, 4, 0, 2]);
    assert_eq!((&arp[26..32], &arp[42..46]), (&[2, 0, 0, 0, 0, 9][..], &[10, 0, 0, 9][..]));
    let sums = |udp: serde_json::Value| {
        let frame = of(json!([{"ethernet": {}}, {"ipv4": {}}, {"udp": udp}]));
        u16::from_be_bytes([frame[40], frame[41]])
    };
    assert_eq!(sums(json!({})), 0);
    assert_ne!(sums(json!({"checksum": {"generated": "good"}})), 0);
    // Without a size, a frame has room for all that it is to have.
    let good = json!([{"ethernet": {}}, {"ipv4": {}}, {"udp": {"checksum": {"generated": "good"}}}]);
    let good = frame(json!({"packet": good}), 0);
    assert_eq!((good.len(), good[40..42] == [0, 0]), (62, false));
    let sum = of(json!([{"ethernet": {}}, {"ipv4": {}}, {"udp": {"checksum": {"custom": 5}}}]));
    assert_eq!(sum[40..42], [0, 5]);
}

#[test]
fn what_is_not_supported_is_refused_by_its_place() {
    let packet =
        |headers: serde_json::Value| refused(json!({"packet": headers, "size": {"fixed": 200}}))[0].clone();
    assert_eq!(
        packet(json!([{"ethernet": {}}, {"ipv4": {"options": [{"choice": "router_alert"}]}}])),
        "flows[0].packet[1].ipv4.options: not supported"
    );
    assert_eq!(
        packet(json!([{"ethernet": {}}, {"choice": "lacp", "lacp": {}}])),
        "flows[0].packet[1].lacp: not supported"
    );
    assert_eq!(packet(json!([{"ethernet": {}}, {"gtpv1": {}}])), "flows[0].packet[1].gtpv1: not supported");
    assert!(packet(json!([{"ipv4": {}}])).starts_with("flows[0].packet: a stack begins with ethernet"));
    assert!(
        packet(json!([{"ethernet": {}}, {"vlan": {"id": {"value": 4096}}}]))
            .starts_with("flows[0].packet[1].vlan.id: ")
    );
    assert!(
        packet(json!([{"ethernet": {"dst": {"value": "x"}}}]))
            .starts_with("flows[0].packet[0].ethernet.dst.value: 'x' is no address")
    );
    assert!(
        packet(json!([{"ethernet": {}}, {"ipv4": {"src": {"choice": "auto"}}}]))
            .contains("ipv4.src.choice: auto is for addresses by DHCP")
    );
    assert!(
        packet(json!([{"ethernet": {}}, {"udp": {"checksum": {"generated": "bad"}}}]))
            .contains("udp.checksum.generated: 'bad' is not supported")
    );
    assert!(
        packet(json!([{"ethernet": {}}, {"vlan": {"tpid": {"value": 0x9100}}}]))
            .contains("vlan.tpid: 37120: only")
    );
    assert_eq!(refused(json!({"colour": 1}))[0], "flows[0].colour: there is no such field");
    assert!(
        refused(json!({"rate": {"choice": "fps"}}))[0]
            .starts_with("flows[0].rate.choice: invalid value: string \"fps\", expected one of pps, bps")
    );
    assert_eq!(refused(json!({"payload": {"choice": "fixed"}}))[0], "flows[0].payload: not supported");
    // The same by protobuf, where an unknown field has only a number.
    let mut problems = Problems::new(false);
    let bytes =
        protobuf::write(&Object::new("Config").with("flows", vec![Object::new("Flow").with("name", "f")]));
    let with = [&bytes[..], &[0x98, 0x06, 1]].concat();
    protobuf::read("Config", &with, &mut problems).unwrap();
    assert_eq!(problems.refused, ["#99: there is no such field"]);
    // Leniently, it is left out with a warning.
    let (all, problems) = read_as(&config(json!({"colour": 1, "payload": {}, "egress_packet": []})), true);
    assert_eq!((all.flows.len(), problems.refused.len()), (1, 0));
    assert_eq!(
        problems.warnings,
        ["flows[0].colour: there is no such field: left out", "flows[0].payload: not supported: left out"]
    );
}

#[test]
fn ports_and_flows_fit_together() {
    let with = |change: &dyn Fn(&mut serde_json::Value)| {
        let mut all = config(json!({}));
        change(&mut all);
        read(&all).1.refused.join("\n")
    };
    assert_eq!(with(&|_| ()), "");
    assert_eq!(
        with(&|all| all["ports"][1]["name"] = json!("p1")).lines().next().unwrap(),
        "ports[1].name: 'p1' is the name of two ports"
    );
    assert_eq!(
        with(&|all| all["ports"][1]["location"] = json!("eth1")).lines().next().unwrap(),
        "ports[1].location: two ports are at 'eth1'"
    );
    assert_eq!(
        with(&|all| all["flows"][0]["tx_rx"]["port"]["rx_name"] = json!("p9")),
        "flows[0].tx_rx.port.rx_name: there is no port 'p9'"
    );
    assert_eq!(with(&|all| all["flows"][0]["tx_rx"] = json!(null)), "flows[0].tx_rx: it is missing");
    assert!(
        with(&|all| all["flows"][0]["tx_rx"]["port"]["rx_name"] = json!("p1")).contains("not to the same")
    );
    let twice = with(&|all| {
        let flow = all["flows"][0].clone();
        all["flows"].as_array_mut().unwrap().push(flow);
    });
    assert_eq!(twice, "flows[1].name: 'f' is the name of two flows");
    // A port with flows from and to two others.
    let mesh = with(&|all| {
        all["ports"].as_array_mut().unwrap().push(json!({"name": "p3", "location": "eth3"}));
        let mut flow = all["flows"][0].clone();
        for (name, from, to) in [("g", "p3", "p1"), ("h", "p3", "p2"), ("i", "p1", "p3")] {
            flow["name"] = json!(name);
            flow["tx_rx"]["port"] = json!({"tx_name": from, "rx_names": [to]});
            all["flows"].as_array_mut().unwrap().push(flow.clone());
        }
    });
    assert_eq!(mesh, "");
    let several = with(&|all| {
        all["ports"].as_array_mut().unwrap().push(json!({"name": "p3", "location": "eth3"}));
        all["flows"][0]["tx_rx"]["port"] = json!({"tx_name": "p1", "rx_names": ["p2", "p3"]});
    });
    assert_eq!(
        several,
        "flows[0].tx_rx.port.rx_names: several receiving ports are not supported: give a flow for each port"
    );
}

#[test]
fn flows_go_between_stations() {
    let station = |name: &str, port: &str, mac: &str, ip: &str, gateway: &str| {
        json!({"name": name, "ethernets": [{
            "name": format!("{name} eth"), "mac": mac, "connection": {"port_name": port},
            "ipv4_addresses": [{"name": format!("{name} ip"), "address": ip, "gateway": gateway, "prefix": 24}],
        }]})
    };
    let mut all =
        config(json!({"tx_rx": {"choice": "device", "device": {"tx_names": ["a ip"], "rx_names": ["b"]}}}));
    all["devices"] = json!([
        station("a", "p1", "02:00:00:00:00:0a", "10.0.0.2", "10.0.0.1"),
        station("b", "p2", "02:00:00:00:00:0b", "10.0.1.2", "10.0.1.1"),
    ]);
    let (read_all, problems) = read(&all);
    assert!(problems.refused.is_empty(), "{:?}", problems.refused);
    let [a, b] = read_all.flows[0].legs[0].stations[0];
    assert_eq!(
        (a.port, b.port, a.ip.unwrap().0.to_string(), b.ip.unwrap().1.to_string()),
        (0, 1, "10.0.0.2".into(), "10.0.1.1".into())
    );
    all["devices"].as_array_mut().unwrap().push(station(
        "c",
        "p2",
        "02:00:00:00:00:0c",
        "10.0.1.3",
        "10.0.1.1",
    ));
    let flow = |all: &serde_json::Value| {
        let (read_all, problems) = read(all);
        assert!(problems.refused.is_empty(), "{:?}", problems.refused);
        let pairs = read_all.flows[0].legs.iter().flat_map(|leg| leg.stations.to_vec());
        pairs.map(|ends| ends.map(|it| it.mac.0[5])).collect::<Vec<_>>()
    };
    all["flows"][0]["tx_rx"]["device"]["rx_names"] = json!(["b", "c"]);
    assert_eq!(flow(&all), [[10, 11], [10, 12]]);
    all["flows"][0]["tx_rx"]["device"]["mode"] = json!("one_to_one");
    assert!(
        read(&all).1.refused[0].ends_with("tx_rx.device.mode: one_to_one with 1 senders and 2 receivers")
    );
    all["flows"][0]["tx_rx"]["device"]["tx_names"] = json!(["a", "a ip"]);
    assert_eq!(flow(&all), [[10, 11], [10, 12]]);
    // In one network no router is needed.
    all["devices"][0]["ethernets"][0]["ipv4_addresses"][0]["prefix"] = json!(15);
    let (near, _) = read(&all);
    let [a, b] = near.flows[0].legs[0].stations[0];
    assert!(a.reaches(&b) && !b.reaches(&a), "{a:?} {b:?}");
    all["devices"][0]["ethernets"][0]["ipv4_addresses"][0]["prefix"] = json!(33);
    assert!(read(&all).1.refused[0].ends_with("ipv4_addresses[0].prefix: 33: give 1 to 32"));
    all["devices"][0]["ethernets"][0]["ipv4_addresses"][0]["prefix"] = json!(24);
    all["devices"][2]["name"] = json!("b ip");
    assert_eq!(
        read(&all).1.refused[0],
        "devices[2]: 'b ip' is the name of two devices, interfaces or addresses"
    );
    all["devices"][2]["name"] = json!("c");
    all["flows"] = config(json!({"tx_rx": {"device": {"tx_names": ["a"]}}}))["flows"].clone();
    all["flows"][0]["tx_rx"]["device"]["rx_names"] = json!(["x"]);
    assert!(
        read(&all)
            .1
            .refused
            .iter()
            .any(|line| line.contains("tx_rx.device.rx_names: there is no device, interface or address 'x'"))
    );
}

/// The streams of a flow between stations at several ports are the flow together, in each direction.
#[test]
fn a_flow_has_a_stream_for_each_two_ports() {
    let mut all = config(json!({
        "tx_rx": {"device": {"tx_names": ["s0", "s1", "s2"], "rx_names": ["s3", "s4"], "bidirectional": true}},
        "rate": {"pps": 600}, "size": {"fixed": 100}, "duration": {"fixed_packets": {"packets": 16}},
    }));
    all["ports"] = (0..4).map(|n| json!({"name": format!("p{n}"), "location": format!("eth{n}")})).collect();
    let station = |(n, port): (usize, &str)| {
        json!({"name": format!("s{n}"), "ethernets": [{
            "name": format!("e{n}"), "mac": format!("02:00:00:00:00:0{n}"), "connection": {"port_name": port},
        }]})
    };
    all["devices"] = ["p0", "p0", "p1", "p2", "p3"].into_iter().enumerate().map(station).collect();
    let streams = |all: &serde_json::Value| {
        let (read_all, problems) = read(all);
        assert!(problems.refused.is_empty(), "{:?}", problems.refused);
        let placed = &read_all.flows[0];
        (0..placed.legs.len()).map(|leg| stream_of(placed, leg).unwrap()).collect::<Vec<_>>()
    };
    let found = streams(&all);
    let ends: Vec<_> = found.iter().map(|it| (it.from, it.to, it.count.unwrap(), it.pps().round())).collect();
    // The senders of p0 have four of the six pairs, and the first four of the last turn of 16 frames.
    let to = [(0, 2, 6, 200.0), (0, 3, 6, 200.0), (1, 2, 2, 100.0), (1, 3, 2, 100.0)];
    let back = [(2, 0, 6, 200.0), (2, 1, 2, 100.0), (3, 0, 6, 200.0), (3, 1, 2, 100.0)];
    assert_eq!(ends, [to, back].concat());
    let starts: Vec<f64> = found.iter().map(|it| (it.start.as_secs_f64() * 600.0).round()).collect();
    assert_eq!(starts, [0.0, 1.0, 4.0, 5.0, 0.0, 4.0, 1.0, 5.0]);
    // Each frame has the values that it has in the flow: those of one sender with those of its pairs.
    let ports =
        json!([{"ethernet": {}}, {"ipv4": {}}, {"udp": {"src_port": {"values": [10, 11, 12, 13, 14, 15]}}}]);
    all["flows"][0]["packet"] = ports;
    for (stream, turns) in streams(&all).iter().zip([[0, 2], [1, 3], [4, 4], [5, 5]]) {
        for n in 0..6 {
            let frame = bytes_of_frame(stream, n);
            assert_eq!(frame[35], 10 + turns[(n % 2) as usize], "{} {n}", stream.from);
        }
    }
    // Bursts are divided, too, if they can be.
    all["flows"][0]["duration"] = json!({"burst": {"packets": 12, "bursts": 2}});
    assert_eq!(streams(&all).iter().map(|it| it.count.unwrap()).sum::<u64>(), 2 * 24);
    all["flows"][0]["duration"]["burst"]["packets"] = json!(13);
    assert_eq!(
        read(&all).1.refused,
        [
            "flows[0].duration.burst.packets: 13 cannot be divided evenly among its pairs of stations and metric tags"
        ]
    );
    all["flows"][0]["tx_rx"]["device"]["rx_names"] = json!(["s1", "s4"]);
    assert!(read(&all).1.refused[0].contains("a flow goes from one port to another, not to the same"));
}

/// A flow with metric tags has a stream for each of the tags' values, which takes the flow's frames in turn.
#[test]
fn a_flow_with_metric_tags_has_a_stream_for_each_value() {
    let flow = json!({
        "packet": [
            {"ethernet": {}},
            {"ipv4": {
                "src": {"increment": {"start": "10.0.0.1", "count": 3}},
                "dst": {"values": ["10.1.0.1", "10.2.0.1"],
                    "metric_tags": [{"name": "net", "offset": 8, "length": 8}]},
            }},
            {"udp": {"dst_port": {"values": [80, 443, 80, 53], "metric_tags": [{"name": "port"}]}}},
        ],
        "size": {"increment": {"start": 100, "end": 104, "step": 2}},
        "duration": {"fixed_packets": {"packets": 10}}, "rate": {"pps": 400},
    });
    let (all, problems) = read(&config(flow.clone()));
    assert_eq!(problems.refused, Vec::<String>::new());
    let placed = &all.flows[0];
    assert_eq!(placed.flow.tags.names, ["net", "port"]);
    let values = [["01", "0050"], ["02", "01bb"], ["01", "0050"], ["02", "0035"]];
    assert_eq!(placed.flow.tags.values, values);
    let legs = &placed.legs;
    let streams: Vec<_> = (0..legs.len()).map(|leg| stream_of(placed, leg).unwrap()).collect();
    let of = |it: &kpps_tester::Stream| (it.count.unwrap(), it.pps(), it.start.as_micros());
    let ends: Vec<_> = streams.iter().map(of).collect();
    assert_eq!(ends, [(3, 100.0, 0), (3, 100.0, 2500), (2, 100.0, 5000), (2, 100.0, 7500)]);
    // The frames of the streams are those of the flow without tags.
    let mut plain = flow;
    for (header, field) in [(1, "ipv4.dst"), (2, "udp.dst_port")] {
        let (kind, field) = field.split_once('.').unwrap();
        plain["packet"][header][kind][field].as_object_mut().unwrap().remove("metric_tags");
    }
    let whole = stream(plain);
    for n in 0..60_u64 {
        let (tag, at) = ((n % 4) as usize, n / 4);
        assert_eq!(bytes_of_frame(&streams[tag], at), bytes_of_frame(&whole, n), "{n}");
    }
    // Tags without values of the flow are refused.
    let tagged =
        |field: serde_json::Value| json!({"packet": [{"ethernet": {}}, {"ipv4": field}, {"udp": {}}]});
    let tag =
        |tags: serde_json::Value| refused(tagged(json!({"src": {"value": "10.0.0.1", "metric_tags": tags}})));
    assert_eq!(
        tag(json!([{"name": "a", "offset": 30, "length": 3}])),
        ["flows[0].packet[1].ipv4.src.metric_tags[0]: offset 30 and length 3: the field has 32 bits"]
    );
    assert_eq!(
        tag(json!([{"name": "a"}, {"name": "a"}])),
        ["flows[0].packet: 'a' is the name of two metric tags"]
    );
    assert!(
        refused(tagged(json!({"total_length": {"metric_tags": [{"name": "a"}]}})))[0]
            .ends_with("a tag needs values that the flow gives")
    );
    let tags: Vec<_> = (0..17).map(|n| json!({"name": format!("t{n}")})).collect();
    assert!(tag(json!(tags))[0].ends_with("a flow has at most 16 metric tags"));
    // The whole width is a client's usual length, also behind an offset.
    let (all, problems) = read(&config(tagged(
        json!({"src": {"value": "10.0.7.1", "metric_tags": [{"name": "low", "offset": 16, "length": 32}]}}),
    )));
    assert!(problems.refused.is_empty() && all.flows[0].flow.tags.values == [["0701"]], "{problems:?}");
    let many =
        json!({"src": {"increment": {"start": "10.0.0.1", "count": 2000}, "metric_tags": [{"name": "a"}]}});
    assert!(refused(tagged(many))[0].contains("repeat after more than 1000 frames"));
    assert_eq!(
        refused(
            json!({"packet": [{"ethernet": {}}, {"vlan": {"tpid": {"metric_tags": [{"name": "a"}]}}}, {"ipv4": {}}, {"udp": {}}]})
        ),
        ["flows[0].packet[1].vlan.tpid.metric_tags[0]: a tag of such a field is not supported"]
    );
}

/// Every field that the table calls supported is read without a complaint, by JSON and by protobuf, with the
/// type that it has.
#[test]
fn each_supported_field_is_read() {
    fn sample(kind: &Kind) -> Option<serde_json::Value> {
        Some(match kind {
            Kind::Bool => json!(true),
            Kind::Uint(_) | Kind::Int => json!(1),
            Kind::Float(_) => json!(0.5),
            Kind::Text => json!("x"),
            Kind::Choice(all) => json!(all[0].0),
            Kind::Message(_) => json!({}),
            Kind::Bytes => return None,
        })
    }
    for message in crate::models::ALL.values() {
        for field in &message.fields {
            let Some(value) = sample(&field.kind) else { continue };
            let value = if field.is_repeated { json!([value]) } else { value };
            let text = json!({ field.name: value }).to_string();
            let mut problems = Problems::new(false);
            let object = json::read(message.name, text.as_bytes(), &mut problems).unwrap();
            let expected = [0, usize::from(field.support == Support::Noted)];
            let place = format!("{}.{}: {problems:?}", message.name, field.name);
            if field.support == Support::None {
                assert!(problems.refused[0].ends_with("not supported"), "{place}");
                continue;
            }
            assert_eq!([problems.refused.len(), problems.warnings.len()], expected, "{place}");
            let again = protobuf::read(message.name, &protobuf::write(&object), &mut problems).unwrap();
            assert_eq!(object, again, "{place}");
        }
    }
}

proptest! {
    /// No bytes make a reader panic, nor the translation of what it read.
    #[test]
    fn any_bytes_are_read_or_refused(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        let mut problems = Problems::new(true);
        for object in [protobuf::read("Config", &bytes, &mut problems), json::read("Config", &bytes, &mut problems)].into_iter().flatten() {
            Configuration::read(&object, &mut problems);
        }
    }

    /// Changed configurations are read or refused, and the streams of what is accepted can be sent.
    #[test]
    fn changed_configurations_are_read_or_refused(changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..8)) {
        let all = config(json!({"rate": {"pps": 5}, "size": {"weight_pairs": {"custom": [{"size": 99, "weight": 1.25}]}},
            "duration": {"burst": {"bursts": 1, "packets": 5, "inter_burst_gap": {"nanoseconds": 1e3}}}}));
        let mut problems = Problems::new(true);
        let object = json::read("Config", all.to_string().as_bytes(), &mut problems).unwrap();
        let mut texts = [all.to_string().into_bytes(), protobuf::write(&object)];
        for text in &mut texts {
            for (at, byte) in &changes {
                let at = at.index(text.len());
                text[at] = *byte;
            }
        }
        let read = [json::read("Config", &texts[0], &mut problems), protobuf::read("Config", &texts[1], &mut problems)];
        for object in read.into_iter().flatten() {
            let all = Configuration::read(&object, &mut problems);
            for placed in &all.flows {
                for leg in 0..placed.legs.len() {
                    let Some(stream) = stream_of(placed, leg) else { continue };
                    prop_assert!(stream.pps() > 0.0 && stream.pps().is_finite());
                    prop_assert!(placed.flow.sizes().parts()[0].0 >= stream.stack.least());
                }
            }
        }
    }
}

/// The guide's table of fields is that of the code: `UPDATE=1` writes it.
#[test]
fn the_guide_has_the_table_of_fields() {
    const ENDS: [&str; 2] = ["<!-- fields: written by the test -->\n", "<!-- end of fields -->"];
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../docs/src/otg.md");
    let page = std::fs::read_to_string(path).unwrap();
    let (head, rest) = page.split_once(ENDS[0]).unwrap();
    let (table, tail) = rest.split_once(ENDS[1]).unwrap();
    let mut expected =
        String::from("\n| message | supported | accepted without an effect | refused |\n|---|---|---|---|\n");
    for message in crate::models::ALL.values() {
        let names = |support: Support| {
            let of = message.fields.iter().filter(|field| field.support == support);
            of.map(|field| format!("`{}`", field.name)).collect::<Vec<_>>().join(", ")
        };
        let [full, noted, none] = [Support::Full, Support::Noted, Support::None].map(names);
        expected += &format!("| `{}` | {full} | {noted} | {none} |\n", message.name);
    }
    expected += "\n";
    if table != expected && std::env::var_os("UPDATE").is_some() {
        std::fs::write(path, [head, ENDS[0], &expected, ENDS[1], tail].concat()).unwrap();
    } else {
        assert!(
            table == expected,
            "the table of fields in docs/src/otg.md is not that of the code: run this test with UPDATE=1"
        );
    }
}
