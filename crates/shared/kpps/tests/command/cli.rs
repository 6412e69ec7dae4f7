//! The command as a user meets it.

use assert_cmd::Command;
use serde_json::Value;

fn kpps(directory: &tempfile::TempDir, arguments: &[&str]) -> std::process::Output {
    Command::cargo_bin("kpps").unwrap().current_dir(directory).args(arguments).output().unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

#[test]
fn bad_input_is_one_clear_line_and_exit_code_2() {
    let here = tempfile::tempdir().unwrap();
    for (arguments, says) in [
        (&["curve", "--machine", "cray"][..], "no machine called 'cray'"),
        (&["curve", "--chip", "8139"], "no chip called '8139'"),
        (&["curve", "--driver", "kpps,ne2000"], "no driver preset called 'ne2000'"),
        (&["curve", "--size", "10"], "no frames of 10 bytes"),
        (&["curve", "--load", "0"], "above 0"),
        (&["curve", "--load", "0.5"], "sends no frame in 50 ms"),
        (&["curve", "--load", "90%..10%"], "goes down"),
        (&["curve", "--driver", "kpps,kpps"], "given twice"),
        (&["list", "planes"], "machines, chips"),
        (&["foo"], "`kpps --help` lists the commands"),
        (&["curv"], "similar subcommand exists: 'curve'"),
        (&["curve", "--laod", "50%"], "similar argument exists: '--load'"),
        (&["curve", "--load", "2Mpps"], "above line rate"),
        (&["curve", "--load", "110%"], "above line rate"),
        (&["curve", "--report", "/no/where/report.html"], "/no/where/report.html"),
        (&["curve", "--results", "/no/where/results.json"], "/no/where/results.json"),
        (&["curve", "--csv", "/no/where/curve.csv"], "/no/where/curve.csv"),
        (&["curve", "--json", "--csv", "-"], "standard output"),
        (&["curve", "--set", "rx_ring=80"], "KIND.CONSTANT"),
        (&["ndr", "--driver", "kpps,rdr"], "one driver"),
        (&["ndr", "--testbed", "known:700kpps", "--set", "driver.rx_ring=80"], "--set is for the simulator"),
        (&["trial", "--ports", "sim:morris2000,packet:a", "--load", "1kpps"], "sim:morris2000"),
        // A list ends with its word: the next word is the port.
        (&["send", "--encap", "vlan:7", "eth0"], "`eth0` is not a port"),
        (&["send", "--encap", "vlan:7,vlan:8", "packet:a"], "is no encapsulation"),
        (
            &["trial", "--ports", "packet:a,packet:b", "--load", "1", "--vlan", "7,8,9"],
            "--vlan takes at most 2",
        ),
        (&["study", "morris2000", "rdr2007", "--report", "both.html"], "a folder"),
        (&["curve", "--duration", "soon"], "not a time"),
        (&["transmit", "--size", "10"], "no frames of 10 bytes"),
        (&["conformance", "--on", "model", "--chip", "8139"], "8139"),
        (&["list", "chips", "8139"], "no chip called '8139'"),
    ] {
        let output = kpps(&here, arguments);
        let message = text(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}: {message}");
        assert!(message.contains(says), "{arguments:?} says: {message}");
        assert_eq!(message.trim_end().lines().count(), 1, "{arguments:?} says more than a line: {message}");
        assert!(output.stdout.is_empty(), "{arguments:?}");
    }
    assert_eq!(std::fs::read_dir(&here).unwrap().count(), 0, "nothing is written on bad input");
}

/// Documents without plots have a page, too: their tables, and every value.
#[test]
fn every_document_has_a_page() {
    let here = tempfile::tempdir().unwrap();
    for (words, name, says) in [
        (&["transmit", "--driver", "kpps", "--duration", "1ms"][..], "transmit", "sent_pps"),
        (&["scale", "--cpu-counts", "1", "--duration", "1ms"], "scale", "delivered_pps"),
        (&["profile", "--duration", "1ms"], "profile", "ns_per_frame"),
        (&["trace", "--duration", "1ms"], "trace", "rx-data"),
        (&["list", "chips"], "list", "82542"),
        (&["conformance", "--on", "model", "--chip", "82542"], "conformance", "not-applicable"),
    ] {
        let output = kpps(&here, &[words, &["--report", "pages"]].concat());
        assert!(output.status.success(), "{words:?}: {}", text(&output.stderr));
        let path = here.path().join(format!("pages/{name}.html"));
        assert!(text(&output.stdout).contains(&format!("written: pages/{name}.html")), "{words:?}");
        let page = std::fs::read_to_string(path).unwrap();
        assert!(page.starts_with("<!DOCTYPE html>") && page.contains(says), "{words:?}: {page}");
    }
}

/// Without `--driver` a machine has its own.
#[test]
fn each_machine_is_measured_with_its_drivers() {
    let here = tempfile::tempdir().unwrap();
    let names = |words: &str, row: &str| {
        let words: Vec<_> = words.split(' ').chain(["--duration", "1ms", "--json"]).collect();
        let output = kpps(&here, &words);
        assert!(output.status.success(), "{words:?}: {}", text(&output.stderr));
        let document: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
        let rows = document[row].as_array().unwrap().clone();
        rows.into_iter().map(|row| row["name"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    let freebsd = ["em-1.7.35", "kpps"];
    assert_eq!(names("curve --machine evans2005-em --app route --load 10kpps", "series"), freebsd);
    assert_eq!(names("transmit --machine evans2005-em", "rows"), freebsd);
    let profile = text(&kpps(&here, &["profile", "--machine", "evans2005-em", "--duration", "1ms"]).stdout);
    assert!(profile.starts_with("evans2005-em: 82545em on pci-x-64-133, em-1.7.35,"), "{profile}");
}

/// An own driver names what differs; exported as a whole file, it gives the same numbers.
#[test]
fn a_profile_is_exported_and_read_back() {
    let here = tempfile::tempdir().unwrap();
    std::fs::write(here.path().join("own.toml"), "base = 'intel-5.7.6'\nrx_ring = 80\n").unwrap();
    let export = kpps(&here, &["list", "driver", "own.toml", "--toml"]);
    assert!(export.status.success(), "{}", text(&export.stderr));
    let whole = text(&export.stdout);
    assert!(whole.contains("rx_ring = { value = 80, source = \"own\" }"), "{whole}");
    std::fs::write(here.path().join("whole.toml"), &whole).unwrap();
    let drivers = "intel-5.7.6,own.toml,whole.toml";
    let curve =
        kpps(&here, &["curve", "--json", "--driver", drivers, "--load", "300kpps", "--duration", "5ms"]);
    let curve: Value = serde_json::from_slice(&curve.stdout).unwrap();
    let points = |at: usize| &curve["series"][at]["points"];
    assert_eq!(points(1), points(2));
    assert_ne!(points(0), points(1), "a smaller ring loses more");
    assert_eq!(kpps(&here, &["list", "drivers", "--toml"]).status.code(), Some(2), "one profile only");
}

/// Known rates: 700 kpps come through, and no latency is observed.
#[test]
fn a_broken_bound_is_exit_code_1_and_one_line_that_names_it() {
    let here = tempfile::tempdir().unwrap();
    let trial = ["trial", "--testbed", "known:700kpps", "--load", "1Mpps", "--duration", "10ms"];
    let ndr = ["ndr", "--testbed", "known:700kpps", "--max", "1Mpps", "--precision", "2%"];
    let curve = ["curve", "--testbed", "known:700kpps", "--load", "500kpps,1Mpps", "--duration", "10ms"];
    for (command, bound, broken) in [
        (&trial[..], "--max-loss 31%", None),
        (
            &trial,
            "--max-loss 0",
            Some("loss bound 0 %: the loss is 30 %, above the bound by 30 % of the frames"),
        ),
        (&trial, "--min-rate 699kpps", None),
        (&trial, "--min-rate 800kpps", Some("delivered is 700.0 kpps, 100.0 kpps (12.5 %) below")),
        (&trial, "--max-p99 1ms", Some("p99 bound 1000.0 µs: the latency was not observed")),
        (&ndr, "--min-rate 650kpps", None),
        (&ndr, "--min-rate 750kpps", Some("rate bound 750.0 kpps: the NDR is")),
        (&ndr, "--max-loss 0", None),
        (&curve, "--min-rate 699kpps", None),
        (&curve, "--max-loss 1%", Some("the loss at 1000.0 kpps is 30 %")),
    ] {
        let arguments = command.iter().copied().chain(bound.split(' ')).collect::<Vec<_>>();
        let output = kpps(&here, &arguments);
        let said = text(&output.stderr);
        assert_eq!(output.status.code(), Some(i32::from(broken.is_some())), "{arguments:?}: {said}");
        assert!(!output.stdout.is_empty(), "{arguments:?}: the result is shown all the same");
        let last = said.lines().last().unwrap_or_default();
        assert!(broken.is_none_or(|broken| last.contains(broken)), "{arguments:?}: {said}");
    }
    let bad = kpps(&here, &[&trial[..], &["--min-rate", "50%"]].concat());
    assert_eq!(bad.status.code(), Some(2), "{}", text(&bad.stderr));
}

#[test]
fn mistakes_in_a_profile_are_one_clear_line_and_exit_code_2() {
    let here = tempfile::tempdir().unwrap();
    let profiles = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../profiles");
    // A machine of its own parts, so that each part can be broken.
    let machine = std::fs::read_to_string(profiles.join("machines/morris2000.toml")).unwrap();
    for part in ["hosts/p3-800", "stacks/linux-2.2.16-click", "buses/pci-64-33", "chips/82542"] {
        let name = part.split('/').next_back().unwrap();
        std::fs::copy(profiles.join(format!("{part}.toml")), here.path().join(format!("{name}.toml")))
            .unwrap();
    }
    let mut own = machine.clone();
    for name in ["p3-800", "linux-2.2.16-click", "pci-64-33", "82542"] {
        own = own.replace(&format!("\"{name}\""), &format!("\"{name}.toml\""));
    }
    std::fs::write(here.path().join("own.toml"), &own).unwrap();
    let run =
        || kpps(&here, &["curve", "--json", "--machine", "own.toml", "--load", "50%", "--duration", "1ms"]);
    assert!(run().status.success(), "{}", text(&run().stderr));
    // Files named in a machine are found beside it, and a result records that they are not built in.
    let elsewhere = tempfile::tempdir().unwrap();
    let path = here.path().join("own.toml");
    let arguments =
        ["curve", "--json", "--machine", path.to_str().unwrap(), "--load", "50%", "--duration", "1ms"];
    let own: Value = serde_json::from_slice(&kpps(&elsewhere, &arguments).stdout).unwrap();
    let built_in = kpps(&here, &["curve", "--json", "--load", "50%", "--duration", "1ms"]).stdout;
    let built_in: Value = serde_json::from_slice(&built_in).unwrap();
    assert_eq!(own["series"], built_in["series"]);
    assert_ne!(own["environment"]["profiles_hash"], built_in["environment"]["profiles_hash"]);

    let set = |name: &str, value: &str| format!("{name} = {{ value = {value}, source = \"a mistake\" }}");
    for (file, name, mistake) in [
        ("pci-64-33", "width_bytes", set("width_bytes", "0")),
        ("pci-64-33", "width_bytes", set("width_bytes", "7")),
        ("pci-64-33", "clock_ps", set("clock_ps", "0")),
        ("pci-64-33", "register_write_ps", set("register_write_ps", "9223372036854775807")),
        ("p3-800", "cache_line_bytes", set("cache_line_bytes", "0")),
        ("p3-800", "cache_line_bytes", set("cache_line_bytes", "4294967296")),
        ("p3-800", "cache_miss_ps", set("cache_miss_ps", "-1")),
        ("p3-800", "cache_miss_ps", set("cache_miss_ps", "\"fast\"")),
        ("p3-800", "cached_line_ps", String::new()),
        ("p3-800", "cached_line_ps", "cached_line_ps = 3".into()),
        ("p3-800", "cached_line_ps", "cached_line_ps = {".into()),
        ("linux-2.2.16-click", "softirq_budget", set("softirq_budget", "0")),
        ("linux-2.2.16-click", "from_device_burst", set("from_device_burst", "0")),
        ("linux-2.2.16-click", "task_cycles", set("task_cycles", "0")),
        ("linux-2.2.16-click", "backlog", set("backlog", "1000000000000")),
        ("82542", "chip", set("chip", "\"8139\"")),
        ("82542", "rx_engine_ps", set("rx_engine_ps", "9223372036854775807")),
        ("82542", "rx_engine_ps", set("rx_engin_ps", "1")),
        ("own", "host", set("host", "\"missing.toml\"")),
        ("own", "bus", set("bus", "{}")),
    ] {
        let path = here.path().join(format!("{file}.toml"));
        let good = std::fs::read_to_string(&path).unwrap();
        let lines =
            good.lines().map(|l| if l.starts_with(&format!("{name} =")) { mistake.as_str() } else { l });
        std::fs::write(&path, lines.collect::<Vec<_>>().join("\n")).unwrap();
        let output = run();
        let message = text(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{file} {mistake}: {message}");
        assert_eq!(message.trim_end().lines().count(), 1, "{file} {mistake}: {message}");
        assert!(message.contains(file) || message.contains("missing"), "{file} {mistake}: {message}");
        std::fs::write(&path, good).unwrap();
    }
}

#[test]
fn jumbo_frames_arrive_with_every_driver() {
    let here = tempfile::tempdir().unwrap();
    let output = kpps(&here, &["curve", "--json", "--size", "9018", "--load", "50%", "--duration", "20ms"]);
    let document: Value = serde_json::from_slice(&output.stdout).unwrap();
    for series in document["series"].as_array().unwrap() {
        let point = &series["points"][0];
        assert!(
            point["delivered_pps"].as_f64().unwrap() > 0.95 * point["offered_pps"].as_f64().unwrap(),
            "{series}"
        );
    }
    let output = kpps(&here, &["transmit", "--json", "--size", "9018", "--duration", "20ms"]);
    let document: Value = serde_json::from_slice(&output.stdout).unwrap();
    for row in document["rows"].as_array().unwrap() {
        assert!(row["sent_pps"].as_f64().unwrap() > 1000.0, "{row}");
    }
}

#[test]
fn a_curve_prints_one_document_that_its_schema_allows() {
    let here = tempfile::tempdir().unwrap();
    let output = kpps(&here, &["curve", "--json", "--load", "100kpps,100%", "--duration", "5ms"]);
    assert!(output.status.success(), "{}", text(&output.stderr));
    let document: Value = serde_json::from_slice(&output.stdout).unwrap();
    let schema: Value = serde_json::from_slice(&kpps(&here, &["schema"]).stdout).unwrap();
    jsonschema::validate(&schema, &document).unwrap();
    assert_eq!(document["schema"], "kpps/3");
    assert_eq!(document["kind"], "curve");
    let series = document["series"].as_array().unwrap();
    let names: Vec<_> = series.iter().map(|s| s["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["intel-2.5.11", "intel-2.5.11-tuned", "click-polling", "kpps"]);
    for point in series.iter().flat_map(|s| s["points"].as_array().unwrap()) {
        let ledger = &point["ledger"];
        let dropped: u64 = ledger["dropped"].as_object().unwrap().values().map(|v| v.as_u64().unwrap()).sum();
        assert!(ledger["sent"].as_u64().unwrap() > 0);
        assert_eq!(
            ledger["sent"].as_u64().unwrap(),
            ledger["delivered"].as_u64().unwrap() + dropped + ledger["in_flight"].as_u64().unwrap()
        );
    }
    assert!(std::fs::read_dir(&here).unwrap().next().is_none(), "nothing is written unasked");
}

#[test]
fn what_a_testbed_cannot_observe_is_not_invented() {
    let directory = tempfile::tempdir().unwrap();
    let run = |more: &[&str]| {
        let words = ["curve", "--testbed", "known:700kpps", "--load", "500kpps,1000kpps"];
        let output = kpps(&directory, &[&words[..], more].concat());
        assert!(output.status.success(), "{}", text(&output.stderr));
        output.stdout
    };
    let curve: serde_json::Value = serde_json::from_slice(&run(&["--json"])).unwrap();
    let points = curve["series"][0]["points"].as_array().unwrap();
    assert_eq!(points.len(), 2);
    for point in points {
        for field in [
            "cpu",
            "cpu_busy",
            "bus_busy",
            "interrupts_per_s",
            "registers_per_frame",
            "allocations_per_frame",
            "taken",
        ] {
            assert_eq!(point.get(field), Some(&serde_json::Value::Null), "{field}: {point}");
        }
        assert!(point["latency_ns"]["p50"].is_null() && point["loss_ratio"].is_number(), "{point}");
    }
    assert!(!curve["summary"].to_string().contains("CPU"), "{}", curve["summary"]);
    let screen = text(&run(&[]));
    let row = screen.lines().find(|line| line.trim_start().starts_with("1000.0")).unwrap().to_owned();
    assert_eq!(row.split_whitespace().filter(|field| *field == "–").count(), 4, "{screen}");
    let csv = text(&run(&["--csv", "-"]));
    let mut lines = csv.lines().map(|line| line.split(',').collect::<Vec<_>>());
    let header = lines.next().unwrap();
    let at = |name: &str| header.iter().position(|it| *it == name).unwrap();
    for line in lines {
        assert_eq!((line[at("interrupts_per_s")], line[at("cpu_busy")], line[at("bus_busy")]), ("", "", ""));
        assert!(!line[at("delivered_pps")].is_empty());
    }
    // A trial says no more than a curve.
    let words = ["trial", "--testbed", "known:700kpps", "--load", "1Mpps", "--duration", "1s"];
    let trial = kpps(&directory, &[&words[..], &["--json"]].concat());
    let trial: serde_json::Value = serde_json::from_slice(&trial.stdout).unwrap();
    assert_eq!((&trial["cpu"], &trial["cpus"]), (&serde_json::Value::Null, &serde_json::json!([])));
    assert_eq!(
        (&trial["duplicated"], &trial["learned"]),
        (&serde_json::Value::Null, &serde_json::Value::Null)
    );
    let screen = kpps(&directory, &words);
    assert!(text(&screen.stdout).contains("duplicated             –"), "{}", text(&screen.stdout));
}

#[test]
fn the_simulator_is_a_testbed_by_name() {
    let directory = tempfile::tempdir().unwrap();
    let json = |arguments: &[&str]| -> serde_json::Value {
        let output = kpps(&directory, arguments);
        assert!(output.status.success(), "{}", text(&output.stderr));
        serde_json::from_slice(&output.stdout).unwrap()
    };
    let by_name = ["--testbed", "sim:morris2000/intel-2.5.11"];
    let flags = ["--machine", "morris2000", "--driver", "intel-2.5.11"];
    let load = ["--load", "700kpps", "--duration", "10ms", "--json"];
    let trial = json(&[&["trial"][..], &by_name, &load].concat());
    let curve = json(&[&["curve"][..], &flags, &load].concat());
    assert_eq!(json(&[&["curve"][..], &by_name, &load].concat()), curve);
    assert_eq!(json(&[&["trial"][..], &flags, &load].concat()), trial, "the simulator is the default");
    // The same trial as the curve's, with the same loss, and all of it explained.
    let (point, ledger) = (&curve["series"][0]["points"][0], &trial["ledger"]);
    assert_eq!(
        (&trial["sent_pps"], &trial["received_pps"], &trial["latency_ns"]),
        (&point["sent_pps"], &point["delivered_pps"], &point["latency_ns"])
    );
    assert!(trial["lost"].as_u64().unwrap() > 1000, "{trial}");
    for (place, frames) in point["ledger"]["dropped"].as_object().unwrap() {
        assert_eq!(ledger["dropped"][place].as_u64().unwrap_or(0), frames.as_u64().unwrap(), "{place}");
    }
    assert_eq!(ledger["unexplained"], 0);
    assert!(trial["sent"].as_u64() > trial["received"].as_u64());
    jsonschema::validate(&json(&["schema"]), &trial).unwrap();

    let search = ["--duration", "5ms", "--json"];
    let by_name = json(&[&["ndr", "--testbed", "sim:lunz2003//route"][..], &search].concat());
    assert_eq!(by_name, json(&[&["ndr", "--app", "route"][..], &search].concat()));

    for (arguments, says) in [
        (&["trial", "--testbed", "sim:nowhere", "--load", "1kpps"][..], "nowhere"),
        (&["trial", "--testbed", "sim:a/b/c/d", "--load", "1kpps"], "sim:MACHINE/DRIVER/APP"),
        (
            &["trial", "--testbed", "sim:morris2000", "--load", "1kpps", "--bidirectional"],
            "--bidirectional is for two ports",
        ),
        (&["curve", "--cpus", "0", "--duration", "1ms"], "--cpus is for two ports"),
        (&["ndr", "--testbed", "known:1Mpps", "--gateway", "192.0.2.1"], "--gateway is for two ports"),
        (&["ndr", "--testbed", "packet:a,sim:morris2000"], "is a complete testbed"),
    ] {
        let output = kpps(&directory, arguments);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}");
        assert!(text(&output.stderr).contains(says), "{arguments:?}: {}", text(&output.stderr));
    }
}

#[test]
fn a_curve_shows_and_writes_its_results() {
    let here = tempfile::tempdir().unwrap();
    let output =
        kpps(&here, &["curve", "--load", "100kpps,700kpps,100%", "--duration", "5ms", "--driver", "kpps"]);
    assert!(output.status.success(), "{}", text(&output.stderr));
    assert_eq!(std::fs::read_dir(&here).unwrap().count(), 0, "no file is written unasked");
    let shown = text(&output.stdout);
    let words = ["curve", "--load", "100kpps,700kpps,100%", "--duration", "5ms", "--driver", "kpps"];
    let files = ["--results", "results.json", "--report", "report.html", "--csv", "curve.csv"];
    assert!(shown.contains("delivered"), "{shown}");
    let output = kpps(&here, &[&words[..], &files].concat());
    assert!(output.status.success(), "{}", text(&output.stderr));
    let shown = text(&output.stdout);
    for word in ["kpps", "delivered", "offered", "results.json", "report.html", "curve.csv"] {
        assert!(shown.contains(word), "no '{word}' in:\n{shown}");
    }
    assert!(!shown.contains('\x1b'), "no colours into a pipe");
    let results: Value =
        serde_json::from_slice(&std::fs::read(here.path().join("results.json")).unwrap()).unwrap();
    assert_eq!(results["complete"], true);
    let read = |name: &str| std::fs::read_to_string(here.path().join(name)).unwrap();
    assert!(read("report.html").starts_with("<!DOCTYPE html>"));
    assert!(read("curve.csv").starts_with("series.name,offered_pps,"));

    // A name without .html is a folder, which is made; `-` is standard output.
    let output = kpps(&here, &[&words[..], &["--report", "pages/of/today", "--csv", "-"]].concat());
    assert!(output.status.success(), "{}", text(&output.stderr));
    assert_eq!(text(&output.stdout), read("curve.csv"));
    assert_eq!(read("pages/of/today/curve.html"), read("report.html"));
}

#[test]
#[cfg(unix)]
fn an_interrupted_curve_keeps_what_it_has() {
    let here = tempfile::tempdir().unwrap();
    let words = "curve --duration 100ms --load 100kpps..100%/1kpps --results results.json";
    let words: Vec<_> = words.split(' ').collect();
    let output = crate::interrupt_after_a_measurement(here.path(), &words);
    assert_eq!(output.status.code(), Some(130), "{}", text(&output.stderr));
    assert!(text(&output.stderr).contains("interrupted"), "{}", text(&output.stderr));
    let results: Value =
        serde_json::from_slice(&std::fs::read(here.path().join("results.json")).unwrap()).unwrap();
    assert_eq!(results["complete"], false);
    assert!(!results["series"][0]["points"].as_array().unwrap().is_empty());
}

#[test]
fn profiles_are_listed_with_their_sources() {
    let here = tempfile::tempdir().unwrap();
    let all = text(&kpps(&here, &["list"]).stdout);
    for name in ["morris2000", "82542", "82546eb", "pci-64-66", "p3-800", "intel-5.7.6", "kpps"] {
        assert!(all.contains(name), "no '{name}' in:\n{all}");
    }
    let one = text(&kpps(&here, &["list", "chips", "82542"]).stdout);
    assert!(one.contains("rx_engine_ps") && one.contains("fitted on M1, M7"), "{one}");
}

#[test]
#[cfg(target_os = "linux")]
fn a_full_disk_is_an_error() {
    let here = tempfile::tempdir().unwrap();
    let full = std::fs::File::options().write(true).open("/dev/full").unwrap();
    let mut command = std::process::Command::new(assert_cmd::cargo::cargo_bin("kpps"));
    let output = command.current_dir(&here).arg("list").stdout(full).output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert!(text(&output.stderr).contains("cannot write to standard output"));
}

#[test]
fn help_teaches() {
    let here = tempfile::tempdir().unwrap();
    let help = text(&kpps(&here, &["--help"]).stdout);
    for word in
        ["curve", "conformance", "Examples", "FCS", "Simulate:", "Measure:", "Cards:", "Studies:", "Apps:"]
    {
        assert!(help.contains(word), "no '{word}' in:\n{help}");
    }
    // Without a command the help comes by itself, as an error.
    let output = kpps(&here, &[]);
    assert_eq!(output.status.code(), Some(2));
    assert!(text(&output.stderr).contains("Simulate:"), "{}", text(&output.stderr));
    // The alias of the conformance suite stays.
    assert!(kpps(&here, &["selftest", "--help"]).status.success());
}

#[test]
fn manual_pages_and_completions_are_made_of_the_same_definitions() {
    let here = tempfile::tempdir().unwrap();
    let page = text(&kpps(&here, &["man"]).stdout);
    assert!(page.contains(".TH kpps 1") && page.contains("kpps\\-curve(1)"), "{page}");
    let output = kpps(&here, &["man", "share/man/man1"]);
    assert!(output.status.success(), "{}", text(&output.stderr));
    let read = |name: &str| std::fs::read_to_string(here.path().join("share/man/man1").join(name)).unwrap();
    assert!(read("kpps.1").contains("kpps"));
    assert!(read("kpps-ndr.1").contains("pdr\\-loss"));
    for name in ["kpps.1", "kpps-ndr.1", "kpps-trial.1", "kpps-compare.1"] {
        let page = read(name);
        let sections: Vec<_> = page.lines().filter_map(|line| line.strip_prefix(".SH ")).collect();
        assert_eq!(sections[..4], ["NAME", "SYNOPSIS", "DESCRIPTION", "OPTIONS"], "{name}");
        assert_eq!(sections[sections.len() - 2..], ["EXAMPLES", "\"EXIT STATUS\""], "{name}");
        assert!(!page.contains("Exit codes"), "{name}");
        // Each command of the examples stands between .nf and .fi, where no line is filled.
        let mut fills = true;
        for line in page.lines() {
            fills = line == ".fi" || fills && line != ".nf";
            assert!(!fills || !line.starts_with("  "), "{name}: {line}");
        }
    }
    assert!(
        read("kpps-trial.1").contains(".SS \"DEVICE UNDER TEST\"")
            && read("kpps-trial.1").contains(".SH PORTS")
    );
    assert!(read("kpps-device-bind.1").contains("backend"));
    for shell in ["bash", "zsh", "fish"] {
        let script = text(&kpps(&here, &["completions", shell]).stdout);
        assert!(script.contains("COMPLETE") && script.contains("kpps"), "{shell}: {script}");
    }
    assert_eq!(kpps(&here, &["completions", "csh"]).status.code(), Some(2));
}

/// A shell's question to the command at each Tab, as bash asks it.
#[test]
fn a_shell_is_offered_values() {
    let offered = |words: &[&str]| {
        let mut command = Command::cargo_bin("kpps").unwrap();
        command.env("COMPLETE", "bash").env("_CLAP_COMPLETE_INDEX", (words.len() - 1).to_string());
        command
            .env("_CLAP_COMPLETE_COMP_TYPE", "9")
            .env("_CLAP_COMPLETE_SPACE", "true")
            .env("_CLAP_IFS", "\n");
        let output = command.arg("--").args(words).output().unwrap();
        assert!(output.status.success(), "{words:?}: {}", text(&output.stderr));
        text(&output.stdout).lines().map(str::to_owned).collect::<Vec<_>>()
    };
    for (words, value) in [
        (&["kpps", "rfc"][..], "rfc2544"),
        (&["kpps", "curve", "--bidir"], "--bidirectional"),
        (&["kpps", "curve", "--machine", "mor"], "morris2000"),
        (&["kpps", "curve", "--driver", "click"], "click-polling"),
        (&["kpps", "curve", "--driver", "kpps,click"], "kpps,click-polling"),
        (&["kpps", "grid", "--chip", "8257"], "82574l"),
        (&["kpps", "study", "rdr"], "rdr2007"),
        (&["kpps", "list", "drivers", "click"], "click-polling"),
        (&["kpps", "curve", "--app", "vlan"], "vlan-route"),
        (&["kpps", "send", "--service", "na"], "napi"),
        (&["kpps", "send", "--priority", "y"], "yes"),
        (&["kpps", "trial", "--testbed", "sim:mor"], "sim:morris2000"),
        (&["kpps", "lab", "--driver", "kpps,d"], "kpps,dpdk"),
        (&["kpps", "audit", "--driver", "l"], "linux"),
        (&["kpps", "audit", "--workload", "f"], "forward"),
    ] {
        let all = offered(words);
        assert!(all.iter().any(|it| it == value), "{words:?}: {all:?}");
        assert!(all.iter().all(|it| it.starts_with(words[words.len() - 1])), "{words:?}: {all:?}");
    }
    // In bash itself, where a colon would end a word.
    let script = "PATH=$1:$PATH; source <(kpps completions bash); [[ $COMP_WORDBREAKS != *:* ]] || exit 3
        COMP_WORDS=(kpps curve --machine rdr20) COMP_CWORD=3 COMP_TYPE=9; _clap_complete_kpps kpps rdr20 --machine
        echo ${COMPREPLY[@]}";
    let folder = assert_cmd::cargo::cargo_bin("kpps").parent().unwrap().to_owned();
    let output =
        std::process::Command::new("bash").args(["-c", script, "bash"]).arg(folder).output().unwrap();
    assert!(text(&output.stdout).starts_with("rdr2007"), "{}{}", text(&output.stdout), text(&output.stderr));
    if cfg!(target_os = "linux") {
        let ports = offered(&["kpps", "trial", "--ports", "packet:l"]);
        assert!(ports.iter().any(|it| it == "packet:lo"), "{ports:?}");
        let ports = offered(&["kpps", "trial", "--ports", "packet:lo,auto:l"]);
        assert!(ports.iter().any(|it| it == "packet:lo,auto:lo"), "{ports:?}");
    }
}

#[test]
fn tables_are_printed_as_comma_separated_values() {
    let here = tempfile::tempdir().unwrap();
    for (words, header, lines) in [
        (&["transmit", "--driver", "kpps,click-polling", "--duration", "1ms"][..], "name,sent_pps,", 3),
        (&["scale", "--cpu-counts", "1,2", "--duration", "1ms"], "cpus,offered_pps,", 3),
        (&["ndr", "--testbed", "known:700kpps"], "name,loss_ratio,", 3),
        (
            &["sizes", "--testbed", "known:700kpps", "--size", "64,512"],
            "sizes.frame_bytes_with_fcs,name,loss_ratio,",
            5,
        ),
        (&["list", "chips", "82542"], "name,value,source,", 0),
    ] {
        let output = kpps(&here, &[words, &["--csv", "-"]].concat());
        assert!(output.status.success(), "{words:?}: {}", text(&output.stderr));
        let table = text(&output.stdout);
        assert!(table.starts_with(header), "{words:?}: {table}");
        assert!(lines == 0 || table.lines().count() == lines, "{words:?}: {table}");
    }
}
