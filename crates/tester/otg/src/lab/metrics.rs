//! Metrics and states.

use super::flow_now::FlowNow;
use super::flow_state::Totals;
use super::member::Member;
use super::{Lab, accepted};
use crate::problems::Problems;
use crate::rules::Refusal;
use crate::translation::{Flow, Node, Placed};
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
        if let Some(lines) = self.transmitter.verdict(self.rules.is_strict) {
            return Err(Refusal { code: 500, lines });
        }
        let node = Node::new(request);
        match node.choice("port")? {
            "port" => self.port_metrics(&node.child("port")),
            "flow" => self.flow_metrics(&node.child("flow")),
            other => Err(node.bad_at(other, "not supported").into()),
        }
    }

    /// The counts of a port are the sums of those of all flows that it has sent and received since the
    /// configuration was set.
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
            let PortCounts { totals: Totals { frames, bytes }, rates_pps, byte_rates, is_sending } =
                self.port_counts(at);
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
            let captures = self.transmitter.captures.contains_key(&at);
            set("capture", if captures { "started" } else { "stopped" }.into());
            set("transmit", if is_sending { "started" } else { "stopped" }.into());
            for (way, side) in ["tx", "rx"].into_iter().enumerate() {
                set(&format!("frames_{side}"), frames[way].into());
                set(&format!("bytes_{side}"), bytes[way].into());
                set(&format!("frames_{side}_rate"), rates_pps[way].into());
                set(&format!("bytes_{side}_rate"), byte_rates[way].into());
            }
            if let Some(mbps) = self.transmitter.limits.of(at).speed_mbps {
                set("speed", u64::from(mbps).into());
            }
            all.push(metric);
        }
        Ok(Object::new("MetricsResponse").with("choice", "port_metrics").with("port_metrics", all))
    }

    /// The counts of the port with this index: what it has sent, and what it has received.
    fn port_counts(&self, port: usize) -> PortCounts {
        let PortCounts { mut totals, mut rates_pps, mut byte_rates, mut is_sending } = PortCounts::default();
        let ways = |from: usize, to: usize| {
            [from, to].into_iter().enumerate().filter(|(_, end)| *end == port).map(|(way, _)| way)
        };
        let mut add = |way: usize, more: &Totals| {
            totals.frames[way] += more.frames[way];
            totals.bytes[way] += more.bytes[way];
        };
        for ((from, to), past) in &self.transmitter.past {
            ways(*from, *to).for_each(|way| add(way, past));
        }
        let is_running = self.transmitter.is_running();
        for Member { state, stream, .. } in self.transmitter.members.iter().chain(&self.transmitter.gone) {
            for way in ways(stream.from, stream.to) {
                add(way, &state.totals);
                rates_pps[way] += state.rates_pps[way];
                byte_rates[way] += state.rates_pps[way] * state.mean_bytes;
                is_sending |= way == 0 && is_running && state.is_active();
            }
        }
        PortCounts { totals, rates_pps, byte_rates, is_sending }
    }

    fn flow_metrics(&self, request: &Node<'_>) -> Result<Object, Refusal> {
        let asked = self.flows_asked(request)?;
        let columns: BTreeSet<&str> = request.texts("metric_names").into_iter().collect();
        let mut legs: BTreeMap<usize, Vec<&Member>> = BTreeMap::new();
        for member in &self.transmitter.members {
            legs.entry(member.flow).or_default().push(member);
        }
        let mut all = Vec::new();
        for (at, placed) in self.configuration.flows.iter().enumerate() {
            let flow = &placed.flow;
            let is_asked = asked.contains(&at) && flow.metrics.is_enabled;
            let Some(legs) = legs.get(&at).filter(|_| is_asked) else { continue };
            let now = FlowNow::of(legs.iter().map(|member| (*member, self.transmitter.totals(member))));
            let mut metric = Object::new("FlowMetric").with("name", flow.name.as_str());
            // A flow with several sending or receiving ports has no name for them.
            for (end, field) in ["port_tx", "port_rx"].into_iter().enumerate() {
                let ports: BTreeSet<usize> = placed.legs.iter().map(|leg| leg.ports[end]).collect();
                let only = ports.first().filter(|_| ports.len() == 1);
                if let Some(port) = only.and_then(|at| self.configuration.ports.get(*at)) {
                    metric.set(field, port.name.as_str());
                }
            }
            let transmit = match self.transmitter.is_running() && now.is_active {
                true if now.is_paused => "paused",
                true => "started",
                false => "stopped",
            };
            if columns.is_empty() || columns.contains("transmit") {
                metric.set("transmit", transmit);
            }
            set_counts(&mut metric, &now, &columns);
            self.set_own_metrics(&mut metric, flow, &now);
            let tagged = self.tagged_metrics(placed, legs, &request.child("tagged_metrics"));
            if !tagged.is_empty() {
                metric.set("tagged_metrics", tagged);
            }
            all.push(metric);
        }
        Ok(Object::new("MetricsResponse").with("choice", "flow_metrics").with("flow_metrics", all))
    }

    /// The metrics of a flow by the values of its tags, as far as the request asks for them.
    fn tagged_metrics(&self, placed: &Placed, legs: &[&Member], request: &Node<'_>) -> Vec<Object> {
        let tags = &placed.flow.tags;
        let is_left_out = request.has("include") && !request.flag("include");
        if tags.is_empty() || is_left_out {
            return Vec::new();
        }
        let mut groups: BTreeMap<Vec<TagValue<'_>>, Vec<&Member>> = BTreeMap::new();
        for member in legs {
            let Some(leg) = placed.legs.get(member.leg) else { continue };
            let values = tags.values.get(leg.tag).into_iter().flatten();
            let own =
                tags.names.iter().zip(values).map(|(name, value)| (name.as_str(), true, value.as_str()));
            let receiver = self.configuration.ports.get(leg.ports[1]).filter(|_| tags.has_receiver);
            let receiver = receiver.map(|port| ("rx_name", false, port.name.as_str()));
            groups.entry(own.chain(receiver).collect()).or_default().push(member);
        }
        let filters = request.children("filters");
        let columns: BTreeSet<&str> = request.texts("metric_names").into_iter().collect();
        let mut all = Vec::new();
        for (values, legs) in groups.iter().filter(|(values, _)| filters.iter().all(|it| passes(it, values)))
        {
            let now = FlowNow::of(legs.iter().map(|member| (*member, self.transmitter.totals(member))));
            if now.totals.frames == [0; 2] && !request.flag("include_empty_metrics") {
                continue;
            }
            let tag = |(name, is_hex, value): &TagValue<'_>| {
                let kind = if *is_hex { "hex" } else { "str" };
                let value = Object::new("FlowMetricTagValue").with("choice", kind).with(kind, *value);
                Object::new("FlowMetricTag").with("name", *name).with("value", value)
            };
            let tags: Vec<Object> = values.iter().map(tag).collect();
            let mut metric = Object::new("FlowTaggedMetric").with("tags", tags);
            set_counts(&mut metric, &now, &columns);
            self.set_own_metrics(&mut metric, &placed.flow, &now);
            all.push(metric);
        }
        all
    }

    /// The metrics for which the flow asks, or the configuration. A request has no names for these.
    fn set_own_metrics(&self, metric: &mut Object, flow: &Flow, now: &FlowNow) {
        let wanted = flow.metrics;
        let [sent, received] = now.totals.frames;
        let expected = sent as f64 * wanted.expected_ratio;
        let lost = (expected - received as f64).max(0.0);
        if wanted.has_loss && sent > 0 {
            metric.set("loss", lost / expected * 100.0);
        }
        if self.configuration.has_loss_duration && sent > 0 {
            let expected_pps = now.offered_pps * wanted.expected_ratio;
            let ms = Object::new("FlowPacketLossDuration").with("value", lost / expected_pps * 1e3);
            metric.set("packet_loss_duration", ms);
        }
        if let Some((first, last)) = now.arrivals_ns.filter(|_| wanted.has_timestamps) {
            let mut times = Object::new("MetricTimestamp").with("last_timestamp_ns", last as f64);
            first.into_iter().for_each(|first| times.set("first_timestamp_ns", first as f64));
            metric.set("timestamps", times);
        }
        if let Some(times) = now.latency.filter(|_| wanted.has_latency) {
            let latency = Object::new("MetricLatency")
                .with("minimum_ns", times.min as f64)
                .with("maximum_ns", times.max as f64)
                .with("average_ns", times.mean as f64);
            metric.set("latency", latency);
        }
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
        if let Some(name) = names.iter().find(|name| !devices.clone().any(|it| it.ethernet == **name)) {
            let why = format!("there is no Ethernet interface '{name}'");
            return Err(node.child(choice).bad_at("ethernet_names", why).into());
        }
        let asked = devices.filter(|it| names.is_empty() || names.contains(it.ethernet.as_str()));
        let mut all = Vec::new();
        for device in asked {
            let router = |station| self.transmitter.stations.router(&station);
            let known: BTreeMap<_, _> = device.stations().into_iter().filter_map(router).collect();
            for (ip, mac) in known.into_iter().filter(|(ip, _)| ip.is_ipv4() == is_v4) {
                all.push(
                    Object::new(message)
                        .with("ethernet_name", device.ethernet.as_str())
                        .with(field, ip.to_string().as_str())
                        .with("link_layer_address", mac.to_string().as_str()),
                );
            }
        }
        Ok(Object::new("StatesResponse").with("choice", choice).with(choice, all))
    }
}

