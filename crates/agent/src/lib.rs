//! Ports of other hosts.
//!
//! An [`Agent`] lends its host's ports to a tester elsewhere, as far as its [`Rules`] allow. There, a port behind an agent
//! is a [`TestPort`](kpps_tester::TestPort) as one of its own is, and the agent's side of it is the same code: what goes over
//! the network (`proto/agent.proto`) are the trait's calls.
//!
//! Who is who is shown by certificates, in both directions, or by a token that both know ([`Security`]).
#![forbid(unsafe_code)]

mod agent;
mod convert;
pub mod keys;
mod pings;
mod remote;
mod rules;
mod security;
mod session;

/// The protocol, as compiled from its definition.
#[allow(missing_docs, clippy::all)]
mod proto {
    tonic::include_proto!("kpps.agent.v1");
}

pub use agent::Agent;
pub use remote::{Host, PORT, connect};
pub use rules::{Kind, Rules};
pub use security::{Security, Token};

/// Why there is no agent, or none to talk to; in one line.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct Error(String);

impl Error {
    /// What was tried, and why it did not work: with all that lies behind the error.
    fn because(what: impl std::fmt::Display, error: &dyn std::error::Error) -> Self {
        let mut text = what.to_string();
        let mut last = String::new();
        let mut next = Some(error);
        while let Some(error) = next {
            let said = error.to_string();
            // Many say first what their source says.
            if !last.contains(&said) && !said.is_empty() {
                text += ": ";
                text += &said;
                last = said;
            }
            next = error.source();
        }
        Self(text.replace('\n', " "))
    }
}
