//! Values of command lines, and expressions of studies, from arbitrary text.

use kpps_methods::units::{self, Loads, RateSpec};
use kpps_ports::{RoutedSpec, Spec};
use std::collections::BTreeMap;

/// Reads a text as each kind of argument.
pub fn run(text: &str) {
    if let Ok(loads) = text.parse::<Loads>() {
        let _ = loads.pps(1_488_095.2, 64.0);
    }
    if let Ok(rate) = text.parse::<RateSpec>() {
        assert!(rate.pps(1_488_095.2, 64.0) > 0.0, "{text}");
    }
    let _ =
        (units::size(text), units::sizes(text), units::range(text), units::factor(text), units::share(text));
    let _ = (units::duration(text), units::short_time_ps(text), kpps_methods::bounds::loss(text));
    let _ = (kpps_tester::shape(text), text.parse::<kpps_tester::observe::Scope>());
    if let Ok(spec) = text.parse::<Spec>() {
        let again = spec.to_string().parse::<Spec>().map(|again| again.to_string());
        assert_eq!(again.ok(), Some(spec.to_string()));
    }
    let _ = (text.parse::<RoutedSpec>(), text.parse::<kpps_apps::Route>());
    let _ = (text.parse::<kpps_agent::Host>(), text.parse::<kpps_agent::Network>());
    let _ = kpps_study::judge(&[text.to_owned()], &BTreeMap::new());
}
