//! The configuration of a server, its transmissions and their metrics: the calls of the interface without
//! their transport.

mod changes;
mod flow_now;
mod flow_state;
mod member;
mod metrics;
mod planned;
mod report;
mod run;
mod stations;
mod transmitter;

use crate::problems::Problems;
use crate::rules::{Refusal, Rules};
use crate::translation::{Bad, Capture, Configuration, Node};
use crate::value::{Object, Value};
use kpps_tester::RingForm;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::io::{ErrorKind, Write};
use std::path::Path;
use transmitter::{Transmitter, unknown};

/// The documents that are kept in memory.
const MOST_DOCUMENTS: usize = 64;

/// Memory for the captured frames of a port.
const CAPTURE_BYTES: usize = 32 << 20;

/// All that clients control.
pub struct Lab {
    rules: Rules,
    /// The configuration as it was given, without fields that were left out.
    given: Object,
    configuration: Configuration,
    transmitter: Transmitter,
    /// The last documents, as JSON.
    documents: VecDeque<String>,
    /// The number of the last document in the folder.
    written: u64,
}

/// Lines that a client should read although its call succeeded.
pub type Warnings = Vec<String>;

impl From<Bad> for Refusal {
    fn from(bad: Bad) -> Self {
        Self::wrong(bad.0)
    }
}

impl Lab {
    /// Without a configuration.
    pub fn new(rules: Rules) -> Self {
        Self {
            rules,
            given: Object::new("Config"),
            configuration: Configuration::default(),
            transmitter: Transmitter::default(),
            documents: VecDeque::new(),
            written: 0,
        }
    }

    /// Whether fields without support are left out with a warning.
    pub fn is_lenient(&self) -> bool {
        self.rules.is_lenient
    }

    /// Replaces the configuration. Running transmissions end.
    ///
    /// # Errors
    /// The configuration is wrong, asks for too much, or a port cannot be opened. The configuration before it
    /// stays; if it is only the ports that refuse the new one, running transmissions have ended.
    pub fn set_config(&mut self, given: Object, mut problems: Problems) -> Result<Warnings, Refusal> {
        let configuration = Configuration::read(&given, &mut problems);
        let warnings = accepted(problems)?;
        self.check_ports(&configuration)?;
        let was_running = self.transmitter.is_running();
        self.end();
        // The old ports are closed first: new ones may be the same.
        self.transmitter.close();
        match Transmitter::open(&configuration, &self.rules) {
            Ok(new) => (self.transmitter, self.given, self.configuration) = (new, given, configuration),
            Err(Refusal { code, mut lines }) => {
                if let Err(why) = self.transmitter.reopen(&self.configuration, &self.rules) {
                    lines.push(format!("the ports of the earlier configuration: {}", why.lines.join(", ")));
                }
                if was_running {
                    lines.push("the configuration before it stays, and its flows have stopped".into());
                }
                return Err(Refusal { code, lines });
            }
        }
        Ok(warnings)
    }

    /// Refuses a configuration with ports that this server does not have.
    fn check_ports(&self, configuration: &Configuration) -> Result<(), Refusal> {
        let is_known = |location: &str| self.rules.ports.iter().any(|known| known.location == location);
        match configuration.ports.iter().enumerate().find(|(_, port)| !is_known(&port.location)) {
            Some((at, port)) => Err(unknown(at, &port.location, &self.rules)),
            None => Ok(()),
        }
    }

    /// Changes the flows of the configuration. Flows that both have keep their counts, and go on if they are
    /// being sent. If this is an error, nothing has changed.
    fn adopt(&mut self, given: Object, configuration: Configuration) -> Result<(), Refusal> {
        self.transmitter.check(&configuration, &self.rules)?;
        self.transmitter.adopt(&configuration, &self.rules)?;
        (self.given, self.configuration) = (given, configuration);
        Ok(())
    }

    /// The configuration.
    pub fn config(&self) -> Object {
        self.given.clone()
    }

