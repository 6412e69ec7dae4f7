//! Metrics and states.

use super::{Lab, accepted};
use crate::problems::Problems;
use crate::rules::Refusal;
use crate::translation::Node;
use crate::value::Object;
use kpps_tester::is_link_up;
use std::collections::{BTreeMap, BTreeSet};

/// Bytes of preamble and gap, which layer 1 has beside a frame.
const BETWEEN: f64 = 20.0;

impl Lab {
    /// Answers a `MetricsRequest`. All numbers of an answer are read at one time.
    ///
    /// # Errors
    /// The request is wrong, a transmission has failed, or a strict server has no valid result.
    pub fn metrics(&mut self, request: &Object, problems: Problems) -> Result<Object, Refusal> {
        accepted(problems)?;
        self.tick();
        if let Some(lines) = self.pairs.iter().find_map(|pair| pair.verdict(self.rules.is_strict)) {
            return Err(Refusal { code: 500, lines });
        }
        let node = Node::new(request);
        match node.choice("port")? {
            "port" => self.port_metrics(&node.child("port")),
            "flow" => self.flow_metrics(&node.child("flow")),
            other => Err(node.bad_at(other, "not supported").into()),
        }
    }

    /// The counts of ports are the sums of those of their flows.
    fn port_metrics(&self, request: &Node<'_>) -> Result<Object, Refusal> {
        let names: BTreeSet<&str> = request.texts("port_names").into_iter().collect();
        let columns: BTreeSet<&str> = request.texts("column_names").into_iter().collect();
        if let Some(name) = names.iter().find(|name| self.configuration.port(name).is_none()) {
            return Err(request.bad_at("port_names", format!("there is no port '{name}'")).into());
        }
        let mut all = Vec::new();
        for (at, port) in self.configuration.ports.iter().enumerate() {
            if !names.is_empty() && !names.contains(port.name.as_str()) {
                continue;
            }
            let (mut frames, mut bytes, mut rates, mut byte_rates) = ([0; 2], [0; 2], [0.0; 2], [0.0; 2]);
            let mut is_sending = false;
            for (flow, counts) in self.counts() {
                let ports = self.configuration.flows.get(flow).map_or([usize::MAX; 2], |it| it.ports);
                for way in [0, 1].into_iter().filter(|way| ports[*way] == at) {
                    frames[way] += counts.frames[way];
                    bytes[way] += counts.bytes[way];
                    rates[way] += counts.rates_pps[way];
                    byte_rates[way] += counts.rates_pps[way] * counts.mean_bytes;
                }
                is_sending |= ports[0] == at && counts.is_sending;
            }
            let mut metric = Object::new("PortMetric").with("name", port.name.as_str());
            let mut set = |name: &str, value: crate::value::Value| {
                if columns.is_empty() || columns.contains(name) {
                    metric.set(name, value);
                }
            };
            set("location", port.location.as_str().into());
            let spec = self.rules.ports.iter().find(|known| known.location == port.location);
            if let Some(is_up) = spec.and_then(|known| is_link_up(&known.spec)) {
                set("link", if is_up { "up" } else { "down" }.into());
            }
            let pair = self.pairs.iter().find(|pair| pair.ports.contains(&at));
            let captures = self.configuration.captures.iter().any(|capture| capture.port == at)
                && pair.is_some_and(|pair| pair.capture.is_some());
            set("capture", if captures { "started" } else { "stopped" }.into());
            set("transmit", if is_sending { "started" } else { "stopped" }.into());
            for (way, side) in ["tx", "rx"].into_iter().enumerate() {
                set(&format!("frames_{side}"), frames[way].into());
                set(&format!("bytes_{side}"), bytes[way].into());
                set(&format!("frames_{side}_rate"), rates[way].into());
                set(&format!("bytes_{side}_rate"), byte_rates[way].into());
            }
            if let Some(mbps) = pair.and_then(|pair| pair.speed_mbps) {
                set("speed", u64::from(mbps).into());
            }
            all.push(metric);
        }
        Ok(Object::new("MetricsResponse").with("choice", "port_metrics").with("port_metrics", all))
    }

