//! Searches that end before their time: their measurements are on disk, and the next run goes on from there.

use crate::net::{Net, document, stop};
use kpps_namespaces::until_undisturbed;
use serde_json::Value;
use std::fs;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Output, Stdio};
use std::time::{Duration, Instant};

/// Two ports with a bridge between them that carries 20.8 kpps, so that a search takes tens of trials.
fn bridge() -> Option<Net> {
    let net = Net::bridge()?;
    if !net.can("tc qdisc add dev pb root tbf rate 10mbit burst 1600 limit 3000") {
        kpps_namespaces::skip::lacks("the queueing discipline tbf");
        return None;
    }
    Some(net)
}

fn search(net: &Net, trials: &Path) -> Child {
    let kpps = assert_cmd::cargo::cargo_bin("kpps");
    let words =
        "ndr --ports packet:a,packet:b --min 1kpps --max 30kpps --duration 50ms --drain 1s --json --resume";
    // No shell and no `ip` between: whoever is killed is the search.
    let words: Vec<_> = words.split(' ').chain([trials.to_str().unwrap()]).collect();
    let mut command = net.command(&[kpps.to_str().unwrap()]);
    command.args(words).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
}

/// Whole lines of the file: the trials in it.
pub fn lines(trials: &Path) -> Vec<Value> {
    let text = fs::read_to_string(trials).unwrap_or_default();
    let whole = text.rsplit_once('\n').map_or("", |(whole, _)| whole);
    whole
        .lines()
        .filter_map(|line| serde_json::from_str::<(String, String, Value, u64)>(line).ok())
        .map(|(_, _, trial, _)| trial)
        .collect()
}

/// These results without their ages: resumed results have one.
pub fn without_age(results: &[Value]) -> Vec<Value> {
    let mut results = results.to_vec();
    for result in &mut results {
        assert!(result.as_object_mut().unwrap().remove("age_s").is_some(), "{result}");
    }
    results
}

