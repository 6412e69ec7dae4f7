//! The fate of frames that arrived: tags and captures as lost, duplicated, reordered and damaged frames,
//! latencies, and the frames that are kept for a capture file.

pub(crate) mod anomalies;
pub(crate) mod arrivals;
pub(crate) mod header;
pub(crate) mod kept;
pub(crate) mod losses;
pub(crate) mod playback;
pub mod queues;
pub(crate) mod received;
pub(crate) mod recognised;
pub(crate) mod seen;
pub(crate) mod send_times;
pub(crate) mod senders;
pub(crate) mod stream;
pub mod timeline;

pub use anomalies::pcapng;
pub use arrivals::Arrivals;
pub use kept::{AnomalousFrame, Kept};
pub use losses::{Losses, Lost, SequenceGap};
pub use playback::Playback;
pub use received::{Arrived, Findings, OfFlow, OfStream, Received};
pub use recognised::{Classes, Skipped};
