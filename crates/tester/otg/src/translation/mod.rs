//! From configurations of the Open Traffic Generator models to ports, stations and streams. It has no input
//! or output.

mod devices;
mod flow;
mod headers;
mod legs;
mod node;
mod patterns;
mod tags;

use devices::Names;
pub use devices::{Device, Station};
pub use flow::{Flow, bytes_of, seconds};
pub use legs::Leg;
use legs::MOST_TURNS;
pub use node::{Bad, Node};

use crate::problems::Problems;
use crate::value::Object;
use kpps_frames::Mix;
use kpps_frames::stack::Stack;
use kpps_tester::{MOST_STREAMS, MOST_STREAMS_OF_TRIAL};
use std::collections::{BTreeMap, BTreeSet};

/// The most ports of a configuration: each has a network of the benchmark networks.
const MOST_PORTS: usize = 500;
/// The most devices, and the most captures.
const MOST_DEVICES: usize = 1000;
/// The most pairs of stations that flows connect.
const MOST_PAIRS: usize = 1 << 18;
/// The most values of header fields of all flows together that are kept in memory.
const MOST_VALUES: usize = 1 << 23;
/// The most addresses of all devices together: a port looks for each question through all of its stations.
const MOST_STATIONS: usize = 10_000;

/// A configuration, as far as it was accepted.
#[derive(Clone, Debug, Default)]
pub struct Configuration {
    /// The ports.
    pub ports: Vec<Port>,
    /// The stations.
    pub devices: Vec<Device>,
    names: Names,
    /// The ports whose frames can be captured.
    pub captures: Vec<Capture>,
    /// The flows.
    pub flows: Vec<Placed>,
    /// Whether metrics of flows have the time for which frames were lost.
    pub has_loss_duration: bool,
}

/// A port of a configuration.
#[derive(Clone, Debug)]
pub struct Port {
    /// Its name.
    pub name: String,
    /// The name by which the server knows it.
    pub location: String,
}

/// A port whose frames can be captured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Capture {
    /// The index of the port.
    pub port: usize,
    /// The most bytes that are kept of a frame, without FCS; `None`: all of them.
    pub frame_bytes: Option<usize>,
    /// Whether the format is pcapng in place of pcap.
    pub is_pcapng: bool,
}

/// A flow with its ends.
#[derive(Clone, Debug)]
pub struct Placed {
    /// The flow.
    pub flow: Flow,
    /// Its legs, at least one.
    pub legs: Vec<Leg>,
    /// The frames of each leg.
    pub parts: Vec<(Stack, Mix)>,
}

impl Placed {
    /// A flow with these legs.
    fn read(node: &Node<'_>, flow: Flow, legs: Vec<Leg>) -> Result<Self, Bad> {
        if legs.len() > MOST_STREAMS {
            let why = format!("its ports and metric tags make more than {MOST_STREAMS} streams of it");
            return Err(node.bad(why));
        }
        let parts = flow.parts(node, &legs)?;
        Ok(Self { flow, legs, parts })
    }

    /// The number of values and sizes that it keeps in memory.
    fn listed(&self) -> usize {
        let of_part = |(stack, sizes): &(Stack, Mix)| stack.listed() + sizes.parts().len();
        self.flow.listed() + self.parts.iter().map(of_part).sum::<usize>()
    }

    /// The number of pairs of stations that it connects.
    fn pairs(&self) -> usize {
        self.legs.iter().map(|leg| leg.stations.len()).sum()
    }
}

