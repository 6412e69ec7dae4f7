//! `kpps grid`: the same document from a whole run, a continued one and a longer one.

use assert_cmd::Command;
use serde_json::Value;
use std::path::Path;

fn kpps(folder: &Path, words: &[&str]) -> (i32, String, String) {
    let mut command = Command::cargo_bin("kpps").unwrap();
    let output = command.current_dir(folder).arg("grid").args(words).output().unwrap();
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
    (output.status.code().unwrap(), text(&output.stdout), text(&output.stderr))
}

const SHORT: [&str; 2] = ["--duration", "2ms"];

#[test]
fn a_grid_goes_on_where_it_was_left() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let lines = || crate::kept(&folder.join("grid.jsonl")).len();
    let run = |rings: &str| {
        let rings = format!("driver.rx_ring={rings}");
        let words = ["--vary", &rings, "--vary", "load=200kpps,100%", "--json", "--resume", "grid.jsonl"];
        let words = [&words[..], &SHORT].concat();
        let (code, text, error) = kpps(folder, &words);
        assert_eq!(code, 0, "{error}");
        serde_json::from_str::<Value>(&text).unwrap()
    };
    let few = run("64,256");
    assert_eq!((lines(), few["cells"].as_array().unwrap().len()), (4, 4));
    assert_eq!(few["cells"][1]["at"], serde_json::json!([0, 1]));
    assert_eq!(few["axes"][0]["values"], serde_json::json!([64, 256]));
    // The file of a process that was killed in the middle of its third cell.
    let text = std::fs::read_to_string(folder.join("grid.jsonl")).unwrap();
    let ends: Vec<usize> = text.match_indices('\n').map(|(at, _)| at).collect();
    std::fs::write(folder.join("grid.jsonl"), &text[..ends[1] + 100]).unwrap();
    assert_eq!(run("64,256"), few);
    assert_eq!(lines(), 4, "the incomplete line is dropped, and two cells are measured again");
    let more = run("64,128,256");
    assert_eq!(lines(), 6, "two more");
    assert_eq!(more["cells"][0], few["cells"][0]);
    assert_eq!(more["cells"][5]["point"], few["cells"][3]["point"]);
    // The order of the axes makes no difference for what is kept.
    let (ring, cost) = ("driver.rx_ring=64", "host.interrupt_cycles=*2");
    for [first, second] in [[ring, cost], [cost, ring]] {
        let words = ["--vary", first, "--vary", second, "--json", "--resume", "turned.jsonl"];
        let (code, _, error) = kpps(folder, &[&words[..], &SHORT].concat());
        assert_eq!((code, crate::kept(&folder.join("turned.jsonl")).len()), (0, 1), "{error}");
    }
    let schema = Command::cargo_bin("kpps").unwrap().arg("schema").output().unwrap().stdout;
    jsonschema::validate(&serde_json::from_slice(&schema).unwrap(), &more).unwrap();
}

/// This test kills a real process in the middle of its work.
#[test]
#[cfg(unix)]
fn a_grid_that_was_killed_goes_on() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let words =
        ["--driver", "intel-5.7.6", "--vary", "driver.weight=1..64*2", "--vary", "load=10%..100%/10%"];
    let words = [&words[..], &["--json", "--duration", "5ms", "--resume", "grid.jsonl"]].concat();
    let kept = || crate::kept(&folder.join("grid.jsonl")).len();
    let killed_in_the_middle = || {
        let _ = std::fs::remove_file(folder.join("grid.jsonl"));
        let mut child = std::process::Command::new(assert_cmd::cargo::cargo_bin("kpps"))
            .current_dir(folder)
            .arg("grid")
            .args(&words)
            .stdout(std::process::Stdio::null())
            .spawn()
            .unwrap();
        while kept() < 5 && child.try_wait().unwrap().is_none() {
            std::thread::sleep(std::time::Duration::from_millis(5));
        }
        child.kill().unwrap();
        child.wait().unwrap();
        (5..70).contains(&kept())
    };
    // On a busy machine, the process may end before it is killed.
    assert!((0..6).any(|_| killed_in_the_middle()), "it always ended before it was killed: {}", kept());
    let (code, resumed, said) = kpps(folder, &words);
    assert_eq!((code, kept()), (0, 70), "the missing cells are measured: {said}");
    assert!(said.is_empty() || said.contains("in the middle of a line"), "{said}");
    let whole = tempfile::tempdir().unwrap();
    let never_killed = kpps(whole.path(), &words);
    assert_eq!((code, resumed, ""), (never_killed.0, never_killed.1, &never_killed.2[..]));
}