    /// Adds flows (`ConfigAppend`).
    ///
    /// # Errors
    /// The flows are wrong, or a running transmission cannot take them.
    pub fn append(&mut self, append: &Object, mut problems: Problems) -> Result<Warnings, Refusal> {
        self.tick();
        let (mut given, mut configuration) = (self.given.clone(), self.configuration.clone());
        for resources in Node::new(append).children("config_append_list") {
            configuration.append(&resources.children("flows"), &mut problems);
        }
        let warnings = accepted(problems)?;
        let added = lists(append, "config_append_list", "flows");
        let mut flows = match given.get("flows") {
            Some(Value::List(flows)) => flows.clone(),
            _ => Vec::new(),
        };
        flows.extend(added);
        given.set("flows", Value::List(flows));
        self.adopt(given, configuration)?;
        Ok(warnings)
    }

    /// Removes flows by their names (`ConfigDelete`). Flows that are being sent stop.
    ///
    /// # Errors
    /// There is no such flow.
    pub fn delete(&mut self, delete: &Object, problems: Problems) -> Result<Warnings, Refusal> {
        self.tick();
        let warnings = accepted(problems)?;
        let (mut given, mut configuration) = (self.given.clone(), self.configuration.clone());
        let mut deleted = BTreeSet::new();
        for resources in Node::new(delete).children("config_delete_list") {
            deleted.extend(self.flows_named(&resources, "flows")?);
        }
        let mut at = 0..;
        configuration.flows.retain(|_| !at.next().is_some_and(|at| deleted.contains(&at)));
        if let Some(Value::List(flows)) = given.get("flows") {
            let kept = flows.iter().enumerate().filter(|(at, _)| !deleted.contains(at));
            let kept = kept.map(|(_, flow)| flow.clone()).collect();
            given.set("flows", Value::List(kept));
        }
        self.adopt(given, configuration)?;
        Ok(warnings)
    }

    /// Changes rates and sizes (`ConfigUpdate`).
    ///
    /// # Errors
    /// There is no such flow, or the new values are wrong.
    pub fn update(&mut self, update: &Object, mut problems: Problems) -> Result<Warnings, Refusal> {
        self.tick();
        let node = Node::new(update);
        if node.choice("flows")? != "flows" {
            return Err(node.bad_at("choice", "only flows can be updated").into());
        }
        let flows = node.child("flows");
        let properties: BTreeSet<&str> = flows.texts("property_names").into_iter().collect();
        let mut configuration = self.configuration.clone();
        configuration.update(&flows, &mut problems);
        let warnings = accepted(problems)?;
        let named: BTreeMap<Option<String>, &Object> =
            lists_of(update, "flows").into_iter().map(|flow| (name_of(flow), flow)).collect();
        let mut given = self.given.clone();
        for (field, value) in &mut given.fields {
            let Value::List(list) = value else { continue };
            if field.name != "flows" {
                continue;
            }
            for flow in list {
                let Value::Object(flow) = flow else { continue };
                let Some(new) = named.get(&name_of(flow)) else { continue };
                for property in &properties {
                    if let Some(value) = new.get(property) {
                        flow.set(property, value.clone());
                    }
                }
            }
        }
        self.adopt(given, configuration)?;
        Ok(warnings)
    }

    /// Refuses a change while flows are sent.
    fn quiet(&self, change: &str) -> Result<(), Refusal> {
        match self.transmitter.is_running() {
            true => Err(Refusal::wrong(format!("flows are being sent: stop them before {change}"))),
            false => Ok(()),
        }
    }

