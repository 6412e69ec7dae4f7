//! Service policies with real interrupts.

use super::ours::Ours;
use super::{Shared, bind, boot, is_wanted};
use kpps_frames::Size;
use kpps_frames::build::{Flow, udp_test};
use kpps_frames::rate::Rate;
use kpps_qemu::lab::load::Load;
use kpps_qemu::lab::workload::Backend;
use kpps_qemu::lab::{Cable, Guest, Model, Wire};
use std::time::{Duration, Instant};

/// Interrupts for each frame at a load.
fn serve(guest: &mut Guest, port: &str, service: &str, pps: f64) -> f64 {
    let ours = Ours::start(guest, &format!("count {port} --service {service} --duration 1h"));
    let frame = udp_test(&Flow::default(), Size::MIN).unwrap();
    let load = Load::start(guest.take_wire(0).unwrap(), Rate::Pps(pps), frame).unwrap();
    ours.moves(guest);
    std::thread::sleep(Duration::from_secs(2));
    let (wire, _) = load.stop().unwrap();
    guest.give_wire(0, wire);
    let results = ours.end(guest);
    let port = &results["ports"][0];
    let (interrupts, frames) = (port["interrupts"].as_f64().unwrap(), port["received"].as_f64().unwrap());
    println!("{service} {pps}: {interrupts} interrupts, {frames} frames");
    interrupts / frames.max(1.0)
}

/// The share of time in which the processor works for kpps when nothing comes.
fn idle(guest: &mut Guest, port: &str, service: &str) -> f64 {
    let ours = Ours::start(guest, &format!("count {port} --service {service} --duration 1h"));
    let ticks = |guest: &mut Guest| -> u64 {
        let stat = guest.run("cut -d' ' -f14,15 /proc/$(pidof kpps)/stat").unwrap();
        stat.split_whitespace().map(|part| part.parse::<u64>().unwrap()).sum()
    };
    std::thread::sleep(Duration::from_millis(500));
    let before = ticks(guest);
    std::thread::sleep(Duration::from_secs(2));
    let idle = (ticks(guest) - before) as f64 / 200.0;
    ours.end(guest);
    idle
}

/// How long frames take through two of our cards, from the host to the host, at a thousand a second: all of
/// them, in order.
fn latencies(guest: &mut Guest, ports: &[String; 2], service: &str) -> Vec<Duration> {
    let ours =
        Ours::start(guest, &format!("forward {} {} --service {service} --duration 1h", ports[0], ports[1]));
    let (mut there, mut back) = (guest.take_wire(0).unwrap(), guest.take_wire(1).unwrap());
    let frame = udp_test(&Flow::default(), Size::MIN).unwrap();
    let comes_within = |back: &mut Wire, patience: Duration| {
        let begin = Instant::now();
        while begin.elapsed() < patience {
            if back.receive(|_| {}).unwrap() > 0 {
                return true;
            }
            std::thread::sleep(Duration::from_micros(20));
        }
        false
    };
    // QEMU's e1000 receives nothing for a second after its setup; frames sent meanwhile may come late.
    let begin = Instant::now();
    loop {
        there.send_one(&frame).unwrap();
        if comes_within(&mut back, Duration::from_millis(100)) {
            break;
        }
        assert!(begin.elapsed() < Duration::from_secs(30), "{service}: nothing comes through");
    }
    while comes_within(&mut back, Duration::from_millis(500)) {}
    let mut took = Vec::new();
    for number in 0..1000 {
        let sent = Instant::now();
        assert!(there.send_one(&frame).unwrap());
        assert!(comes_within(&mut back, Duration::from_secs(1)), "{service}: frame {number} is lost");
        took.push(sent.elapsed());
        std::thread::sleep(Duration::from_millis(1).saturating_sub(sent.elapsed()));
    }
    guest.give_wire(0, there);
    guest.give_wire(1, back);
    ours.end(guest);
    took.sort_unstable();
    took
}

#[test]
#[ignore = "`make lab` runs it"]
fn at_a_thousand_frames_a_second_none_waits_long() {
    if !is_wanted() {
        return;
    }
    for (model, backend) in [(Model::E1000, Backend::Uio), (Model::E1000e, Backend::Vfio)] {
        let Shared { mut guest, _turn } = boot(model, backend.machine(), &[Cable::Host, Cable::Host]);
        let ports = [0, 1].map(|index| bind(&mut guest, backend, index));
        for service in ["napi", "kpps"] {
            let took = latencies(&mut guest, &ports, service);
            let (half, most) = (took[500], took[990]);
            println!("{model:?} {service}: 50 % within {half:.1?}, 99 % within {most:.1?}");
            assert!(half < Duration::from_millis(2), "{service}: {half:?}");
            assert!(most < Duration::from_millis(20), "{service}: {most:?}");
        }
    }
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
            let idle = idle(&mut guest, &port, service);
            assert!(idle < 0.03, "{service}: {idle:.3} of the processor without traffic");
            let light = serve(&mut guest, &port, service, 500.0);
            let heavy = serve(&mut guest, &port, service, 40_000.0);
            assert!(light > 0.0, "{service}: no interrupts at all");
            assert!(heavy < light, "{service}: {heavy} interrupts per frame under load, {light} without");
        }
    }
}
