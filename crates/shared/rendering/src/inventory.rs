//! Profiles and network cards on the screen.

use crate::Rows;
use crate::forms::{Forms, plain};
use crate::text::TextStyle;
use kpps_documents::inventory::{
    Conformance, DeviceEntry, Devices, Dpdk, DpdkAdapter, ProfileEntry, Profiles,
};
use serde::Serialize;
use std::fmt::Write;

impl Forms for Profiles {
    fn screen(&self, _: TextStyle, notes: &str) -> String {
        profiles(self) + notes
    }
    fn rows(&self) -> Rows {
        Rows::of(&self.profiles)
    }
    fn page(&self, _: usize) -> Option<String> {
        Some(plain("Profiles", self))
    }
}

/// Profiles with all their constants.
#[derive(Serialize)]
#[serde(transparent)]
pub struct WithConstants<'p>(pub &'p Profiles);

impl Forms for WithConstants<'_> {
    fn screen(&self, _: TextStyle, notes: &str) -> String {
        self.0.profiles.iter().map(constants).collect::<String>() + notes
    }
    fn rows(&self) -> Rows {
        let constants = |profile: &'_ ProfileEntry| profile.constants.clone();
        Rows::of(&self.0.profiles.iter().flat_map(constants).collect::<Vec<_>>())
    }
    fn page(&self, _: usize) -> Option<String> {
        Some(plain("Constants of profiles", self))
    }
}

impl Forms for Devices {
    fn screen(&self, _: TextStyle, notes: &str) -> String {
        devices(self) + notes
    }
    fn rows(&self) -> Rows {
        Rows::of(&self.devices)
    }
    fn page(&self, _: usize) -> Option<String> {
        Some(plain("Network cards", self))
    }
}

impl Forms for Dpdk {
    fn screen(&self, _: TextStyle, notes: &str) -> String {
        dpdk(self) + notes
    }
    fn rows(&self) -> Rows {
        Rows::of(std::slice::from_ref(self))
    }
    fn page(&self, _: usize) -> Option<String> {
        Some(plain("DPDK", self))
    }
}

impl Forms for Conformance {
    /// Only the notes: each case was shown when it ended.
    fn screen(&self, _: TextStyle, notes: &str) -> String {
        notes.to_owned()
    }
    fn rows(&self) -> Rows {
        Rows::of(&self.cases)
    }
    fn page(&self, _: usize) -> Option<String> {
        Some(plain(&format!("Conformance suite on {}", self.device), self))
    }
}

/// The profiles of each kind with their descriptions.
fn profiles(document: &Profiles) -> String {
    let mut text = String::new();
    let width = document.profiles.iter().map(|profile| profile.name.len()).max().unwrap_or(0);
    let mut last = None;
    for profile in &document.profiles {
        if last.replace(&profile.kind) != Some(&profile.kind) {
            let plural = if profile.kind == "bus" { "es" } else { "s" };
            let _ = writeln!(text, "{}{}{plural}", if text.is_empty() { "" } else { "\n" }, profile.kind);
        }
        let _ = writeln!(text, "  {:width$}  {}", profile.name, profile.description);
    }
    text
}

/// The constants of one profile, with their sources.
fn constants(profile: &ProfileEntry) -> String {
    let mut text = format!("{}: {}\n\n", profile.name, profile.description);
    let width = profile.constants.iter().map(|constant| constant.name.len()).max().unwrap_or(0);
    for constant in &profile.constants {
        let _ = writeln!(text, "{:width$}  {}", constant.name, constant.value);
        let fitted = match constant.fitted.is_empty() {
            true => String::new(),
            false => format!(" [fitted on {}]", constant.fitted.join(", ")),
        };
        let known = match (constant.spread, &constant.part_of) {
            (Some(factor), _) => format!(" [known to a factor of {factor}]"),
            (None, Some(whole)) => format!(" [a part of {whole}]"),
            (None, None) => String::new(),
        };
        let _ = writeln!(text, "{:width$}    {}{fitted}{known}", "", constant.source);
    }
    text
}

/// DPDK's headers, and the adapter.
fn dpdk(document: &Dpdk) -> String {
    let missing = |why: &Option<String>| format!("none: {}", why.as_deref().unwrap_or_default());
    let headers = match &document.headers {
        Some(version) => format!("DPDK {version}"),
        None => missing(&document.headers_missing),
    };
    let adapter = match &document.adapter {
        Some(DpdkAdapter { file, dpdk, interface }) => {
            format!("for DPDK {dpdk}, {file} (interface {interface})")
        }
        None => missing(&document.adapter_missing),
    };
    format!("headers: {headers}\nadapter: {adapter}\n")
}

/// The network cards and their drivers.
fn devices(document: &Devices) -> String {
    if document.devices.is_empty() {
        return "no network cards on the PCI bus".into();
    }
    let mut text = format!(
        "{:<12}  {:<9}  {:<9}  {:<16}  {:<12}  {:<5}  {}\n",
        "address", "PCI id", "chip", "driver", "interface", "IOMMU", "state"
    );
    for device in &document.devices {
        let _ = writeln!(
            text,
            "{:<12}  {}:{}  {:<9}  {:<16}  {:<12}  {:<5}  {}",
            device.address,
            device.vendor,
            device.device,
            device.chip.as_deref().unwrap_or("–"),
            device.driver.as_deref().unwrap_or("–"),
            device.interface.as_ref().map_or("–", |interface| &interface.name),
            device.iommu_group.map_or("–".into(), |group| group.to_string()),
            state(device)
        );
    }
    text
}

/// Whether kpps can use the card, or its present use.
fn state(device: &DeviceEntry) -> String {
    match (&device.interface, &device.port, &device.chip) {
        (_, Some(port), Some(_)) => format!("ready: {port}"),
        (_, _, None) => "not an e1000".into(),
        _ if device.in_other_namespace => "in another network namespace".into(),
        (Some(interface), ..) if interface.up => {
            let addresses = interface.addresses.clone().unwrap_or(vec!["addresses unknown".into()]);
            let master = interface.master.iter().map(|master| format!("part of {master}"));
            let carries = interface.carries.iter().map(|name| format!("carries {name}"));
            let uses: Vec<_> = addresses.into_iter().chain(master).chain(carries).collect();
            if uses.is_empty() { "up, unused".into() } else { format!("up: {}", uses.join(", ")) }
        }
        _ => "unused".into(),
    }
}
