//! The parsers of profiles and results, and what compares and shows these, against arbitrary text.

use kpps_documents::Curve;
use kpps_documents::calibration::Calibration;
use kpps_documents::provenance::Published;
use kpps_methods::compare::{Criteria, Results, compare};
use kpps_profiles::{Kind, Profile};
use kpps_rendering::{csv, html, text};

/// Reads a text as each kind of document.
pub fn run(document: &str) {
    for kind in Kind::ALL {
        if let Ok(profile) = Profile::parse(kind, "fuzzed", document) {
            let _ = profile.get::<kpps_card::Params>();
            let _ = profile.get::<kpps_driver::Config>();
        }
    }
    if let Ok(results) = Results::parse("fuzzed", document) {
        let again = Results::parse("again", document).expect("the same text");
        let criteria = Criteria { threshold: 0.0, significance: 0.05, quantities: Vec::new() };
        let _ = compare(&[results, again], &criteria);
    }
    // As `--calibration` reads it.
    let _ = serde_json::from_str::<Published<Calibration>>(document);
    if let Ok(curve) = Curve::from_json(document) {
        let _ = (csv(&curve), html(&curve));
        let _ = text::table(&curve, text::TextStyle::default());
        let _ = text::plot(&curve, text::TextStyle::default());
    }
}
