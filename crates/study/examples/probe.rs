//! Scratch.
use kpps_study::{Context, measure, named, names};
fn main() {
    let mut changes = Vec::new();
    let mut ids = Vec::new();
    for a in std::env::args().skip(1) {
        match a.split_once('=') {
            Some((k, v)) => changes.push(kpps_profiles::Change::set(k, v.parse::<toml::Value>().unwrap()).unwrap()),
            None => ids.push(a),
        }
    }
    if ids.first().is_some_and(|a| a == "fit" || a == "cv") {
        let studies: Vec<_> = names().into_iter().map(|n| named(&n).unwrap()).collect();
        let studies: Vec<_> = studies.into_iter().filter(|s| ids.len() < 2 || ids.contains(&s.name)).collect();
        let q = if ids[0] == "fit" { kpps_study::Question::Fit } else { kpps_study::Question::CrossValidate };
        println!("{}", kpps_study::explore(&studies, q, &|| true, |l| println!("{l}")).unwrap());
        return;
    }
    let context = Context { changes, go_on: &|| true };
    for name in names() {
        let mut study = named(&name).unwrap();
        study.claims.retain(|id, _| ids.contains(id) || ids.contains(&name));
        let outcomes = measure(study.claims.values().flat_map(|c| c.measure.values()), &context, &|_, _| ());
        for (id, claim) in &study.claims {
            let v = outcomes.verdict(&study, id, claim).unwrap();
            println!("{id} {} {:?}", v.verdict, v.values);
            if std::env::var("RAW").is_ok() {
                for (n, m) in &claim.measure {
                    println!("  {n}: {:?}", measure([m], &context, &|_, _| ()));
                }
            }
        }
    }
}
