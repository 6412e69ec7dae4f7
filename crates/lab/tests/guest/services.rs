//! Service policies with real interrupts.

use crate::ours::Ours;
use crate::{Shared, bind, boot, is_wanted};
use kpps_frames::Size;
use kpps_frames::build::{Flow, udp_test};
use kpps_lab::load::{Load, Rate};
use kpps_lab::workload::Backend;
use kpps_lab::{Cable, Guest, Model};
use std::time::Duration;

/// Interrupts for each frame, and the share of time in which the processor worked for kpps, at a load.
fn serve(guest: &mut Guest, port: &str, service: &str, pps: Option<f64>) -> (f64, f64) {
    let ours = Ours::start(guest, &format!("count {port} --service {service} --duration 1h"));
    let load = pps.map(|pps| {
        let frame = udp_test(&Flow::default(), Size::MIN).unwrap();
        let load = Load::start(guest.take_wire(0).unwrap(), Rate::Pps(pps), frame).unwrap();
        ours.moves(guest);
        load
    });
    std::thread::sleep(Duration::from_secs(2));
    if let Some(load) = load {
        let (wire, _) = load.stop().unwrap();
        guest.give_wire(0, wire);
    }
    let results = ours.end(guest);
    let port = &results["ports"][0];
    let cpu = results["cpu"]["user_s"].as_f64().unwrap() + results["cpu"]["system_s"].as_f64().unwrap();
    let interrupts = port["interrupts"].as_f64().unwrap();
    let frames = port["received"].as_f64().unwrap();
    println!("{service} {pps:?}: {interrupts} interrupts, {frames} frames, {cpu:.3} s");
    (interrupts / frames.max(1.0), cpu / results["seconds"].as_f64().unwrap())
}

#[test]
#[ignore = "`make lab` runs it"]
fn interrupts_wake_and_get_rarer_under_load_and_idling_costs_nothing() {
    if !is_wanted() {
        return;
    }
    for (model, backend) in [(Model::E1000, Backend::Uio), (Model::E1000e, Backend::Vfio)] {
        let Shared { mut guest, _turn } = boot(model, backend.machine(), &[Cable::Host]);
        let port = bind(&mut guest, backend, 0);
        for service in ["napi", "kpps"] {
            let (_, idle) = serve(&mut guest, &port, service, None);
            assert!(idle < 0.15, "{service}: {idle:.2} of the processor without traffic");
            let (light, _) = serve(&mut guest, &port, service, Some(500.0));
            let (heavy, _) = serve(&mut guest, &port, service, Some(40_000.0));
            assert!(light > 0.0, "{service}: no interrupts at all");
            assert!(heavy < light, "{service}: {heavy} interrupts per frame under load, {light} without");
        }
    }
}