    /// Starts and stops (`ControlState`).
    ///
    /// # Errors
    /// The state is not supported, there is no such flow, or the flows cannot be sent.
    pub fn control(&mut self, state: &Object, problems: Problems) -> Result<Warnings, Refusal> {
        let mut warnings = accepted(problems)?;
        let node = Node::new(state);
        match node.choice("traffic")? {
            "traffic" => {
                let transmit = node.child("traffic").child("flow_transmit");
                let flows = self.flows_asked(&transmit)?;
                match transmit.text("state") {
                    Some("start") => self.with(|it, all, rules| it.start(&flows, false, all, rules))?,
                    Some("pause") => self.transmitter.pause(&flows),
                    Some("resume") => self.with(|it, all, rules| it.resume(&flows, all, rules))?,
                    Some("stop") => {
                        self.with(|it, _, rules| it.stop(&flows, rules));
                        warnings.extend(self.transmitter.warnings());
                    }
                    Some(other) => {
                        return Err(transmit.bad_at("state", format!("'{other}' is not supported")).into());
                    }
                    None => return Err(transmit.bad_at("state", "it is missing").into()),
                }
            }
            "protocol" => {
                let protocol = node.child("protocol");
                if protocol.choice("all")? != "all" {
                    return Err(protocol.bad_at("choice", "only 'all' is supported").into());
                }
                if protocol.child("all").text("state") == Some("start") {
                    self.with(Transmitter::resolve)?;
                }
            }
            _ => self.control_captures(&node.child("port"))?,
        }
        Ok(warnings)
    }

    /// Starts captures, or stops them: of the named ports, or of all that have one.
    fn control_captures(&mut self, port: &Node<'_>) -> Result<(), Refusal> {
        let capture = port.child("capture");
        if !capture.is_present() {
            return Err(port.bad("only captures are supported").into());
        }
        let names = capture.texts("port_names");
        let mut chosen = Vec::new();
        for name in &names {
            let port = self.configuration.port(name);
            let found = self.configuration.captures.iter().find(|it| Some(it.port) == port);
            let found =
                found.ok_or_else(|| capture.bad_at("port_names", format!("port '{name}' has no capture")))?;
            chosen.push(*found);
        }
        if names.is_empty() {
            chosen.clone_from(&self.configuration.captures);
        }
        self.tick();
        match capture.text("state") {
            Some("start") => self.quiet("captures start")?,
            // Captures end with their transmission.
            Some("stop") => {}
            _ => return Err(capture.bad_at("state", "it is missing").into()),
        }
        for Capture { port, frame_bytes, .. } in chosen {
            let form = RingForm { ring_bytes: CAPTURE_BYTES, frame_bytes };
            match capture.text("state") {
                Some("start") => self.transmitter.captures.insert(port, form),
                _ => self.transmitter.captures.remove(&port),
            };
        }
        Ok(())
    }

    /// The frames that a port received in the last transmission, as a file (`CaptureRequest`).
    ///
    /// # Errors
    /// The port has no capture, or its transmission goes on.
    pub fn capture(&mut self, request: &Object, problems: Problems) -> Result<Vec<u8>, Refusal> {
        accepted(problems)?;
        self.tick();
        let node = Node::new(request);
        let name = node.needed("port_name")?;
        let port = self.configuration.port(name);
        let found = self.configuration.captures.iter().find(|it| Some(it.port) == port);
        let capture =
            found.ok_or_else(|| node.bad_at("port_name", format!("port '{name}' has no capture")))?;
        if self.transmitter.is_running() {
            return Err(node.bad_at("port_name", "flows are being sent: stop them first").into());
        }
        let frames = self.transmitter.captured(capture.port).ok_or_else(|| {
            node.bad_at("port_name", "nothing was captured: start the capture before the flows")
        })?;
        let file = kpps_tester::received_of(name, frames, capture.is_pcapng);
        file.map_err(|error| Refusal::failed(format!("the capture cannot be written: {error}")))
    }

    /// The indices of the flows that a list names.
    fn flows_named(&self, node: &Node<'_>, field: &str) -> Result<BTreeSet<usize>, Refusal> {
        let flows = self.configuration.flows.iter().enumerate();
        let known: BTreeMap<&str, usize> = flows.map(|(at, it)| (it.flow.name.as_str(), at)).collect();
        let index = |name: &str| {
            let found = known.get(name).copied();
            found.ok_or_else(|| node.bad_at(field, format!("there is no flow '{name}'")).into())
        };
        node.texts(field).into_iter().map(index).collect()
    }

