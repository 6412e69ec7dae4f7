//! All kinds of documents and their schema.

use crate::provenance::Published;
use schemars::JsonSchema;

/// A document of any kind.
#[derive(JsonSchema)]
#[serde(untagged)]
#[expect(dead_code, reason = "only its schema is used")]
enum Document {
    Curve(crate::Curve),
    Run(crate::run::Run),
    Study(crate::study::Study),
    Perturbation(crate::study::Perturbation),
    Drawn(crate::study::Drawn),
    Fit(crate::study::Fit),
    CrossValidation(crate::study::CrossValidation),
    Grid(crate::grid::Grid),
    Trial(Box<crate::detail::DetailedTrial>),
    Ndr(crate::ndr::Ndr),
    Calibration(crate::calibration::Calibration),
    HostCalibration(crate::host::HostCalibration),
    Comparison(crate::comparison::Comparison),
    Connections(Box<crate::connections::Connections>),
    Sizes(crate::rfc2544::Sizes),
    Rfc2544(crate::rfc2544::Rfc2544),
    Lab(crate::lab::Lab),
    Audit(crate::audit::Audit),
    GuestAudit(crate::guest_audit::GuestAudit),
    Transmit(crate::simulation::Transmit),
    Profile(crate::simulation::Profile),
    Scale(crate::simulation::Scale),
    Trace(Box<crate::simulation::BusTrace>),
    Profiles(crate::inventory::Profiles),
    Devices(crate::inventory::Devices),
    Dpdk(crate::inventory::Dpdk),
    Conformance(crate::inventory::Conformance),
    Faults(crate::faults::Faults),
}

/// The JSON Schema of all kinds of documents (draft 2020-12), ending in a newline; `schema/kpps-3.json`
/// is this text.
pub fn schema() -> String {
    let mut schema = schemars::schema_for!(Published<Document>);
    schema.insert("$id".to_owned(), "urn:kpps:schema:3".into());
    schema.insert("title".to_owned(), "kpps results, version 3".into());
    format!("{:#}\n", schema.as_value())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    /// `UPDATE=1` writes the file.
    #[test]
    fn the_committed_schema_is_that_of_the_types() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../schema/kpps-3.json");
        if std::env::var_os("UPDATE").is_some() {
            std::fs::write(path, super::schema()).unwrap();
        }
        assert!(std::fs::read_to_string(path).unwrap() == super::schema(), "run the tests with UPDATE=1");
    }
}