/// Waits for `count` trials of a command. Returns false if it ended before.
pub fn measured(child: &mut Child, trials: &Path, count: usize) -> bool {
    let end = Instant::now() + Duration::from_secs(120);
    loop {
        let is_over = child.try_wait().unwrap().is_some();
        let found = lines(trials).len();
        if found >= count || is_over {
            return found >= count;
        }
        assert!(Instant::now() < end, "{found} of {count} trials");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Whether a command that was to go on from kept results has believed them. A generator that got no CPU can
/// confirm nothing, and a busy machine delays frames.
pub fn believed(output: &Output) -> bool {
    !String::from_utf8_lossy(&output.stderr).contains("is used, because")
}

/// All trials of the file are the first ones of a search that goes on from it; false if it did not believe
/// them.
fn goes_on(net: &Net, trials: &Path) -> bool {
    let before = lines(trials);
    let mut again = search(net, trials);
    measured(&mut again, trials, before.len() + 2);
    let output = stop(again);
    let found = document(&output)["trials"].as_array().unwrap().clone();
    if !believed(&output) || found.len() < before.len() + 2 {
        return false;
    }
    assert_eq!(without_age(&found[..before.len()]), before);
    true
}

/// A search gets a signal in its middle; false if it ended before.
fn is_killed(net: &Net, trials: &Path, signal: &str, code: Option<i32>) -> bool {
    let _ = fs::remove_file(trials);
    let mut child = search(net, trials);
    let is_searching = measured(&mut child, trials, 3);
    kpps_namespaces::signal(&child, signal);
    let output = child.wait_with_output().unwrap();
    // It found what it searched for before, or could not.
    if !is_searching || matches!(output.status.code(), Some(0 | 1)) {
        return false;
    }
    assert_eq!(output.status.code(), code, "{signal}: {output:?}");
    if code.is_some() {
        let found = document(&output);
        assert_eq!(found["complete"], false);
        assert_eq!(
            found["trials"].as_array().unwrap()[..],
            lines(trials)[..],
            "all that was measured is there"
        );
    }
    true
}

#[test]
fn a_search_that_is_killed_goes_on_where_it_was() {
    let Some(net) = bridge() else { return };
    let folder = tempfile::tempdir().unwrap();
    for (signal, code) in [("-INT", Some(130)), ("-TERM", Some(130)), ("-KILL", None)] {
        let trials = folder.path().join(signal);
        // Trials that were disturbed are not believed later, so both searches are made again.
        until_undisturbed("it ends in its middle, and the next search believes its trials", || {
            is_killed(&net, &trials, signal, code) && goes_on(&net, &trials)
        });
    }
}

/// Results of other settings are not reused: they stay in the file, and all is measured anew.
#[test]
fn other_settings_are_another_system() {
    let Some(net) = bridge() else { return };
    let folder = tempfile::tempdir().unwrap();
    let trials = folder.path().join("trials");
    let mut child = search(&net, &trials);
    measured(&mut child, &trials, 3);
    stop(child);
    let before = lines(&trials).len();
    net.run(&["ip", "link", "set", "dev", "a", "mtu", "1400"]);
    let mut child = search(&net, &trials);
    measured(&mut child, &trials, before + 2);
    let found = document(&stop(child))["trials"].as_array().unwrap().clone();
    assert!(before > 0 && !found.is_empty(), "{before} trials before");
    assert_eq!(found[..], lines(&trials)[before..]);
}

/// Something happens in the middle of a search between two ports: it gives up and reports the reason, and its
/// earlier measurements are in the file. `None` if it ended before.
fn gives_up(trials: &Path, happens: &[&str], why: &str) -> Option<Net> {
    let net = bridge()?;
    let _ = fs::remove_file(trials);
    let mut child = search(&net, trials);
    let is_searching = measured(&mut child, trials, 3);
    net.run(happens);
    let output = child.wait_with_output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    // It found what it searched for before, or could not.
    if !is_searching || output.status.success() || said.contains("begin at a lower load") {
        return None;
    }
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains(why), "{said}");
    assert!(document(&output)["trouble"].as_str().unwrap().contains(why));
    assert!(lines(trials).len() >= 3);
    Some(net)
}

#[test]
fn a_device_that_goes_away_leaves_what_was_counted() {
    let Some(net) = Net::new(&[("a", "b")]) else { return };
    let folder = tempfile::tempdir().unwrap();
    let results = folder.path().join("results.json");
    let words = ["count", "packet:a", "--duration", "60s", "--json", "--results", results.to_str().unwrap()];
    let count = net.start(&words, 1);
    let words = ["send", "packet:b", "--load", "1kpps", "--duration", "60s", "--json", "--every", "100ms"];
    let mut send = net.start(&words, 2);
    // A frame or more have come.
    let mut said = BufReader::new(send.stderr.take().unwrap()).lines();
    let sent = |line: &String| serde_json::from_str::<Value>(line).is_ok_and(|so_far| so_far["sent"] != 0);
    said.by_ref().map(Result::unwrap).find(sent).unwrap();
    std::thread::sleep(Duration::from_millis(100));
    // With it goes the other end of the cable.
    net.run(&["ip", "link", "del", "dev", "a"]);
    let said: Vec<_> = said.map(Result::unwrap).collect();
    for (output, said) in
        [(count.wait_with_output().unwrap(), None), (send.wait_with_output().unwrap(), said.last())]
    {
        let own = String::from_utf8_lossy(&output.stderr).into_owned();
        let said = said.unwrap_or(&own);
        assert_eq!(output.status.code(), Some(1), "{said}");
        assert!(said.contains("the device has gone"), "{said}");
        let run = document(&output);
        assert_eq!(
            (&run["complete"], said.contains(run["trouble"].as_str().unwrap())),
            (&false.into(), true)
        );
        let (port, streams) = (&run["ports"][0], &run["streams"]);
        let counted = if run["command"] == "count" { &streams[0]["received"] } else { &port["sent"] };
        assert!(counted.as_u64() > Some(0) && run["seconds"].as_f64() > Some(0.0), "{run}");
    }
    let kept: Value = serde_json::from_slice(&std::fs::read(&results).unwrap()).unwrap();
    assert!(kept["streams"][0]["received"].as_u64() > Some(0), "{kept}");
}

#[test]
fn a_device_that_goes_away_leaves_what_was_measured() {
    if bridge().is_none() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let trials = folder.path().join("trials");
    // The interface of a port goes.
    let gone = ["ip", "link", "del", "dev", "a"];
    until_undisturbed("it happens in the middle of the search", || {
        gives_up(&trials, &gone, "packet:a: the device has gone").is_some()
    });
    // The bridge is removed, so that no more frames come through, and comes back.
    until_undisturbed("it happens in the middle of the search, and the next one believes its trials", || {
        let gone = ["ip", "link", "del", "dev", "br"];
        let Some(net) = gives_up(&trials, &gone, "no frame comes through") else { return false };
        let good = lines(&trials);
        assert!(
            good.iter().all(|trial| trial["loss_ratio"].as_f64().unwrap() < 1.0),
            "no trial of nothing is kept"
        );
        net.run(&["ip", "link", "add", "name", "br", "type", "bridge", "mcast_snooping", "0"]);
        net.run(&["ip", "link", "set", "dev", "pa", "master", "br"]);
        net.run(&["ip", "link", "set", "dev", "pb", "master", "br"]);
        net.run(&["ip", "link", "set", "dev", "br", "up"]);
        goes_on(&net, &trials)
    });
}
