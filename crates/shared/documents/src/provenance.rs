//! The provenance of a result: when, where and by which command it was measured, and on which system.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The provenance of a measurement on a real system. Documents of the simulator have none: equal commands
/// give equal bytes there.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Provenance {
    /// When the measurement began: the ports were opened (RFC 3339, UTC).
    pub time: String,
    /// The host's name; null if the system does not report it.
    pub host: Option<String>,
    /// The command line, as a shell reads it.
    pub command: String,
    /// The version of kpps.
    pub kpps_version: String,
    /// The kernel and its release; null if the system does not report it.
    pub kernel: Option<String>,
    /// The device under test, as it was named.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dut: Option<String>,
    /// The routers that ports send to.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub gateways: BTreeMap<String, Gateway>,
    /// The ports' interfaces: driver, speed, queues, rings and offloads, as the kernel reports them.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub ports: BTreeMap<String, String>,
}

/// The router that a port sends to.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Gateway {
    /// Its IP address.
    pub address: String,
    /// Its station address; null if it did not answer.
    pub mac: Option<String>,
}

/// A document with its provenance.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Published<D> {
    /// The document.
    #[serde(flatten)]
    pub document: D,
    /// The provenance; absent in the simulator.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub provenance: Option<Provenance>,
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn a_document_keeps_its_fields_and_without_provenance_its_bytes() {
        let document = crate::Ledger { sent: 3, delivered: 3, ..crate::Ledger::default() };
        let plain = Published { document: &document, provenance: None };
        assert_eq!(crate::to_json(&plain).unwrap(), crate::to_json(&document).unwrap());
        let provenance = Provenance { host: Some("h".into()), ..Provenance::default() };
        let json = crate::to_json(&Published { document: &document, provenance: Some(provenance) }).unwrap();
        let back: Published<crate::Ledger> = serde_json::from_str(&json).unwrap();
        assert_eq!((back.document, back.provenance.unwrap().host), (document, Some("h".into())));
    }
}
