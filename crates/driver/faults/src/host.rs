//! The host of a world: its buffers, and the costs of its bus and memory.

/// How buffers lie in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Layout {
    /// None crosses 64 KiB.
    Apart,
    /// They are the ends of chunks.
    Chunks,
    /// Some cross 64 KiB.
    Anywhere,
    /// They hold the longest frames of all.
    Large,
}

/// Bytes of a buffer; of a large one.
const BUFFER_BYTES: usize = 2048;
const LARGE_BYTES: usize = 18 << 10;
/// The other kind of buffers: the end of a chunk of `CHUNK_BYTES`, behind `HEADROOM_BYTES` of headroom.
const CHUNK_BYTES: usize = 4096;
pub(crate) const HEADROOM_BYTES: usize = 1024;

impl Layout {
    /// Bytes from one buffer to the next.
    pub(crate) fn apart(self) -> usize {
        match self {
            Self::Apart => BUFFER_BYTES,
            Self::Chunks => CHUNK_BYTES,
            Self::Anywhere => BUFFER_BYTES + 64,
            Self::Large => LARGE_BYTES,
        }
    }

    /// Bytes of a buffer.
    pub(crate) fn bytes(self) -> usize {
        match self {
            Self::Chunks => CHUNK_BYTES - HEADROOM_BYTES,
            _ => self.apart(),
        }
    }
}

/// The costs of the parts of a host, in ps.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Costs {
    /// A register read, and a write.
    pub(crate) read_ps: u64,
    pub(crate) write_ps: u64,
    /// A burst on the bus, without and per byte.
    pub(crate) burst_ps: u64,
    pub(crate) byte_ps: u64,
    /// A read of memory that the card wrote.
    pub(crate) miss_ps: u64,
    /// A register read may take twice as long.
    pub(crate) uneven: bool,
}
