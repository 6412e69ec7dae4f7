//! The ceilings of the generator, from calibrations.

use crate::accounting::provenance::system;
use crate::error::Error;
use crate::running::trial::{Offer, Tester};
use kpps_documents::calibration::{Calibration, Sender};
use kpps_documents::provenance::Published;
use kpps_frames::rate::Rate;
use kpps_frames::{Mix, Size};
use kpps_methods::ndr::tenths;
use std::path::{Path, PathBuf};

impl Tester {
    /// The limits of the generator by these calibrations, one for each direction. `None` if there are none,
    /// or if the load is not a rate. Then the limit is unknown before the trial, and a shortfall shows it.
    ///
    /// # Errors
    /// [`Error::Calibration`].
    pub fn sender(&self, offer: &Offer, calibrations: &[PathBuf]) -> Result<Option<Sender>, Error> {
        let Rate::Pps(offered_pps) = offer.load.rate else { return Ok(None) };
        let senders = offer.senders().len();
        let (ceilings_pps, source): (Vec<f64>, _) = match calibrations {
            [] => return Ok(None),
            files if files.len() == senders => {
                let read = files
                    .iter()
                    .zip(self.names())
                    .map(|(file, port)| calibrated(file, port, &offer.load.sizes));
                let names: Vec<_> = files.iter().map(|file| file.display().to_string()).collect();
                (read.collect::<Result<_, _>>().map_err(Error::Calibration)?, names.join(", "))
            }
            _ => {
                let what = format!("{senders} calibrations are needed here, one for each direction");
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
/// A file that cannot be read, or is of another port, another size, another host or another kernel; in one
/// line.
fn calibrated(file: &Path, port: &str, sizes: &Mix) -> Result<f64, String> {
    let cannot =
        |why: &dyn std::fmt::Display| format!("{} is not a result of kpps calibrate: {why}", file.display());
    let text = std::fs::read_to_string(file).map_err(|e| {
        format!("cannot read the calibration {} (`kpps calibrate` writes one): {e}", file.display())
    })?;
    let made: Published<Calibration> = serde_json::from_str(&text).map_err(|e| cannot(&e))?;
    let calibration = made.document;
    // A calibration was made on the port's own host, so its port has no host's name before it.
    let (agent, port) = port.rsplit_once('/').map_or((None, port), |(agent, port)| (Some(agent), port));
    let bytes = sizes
        .only()
        .map(Size::bytes_with_fcs)
        .ok_or("a calibration holds for one frame size, not for a mix: leave it out")?;
    let (other, other_bytes) = (calibration.port(), calibration.environment.bytes_with_fcs());
    if other != port || other_bytes != bytes {
        return Err(format!(
            "{} is a calibration of {other} with frames of {other_bytes} B, not of {port} with {bytes} B",
            file.display()
        ));
    }
    // For an agent's port the current host is unknown.
    match made.provenance.filter(|_| agent.is_none()) {
        Some(made) if (made.host.clone(), made.kernel.clone()) != system() => Err(format!(
            "{} was made on {} with {}: run kpps calibrate on this host, with this kernel",
            file.display(),
            made.host.as_deref().unwrap_or("a host without a name"),
            made.kernel.as_deref().unwrap_or("an unknown kernel")
        )),
        _ => Ok(calibration.ceiling_pps),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use kpps_documents::Environment;
    use kpps_documents::provenance::Provenance;

    #[test]
    fn a_calibration_holds_for_its_port_its_frames_and_its_kernel() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("a.json");
        let (sizes, bytes) = (Mix::fixed(Size::MIN), Size::MIN.bytes_with_fcs());
        let (host, kernel) = system();
        let calibration = |bytes, host: Option<String>, kernel: Option<String>| {
            let document = Calibration {
                environment: Environment {
                    frame_bytes_with_fcs: Some(bytes),
                    ..Environment::on(["packet:a"])
                },
                ceiling_pps: 7e5,
                ..Calibration::default()
            };
            let provenance = Some(Provenance { host, kernel, ..Provenance::default() });
            let text = serde_json::to_string(&Published { document: &document, provenance }).unwrap();
            std::fs::write(&file, text).unwrap();
            calibrated(&file, "packet:a", &sizes)
        };
        assert_eq!(calibration(bytes, host.clone(), kernel.clone()), Ok(7e5));
        let said = calibration(bytes + 1, host.clone(), kernel).unwrap_err();
        assert!(said.contains("of packet:a with frames of"), "{said}");
        let said = calibration(bytes, host, Some("Linux 5.10".into())).unwrap_err();
        assert!(said.contains("with Linux 5.10: run kpps calibrate on this host"), "{said}");
        // The agent's host is another one.
        assert_eq!(calibrated(&file, "h1/packet:a", &sizes), Ok(7e5));
    }
}
