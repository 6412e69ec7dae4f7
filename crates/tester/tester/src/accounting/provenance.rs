//! The provenance of the documents of this process.
//!
//! A command measures one thing, and its thread opens the ports and publishes the document. So each thread
//! has one record: it begins when the first ports are opened, or guests and cards are observed, and the
//! document that is published at the end takes it along.

use kpps_documents::provenance::{Gateway, Provenance};
use kpps_ports::Spec;
use std::cell::RefCell;
use std::ffi::OsString;
use time::UtcDateTime;
use time::format_description::well_known::Rfc3339;

thread_local! {
    static RECORD: RefCell<Option<Provenance>> = const { RefCell::new(None) };
    /// The words of the command, if they are not those of the process.
    static WORDS: RefCell<Option<Vec<OsString>>> = const { RefCell::new(None) };
}

/// Begins another command on this thread, of these words: one of a program that has called kpps.
pub fn begin_command(words: &[OsString]) {
    RECORD.take();
    WORDS.set(Some(words.to_vec()));
}

/// The record; `None` if nothing real was measured.
pub fn provenance() -> Option<Provenance> {
    RECORD.with_borrow(Clone::clone)
}

/// Begins the record, if it has not begun: something real is measured, maybe without ports.
pub fn begin() {
    note(|_| ());
}

/// Records ports that were opened, and the known facts about their interfaces.
pub fn note_opened(specs: &[Spec]) {
    begin();
    #[cfg(target_os = "linux")]
    for spec in specs {
        let port = spec.to_string();
        let known = crate::accounting::host::environment(&[(&port, spec.interface())]);
        note_ports(known.into_iter().filter(|(name, _)| *name == port));
    }
    #[cfg(not(target_os = "linux"))]
    let _ = specs;
}

/// Notes the name of the device under test.
pub fn note_dut(name: &str) {
    note(|record| record.dut = Some(name.to_owned()));
}

/// Notes the router that a port sends to, and its station address if it answered.
pub(crate) fn note_gateway(port: &str, address: String, mac: Option<String>) {
    note(|record| drop(record.gateways.insert(port.to_owned(), Gateway { address, mac })));
}

/// Records ports, and the known facts about their interfaces.
pub(crate) fn note_ports(ports: impl IntoIterator<Item = (String, String)>) {
    note(|record| record.ports.extend(ports));
}

fn note(change: impl FnOnce(&mut Provenance)) {
    RECORD.with_borrow_mut(|record| change(record.get_or_insert_with(begun)));
}

/// A record that begins now.
fn begun() -> Provenance {
    let (host, kernel) = system();
    let now = UtcDateTime::now().truncate_to_second();
    let words = WORDS.with_borrow(Clone::clone).unwrap_or_else(|| std::env::args_os().collect());
    let words = words.iter().map(|word| quoted(&word.to_string_lossy()));
    Provenance {
        time: now.format(&Rfc3339).unwrap_or_default(),
        host,
        command: words.collect::<Vec<_>>().join(" "),
        kpps_version: env!("CARGO_PKG_VERSION").into(),
        kernel,
        ..Provenance::default()
    }
}

/// This host's name, and its kernel with its release.
pub(crate) fn system() -> (Option<String>, Option<String>) {
    let read = |name: &str| {
        let text = std::fs::read_to_string(format!("/proc/sys/kernel/{name}")).ok()?;
        Some(text.trim().to_owned()).filter(|text| !text.is_empty())
    };
    (
        read("hostname"),
        read("ostype").zip(read("osrelease")).map(|(kind, release)| format!("{kind} {release}")),
    )
}

/// A word as a shell reads it.
fn quoted(word: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_./:,=%+@".contains(&byte);
    match !word.is_empty() && word.bytes().all(plain) {
        true => word.to_owned(),
        false => format!("'{}'", word.replace('\'', r"'\''")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_line_can_be_typed_again() {
        let words = ["kpps", "--ports", "packet:a,packet:b", "two words", "it's", ""].map(quoted);
        assert_eq!(words.join(" "), r"kpps --ports packet:a,packet:b 'two words' 'it'\''s' ''");
    }

    #[test]
    fn a_record_begins_with_the_first_note() {
        note_dut("the box");
        note_ports([("packet:a".into(), "driver veth".into())]);
        note_gateway("packet:a", "198.18.0.254".into(), Some("02:00:00:00:00:01".into()));
        let record = provenance().unwrap_or_default();
        assert_eq!(record.dut.as_deref(), Some("the box"));
        assert!(record.ports["packet:a"].contains("veth") && record.time.ends_with('Z'), "{record:?}");
        let kernel = record.kernel.as_deref().unwrap_or_default();
        assert!(record.host.as_ref().is_some_and(|host| !host.is_empty()), "{record:?}");
        assert!(kernel.starts_with("Linux "), "{record:?}");
        assert_eq!(record.gateways["packet:a"].address, "198.18.0.254");
    }
}
