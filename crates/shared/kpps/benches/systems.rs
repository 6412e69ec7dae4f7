//! A bridge and a router of the Linux kernel as devices under test, in network namespaces: frames of all
//! sizes of RFC 2544 by each sort of port, at a load that they carry and in an overload, as `kpps trial`
//! measures it for anybody. `make systems`; it takes root.
//!
//! In an overload frames are sent as fast as the port takes them, and the way out of the device under test
//! carries 25,000 a second. A line for each trial says where lost frames ended. The exit code is 1 if a frame
//! of any trial is unexplained, or was doubled, damaged or out of order, which neither system does. A load
//! that is carried is offered twice: the exit code is 1, too, if the delivered rates differ by more than 3 %,
//! or p50 by more than 10 %, which takes a quiet machine.
//!
//! `… --bench systems -- 2s router udp 64 128` makes trials of 2 s, through the router, by UDP, of two sizes
//! only.
#![allow(clippy::unwrap_used)]

use kpps_namespaces::Net;
use serde_json::Value;
use std::process::ExitCode;

const SIZES: [u16; 7] = [64, 128, 256, 512, 1024, 1280, 1518];
const PORTS: &[&str] = &["packet", "xdp", "udp"];
/// The devices under test, and the ports that can be at them: a bridge has no addresses for sockets.
const SYSTEMS: [(&str, &[&str]); 2] = [("bridge", &["packet", "xdp"]), ("router", PORTS)];
/// The loads, and the rate of the exit at each, in frames per second, if the exit is limited.
const LOADS: [(&str, Option<u32>); 2] = [("50kpps", None), ("max", Some(25_000))];

/// A device under test between `a` and `b`.
struct Rig {
    /// Where `a` and `b` are, and the bridge, if it is that.
    ends: Net,
    router: Option<Net>,
    /// Its arguments of `kpps trial`.
    words: Vec<String>,
}

impl Rig {
    fn new(system: &str, port: &str) -> Option<Self> {
        let ports = match port {
            "udp" => "udp:198.19.0.2:9000,udp::9000".into(),
            _ => format!("{port}:a,{port}:b"),
        };
        let mut words = vec!["--ports".to_owned(), ports];
        if system == "bridge" {
            return Some(Self { ends: Net::with_bridge()?, router: None, words });
        }
        let (ends, router) = Net::with_router()?;
        // Or it asks anew now and then who that is, and a full way out drops the question among the frames of
        // the trial.
        let station = ends.output("cat /sys/class/net/b/address");
        router.run(&format!("ip neigh add 198.19.0.2 lladdr {} dev rb nud permanent", station.trim()));
        let watched = format!("{}/", router.name());
        if port == "udp" {
            as_two_hosts(&ends);
            words.extend(["--watch".into(), format!("a,b,{watched}")]);
        } else {
            let gateways = "198.18.0.254,198.19.0.254".into();
            words.extend(["--gateway".into(), gateways, "--watch".into(), watched]);
        }
        Some(Self { ends, router: Some(router), words })
    }

    /// Limits the device under test to sending `pps` frames of `size` a second; false if the kernel cannot.
    fn bound(&self, size: u16, pps: Option<u32>) -> bool {
        let (net, way_out) = self.router.as_ref().map_or((&self.ends, "pb"), |router| (router, "rb"));
        let Some(pps) = pps else { return true };
        let bytes = u32::from(size) - 4;
        net.can(&format!(
            "tc qdisc replace dev {way_out} root tbf rate {}bps burst {} limit {}",
            pps * bytes,
            32 * bytes,
            64 * bytes
        ))
    }

    fn trial(&self, size: u16, load: &str, duration: &str) -> Result<Value, String> {
        let mut kpps = self.ends.command(env!("CARGO_BIN_EXE_kpps"));
        kpps.args(["trial", "--json", "--load", load, "--duration", duration, "--size", &size.to_string()]);
        let output = kpps.args(&self.words).output().unwrap();
        let said = |text: &[u8]| {
            let text = String::from_utf8_lossy(text).trim().to_owned();
            self.router.as_ref().map_or(text.clone(), |router| text.replace(router.name(), "router"))
        };
        if !output.status.success() {
            return Err(said(&output.stderr));
        }
        serde_json::from_str(&said(&output.stdout)).map_err(|error| error.to_string())
    }
}

/// A host's own addresses are never sent to by a cable: `a` and `b` are each another host's for the other.
fn as_two_hosts(ends: &Net) {
    ends.run(
        "ip address add 198.18.0.1/24 dev a && ip address add 198.19.0.2/24 dev b && ip link set dev lo up &&
         ip rule add pref 1 iif lo to 198.19.0.2 lookup 100 && ip route add default via 198.18.0.254 dev a table 100 &&
         ip rule add pref 2 iif lo to 198.18.0.1 lookup 101 && ip route add default via 198.19.0.254 dev b table 101 &&
         ip rule add pref 3 lookup local && ip rule del pref 0 &&
         for i in all a b; do
             echo 1 > /proc/sys/net/ipv4/conf/$i/accept_local; echo 0 > /proc/sys/net/ipv4/conf/$i/rp_filter
         done",
    );
    // As with a card: the kernel cuts messages into datagrams before the interface.
    ends.run("ethtool -K a tx off > /dev/null");
}