    /// The indices of the flows that a request names, or of all without names.
    fn flows_asked(&self, node: &Node<'_>) -> Result<BTreeSet<usize>, Refusal> {
        match node.texts("flow_names").is_empty() {
            true => Ok((0..self.configuration.flows.len()).collect()),
            false => self.flows_named(node, "flow_names"),
        }
    }

    /// Reads the counts of a running transmission, and ends it if it is through.
    pub fn tick(&mut self) {
        self.with(|transmitter, _, rules| transmitter.tick(rules));
    }

    /// Ends a running transmission.
    pub fn end(&mut self) {
        self.with(|transmitter, _, rules| transmitter.finish(rules));
    }

    /// Works with the transmitter, and keeps the document of a transmission that ends with it.
    fn with<T>(&mut self, work: impl FnOnce(&mut Transmitter, &Configuration, &Rules) -> T) -> T {
        let was_running = self.transmitter.is_running();
        let done = work(&mut self.transmitter, &self.configuration, &self.rules);
        let has_ended = was_running && !self.transmitter.is_running();
        if let Some(document) = self.transmitter.document.as_ref().filter(|_| has_ended) {
            match kpps_documents::to_json(document) {
                Ok(text) => self.keep(text),
                Err(error) => (self.rules.log)(&format!("a document cannot be written: {error}")),
            }
        }
        done
    }

    /// Keeps a document.
    fn keep(&mut self, text: String) {
        if let Some(folder) = &self.rules.documents
            && let Err(why) = write_next(folder, &mut self.written, &text)
        {
            (self.rules.log)(&why);
        }
        self.documents.push_back(text);
        if self.documents.len() > MOST_DOCUMENTS {
            self.documents.pop_front();
        }
    }

    /// The last documents, the oldest first, as a list in JSON.
    pub fn documents(&mut self) -> String {
        self.tick();
        let all: Vec<&str> = self.documents.iter().map(String::as_str).collect();
        format!("[{}]", all.join(","))
    }
}

/// Writes a document to the next file of a folder. Files of another server stay.
fn write_next(folder: &Path, number: &mut u64, text: &str) -> Result<(), String> {
    loop {
        *number += 1;
        let path = folder.join(format!("transmission-{number:04}.json"));
        let cannot = |error: std::io::Error| format!("cannot write {}: {error}", path.display());
        match std::fs::File::create_new(&path) {
            Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
            Err(error) => return Err(cannot(error)),
            Ok(mut file) => return file.write_all(text.as_bytes()).map_err(cannot),
        }
    }
}

/// The warnings of a request that is accepted.
fn accepted(problems: Problems) -> Result<Warnings, Refusal> {
    match problems.refused.is_empty() {
        true => Ok(problems.warnings),
        false => Err(Refusal { code: 400, lines: problems.refused }),
    }
}

/// The values of a list in each message of another list.
fn lists(object: &Object, outer: &str, inner: &str) -> Vec<Value> {
    let Some(Value::List(all)) = object.get(outer) else { return Vec::new() };
    let values = |value: &Value| match value {
        Value::Object(object) => match object.get(inner) {
            Some(Value::List(values)) => values.clone(),
            _ => Vec::new(),
        },
        _ => Vec::new(),
    };
    all.iter().flat_map(values).collect()
}

/// The name of a flow.
fn name_of(flow: &Object) -> Option<String> {
    match flow.get("name") {
        Some(Value::Text(name)) => Some(name.clone()),
        _ => None,
    }
}

/// The messages of a list in a message.
fn lists_of<'o>(object: &'o Object, field: &str) -> Vec<&'o Object> {
    let Some(Value::Object(inner)) = object.get(field) else { return Vec::new() };
    let Some(Value::List(all)) = inner.get(field) else { return Vec::new() };
    all.iter()
        .filter_map(|value| if let Value::Object(object) = value { Some(object) } else { None })
        .collect()
}
