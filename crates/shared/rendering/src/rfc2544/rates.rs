//! Rates in the units of these tests.

use kpps_documents::words::in_kpps;

/// Frames per second in thousands.
pub(super) fn kpps(pps: Option<f64>) -> String {
    pps.map_or("–".into(), in_kpps)
}

/// Megabits per second of frames: on layer 2, and with preamble and gap.
pub(super) fn mbps(pps: Option<f64>, frame_bytes_with_fcs: f64) -> [String; 2] {
    /// Preamble, start of frame, gap between frames.
    const BETWEEN: f64 = 20.0;
    [frame_bytes_with_fcs, frame_bytes_with_fcs + BETWEEN]
        .map(|bytes| pps.map_or("–".into(), |pps| format!("{:.1}", pps * bytes * 8.0 / 1e6)))
}