    fn flow_metrics(&self, request: &Node<'_>) -> Result<Object, Refusal> {
        let asked = self.flows_asked(request)?;
        let columns: BTreeSet<&str> = request.texts("metric_names").into_iter().collect();
        let counts: BTreeMap<usize, Counts> = self.counts().collect();
        let mut all = Vec::new();
        for (at, placed) in self.configuration.flows.iter().enumerate() {
            let flow = &placed.flow;
            let is_asked = asked.contains(&at);
            let Some(counts) = counts.get(&at).filter(|_| is_asked && flow.metrics.is_enabled) else {
                continue;
            };
            let port = |at: usize| self.configuration.ports.get(at).map_or("", |port| port.name.as_str());
            let mut metric = Object::new("FlowMetric")
                .with("name", flow.name.as_str())
                .with("port_tx", port(placed.ports[0]))
                .with("port_rx", port(placed.ports[1]));
            let mut set = |name: &str, value: crate::value::Value| {
                if columns.is_empty() || columns.contains(name) {
                    metric.set(name, value);
                }
            };
            set("transmit", if counts.is_sending { "started" } else { "stopped" }.into());
            for (way, side) in ["tx", "rx"].into_iter().enumerate() {
                let pps = counts.rates_pps[way];
                let bytes = pps * counts.mean_bytes;
                set(&format!("frames_{side}"), counts.frames[way].into());
                set(&format!("bytes_{side}"), counts.bytes[way].into());
                set(&format!("frames_{side}_rate"), pps.into());
                set(&format!("{side}_l1_rate_bps"), (pps * (counts.mean_bytes + BETWEEN) * 8.0).into());
                set(&format!("{side}_rate_bytes"), bytes.into());
                set(&format!("{side}_rate_bps"), (bytes * 8.0).into());
                set(&format!("{side}_rate_kbps"), (bytes * 8.0 / 1e3).into());
                set(&format!("{side}_rate_mbps"), (bytes * 8.0 / 1e6).into());
            }
            // A request has no names for these: the flow asks for them.
            let [sent, received] = counts.frames;
            if flow.metrics.has_loss && sent > 0 {
                let lost = sent.saturating_sub(received) as f64;
                metric.set("loss", lost / sent as f64 * 100.0);
            }
            if let Some(times) = counts.latency.filter(|_| flow.metrics.has_latency) {
                let latency = Object::new("MetricLatency")
                    .with("minimum_ns", times.min as f64)
                    .with("maximum_ns", times.max as f64)
                    .with("average_ns", times.mean as f64);
                metric.set("latency", latency);
            }
            all.push(metric);
        }
        Ok(Object::new("MetricsResponse").with("choice", "flow_metrics").with("flow_metrics", all))
    }

    /// The counts of each flow, by its index.
    fn counts(&self) -> impl Iterator<Item = (usize, Counts)> + '_ {
        let of_pair = |pair: &'_ super::Pair| {
            pair.flows
                .iter()
                .copied()
                .zip(pair.states.iter().cloned())
                .map(|(at, state)| {
                    let is_sending = pair.is_running() && state.is_active();
                    (at, state, is_sending)
                })
                .collect::<Vec<_>>()
        };
        self.pairs.iter().flat_map(of_pair).filter_map(|(at, state, is_sending)| {
            let flow = &self.configuration.flows.get(at)?.flow;
            let [sent, received] = state.frames;
            let mean_bytes = flow.sizes().mean_bytes_with_fcs();
            let bytes_sent = flow.bytes(sent);
            let sizes = flow.sizes().parts().iter().map(|part| u64::from(part.0.bytes_with_fcs()));
            let bytes_received = match state.received_sizes.iter().sum::<u64>() == received {
                true => sizes.zip(&state.received_sizes).map(|(bytes, frames)| bytes * frames).sum(),
                false if sent == received => bytes_sent,
                false => (received as f64 * mean_bytes).round() as u64,
            };
            let counts = Counts {
                frames: state.frames,
                bytes: [bytes_sent, bytes_received],
                rates_pps: state.rates_pps,
                mean_bytes,
                latency: state.latency,
                is_sending,
            };
            Some((at, counts))
        })
    }

    /// Answers a `StatesRequest`: the routers that stations have resolved.
    ///
    /// # Errors
    /// The request is wrong.
    pub fn states(&mut self, request: &Object, problems: Problems) -> Result<Object, Refusal> {
        accepted(problems)?;
        self.tick();
        let node = Node::new(request);
        let (choice, message, field, is_v4) = match node.choice("ipv4_neighbors")? {
            "ipv4_neighbors" => ("ipv4_neighbors", "Neighborsv4State", "ipv4_address", true),
            "ipv6_neighbors" => ("ipv6_neighbors", "Neighborsv6State", "ipv6_address", false),
            other => return Err(node.bad_at(other, "not supported").into()),
        };
        let names: BTreeSet<&str> = node.child(choice).texts("ethernet_names").into_iter().collect();
        let devices = self.configuration.devices.iter();
        let asked = devices.filter(|it| names.is_empty() || names.contains(it.ethernet.as_str()));
        let state = |device: &crate::translation::Device| {
            let (ip, mac) = self.pairs.iter().find_map(|pair| pair.router(device.port))?;
            (ip.is_ipv4() == is_v4).then(|| {
                Object::new(message)
                    .with("ethernet_name", device.ethernet.as_str())
                    .with(field, ip.to_string().as_str())
                    .with("link_layer_address", mac.to_string().as_str())
            })
        };
        let all: Vec<Object> = asked.filter_map(state).collect();
        Ok(Object::new("StatesResponse").with("choice", choice).with(choice, all))
    }
}

/// The counts of a flow.
struct Counts {
    /// Sent and received.
    frames: [u64; 2],
    bytes: [u64; 2],
    rates_pps: [f64; 2],
    mean_bytes: f64,
    latency: Option<kpps_documents::FlowLatency>,
    is_sending: bool,
}
