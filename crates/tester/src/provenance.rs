//! What this process measures on: the provenance of its documents.
//!
//! A process has one command line and measures one thing. So there is one record: it begins when the first
//! ports are opened, and the document that is published at the end takes it along.

use kpps_results::provenance::{Gateway, Provenance};
use std::sync::{Mutex, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};

static RECORD: Mutex<Option<Provenance>> = Mutex::new(None);

/// The record; `None` if no port was opened.
pub fn provenance() -> Option<Provenance> {
    RECORD.lock().unwrap_or_else(PoisonError::into_inner).clone()
}

/// Notes the name of the device under test.
pub fn note_dut(name: &str) {
    note(|record| record.dut = Some(name.to_owned()));
}

/// Notes the router that a port sends to, and its station address if it answered.
pub(crate) fn note_gateway(port: &str, address: String, mac: Option<String>) {
    note(|record| drop(record.gateways.insert(port.to_owned(), Gateway { address, mac })));
}

/// Notes ports, and what is known of their interfaces.
pub(crate) fn note_ports(ports: impl IntoIterator<Item = (String, String)>) {
    note(|record| record.ports.extend(ports));
}

fn note(change: impl FnOnce(&mut Provenance)) {
    let mut record = RECORD.lock().unwrap_or_else(PoisonError::into_inner);
    change(record.get_or_insert_with(begun));
}

/// A record that begins now.
fn begun() -> Provenance {
    let read = |name: &str| {
        let path = format!("/proc/sys/kernel/{name}");
        std::fs::read_to_string(path).map(|text| text.trim().to_owned()).unwrap_or_default()
    };
    let now_s = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
    let words = std::env::args_os().map(|word| quoted(&word.to_string_lossy()));
    Provenance {
        time: rfc3339(now_s),
        host: read("hostname"),
        command: words.collect::<Vec<_>>().join(" "),
        kpps_version: env!("CARGO_PKG_VERSION").into(),
        kernel: format!("{} {}", read("ostype"), read("osrelease")).trim().to_owned(),
        ..Provenance::default()
    }
}

/// A word as a shell reads it.
fn quoted(word: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_./:,=%+@".contains(&byte);
    match !word.is_empty() && word.bytes().all(plain) {
        true => word.to_owned(),
        false => format!("'{}'", word.replace('\'', r"'\''")),
    }
}

/// A time in s since 1970 (UTC), as RFC 3339 writes it.
fn rfc3339(seconds: u64) -> String {
    let (mut days, in_day) = (seconds / 86_400, seconds % 86_400);
    let is_leap = |year: u64| year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    let mut year = 1970;
    while days >= 365 + u64::from(is_leap(year)) {
        days -= 365 + u64::from(is_leap(year));
        year += 1;
    }
    let mut month = 1;
    for length in [31, 28 + u64::from(is_leap(year)), 31, 30, 31, 30, 31, 31, 30, 31, 30] {
        if days < length {
            break;
        }
        days -= length;
        month += 1;
    }
    let (hour, minute, second) = (in_day / 3600, in_day / 60 % 60, in_day % 60);
    format!("{year:04}-{month:02}-{:02}T{hour:02}:{minute:02}:{second:02}Z", days + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_those_of_the_calendar() {
        for (seconds, said) in [
            (0, "1970-01-01T00:00:00Z"),
            (951_782_399, "2000-02-28T23:59:59Z"),
            (951_782_400, "2000-02-29T00:00:00Z"),
            (1_735_689_599, "2024-12-31T23:59:59Z"),
            (1_795_374_203, "2026-11-22T19:03:23Z"),
            (4_107_542_400, "2100-03-01T00:00:00Z"),
        ] {
            assert_eq!(rfc3339(seconds), said);
        }
    }

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
        assert!(!record.host.is_empty() && record.kernel.starts_with("Linux "), "{record:?}");
        assert_eq!(record.gateways["packet:a"].address, "198.18.0.254");
    }
}
