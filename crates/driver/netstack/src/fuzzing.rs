//! Entry for the fuzz target of frames.

use crate::checksum::{check, fill, prepare};
use alloc::vec::Vec;

/// The segment size of TCP that every host takes (RFC 9293, 3.7.1).
const MSS: u16 = 536;

/// Checks the checksums of a frame that came, and prepares one to send, in each way.
pub fn read(frame: &[u8]) {
    let _ = check(frame);
    let copy = || frame.to_vec();
    for mss in [None, Some(MSS)] {
        let _ = prepare(&mut copy(), mss);
    }
    let mut filled: Vec<u8> = copy();
    fill(&mut filled);
    let once = filled.clone();
    fill(&mut filled);
    assert_eq!(once, filled, "checksums depend on what stood in their place");
}
