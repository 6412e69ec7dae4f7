//! The ceilings of the generator, from calibrations.

use crate::error::Error;
use crate::trial::{Offer, Tester};
use kpps_frames::Size;
use kpps_measure::ndr::tenths;
use kpps_ports::port::run::Load;
use kpps_results::calibration::{Calibration, Sender};
use std::path::{Path, PathBuf};

impl Tester {
    /// The limits of the generator by these calibrations, one for each direction. `None` if there are none,
    /// or if the load is not a rate. Then the limit is unknown before the trial, and a shortfall shows it.
    ///
    /// # Errors
    /// [`Error::Calibration`].
    pub fn sender(&self, offer: &Offer, calibrations: &[PathBuf]) -> Result<Option<Sender>, Error> {
        let Load::Pps(offered_pps) = offer.load else { return Ok(None) };
        let ways = if offer.bidirectional { 2 } else { 1 };
        let (ceilings_pps, source): (Vec<f64>, _) = match calibrations {
            [] => return Ok(None),
            files if files.len() == ways => {
                let read = files.iter().zip(self.names()).map(|(file, port)| calibrated(file, port, offer));
                let names: Vec<_> = files.iter().map(|file| file.display().to_string()).collect();
                (read.collect::<Result<_, _>>().map_err(Error::Calibration)?, names.join(", "))
            }
            _ => {
                let what = format!("--calibration takes {ways} files here, one for each direction");
                return Err(Error::Calibration(what));
            }
        };
        let exceeded = ceilings_pps.iter().any(|ceiling| offered_pps > *ceiling);
        let ceilings_pps = ceilings_pps.into_iter().map(tenths).collect();
        Ok(Some(Sender { ceilings_pps, source, exceeded }))
    }
}

/// The ceiling that a file of `kpps calibrate` has for a port and the frames of an offer.
///
/// # Errors
/// A file that cannot be read, or is of another port or another size; in one line.
fn calibrated(file: &Path, port: &str, offer: &Offer) -> Result<f64, String> {
    let cannot =
        |why: &dyn std::fmt::Display| format!("{} is not a result of kpps calibrate: {why}", file.display());
    let text = std::fs::read_to_string(file).map_err(|e| {
        format!(
            "cannot read the calibration {} (kpps calibrate --results FILE writes one): {e}",
            file.display()
        )
    })?;
    let calibration: Calibration = serde_json::from_str(&text).map_err(|e| cannot(&e))?;
    // A calibration was made on the port's own host, so its port has no host's name before it.
    let port = port.rsplit_once('/').map_or(port, |(_, port)| port);
    let bytes = offer
        .sizes
        .only()
        .map(Size::bytes_with_fcs)
        .ok_or("a calibration holds for one frame size, not for a mix: leave it out")?;
    if calibration.port != port || calibration.frame_bytes_with_fcs != bytes {
        let Calibration { port: other, frame_bytes_with_fcs, .. } = calibration;
        return Err(format!(
            "{} is a calibration of {other} with frames of {frame_bytes_with_fcs} B, not of {port} with {bytes} B",
            file.display()
        ));
    }
    Ok(calibration.ceiling_pps)
}
