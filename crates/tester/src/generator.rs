//! What the generator can send: from calibrations, and raised to what it has sent.

use crate::trial::Offer;
use kpps_frames::Size;
use kpps_measure::ndr::tenths;
use kpps_results::certificate::{Certificate, Sender};
use kpps_results::detail::DetailedTrial;
use std::path::Path;

/// Raises the ceilings to what was really sent.
pub fn surpassed(sender: Sender, trial: &DetailedTrial) -> Sender {
    let sent =
        trial.directions.iter().map(|way| way.sent as f64 / trial.result.seconds.max(f64::MIN_POSITIVE));
    let raised = |(ceiling, sent): (&f64, f64)| ceiling.max(tenths(sent));
    let ceilings_pps: Vec<f64> = sender.ceilings_pps.iter().zip(sent).map(raised).collect();
    let exceeded = trial.load_pps.is_some_and(|asked| ceilings_pps.iter().any(|ceiling| asked > *ceiling));
    Sender { ceilings_pps, exceeded, ..sender }
}

/// The ceiling that a file of `kpps calibrate` has for a port and the frames of an offer.
///
/// # Errors
/// A file that cannot be read, or is of another port or another size; in one line.
pub fn calibrated(file: &Path, port: &str, offer: &Offer) -> Result<f64, String> {
    let cannot =
        |why: &dyn std::fmt::Display| format!("{} is no result of kpps calibrate: {why}", file.display());
    let text = std::fs::read_to_string(file).map_err(|e| {
        format!(
            "cannot read the calibration {} (kpps calibrate --results FILE writes one): {e}",
            file.display()
        )
    })?;
    let certificate: Certificate = serde_json::from_str(&text).map_err(|e| cannot(&e))?;
    // A calibration was made on the port's own host, so its port has no host's name before it.
    let port = port.rsplit_once('/').map_or(port, |(_, port)| port);
    let bytes = offer
        .sizes
        .only()
        .map(Size::bytes_with_fcs)
        .ok_or("a calibration is of frames of one size: leave it out, and the mix is measured")?;
    if certificate.port != port || certificate.frame_bytes_with_fcs != bytes {
        let Certificate { port: other, frame_bytes_with_fcs, .. } = certificate;
        return Err(format!(
            "{} is a calibration of {other} with frames of {frame_bytes_with_fcs} B, not of {port} with {bytes} B",
            file.display()
        ));
    }
    Ok(certificate.ceiling_pps)
}