fn number(trial: &Value, name: &str) -> u64 {
    trial[name].as_u64().unwrap()
}

/// The cells of a line.
fn cells(trial: &Value) -> [String; 7] {
    let ledger = &trial["ledger"];
    let places = ["dropped", "in_flight_at"].into_iter().flat_map(|what| ledger[what].as_object().unwrap());
    let places: Vec<_> = places.map(|(place, frames)| format!("{frames} {place}")).collect();
    let us = |name: &str| {
        trial["latency_ns"][name].as_u64().map_or("-".into(), |ns| format!("{:.1}", ns as f64 / 1e3))
    };
    let count = |name: &str| number(trial, name).to_string();
    [
        count("sent"),
        count("received"),
        count("lost"),
        ledger["unexplained"].to_string(),
        us("p50"),
        us("p99"),
        if places.is_empty() { "-".into() } else { places.join(", ") },
    ]
}

/// The faults of a trial.
fn faults(trial: &Value) -> Vec<String> {
    let mut faults: Vec<_> = ["duplicated", "reordered", "corrupted"]
        .into_iter()
        .filter(|what| number(trial, what) > 0)
        .map(|what| format!("{} {what}", number(trial, what)))
        .collect();
    if trial["ledger"]["unexplained"] != 0 {
        faults.push("unexplained".into());
    }
    if number(trial, "received") == 0 {
        faults.push("nothing came through".into());
    }
    faults
}

/// How much a quantity differs between two trials, as a share of the first.
fn difference(trials: [&Value; 2], pointer: &str) -> Option<f64> {
    let [first, second] = trials.map(|trial| trial.pointer(pointer).and_then(Value::as_f64));
    Some((second? - first?).abs() / first.filter(|first| *first > 0.0)?)
}

/// The values that differ too much between two trials of the same load. Prints how much.
fn differences(trials: [&Value; 2]) -> Vec<String> {
    let mut found = Vec::new();
    for (name, pointer, most) in [("received", "/received", 0.03), ("p50", "/latency_ns/p50", 0.1)] {
        let Some(share) = difference(trials, pointer) else { continue };
        println!("{:>33}  {name} differs by {:.1} %", "again:", share * 100.0);
        if share > most {
            found.push(format!("{name} of two equal trials differs by {:.1} %", share * 100.0));
        }
    }
    found
}

/// Prints a line: system, ports, size and load, and what became of that.
fn line([system, port, size, load]: [&str; 4], cells: [String; 7]) {
    let [sent, received, lost, unexplained, p50, p99, places] = cells;
    println!(
        "{system:7} {port:7} {size:>5} {load:>8} {sent:>9} {received:>9} {lost:>9} {unexplained:>11} {p50:>9} {p99:>9}  {places}"
    );
}

fn main() -> ExitCode {
    // Without it this is `cargo test`, which only asks whether it builds.
    if !std::env::args().any(|word| word == "--bench") {
        return ExitCode::SUCCESS;
    }
    let words: Vec<_> = std::env::args().skip(1).filter(|word| !word.starts_with('-')).collect();
    let duration =
        words.iter().find(|word| word.starts_with(|c: char| c.is_ascii_digit()) && word.ends_with('s'));
    let duration = duration.map_or("10s", |word| word);
    // If no member of a column is named, all members are wanted.
    let wanted = |all: &[&str], one: &str| {
        let named = |name: &str| words.iter().any(|word| word == name);
        named(one) || !all.iter().any(|name| named(name))
    };
    let systems = SYSTEMS.map(|(system, _)| system);
    let mut rigs = Vec::new();
    for (system, ports) in SYSTEMS.into_iter().filter(|(system, _)| wanted(&systems, system)) {
        rigs.extend(ports.iter().filter(|port| wanted(PORTS, port)).map(|port| (system, *port)));
    }
    let names = SIZES.map(|size| size.to_string());
    let names = names.each_ref().map(String::as_str);
    let sizes: Vec<_> = SIZES.into_iter().zip(names).filter(|(_, name)| wanted(&names, name)).collect();

    let heads = ["sent", "received", "lost", "unexplained", "p50, us", "p99, us", "where"];
    line(["system", "ports", "size", "offered"], heads.map(String::from));
    let mut code = ExitCode::SUCCESS;
    for (system, port) in rigs {
        let Some(rig) = Rig::new(system, port) else { break };
        for (load, way_out_pps) in LOADS {
            for &(size, name) in &sizes {
                if !rig.bound(size, way_out_pps) {
                    eprintln!("{system} {port} {size} {load}: left out, for this kernel has no tbf");
                    continue;
                }
                let trial = || {
                    let trial = rig.trial(size, load, duration)?;
                    line([system, port, name, load], cells(&trial));
                    Ok((faults(&trial), trial))
                };
                let faults = trial().and_then(|(mut found, first)| {
                    if way_out_pps.is_none() {
                        let (again, second) = trial()?;
                        found.extend(again);
                        found.extend(differences([&first, &second]));
                    }
                    Ok(found)
                });
                let faults = faults.unwrap_or_else(|said: String| vec![said]);
                if !faults.is_empty() {
                    eprintln!("{system} {port} {size} {load}: {}", faults.join(", "));
                    code = ExitCode::FAILURE;
                }
            }
        }
    }
    code
}
