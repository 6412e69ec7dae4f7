//! Ports of DPDK: without its packages, on its software devices, and on interfaces of the kernel.

use crate::net::{Net, document, is_short_of_cpu};
use kpps_namespaces::{skip, until_undisturbed};
use serde_json::Value;
use std::process::{Command, Output};

fn command() -> Command {
    Command::new(assert_cmd::cargo::cargo_bin("kpps"))
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// Compiles the adapter; skipped without DPDK.
fn has_dpdk() -> bool {
    let output = command().args(["dpdk", "build"]).output().unwrap();
    if said(&output).contains("apt-get install libdpdk-dev") {
        skip::needs("DPDK (libdpdk-dev, pkg-config)");
        return false;
    }
    assert!(output.status.success(), "{}", said(&output));
    true
}

/// Each thing that is missing is named in one line, with the command that helps.
#[test]
fn what_is_missing_is_named() {
    let empty = tempfile::tempdir().unwrap();
    let folder = empty.path().to_str().unwrap();
    let run = |variables: &[(&str, &str)], words: &[&str]| {
        let variables = variables.iter().copied().chain([("XDG_CACHE_HOME", folder)]);
        let output = command().args(words).envs(variables).output().unwrap();
        (output.status.code(), said(&output))
    };
    let install = "`apt-get install libdpdk-dev pkg-config gcc`";
    for (variables, words, line) in [
        (&[("PATH", folder)][..], &["dpdk", "build"][..], install),
        (&[("PKG_CONFIG_LIBDIR", folder)], &["dpdk", "build"], install),
        (&[], &["send", "dpdk:net_null0", "--count", "1"], "`kpps dpdk build`"),
        (&[], &["send", "dpdk:", "--count", "1"], "`dpdk:` is not a port"),
        (&[], &["send", "packet:lo", "--eal", "-m 64"], "--eal is for devices that DPDK drives"),
    ] {
        let (code, said) = run(variables, words);
        assert_eq!(code, Some(2), "{words:?}: {said}");
        assert!(said.contains(line) && said.lines().count() == 1, "{words:?}: {said}");
    }
    // Without anything `kpps dpdk` still says so.
    let output = command().arg("dpdk").envs([("XDG_CACHE_HOME", folder), ("PATH", folder)]).output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(
        output.status.success() && text.contains(install) && text.contains("`kpps dpdk build`"),
        "{text}"
    );
    let variables = [("XDG_CACHE_HOME", folder), ("PATH", folder)];
    let said = document(&command().args(["dpdk", "--json"]).envs(variables).output().unwrap());
    assert_eq!(
        (&said["kind"], &said["headers"], &said["adapter"]),
        (&"dpdk".into(), &Value::Null, &Value::Null),
        "{said}"
    );
    for (why, line) in [("headers_missing", install), ("adapter_missing", "`kpps dpdk build`")] {
        assert!(said[why].as_str().unwrap().contains(line), "{said}");
    }
    // A file that is no adapter.
    let place = empty.path().join("kpps/dpdk");
    std::fs::create_dir_all(&place).unwrap();
    std::fs::write(place.join("kpps-dpdk-2.so"), "nothing").unwrap();
    let (code, said) = run(&[], &["send", "dpdk:net_null0", "--count", "1"]);
    assert_eq!(code, Some(2));
    assert!(said.contains("`kpps dpdk build` compiles it again") && said.lines().count() == 1, "{said}");
}

#[test]
fn a_software_device_takes_all_frames() {
    if !has_dpdk() {
        return;
    }
    let send = |more: &[&str]| {
        let words = ["send", "dpdk:net_null0", "--count", "5000", "--load", "100kpps", "--json"];
        command().args(words).args(more).output().unwrap()
    };
    let output = send(&[]);
    assert!(output.status.success() && said(&output).is_empty(), "{}", said(&output));
    let run = document(&output);
    assert_eq!(
        (&run["ports"][0]["port"], &run["ports"][0]["sent"]),
        (&"dpdk:net_null0".into(), &5000.into())
    );
    // DPDK's messages, and nothing of its two pages of help.
    let output = send(&["--eal", "--no-such-argument"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(output.stdout.is_empty() && said(&output).lines().count() == 1, "{}", said(&output));
    assert!(said(&output).contains("DPDK does not start"), "{}", said(&output));
}

/// A bridge between two interfaces that DPDK has: every frame arrives, or is attributed to a place.
#[test]
fn a_trial_through_a_bridge_has_nothing_unexplained() {
    let Some(net) = Net::bridge() else { return };
    if !has_dpdk() {
        return;
    }
    let schema: Value = serde_json::from_slice(&net.kpps(&["schema"]).stdout).unwrap();
    // The devices do not count frames that find their rings full: here all frames of a trial have space.
    let ports = "dpdk:net_af_packet0,iface=a,framecnt=4096,dpdk:net_af_packet1,iface=b,framecnt=4096";
    let words = ["trial", "--ports", ports, "--load", "5kpps", "--duration", "500ms", "--json"];
    let trial = |more: &[&str]| {
        let output = net.kpps(&[&words[..], more].concat());
        let trial = document(&output);
        jsonschema::validate(&schema, &trial).unwrap();
        assert!(output.status.success() || is_short_of_cpu(&output), "{trial}{}", said(&output));
        trial
    };
    let count = |trial: &Value, name: &str| trial[name].as_u64().unwrap();
    for more in [&[][..], &["--size", "1518", "--bidirectional"]] {
        until_undisturbed("both ports have a CPU", || {
            let trial = trial(more);
            assert_eq!(trial["ledger"]["unexplained"], 0, "{trial}");
            assert_eq!(count(&trial, "sent"), count(&trial, "received") + count(&trial, "lost"), "{trial}");
            for name in ["duplicated", "reordered", "corrupted"] {
                assert_eq!(trial[name], 0, "{name}: {trial}");
            }
            count(&trial, "lost") == 0 && count(&trial, "sent") > 2000
        });
    }
    // Each core has a queue of its own. A device with fewer is refused.
    let queues = "dpdk:net_af_packet0,iface=a,framecnt=4096,qpairs=2,dpdk:net_af_packet1,iface=b,framecnt=4096,qpairs=2";
    let cores = |ports| {
        let words = ["trial", "--ports", ports, "--load", "5kpps", "--duration", "500ms", "--cores", "2"];
        net.kpps(&[&words[..], &["--flows", "8", "--bidirectional", "--json"]].concat())
    };
    let output = cores(ports);
    assert!(
        output.status.code() == Some(2) && said(&output).contains("it has 1 queue at most"),
        "{}",
        said(&output)
    );
    until_undisturbed("both cores of both ports have a CPU", || {
        let output = cores(queues);
        let trial = document(&output);
        jsonschema::validate(&schema, &trial).unwrap();
        assert!(output.status.success() || is_short_of_cpu(&output), "{trial}{}", said(&output));
        assert_eq!(trial["ledger"]["unexplained"], 0, "{trial}");
        assert_eq!(count(&trial, "sent"), count(&trial, "received") + count(&trial, "lost"), "{trial}");
        for way in trial["directions"].as_array().unwrap() {
            let of_cores = |name: &str| {
                way["cores"].as_array().unwrap().iter().map(|core| count(core, name)).collect::<Vec<_>>()
            };
            assert_eq!(of_cores("sent").iter().sum::<u64>(), count(way, "sent"), "{way}");
            assert!(of_cores("sent").iter().all(|&sent| sent > 0), "{way}");
        }
        count(&trial, "lost") == 0 && count(&trial, "sent") > 2000
    });
    // Frames that the device under test drops are found there.
    if net
        .command(&[
            "tc", "qdisc", "add", "dev", "pb", "root", "tbf", "rate", "1mbit", "burst", "1600", "limit",
            "9000",
        ])
        .status()
        .is_ok_and(|status| status.success())
    {
        let trial = trial(&[]);
        assert!(count(&trial, "lost") > 1000, "{trial}");
        assert_eq!(trial["ledger"]["unexplained"], 0, "{trial}");
        assert!(trial["ledger"]["dropped"]["pb tbf"].as_u64().unwrap() > 1000, "{trial}");
    }
}
