//! The parsers of profiles, studies and results, and what compares and shows these, against arbitrary text.

use kpps_audit::SetupFile;
use kpps_documents::Curve;
use kpps_documents::calibration::Calibration;
use kpps_documents::provenance::Published;
use kpps_methods::compare::{Criteria, Results, compare};
use kpps_profiles::{Kind, Profile};
use kpps_rendering::{csv, html, text};
use kpps_study::{Study, Values, judge};

/// Reads a text as each kind of document.
pub fn run(document: &str) {
    for kind in Kind::ALL {
        if let Ok(profile) = Profile::parse(kind, "fuzzed", document) {
            let _ = profile.get::<kpps_card::Params>();
            let _ = profile.get::<kpps_driver::Config>();
        }
    }
    if let Ok(study) = Study::parse("fuzzed", document) {
        for claim in study.claims.values() {
            let names = claim.measure.keys().cloned();
            let measured = names.map(|name| (name, Values::from([("pps".into(), 1e5.into())]))).collect();
            let _ = judge(&claim.holds, &measured);
        }
    }
    if let Ok(results) = Results::parse("fuzzed", document) {
        let again = Results::parse("again", document).expect("the same text");
        let criteria = Criteria { threshold: 0.0, significance: 0.05, quantities: Vec::new() };
        let _ = compare(&[results, again], &criteria);
    }
    if let Ok(setup) = SetupFile::parse("fuzzed", document) {
        let text = setup.text().expect("a text that was read has a text");
        assert_eq!(SetupFile::parse("again", &text).as_ref(), Ok(&setup), "{text}");
    }
    // As `--calibration` reads it.
    let _ = serde_json::from_str::<Published<Calibration>>(document);
    if let Ok(curve) = Curve::from_json(document) {
        let _ = (csv(&curve), html(&curve));
        let _ = text::table(&curve, text::TextStyle::default());
        let _ = text::plot(&curve, text::TextStyle::default());
    }
}
