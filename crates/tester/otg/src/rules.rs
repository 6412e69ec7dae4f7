//! The limits that the operator of a server sets, and the destinations of results.

use kpps_ports::Spec;
use kpps_ports::port::Options;
use kpps_tester::observe::Scope;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

/// A port that clients may use.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NamedPort {
    /// The location by which configurations name it.
    pub location: String,
    /// The port.
    pub spec: Spec,
}

impl FromStr for NamedPort {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (location, spec) = text.split_once('=').unwrap_or((text, text));
        if location.is_empty() {
            return Err(format!("'{text}' has no location: give LOCATION=PORT, as eth1=packet:eth1"));
        }
        let spec = spec.parse::<Spec>().map_err(|error| error.to_string())?;
        if matches!(spec, Spec::Udp { .. }) {
            return Err(format!(
                "{spec}: a UDP socket sends no flows with their own headers: give another kind of port"
            ));
        }
        Ok(Self { location: location.to_owned(), spec })
    }
}

/// The rules of a server.
pub struct Rules {
    /// The ports.
    pub ports: Vec<NamedPort>,
    /// The highest load of each port in frames per second; infinite without a limit.
    pub max_pps: f64,
    /// The longest transmission. Endless flows end after this time.
    pub max_duration: Duration,
    /// Whether metrics are an error if the generator could not send the load.
    pub is_strict: bool,
    /// Whether fields without support are left out with a warning.
    pub is_lenient: bool,
    /// The folder for documents, if they are to be kept.
    pub documents: Option<PathBuf>,
    /// Interfaces of the device under test that are observed.
    pub scopes: Vec<Scope>,
    /// How ports are opened.
    pub options: Options,
    /// Where messages for the operator go.
    pub log: fn(&str),
}

/// Why a call is refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// The status of HTTP (RFC 9110).
    pub code: u16,
    /// The reasons.
    pub lines: Vec<String>,
}

impl Refusal {
    /// The request is wrong.
    pub fn wrong(line: impl Into<String>) -> Self {
        Self { code: 400, lines: vec![line.into()] }
    }

    /// The request is right, and the server cannot do it.
    pub fn failed(line: impl Into<String>) -> Self {
        Self { code: 500, lines: vec![line.into()] }
    }
}
