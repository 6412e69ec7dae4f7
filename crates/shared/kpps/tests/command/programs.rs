//! Rate-limited NICs, and programs that send and receive, as a user meets them.

use assert_cmd::Command;
use serde_json::Value;

fn kpps(words: &str) -> std::process::Output {
    Command::cargo_bin("kpps").unwrap().args(words.split_whitespace()).output().unwrap()
}

fn json(words: &str) -> Value {
    let output = kpps(&format!("{words} --json"));
    assert!(output.status.success(), "{words}: {}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

/// The values of a measurement, as a study makes it.
fn measured(metric: &str, values: &[&str]) -> Vec<f64> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("mine.toml");
    let named: Vec<_> = values.iter().map(|name| format!("{name} = \"a.{name}\"")).collect();
    let study = format!(
        "title = \"one\"\n[measure]\na = {{ {metric} }}\n[claims.A]\nkind = \"order\"\nsays = \"a\"\nexpected = \"a\"\n\
         uses = [\"a\"]\nholds = [\"a.pps > 0.0\"]\nvalues = {{ {} }}\n",
        named.join(", ")
    );
    std::fs::write(&path, study).unwrap();
    let document = json(&format!("study {}", path.display()));
    let found = &document["claims"][0]["values"];
    values.iter().map(|name| found[name].as_f64().unwrap_or_else(|| panic!("{name}: {document}"))).collect()
}

fn is_near(found: &Value, expected: f64, share: f64) -> bool {
    (found.as_f64().unwrap() - expected).abs() <= share * expected.abs() + 1e-6
}

/// B5, B7 and B9 of Evans 2005: what a study measures, the command does.
#[test]
fn a_program_that_sends_has_the_numbers_of_the_study() {
    for (options, metric) in [
        ("--program ttcp-new --size 96", "payload = 50, program = 'ttcp-new'"),
        ("--program ttcp-new", "payload = 18, program = 'ttcp-new'"),
        ("--program ttcp", "payload = 18, program = 'ttcp-old'"),
        ("--program ttcp --sleep 20ms", "payload = 18, program = 'ttcp-old', sleep_us = 20000"),
        ("--program netsend --rate 100kpps", "payload = 18, program = 'netsend', pps = 1e5"),
    ] {
        let words = format!("transmit --machine evans2005-xp --nic yukon {options} --duration 200ms");
        let document = json(&words);
        assert_eq!(
            (&document["environment"]["nic"], &document["rows"][0]["name"]),
            (&"yukon".into(), &"yukon".into())
        );
        let (row, process) = (&document["rows"][0], &document["rows"][0]["process"]);
        let names = [
            "pps",
            "idle",
            "interrupts_per_s",
            "refused",
            "wasted",
            "interrupt_load",
            "system_load",
            "user_load",
        ];
        let expected =
            measured(&format!("metric = 'freebsd-send', machine = 'evans2005-xp', {metric}"), &names);
        let found = [
            &row["sent_pps"],
            &row["card_idle"],
            &row["interrupts_per_s"],
            &process["refused_per_sent"],
            &process["wasted"],
            &process["interrupt_load"],
            &process["system_load"],
            &process["user_load"],
        ];
        for ((name, found), expected) in names.iter().zip(found).zip(expected) {
            // Documents are rounded.
            assert!(is_near(found, expected, 1e-4), "{words}: {name} {found} {expected}");
        }
        for unknown in ["wire_idle", "registers_per_frame", "data_bursts_per_frame"] {
            assert!(row[unknown].is_null(), "{unknown}: {row}");
        }
    }
}

#[test]
fn a_nic_sends_as_in_the_study_and_on_any_stack() {
    for (nic, pps) in [("tigon-2", 100e3), ("sk-9843", 250e3)] {
        let row = &json(&format!("transmit --machine morris2000 --nic {nic}"))["rows"][0];
        let metric = format!("metric = 'nic-transmit', machine = 'morris2000', nic = '{nic}'");
        let [sent, busy] = measured(&metric, &["pps", "cpu_busy"])[..] else { panic!("two values") };
        assert!(is_near(&row["sent_pps"], sent, 1e-4) && is_near(&row["cpu_busy"], busy, 1e-4), "{row}");
        assert!(is_near(&row["sent_pps"], pps, 0.05), "{row}");
    }
    for machine in ["ols2005", "lunz2003", "rdr2007", "evans2005-xp"] {
        let row = &json(&format!("transmit --machine {machine} --nic yukon"))["rows"][0];
        assert!(row["sent_pps"].as_f64().unwrap() > 240e3, "{machine}: {row}");
        assert!(row.get("process").is_none(), "{row}");
    }
}

#[test]
fn a_process_that_receives_has_the_numbers_of_the_study() {
    let at =
        |words: &str, index: usize| json(&format!("curve {words}"))["series"][0]["points"][index].clone();
    // On either system, at a load that it carries and one that it does not.
    for (machine, driver, metric) in
        [("evans2005-em", "em-1.7.35", "freebsd-receive"), ("ols2005", "intel-5.7.6", "netreceive")]
    {
        let words = format!(
            "--machine {machine} --driver {driver} --program netreceive --load 100kpps,600kpps --duration 100ms"
        );
        let program = if metric == "netreceive" { "" } else { ", payload = 18, program = 'netreceive'" };
        for (index, offered) in [(0, "1e5"), (1, "6e5")] {
            let point = at(&words, index);
            let of = format!(
                "metric = '{metric}', machine = '{machine}', driver = '{driver}', offered = {offered}, \
                 warmup_ms = 50, duration_ms = 100{program}"
            );
            let [pps, interrupts] = measured(&of, &["pps", "interrupts_per_s"])[..] else {
                panic!("two values")
            };
            let rate = &point["delivered_pps"];
            assert!(
                is_near(rate, pps, 0.02) || pps < 1e3 && rate.as_f64().unwrap() < 1e3,
                "{machine} {offered}: {rate} {pps}"
            );
            assert!(is_near(&point["interrupts_per_s"], interrupts, 0.05), "{machine} {offered}: {point}");
            assert!(point["ledger"]["dropped"].get("socket").is_some(), "{point}");
        }
    }
}

#[test]
fn a_nic_receives_in_the_kernel_and_in_a_process() {
    let words = "curve --machine evans2005-athlon --nic bge --load 100kpps,300kpps";
    let document = json(words);
    assert_eq!(
        (&document["environment"]["nic"], &document["series"][0]["name"]),
        (&"bge".into(), &"bge".into())
    );
    assert!(document["environment"].get("chip").is_none() && document["environment"].get("driver").is_none());
    let points = &document["series"][0]["points"];
    // B2: bge receives 210,000 frames/s.
    assert!(is_near(&points[0]["delivered_pps"], 100e3, 1e-3), "{points}");
    assert!(is_near(&points[1]["delivered_pps"], 210e3, 0.05), "{points}");
    assert!(points[0]["registers_per_frame"].is_null(), "{points}");
    let read = json(&format!("{words} --program netreceive"));
    assert_eq!(read["environment"]["program"], "netreceive");
    let rate = |document: &Value, index: usize| {
        document["series"][0]["points"][index]["delivered_pps"].as_f64().unwrap()
    };
    assert!((rate(&read, 0) - 100e3).abs() < 100.0 && rate(&read, 1) <= rate(&document, 1), "{read}");
    let screen = String::from_utf8(kpps(&format!("{words} --program netreceive")).stdout).unwrap();
    assert!(
        screen.contains("bge on pci-32-33-athlon, athlon-1400, freebsd-current-giant, netreceive"),
        "{screen}"
    );
}

#[test]
fn every_form_of_results_has_them() {
    let folder = tempfile::tempdir().unwrap();
    let in_folder = |name: &str| folder.path().join(name).display().to_string();
    for words in [
        "transmit --machine evans2005-xp --nic yukon --program ttcp-new --duration 20ms",
        "curve --machine evans2005-xp --nic yukon --program netreceive --load 50kpps --duration 5ms",
        "curve --nic yukon --load 50kpps --duration 5ms --error-bars 20",
    ] {
        let (page, csv, kept) = (in_folder("page.html"), in_folder("rows.csv"), in_folder("kept"));
        let _ = std::fs::remove_file(&kept);
        let words = format!("{words} --report {page} --csv {csv} --resume {kept} --json");
        let first = kpps(&words);
        assert!(first.status.success(), "{words}: {}", String::from_utf8_lossy(&first.stderr));
        assert!(std::fs::read_to_string(page).unwrap().contains("yukon"), "{words}");
        assert!(std::fs::read_to_string(csv).unwrap().contains("yukon"), "{words}");
        let lines = super::kept(kept.as_ref()).len();
        assert_eq!(
            (kpps(&words).stdout, super::kept(kept.as_ref()).len()),
            (first.stdout, lines),
            "{words}: resumed"
        );
    }
    let screen = String::from_utf8(
        kpps("transmit --machine evans2005-em --driver em-1.7.35 --program waiting --duration 20ms").stdout,
    )
    .unwrap();
    for text in ["82545em on pci-x-64-133, waiting", "refused/", "interrupts"] {
        assert!(screen.contains(text), "{screen}");
    }
    let csv = kpps("transmit --nic sk-9843 --duration 5ms --csv -").stdout;
    assert!(String::from_utf8(csv).unwrap().contains("sk-9843,"));
}

#[test]
fn bad_input_is_one_clear_line_and_exit_code_2() {
    for (words, says) in [
        ("transmit --nic 8139", "known are 82576"),
        ("transmit --nic 82576", "'82576' has several receive queues, which only `kpps scale` simulates"),
        ("transmit --nic yukon --chip 82542", "'--nic <NIC>' cannot be used with '--chip <CHIP>'"),
        ("transmit --nic yukon --driver kpps", "'--nic <NIC>' cannot be used with '--driver"),
        ("transmit --nic yukon --segments 2", "'--nic <NIC>' cannot be used with '--segments"),
        ("transmit --nic yukon --size 9018", "2048"),
        ("transmit --nic yukon --set chip.tx_engine_ps=1", "this simulation has no"),
        (
            "transmit --nic yukon --set nic.weight=1",
            "nic.weight has no effect: the driver of this simulation has one queue",
        ),
        (
            "transmit --nic yukon --set nic.rx_ring=64",
            "nic.rx_ring has no effect: this simulation receives no frames",
        ),
        ("transmit --machine evans2005-xp --nic yukon --set nic.polling=true", "polling(4) needs 1000"),
        ("transmit --program ttcp", "choose a machine with FreeBSD, one of evans2005-athlon, "),
        ("transmit --machine ols2005 --program ttcp", "stack 'linux-2.6.11' has no program that sends"),
        ("transmit --machine evans2005-xp --program ftp", "known are ttcp, ttcp-new, netblast"),
        ("transmit --machine evans2005-xp --program netsend", "netsend needs a rate"),
        (
            "transmit --machine evans2005-xp --program netsend --rate 0",
            "'0' is not a rate in frames per second",
        ),
        ("transmit --machine evans2005-xp --program ttcp --rate 1kpps", "only netsend has a rate"),
        ("transmit --machine evans2005-xp --program netblast --sleep 1ms", "only ttcp does"),
        ("transmit --machine evans2005-xp --program ttcp --sleep 2s", "at most 1 s"),
        ("transmit --machine evans2005-xp --program ttcp --checksum cpu", "cannot be used with '--checksum"),
        ("transmit --rate 1kpps", "give --program netsend or --fillers"),
        ("curve --program ttcp", "[possible values: netreceive]"),
        (
            "curve --program netreceive",
            "choose a machine with FreeBSD or Linux 2.4 or later, one of epyc-7r13",
        ),
        ("curve --machine lunz2003 --program netreceive", "has no cost of copying a byte"),
        ("curve --nic 8139", "known are 82576"),
        ("curve --nic yukon --chip 82542", "cannot be used with '--chip <CHIP>'"),
        (
            "curve --nic yukon --app nat",
            "--nic is for a machine that receives on one card: leave out the app nat",
        ),
        ("curve --app bridge --program netreceive", "--program is for a machine that receives on one card"),
        ("curve --testbed sim:ols2005 --nic yukon", "--nic takes the place of the driver"),
        ("curve --testbed known:1Mpps --nic yukon", "--nic is for the simulator, not for known:1Mpps"),
        (
            "curve --ports packet:a,packet:b --program netreceive",
            "--program is for the simulator, not for packet:a",
        ),
        ("curve --nic yukon --load 110%", "line rate"),
    ] {
        let output = kpps(words);
        let message = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(2), "{words}: {message}");
        assert!(message.contains(says), "{words} says: {message}");
        assert_eq!(message.trim_end().lines().count(), 1, "{words}: {message}");
    }
}
