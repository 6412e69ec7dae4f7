//! An environment in words.

use kpps_documents::Environment;

/// The parts of the machine; empty if they are unknown.
pub fn parts(environment: &Environment) -> String {
    let Environment { chip, bus, host, stack, app, .. } = environment;
    let card = if bus.is_empty() { chip.clone() } else { format!("{chip} on {bus}") };
    let app = app.as_ref().map(|app| format!("{app} between two cards")).unwrap_or_default();
    let parts = [card, host.clone(), stack.clone(), app];
    parts.into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join(", ")
}

/// Whether frames are of one size, all of one flow, and go in one direction.
pub fn is_usual(environment: &Environment) -> bool {
    environment.mix.is_none() && environment.traffic.is_none() && !environment.bidirectional
}

/// The frames.
pub fn frames(environment: &Environment) -> String {
    let sizes = match &environment.mix {
        Some(mix) => format!("{} B with FCS ({:.1} B in the mean)", mix.name, mix.mean_bytes_with_fcs),
        None => format!(
            "{} B ({} B without FCS)",
            environment.frame_bytes_with_fcs, environment.size_bytes_without_fcs
        ),
    };
    let traffic = environment.traffic.as_ref().map(|traffic| format!(", {traffic}")).unwrap_or_default();
    format!("{sizes}{traffic}{}", if environment.bidirectional { ", bidirectional" } else { "" })
}

#[cfg(test)]
mod tests {
    use super::*;
    use kpps_documents::Mix;

    #[test]
    fn an_environment_says_what_it_knows() {
        let of = |words: [&str; 4]| {
            let [chip, bus, host, stack] = words.map(str::to_owned);
            parts(&Environment { chip, bus, host, stack, ..Environment::default() })
        };
        assert_eq!(of(["82543", "PCI", "PIII", "Linux"]), "82543 on PCI, PIII, Linux");
        assert_eq!((of(["", "", "", "Linux"]), of([""; 4])), ("Linux".to_owned(), String::new()));
        let usual =
            Environment { size_bytes_without_fcs: 60, frame_bytes_with_fcs: 64, ..Environment::default() };
        assert_eq!(frames(&usual), "64 B (60 B without FCS)");
        let mix = Some(Mix { name: "64:1,128:1".into(), mean_bytes_with_fcs: 96.0 });
        let mixed = Environment { mix, traffic: Some("5 flows".into()), bidirectional: true, ..usual };
        assert_eq!(frames(&mixed), "64:1,128:1 B with FCS (96.0 B in the mean), 5 flows, bidirectional");
    }
}
