//! Losses with a known cause are reported in a sentence, on the screen and among the doubts of the document.
//! The counters of the kernel or of another program are the truth.

use crate::net::{End, Middle, document};
use kpps_namespaces::Net;
use serde_json::{Value, json};

/// The document of a trial, and its text for the screen: those of two trials.
fn trial(net: &Net, words: &str) -> (Value, String) {
    let run = |more: &str| {
        let kpps = assert_cmd::cargo::cargo_bin("kpps");
        let words = format!("trial --ports packet:a,packet:b --load 4kpps --duration 300ms {words} {more}");
        net.command(kpps).args(words.split_whitespace()).output().unwrap()
    };
    let screen = String::from_utf8_lossy(&run("").stdout).split_whitespace().collect::<Vec<_>>().join(" ");
    (document(&run("--json")), screen)
}

fn doubt<'d>(trial: &'d Value, what: &str) -> &'d Value {
    let doubts = trial["doubts"].as_array().unwrap_or_else(|| panic!("{trial:#}"));
    doubts.iter().find(|doubt| doubt["what"] == what).unwrap_or_else(|| panic!("{trial:#}"))
}

#[test]
fn a_router_that_is_not_the_gateway_is_named() {
    let Some((ends, router)) = Net::with_router() else { return };
    let dropped = || -> u64 {
        let said = router.output("ip -s -s -j link show dev ra");
        let links: Value = serde_json::from_str(&said).unwrap();
        links[0]["stats64"]["rx"]["otherhost_dropped"].as_u64().unwrap_or(0)
    };
    let before = dropped();
    let (trial, screen) = trial(&ends, &format!("--watch {}/", router.name()));
    let place = format!("{}/ra", router.name());
    let doubt = doubt(&trial, "other-station");
    assert_eq!((&doubt["place"], &doubt["frames"]), (&json!(place), &trial["lost"]), "{trial:#}");
    assert!(screen.contains("give its IP address as the gateway"), "{screen}");
    // Some kernels have no such counter.
    let counted = dropped() - before;
    assert!(counted == 0 || counted >= trial["lost"].as_u64().unwrap(), "{counted}: {trial:#}");
}

#[test]
fn a_vlan_tag_that_was_not_changed_is_named() {
    let Some(net) = Net::with_bridge() else { return };
    let (kept, screen) = trial(&net, "--vlan 10,20");
    let said = doubt(&kept, "retagged");
    assert_eq!((&said["came"], &said["expected"]), (&json!([10]), &json!([20])), "{kept:#}");
    assert_eq!((&said["frames"], &kept["corrupted"]), (&kept["received"], &json!(0)), "{kept:#}");
    assert!(
        screen.contains("arrived with the VLAN tag 10, but were expected with the VLAN tag 20"),
        "{screen}"
    );
}

/// A device that takes the tag away, as a switch does at an access port.
#[test]
fn vlan_tags_that_were_removed_are_named() {
    let Some(net) = crate::net::Net::new(&[("a", "pa"), ("b", "pb")]) else { return };
    let strip = |(): &mut (), frame: Option<Vec<u8>>, to: &mut End| {
        let Some(frame) = frame else { return };
        match frame.get(12..14) {
            Some([0x81, 0]) => to.send(&[&frame[..12], &frame[16..]].concat()),
            _ => to.send(&frame),
        }
    };
    let device = Middle::between(net.end("pa"), net.end("pb"), (), strip);
    let output = net.kpps(
        &"trial --ports packet:a,packet:b --load 4kpps --duration 300ms --drain 10s --vlan 10 --json"
            .split(' ')
            .collect::<Vec<_>>(),
    );
    device.stop();
    let removed = document(&output);
    let said = doubt(&removed, "retagged");
    assert_eq!((&said["came"], &said["expected"]), (&json!([]), &json!([10])), "{removed:#}");
    assert_eq!((&said["frames"], &removed["corrupted"]), (&removed["received"], &json!(0)), "{removed:#}");
}

#[test]
fn a_device_that_fragments_is_named() {
    let Some((ends, router)) = Net::with_router() else { return };
    router.run("ip link set dev rb mtu 600");
    let words = "--gateway 198.18.0.254,198.19.0.254 --size 1000";
    let (trial, screen) = trial(&ends, words);
    let made = router.output("nstat -az IpFragOKs | tail -n 1");
    let made: u64 = made.split_whitespace().nth(1).unwrap().parse().unwrap();
    let frames = doubt(&trial, "fragments")["frames"].as_u64().unwrap();
    assert!(frames > 0 && frames <= made, "{made}: {trial:#}");
    assert!(screen.contains("arrived in fragments"), "{screen}");
}
