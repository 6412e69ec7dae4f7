//! Common parts of both formats of captures: records, the input, and their faults.

use std::boxed::Box;
use std::io::{self, BufReader, Read};
use std::string::String;
use std::vec::Vec;

/// The most bytes captured of one frame. libpcap and Wireshark refuse more, as a sign of damage.
pub(super) const MOST_CAPTURED_BYTES: u32 = 262_144;

/// A captured frame of any link type.
#[derive(Debug)]
pub(super) struct Record {
    /// Its time in ns since 1970, if the capture has it.
    pub at_ns: Option<i128>,
    /// Its link type (`LINKTYPE_`).
    pub link: u32,
    /// The length of its FCS in bytes.
    pub fcs: usize,
    /// The captured bytes.
    pub bytes: Vec<u8>,
    /// Its original length in bytes.
    pub length: u32,
}

/// Why there is no further record.
#[derive(Debug)]
pub(super) enum Fault {
    /// The input ends within one.
    Ends,
    /// The input cannot be read.
    Unreadable(io::Error),
    /// The data make no sense.
    Broken(String),
}

impl From<io::Error> for Fault {
    fn from(error: io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::UnexpectedEof => Self::Ends,
            _ => Self::Unreadable(error),
        }
    }
}

/// The bytes of a capture.
pub(super) struct Input<'i>(BufReader<Box<dyn Read + 'i>>);

impl<'i> Input<'i> {
    pub fn new(bytes: Box<dyn Read + 'i>) -> Self {
        Self(BufReader::new(bytes))
    }

    /// The next bytes; `None` at the end of the input.
    pub fn begin<const N: usize>(&mut self) -> Result<Option<[u8; N]>, Fault> {
        let mut bytes = [0; N];
        let mut have = 0;
        while have < N {
            match self.0.read(&mut bytes[have..]) {
                Ok(0) if have == 0 => return Ok(None),
                Ok(0) => return Err(Fault::Ends),
                Ok(more) => have += more,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(Some(bytes))
    }

    /// The next bytes.
    pub fn array<const N: usize>(&mut self) -> Result<[u8; N], Fault> {
        self.begin()?.ok_or(Fault::Ends)
    }

    /// The next `count` bytes. Memory is taken for bytes that exist only.
    pub fn bytes(&mut self, count: u32) -> Result<Vec<u8>, Fault> {
        let mut bytes = Vec::new();
        self.0.by_ref().take(count.into()).read_to_end(&mut bytes)?;
        (bytes.len() == count as usize).then_some(bytes).ok_or(Fault::Ends)
    }

    /// Skips the next `count` bytes.
    pub fn skip(&mut self, count: u32) -> Result<(), Fault> {
        let skipped = io::copy(&mut self.0.by_ref().take(count.into()), &mut io::sink())?;
        (skipped == u64::from(count)).then_some(()).ok_or(Fault::Ends)
    }
}

/// The order of bytes in numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Order {
    Little,
    Big,
}

impl Order {
    /// The number at an offset; 0 behind the end.
    pub fn u16(self, bytes: &[u8], at: usize) -> u16 {
        let bytes = part(bytes, at);
        if self == Self::Big { u16::from_be_bytes(bytes) } else { u16::from_le_bytes(bytes) }
    }

    /// As [`u16`](Self::u16).
    pub fn u32(self, bytes: &[u8], at: usize) -> u32 {
        let bytes = part(bytes, at);
        if self == Self::Big { u32::from_be_bytes(bytes) } else { u32::from_le_bytes(bytes) }
    }

    /// As [`u16`](Self::u16).
    pub fn i64(self, bytes: &[u8], at: usize) -> i64 {
        let bytes = part(bytes, at);
        if self == Self::Big { i64::from_be_bytes(bytes) } else { i64::from_le_bytes(bytes) }
    }
}

fn part<const N: usize>(bytes: &[u8], at: usize) -> [u8; N] {
    bytes.get(at..).and_then(|rest| rest.first_chunk().copied()).unwrap_or([0; N])
}