impl Configuration {
    /// Translates a configuration. Mistakes are added to `problems`; without mistakes, the configuration is
    /// complete.
    pub fn read(config: &Object, problems: &mut Problems) -> Self {
        let node = Node::new(config);
        let options = node.child("options").child("flow_options");
        let mut all = Self { has_loss_duration: options.flag("packet_loss_duration"), ..Self::default() };
        for (list, most) in [("ports", MOST_PORTS), ("devices", MOST_DEVICES), ("captures", MOST_DEVICES)] {
            if node.children(list).len() > most {
                problems.wrong(node.bad_at(list, format!("there are more than {most}")).0);
                return all;
            }
        }
        for port in node.children("ports") {
            match read_port(&port, &all.ports) {
                Ok(port) => all.ports.push(port),
                Err(bad) => problems.wrong(bad.0),
            }
        }
        for capture in node.children("captures") {
            if capture.has("overwrite") && !capture.flag("overwrite") {
                let why = "a full capture has the newest frames in any case";
                problems.note(capture.bad_at("overwrite", why).0);
            }
            match read_capture(&capture, &all) {
                Ok(captures) => all.captures.extend(captures),
                Err(bad) => problems.wrong(bad.0),
            }
        }
        for device in node.children("devices") {
            match Device::read(&device, &all.ports) {
                Ok(devices) => {
                    if let Err(why) = all.names.add(&devices) {
                        problems.wrong(device.bad(why).0);
                    }
                    all.devices.extend(devices);
                }
                Err(bad) => problems.wrong(bad.0),
            }
        }
        if all.devices.iter().map(|device| device.addresses.len().max(1)).sum::<usize>() > MOST_STATIONS {
            problems
                .wrong(node.bad_at("devices", format!("they have more than {MOST_STATIONS} addresses")).0);
            return all;
        }
        all.append(&node.children("flows"), problems);
        all
    }

