//! An environment in words.

use kpps_documents::{Environment, rounded};
use maud::{Markup, html as markup};

/// The parts of the machine; empty if they are unknown.
pub fn parts(environment: &Environment) -> String {
    let Environment { bus, host, stack, app, program, .. } = environment;
    let card = environment.card();
    let card = if bus.is_empty() { card.to_owned() } else { format!("{card} on {bus}") };
    let app = app.as_ref().map(|app| format!("{app} between two cards")).unwrap_or_default();
    let parts = [card, host.clone(), stack.clone(), program.clone().unwrap_or_default(), app];
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
        None => {
            let bytes = environment.bytes_with_fcs();
            format!("{bytes} B ({} B without FCS)", bytes.saturating_sub(FCS_BYTES))
        }
    };
    let traffic = environment.traffic.as_ref().map(|traffic| format!(", {traffic}")).unwrap_or_default();
    format!("{sizes}{traffic}{}", if environment.bidirectional { ", bidirectional" } else { "" })
}

/// Bytes of the frame check sequence.
pub const FCS_BYTES: u32 = 4;

/// The section of a page with all that is known of an environment.
pub fn section(environment: &Environment) -> Markup {
    markup! {
        section {
            h2 { "Environment" }
            p.hint { "The settings to repeat this measurement." }
            dl { @for (name, value) in facts(environment) { dt { (name) } dd { (value) } } }
        }
    }
}

/// All facts that an environment has, each with its name.
fn facts(e: &Environment) -> Vec<(String, String)> {
    let warmup =
        e.warmup_s.map(|s| format!(" after {} ms of warming up", rounded(s * 1e3))).unwrap_or_default();
    let app = |app: &String| format!("{app}, between two cards; loads are of both directions together");
    let facts = [
        ("Testbed", e.testbed_name()),
        ("Machine", e.machine.clone()),
        ("Chip", e.chip.clone()),
        ("NIC", e.nic.clone()),
        ("Bus", e.bus.clone()),
        ("Host", e.host.clone()),
        ("Stack", e.stack.clone()),
        ("Driver", e.driver.clone()),
        ("Program", e.program.clone().unwrap_or_default()),
        ("App", e.app.as_ref().map(app).unwrap_or_default()),
        ("Frame", e.frame_bytes_with_fcs.map(|_| in_full(e)).unwrap_or_default()),
        ("Shape", e.shape.clone().unwrap_or_default()),
        ("Flows", e.flows.map(|flows| flows.to_string()).unwrap_or_default()),
        ("Shared lines", e.shared_lines.map(|lines| lines.to_string()).unwrap_or_default()),
        ("Line rate", e.line_rate_pps.map(|pps| line_rate(e, pps)).unwrap_or_default()),
        ("Loads in bits", e.load_layer.map(|layer| format!("of layer {layer}")).unwrap_or_default()),
        ("Each trial", e.duration_s.map(|_| format!("{} ms{warmup}", e.duration_ms())).unwrap_or_default()),
        ("Seed", e.seed.map(|seed| seed.to_string()).unwrap_or_default()),
        ("Profiles", e.profiles_hash.clone()),
        ("kpps", e.kpps_version.clone()),
    ];
    let known = facts.into_iter().filter(|(_, value)| !value.is_empty());
    let known = known.map(|(name, value)| (name.to_owned(), value));
    let presets = e.presets.iter().map(|(name, stands_for)| (format!("Preset {name}"), stands_for.clone()));
    known.chain(e.system.clone()).chain(presets).collect()
}

/// The line rate of all directions.
fn line_rate(e: &Environment, pps: f64) -> String {
    let together = match e.testbed.len() {
        0..=2 if e.bidirectional => ", of both directions together",
        0..=2 => "",
        _ => ", of all sending ports together",
    };
    format!("{pps:.1} frames per second{together}")
}

/// The frames, and their size without FCS in words.
fn in_full(e: &Environment) -> String {
    let bytes = e.bytes_with_fcs();
    match is_usual(e) {
        true => format!("{bytes} bytes with FCS, {} without", bytes.saturating_sub(FCS_BYTES)),
        false => frames(e),
    }
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
        let usual = Environment { frame_bytes_with_fcs: Some(64), ..Environment::default() };
        assert_eq!(frames(&usual), "64 B (60 B without FCS)");
        let mix = Some(Mix { name: "64:1,128:1".into(), mean_bytes_with_fcs: 96.0 });
        let mixed = Environment { mix, traffic: Some("5 flows".into()), bidirectional: true, ..usual };
        assert_eq!(frames(&mixed), "64:1,128:1 B with FCS (96.0 B in the mean), 5 flows, bidirectional");
        let loaded = Environment { line_rate_pps: Some(2e6), load_layer: Some(2), ..mixed };
        let facts = facts(&Environment { shape: Some("poisson".into()), ..loaded });
        let fact = |name: &str| facts.iter().find(|(it, _)| it == name).map(|(_, value)| value.as_str());
        assert_eq!(fact("Line rate"), Some("2000000.0 frames per second, of both directions together"));
        assert_eq!((fact("Shape"), fact("Loads in bits")), (Some("poisson"), Some("of layer 2")));
        assert_eq!(fact("Flows"), None);
    }
}
