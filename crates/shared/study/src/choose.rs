//! Which studies and claims are judged, and the random constants of one machine.

use crate::data::{Error, Study, documents, named};
use kpps_documents::study::{Drawn, DrawnConstants};

/// The studies with these names or in these files, or those of documents if there are none; with these claims
/// only, if there are any.
///
/// # Errors
/// A study or a claim that does not exist.
pub fn choose(names: &[String], claims: &[String]) -> Result<Vec<Study>, Error> {
    let names = if names.is_empty() { documents()? } else { names.to_vec() };
    let mut studies: Vec<Study> = Vec::new();
    for name in &names {
        let study = named(name)?;
        if studies.iter().any(|other| other.name == study.name) {
            return Err(Error::Twice(study.name));
        }
        studies.push(study);
    }
    if let Some(id) = claims.iter().find(|id| !studies.iter().any(|study| study.claims.contains_key(*id))) {
        return Err(Error::NoClaim(id.clone(), names.join(", ")));
    }
    if !claims.is_empty() {
        for study in &mut studies {
            study.claims.retain(|id, _| claims.contains(id));
        }
        studies.retain(|study| !study.claims.is_empty());
    }
    Ok(studies)
}

/// The constants that are drawn with a seed for the measurements of these studies.
///
/// # Errors
/// A measurement whose constants cannot be drawn, or nothing is drawn at random; in one line.
pub fn drawn(studies: &[Study], seed: u32) -> Result<Drawn, String> {
    let mut rows: Vec<DrawnConstants> = Vec::new();
    for study in studies {
        for (name, measurement) in study.claims.values().flat_map(|claim| &claim.measure) {
            let drawn = measurement.drawn(seed.into())?;
            let constants = drawn.iter().flatten().map(|constant| format!("--set {constant}"));
            let arguments = constants.collect::<Vec<_>>().join(" ");
            let row = DrawnConstants { measurement: name.clone(), arguments };
            if drawn.is_some() && !rows.contains(&row) {
                rows.push(row);
            }
        }
    }
    if rows.is_empty() {
        return Err("these studies draw no random machines: choose the study beyond".into());
    }
    Ok(Drawn { seed, rows, ..Drawn::default() })
}