/// The value of a tag: the tag's name, whether the value is hexadecimal, and the value.
type TagValue<'t> = (&'t str, bool, &'t str);

/// Whether a filter of a request lets these values of tags through: its tag has one of its values, if it has
/// any.
fn passes(filter: &Node<'_>, values: &[TagValue<'_>]) -> bool {
    let (name, wanted) = (filter.text("name").unwrap_or_default(), filter.texts("values"));
    let number = |text: &str| u128::from_str_radix(text.trim_start_matches("0x"), 16).ok();
    let is_one_of = |(_, is_hex, value): &TagValue<'_>| {
        let is_same = |text: &&str| match is_hex {
            true => number(text).is_some_and(|wanted| Some(wanted) == number(value)),
            false => text == value,
        };
        wanted.is_empty() || wanted.iter().any(is_same)
    };
    values.iter().find(|value| value.0 == name).is_some_and(is_one_of)
}

/// Sets the frames and bytes of a metric, and their rates, if these columns are asked for.
fn set_counts(metric: &mut Object, now: &FlowNow, columns: &BTreeSet<&str>) {
    let mut set = |name: &str, value: crate::value::Value| {
        if columns.is_empty() || columns.contains(name) {
            metric.set(name, value);
        }
    };
    let Totals { frames, bytes } = now.totals;
    for (way, side) in ["tx", "rx"].into_iter().enumerate() {
        let (pps, bytes_per_s) = (now.rates_pps[way], now.byte_rates[way]);
        set(&format!("frames_{side}"), frames[way].into());
        set(&format!("bytes_{side}"), bytes[way].into());
        set(&format!("frames_{side}_rate"), pps.into());
        set(&format!("{side}_l1_rate_bps"), ((bytes_per_s + pps * BETWEEN) * 8.0).into());
        set(&format!("{side}_rate_bytes"), bytes_per_s.into());
        set(&format!("{side}_rate_bps"), (bytes_per_s * 8.0).into());
        set(&format!("{side}_rate_kbps"), (bytes_per_s * 8.0 / 1e3).into());
        set(&format!("{side}_rate_mbps"), (bytes_per_s * 8.0 / 1e6).into());
    }
}

/// The counts of a port: what it has sent, and what it has received.
#[derive(Default)]
struct PortCounts {
    totals: Totals,
    rates_pps: [f64; 2],
    byte_rates: [f64; 2],
    is_sending: bool,
}
