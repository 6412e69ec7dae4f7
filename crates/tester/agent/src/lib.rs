//! Ports of other hosts.
//!
//! An [`Agent`] lends its host's ports to a tester on another host, as far as its [`Rules`] allow. For the
//! tester, a port behind an agent is a [`TestPort`](kpps_tester::TestPort) as a local one, and the agent runs
//! the same code: the network protocol (`proto/agent.proto`) carries the calls of that trait.
//!
//! Both sides identify each other by certificates, or by a shared token ([`Security`]).
//!
//! ```
//! // The certificates of an agent called h1 and of a tester, in a folder of its own.
//! let folder = std::env::temp_dir().join(format!("kpps-agent-{}", std::process::id()));
//! let made = kpps_agent::keys::make(&folder, &["h1".to_owned()])?;
//! assert!(made.iter().any(|file| file.ends_with("h1.pem")));
//! # std::fs::remove_dir_all(&folder)?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
#![forbid(unsafe_code)]

#[cfg(test)]
mod abuse;
mod agent;
mod believe;
mod clients;
mod convert;
#[cfg(any(feature = "fuzzing", test))]
pub mod fuzzing;
pub mod keys;
#[cfg(test)]
mod lies;
mod loads;
mod pair;
mod parts;
mod patience;
mod pings;
/// The protocol, generated from `proto/agent.proto` by `make protocol`.
#[rustfmt::skip]
#[allow(missing_docs, clippy::all)]
mod proto;
mod remote;
mod rules;
mod security;
mod session;

pub use agent::Agent;
pub use pair::{Pair, pair};
pub use remote::{Host, PORT, connect};
pub use rules::{Kind, Network, Rules, TEST_NETWORKS};
pub use security::{Security, Token, exposed};

/// The threads that talk to the other side. A busy host must not delay them: silence of
/// [`LEASE`](session::LEASE) ends a trial.
fn runtime() -> std::io::Result<tokio::runtime::Runtime> {
    // Tokio panics where the system has no thread to give.
    let has_threads = std::thread::Builder::new().spawn(|| ())?.join();
    has_threads.map_err(|_| std::io::Error::other("a thread panicked"))?;
    let mut builder = tokio::runtime::Builder::new_multi_thread();
    builder.worker_threads(1).on_thread_start(|| kpps_ports::port::run::prefer(true)).enable_all().build()
}

/// Why there is no agent, or no session with one; in one line.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct Error(String);

impl Error {
    /// The failed action and its cause, with all sources of the error.
    fn because(what: impl std::fmt::Display, error: &dyn std::error::Error) -> Self {
        let mut text = what.to_string();
        let mut last = String::new();
        let mut next = Some(error);
        while let Some(error) = next {
            let message = error.to_string();
            // Many errors begin with the text of their source.
            if !last.contains(&message) && !message.is_empty() {
                text += ": ";
                text += &message;
                last = message;
            }
            next = error.source();
        }
        Self(text.replace('\n', " "))
    }
}