#[test]
fn a_grid_is_shown_and_what_cannot_be_is_said() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    // A ring of 12 is no multiple of 8.
    let words =
        [&["--vary", "driver=kpps,intel-2.5.11", "--vary", "driver.rx_ring=12,80"][..], &SHORT].concat();
    let (code, text, error) = kpps(folder, &[&words[..], &["--report", "grid.html"]].concat());
    assert_eq!((code, &error[..]), (0, ""));
    assert!(text.contains("most:") && text.contains("2 cells (×) could not be measured"), "{text}");
    let page = std::fs::read_to_string(folder.join("grid.html")).unwrap();
    // Four cells in maps of delivered, loss, latency, CPU and interrupts.
    assert_eq!(page.matches("<rect").count(), 20);
    let (_, table, _) = kpps(folder, &[&words[..], &["--csv", "-"]].concat());
    assert_eq!(table.lines().count(), 5);
    assert!(table.starts_with("driver,driver.rx_ring,offered_pps,"), "{table}");
    let files = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name());
    assert_eq!(files.collect::<Vec<_>>(), ["grid.html"], "without --resume, no journal is written");
    for (words, says) in [
        (&["--vary", "driver.rx_ring=12"][..], "rx_ring"),
        (&["--vary", "weight=1..4"], "KIND.CONSTANT"),
        (&["--vary", "size=10"], "bytes"),
        (&["--vary", "load=200%"], "line rate"),
        (&["--vary", "load=1..4..5"], "load"),
        // A valid value does not excuse an invalid one.
        (&["--vary", "driver=kpps,ne2000"], "driver=ne2000: there is no driver preset called 'ne2000'"),
        (&["--vary", "driver=kpps,own.toml"], "own.toml"),
        (&["--vary", "machine.chip=82544,8139"], "no chip called '8139'"),
        (&["--vary", "app=nat,fly"], "fly"),
        (&["--vary", "size=64,10"], "size=10: there are no frames"),
    ] {
        let (code, _, error) = kpps(folder, words);
        assert_eq!((code, error.lines().count()), (2, 1), "{words:?}: {error}");
        assert!(error.contains(says), "{words:?}: {error}");
    }
}

/// The environment in the document of this command.
fn environment(command: &str) -> Value {
    let mut words = command.split(' ').collect::<Vec<_>>();
    words.push("--json");
    let output = Command::cargo_bin("kpps").unwrap().args(&words).output().unwrap();
    let document: Value = serde_json::from_slice(&output.stdout)
        .unwrap_or_else(|_| panic!("{command}: {}", String::from_utf8_lossy(&output.stderr)));
    document["environment"].clone()
}

#[test]
fn the_environment_of_a_grid_is_what_its_cells_share() {
    let on = environment("grid --vary size=64,128 --set driver.rx_ring=80 --load 50% --duration 1ms");
    for varied in ["frame_bytes_with_fcs", "line_rate_pps"] {
        assert_eq!(on[varied], Value::Null, "{on}");
    }
    assert_eq!((&on["machine"], &on["driver"]), (&"morris2000".into(), &"kpps".into()), "{on}");
    assert_eq!(on["system"], serde_json::json!({ "set": "driver.rx_ring=80" }), "{on}");
    // The first driver does not fit the second machine.
    let on = environment(
        "grid --vary machine=morris2000,evans2005-em --vary driver=click-polling,em-1.7.35 --duration 1ms",
    );
    for varied in ["machine", "chip", "host", "stack", "driver"] {
        assert_eq!(on[varied], Value::Null, "{on}");
    }
    assert_eq!((&on["frame_bytes_with_fcs"], &on["presets"].as_object().unwrap().len()), (&64.into(), &2));
    let on = environment("grid --testbed known:1Mpps --vary load=100kpps,200kpps");
    assert_eq!((&on["seed"], &on["testbed"]), (&Value::Null, &serde_json::json!(["known:1Mpps"])), "{on}");
}

#[test]
fn a_simulation_names_its_only_driver_and_the_constants_that_were_set() {
    let set = "--set host.interrupt_cycles=*2";
    for (command, driver) in [
        ("curve --driver kpps --load 50% --duration 1ms", "kpps".into()),
        ("curve --driver kpps,rdr --load 50% --duration 1ms", Value::Null),
        ("transmit --driver kpps --duration 1ms", "kpps".into()),
        ("profile --duration 1ms", "linux-2.6.12-e1000".into()),
        ("trace --duration 1ms", "linux-2.6.12-e1000".into()),
        ("scale --cpu-counts 1 --duration 1ms", Value::Null),
    ] {
        let on = environment(&format!("{command} {set}"));
        assert_eq!(on["driver"], driver, "{command}: {on}");
        assert_eq!(on["system"]["set"], "host.interrupt_cycles=*2", "{command}: {on}");
    }
    assert_eq!(
        environment("profile --app nat --machine lunz2003 --one-way --duration 1ms")["app"],
        "nat one way"
    );
}

#[test]
fn the_simulated_examples_of_its_help_work() {
    let folder = tempfile::tempdir().unwrap();
    let (_, help, _) = kpps(folder.path(), &["--help"]);
    let examples = help.lines().filter_map(|line| line.trim().strip_prefix("kpps grid "));
    let examples: Vec<_> = examples.filter(|words| !words.contains("--ports")).collect();
    assert!(examples.len() >= 3, "{help}");
    for example in examples {
        let words: Vec<_> = example.split(' ').chain(SHORT).collect();
        let (code, _, error) = kpps(folder.path(), &words);
        assert_eq!(code, 0, "{example}: {error}");
    }
}
