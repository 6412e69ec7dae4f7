//! A user's packet as the template of test frames.

use kpps_frames::RawPacket;
use kpps_frames::capture::{Capture, Captured};
use kpps_frames::raw::from_hex;
use std::fs::File;
use std::io::{ErrorKind, Read};
use std::path::Path;
use std::sync::Arc;

/// The most bytes of a file with a frame in hexadecimal.
const MOST_TEXT: u64 = 1 << 20;

/// A packet with its source.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Template {
    /// Its name in results.
    pub name: String,
    /// The packet.
    pub packet: Arc<RawPacket>,
}

/// Reads `FILE[:N]`, the N-th frame of a capture (pcap, pcapng; the first by default), or a file or text of
/// bytes in hexadecimal, as Scapy's `bytes(p).hex()` and `hexdump(p)` print them.
///
/// # Errors
/// The reason why there is no packet, in one line.
pub fn template(text: &str) -> Result<Template, String> {
    let numbered = text.rsplit_once(':').and_then(|(file, number)| {
        let number: usize = number.parse().ok().filter(|number| *number > 0)?;
        (!Path::new(text).exists()).then_some((file, number))
    });
    let (file, number) = numbered.unwrap_or((text, 1));
    let bytes = match (from_hex(text), Path::new(file).exists()) {
        (Some(bytes), false) => bytes,
        (None, false) => {
            return Err(format!(
                "'{text}' is neither a file nor a frame in hexadecimal: give FILE.pcap, FILE.pcap:N or the bytes"
            ));
        }
        (_, true) => from_file(Path::new(file), number).map_err(|why| format!("{file} {why}"))?,
    };
    let packet = RawPacket::of(&bytes).map_err(|why| format!("the frame of {text} {why}"))?;
    // A packet given in hexadecimal is too long for a name.
    let name: String = text.chars().take(64).collect();
    Ok(Template { name, packet: Arc::new(packet) })
}

fn from_file(path: &Path, number: usize) -> Result<Vec<u8>, String> {
    let unreadable = |error: &dyn std::fmt::Display| format!("cannot be read: {error}");
    let open = || File::open(path).map_err(|error| unreadable(&error));
    let mut text = String::new();
    match open()?.take(MOST_TEXT).read_to_string(&mut text) {
        Ok(_) => {
            if let Some(bytes) = from_hex(&text) {
                return Ok(bytes);
            }
        }
        // A file that is not UTF-8 is a capture.
        Err(error) if error.kind() == ErrorKind::InvalidData => {}
        Err(error) => return Err(unreadable(&error)),
    }
    let wrong = |error| format!("{error}, nor a frame in hexadecimal");
    let (mut count, mut found): (usize, Option<Captured>) = (0, None);
    for frame in Capture::new(open()?).map_err(wrong)?.take(number) {
        (count, found) = (count + 1, Some(frame.map_err(|error| error.to_string())?));
    }
    let frame = found.filter(|_| count == number);
    let frame = frame.ok_or_else(|| format!("has {count} frames, and no frame {number}"))?;
    match frame.bytes.len() == frame.length {
        true => Ok(frame.bytes),
        false => Err(format!(
            "has only {} of the frame's {} bytes: capture whole frames",
            frame.bytes.len(),
            frame.length
        )),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use kpps_frames::Size;
    use kpps_frames::build::{Flow, udp_test};

    #[test]
    fn frames_come_from_captures_and_from_text() {
        let frames = [80, 100].map(|bytes| udp_test(&Flow::default(), Size::with_fcs(bytes)).unwrap());
        let mut writer = kpps_frames::pcap::Writer::new(Vec::new()).unwrap();
        for (n, frame) in frames.iter().enumerate() {
            writer.write(n as u64, frame).unwrap();
        }
        let file = std::env::temp_dir().join(format!("kpps-template-{}.pcap", std::process::id()));
        std::fs::write(&file, writer.into_inner()).unwrap();
        let name = file.to_str().unwrap();
        let bytes = |text: &str| template(text).map(|it| it.packet.bytes.clone());
        assert_eq!(bytes(name).as_ref(), Ok(&frames[0]));
        assert_eq!(bytes(&format!("{name}:2")).as_ref(), Ok(&frames[1]));
        assert!(bytes(&format!("{name}:3")).unwrap_err().contains("has 2 frames"));
        let hex: String = frames[0].iter().map(|byte| format!("{byte:02x}")).collect();
        assert_eq!(bytes(&hex).as_ref(), Ok(&frames[0]));
        std::fs::write(&file, &hex).unwrap();
        assert_eq!(bytes(name).as_ref(), Ok(&frames[0]));
        std::fs::write(&file, "no frame").unwrap();
        assert!(bytes(name).is_err());
        std::fs::remove_file(&file).unwrap();
        assert!(["", "0011", "none.pcap", "none.pcap:2"].iter().all(|bad| bytes(bad).is_err()));
    }
}
