//! Values of command lines, and expressions of studies, from arbitrary text.

use kpps_frames::Tag;
use kpps_frames::stack::Between;
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
    for stream in kpps_tester::parse_streams(text, 2).into_iter().flatten() {
        build(&stream);
    }
    let _ = (kpps_tester::shape(text), text.parse::<kpps_tester::observe::Scope>());
    if let Ok(spec) = text.parse::<Spec>() {
        let again = spec.to_string().parse::<Spec>().map(|again| again.to_string());
        assert_eq!(again.ok(), Some(spec.to_string()));
    }
    let _ = (text.parse::<RoutedSpec>(), text.parse::<kpps_apps::Route>());
    let _ = (text.parse::<kpps_agent::Host>(), text.parse::<kpps_agent::Network>());
    let _ = kpps_study::judge(&[text.to_owned()], &BTreeMap::new());
}

/// Builds some frames of a stream: each has its size, and a tag that is found again.
fn build(stream: &kpps_tester::Stream) {
    let between = Between { macs: Default::default(), ips: [[198, 18, 0, 1].into(), [198, 19, 0, 2].into()] };
    let Ok(templates) = stream.stack.templates(&between, &stream.sizes) else { return };
    for n in [0, 1, 1000, u64::MAX] {
        let mut frame = vec![0; 9018];
        let bytes = templates.write(n, &mut frame).expect("there is room for every frame");
        frame.truncate(bytes.into());
        let tag = Tag { stream: 3, sequence: n, sent_ps: 5 };
        templates.tag().write(&mut frame, tag).expect("room for a tag");
        // An Ethernet type of its own hides the headers behind it.
        if templates.tag().balanced_at().is_some() {
            assert!(templates.tag().read(&frame).is_some_and(|(read, _)| read.can_be(n)), "{stream:?}");
        }
    }
}
