//! Configurations and requests of the Open Traffic Generator interface, from arbitrary bytes.

use kpps_otg::problems::Problems;
use kpps_otg::translation::Configuration;
use kpps_otg::{json, protobuf};

/// The messages that clients send.
const MESSAGES: [&str; 4] = ["Config", "ControlState", "MetricsRequest", "StatesRequest"];

/// Reads bytes as each message, in JSON and in protobuf. A message that was read is written and read again,
/// and a configuration without mistakes has streams that can be sent.
pub fn run(bytes: &[u8]) {
    for name in MESSAGES {
        for is_lenient in [false, true] {
            let mut problems = Problems::new(is_lenient);
            let read = [json::read(name, bytes, &mut problems), protobuf::read(name, bytes, &mut problems)];
            for object in read.into_iter().flatten() {
                let mut again = Problems::new(is_lenient);
                let other = protobuf::read(name, &protobuf::write(&object), &mut again);
                assert!(other.is_some(), "it can be read again: {again:?}");
                let text = serde_json::to_vec(&object).expect("an object is JSON");
                assert!(json::read(name, &text, &mut again).is_some(), "it can be read again: {again:?}");
                if name == "Config" {
                    configured(&object, is_lenient);
                }
            }
        }
    }
}

fn configured(object: &kpps_otg::value::Object, is_lenient: bool) {
    let mut problems = Problems::new(is_lenient);
    let all = Configuration::read(object, &mut problems);
    for placed in &all.flows {
        for (leg, part) in placed.legs.iter().zip(&placed.parts) {
            let Some(stream) = placed.flow.stream(String::new(), leg, part, 1_000_000_000) else { continue };
            assert!(stream.pps() > 0.0 && stream.pps().is_finite());
            assert!(placed.flow.sizes().parts().iter().all(|(size, _)| *size >= stream.stack.least()));
        }
        assert!(placed.legs.iter().flat_map(|leg| leg.ports).all(|port| port < all.ports.len()));
    }
}