    /// Adds flows.
    pub fn append(&mut self, flows: &[Node<'_>], problems: &mut Problems) {
        let mut names: BTreeSet<String> = self.flows.iter().map(|it| it.flow.name.clone()).collect();
        let mut counts: BTreeMap<usize, usize> = BTreeMap::new();
        let legs = self.flows.iter().flat_map(|placed| &placed.legs);
        legs.for_each(|leg| *counts.entry(leg.ports[0]).or_default() += 1);
        let mut pairs: usize = self.flows.iter().map(Placed::pairs).sum();
        let mut values: usize = self.flows.iter().map(|placed| placed.listed()).sum();
        let mut is_full = false;
        for node in flows {
            let placed = self.place(node, problems).and_then(|placed| {
                if !names.insert(placed.flow.name.clone()) {
                    return Err(
                        node.bad_at("name", format!("'{}' is the name of two flows", placed.flow.name))
                    );
                }
                for leg in &placed.legs {
                    let [from, _] = leg.ports;
                    let count = counts.entry(from).or_default();
                    *count += 1;
                    if *count > MOST_STREAMS {
                        is_full = true;
                        let name = self.ports.get(from).map_or("", |port| port.name.as_str());
                        return Err(node.bad(format!(
                            "the flows make more than {MOST_STREAMS} streams from {name}, with their ports and metric tags"
                        )));
                    }
                }
                if counts.values().sum::<usize>() > MOST_STREAMS_OF_TRIAL {
                    is_full = true;
                    return Err(node.bad(format!("the flows make more than {MOST_STREAMS_OF_TRIAL} streams")));
                }
                values += placed.listed();
                if values > MOST_VALUES {
                    is_full = true;
                    let why = format!("the flows have more than {MOST_VALUES} values of header fields and sizes");
                    return Err(node.bad_at("packet", why));
                }
                pairs += placed.pairs();
                if pairs > MOST_PAIRS {
                    return Err(
                        node.bad(format!("the flows connect more than {MOST_PAIRS} pairs of stations"))
                    );
                }
                Ok(placed)
            });
            match placed {
                Ok(placed) => self.flows.push(placed),
                Err(bad) => problems.wrong(bad.0),
            }
            if is_full {
                return;
            }
        }
    }

    /// Reads a flow with its ends.
    fn place(&self, node: &Node<'_>, problems: &mut Problems) -> Result<Placed, Bad> {
        let flow = Flow::read(node, &mut |bad| problems.note(bad.0))?;
        let tags = flow.tags.values.len();
        let tx_rx = node.child("tx_rx");
        if !tx_rx.is_present() {
            return Err(tx_rx.bad("it is missing"));
        }
        let choice = tx_rx.choice("port")?;
        let ends = tx_rx.child(choice);
        if choice == "device" {
            let pairs = devices::ends(&ends, &self.names, is_v6(node))?;
            let of_pairs = |pairs: &[[Station; 2]], is_back: bool| {
                Leg::of_pairs(pairs, tags, is_back).ok_or_else(|| {
                    ends.bad(format!(
                        "its pairs of stations and metric tags repeat after more than {MOST_TURNS} frames"
                    ))
                })
            };
            let mut legs = of_pairs(&pairs, false)?;
            if ends.flag("bidirectional") {
                let back: Vec<[Station; 2]> = pairs.iter().map(|[from, to]| [*to, *from]).collect();
                legs.extend(of_pairs(&back, true)?);
            }
            legs.iter().try_for_each(|leg| different(&ends, leg.ports))?;
            return Placed::read(node, flow, legs);
        }
        let port = |field: &str, name: &str| {
            self.port(name).ok_or_else(|| ends.bad_at(field, format!("there is no port '{name}'")))
        };
        let (from, names) = (ends.needed("tx_name")?, ends.texts("rx_names"));
        let to = match (ends.text("rx_name"), &names[..]) {
            (Some(name), []) => port("rx_name", name)?,
            (None, [name]) => port("rx_names", name)?,
            (Some(name), [same]) if name == *same => port("rx_name", name)?,
            (None, []) => return Err(ends.bad_at("rx_name", "it is missing: kpps counts frames at a port")),
            _ => {
                return Err(ends.bad_at(
                    "rx_names",
                    "several receiving ports are not supported: give a flow for each port",
                ));
            }
        };
        let ports = [port("tx_name", from)?, to];
        different(&ends, ports)?;
        Placed::read(node, flow, Leg::between(ports, tags).unwrap_or_default())
    }

    /// Changes the rates or sizes of flows.
    pub fn update(&mut self, update: &Node<'_>, problems: &mut Problems) {
        let properties: BTreeSet<&str> = update.texts("property_names").into_iter().collect();
        let flows = self.flows.iter_mut().map(|placed| (placed.flow.name.clone(), placed));
        let mut flows: BTreeMap<String, &mut Placed> = flows.collect();
        for node in update.children("flows") {
            let name = node.text("name").unwrap_or_default();
            let Some(placed) = flows.get_mut(name) else {
                problems.wrong(node.bad_at("name", format!("there is no flow '{name}'")).0);
                continue;
            };
            for property in &properties {
                let flow = placed.flow.clone().updated(&node, property);
                match flow.and_then(|flow| Ok((flow.parts(&node, &placed.legs)?, flow))) {
                    Ok((parts, flow)) => (placed.parts, placed.flow) = (parts, flow),
                    Err(bad) => problems.wrong(bad.0),
                }
            }
        }
    }

    /// The index of the port with this name.
    pub fn port(&self, name: &str) -> Option<usize> {
        self.ports.iter().position(|port| port.name == name)
    }
}

/// Whether the first IP header of a flow is one of IPv6, if it has one.
fn is_v6(flow: &Node<'_>) -> Option<bool> {
    let headers = flow.children("packet");
    let mut kinds = headers.iter().filter_map(|header| header.choice("ethernet").ok());
    kinds.find(|kind| ["ipv4", "ipv6"].contains(kind)).map(|kind| kind == "ipv6")
}

fn different(ends: &Node<'_>, [from, to]: [usize; 2]) -> Result<(), Bad> {
    match from == to {
        true => Err(ends.bad("a flow goes from one port to another, not to the same")),
        false => Ok(()),
    }
}

fn read_port(node: &Node<'_>, others: &[Port]) -> Result<Port, Bad> {
    let name = node.needed("name")?.to_owned();
    let location = node.needed("location")?.to_owned();
    if others.iter().any(|other| other.name == name) {
        return Err(node.bad_at("name", format!("'{name}' is the name of two ports")));
    }
    if others.iter().any(|other| other.location == location) {
        return Err(node.bad_at("location", format!("two ports are at '{location}'")));
    }
    Ok(Port { name, location })
}

fn read_capture(node: &Node<'_>, all: &Configuration) -> Result<Vec<Capture>, Bad> {
    let capture = |name: &str| {
        let port =
            all.port(name).ok_or_else(|| node.bad_at("port_names", format!("there is no port '{name}'")))?;
        if all.captures.iter().any(|other| other.port == port) {
            return Err(node.bad_at("port_names", format!("port '{name}' has two captures")));
        }
        let frame_bytes = node.uint("packet_size").and_then(|bytes| usize::try_from(bytes).ok());
        Ok(Capture { port, frame_bytes, is_pcapng: node.text("format") == Some("pcapng") })
    };
    node.texts("port_names").into_iter().map(capture).collect()
}
