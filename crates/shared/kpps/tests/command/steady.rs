//! A queue that fills is not capacity: searches, grids and trials of the simulator name a rate that is
//! sustained.

use assert_cmd::Command;
use serde_json::Value;

fn kpps(words: &[&str]) -> Value {
    let output = Command::cargo_bin("kpps").unwrap().args(words).arg("--json").output().unwrap();
    assert!(output.status.success(), "{words:?}: {}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

/// The rate that a machine delivers at a load above it, with its queues full since long: in a second, after
/// 50 ms of the same load.
fn sustained_pps(machine: &[&str], load: &str) -> f64 {
    let trial = kpps(&[&["trial", "--load", load, "--duration", "1s"], machine].concat());
    assert!(trial["loss_ratio"].as_f64().unwrap() > 0.01, "the load is not above the rate: {trial:#}");
    trial["delivered_pps"].as_f64().unwrap()
}

/// A load of frames per second for a second: frames that were sent, of these the lost ones, and frames that
/// were under way at the end. The last is the simulator's own count of every queue.
fn for_a_second(machine: &[&str], pps: f64) -> [f64; 3] {
    let load = pps.to_string();
    let trial = kpps(&[&["trial", "--load", &load, "--duration", "1s"], machine].concat());
    let count = |field: &str| trial[field].as_f64().unwrap();
    let under_way = trial["ledger"]["in_flight"].as_f64().unwrap();
    [count("sent"), count("sent") - count("delivered"), under_way]
}

/// With trials of 50 ms the bounds of the NDR equal those of trials of a second: for a receiver
/// with the longest ring of the chip, and for apps between two cards.
#[test]
fn the_ndr_is_sustained_whatever_the_rings_hold() {
    let longest = "driver.rx_ring=4096";
    for (machine, overload) in [
        (
            &["--machine", "morris2000", "--chip", "82545em", "--driver", "kpps", "--set", longest][..],
            Some("1300kpps"),
        ),
        (&["--app", "bridge", "--one-way", "--driver", "kpps"], Some("600kpps")),
        // Frames that are dropped cost these time, too: they carry less than the NDR when they are
        // overloaded.
        (&["--app", "route", "--driver", "intel-5.7.6", "--set", longest], None),
    ] {
        let ndr = kpps(&[&["ndr", "--precision", "0.5%"], machine].concat());
        let goal = &ndr["goals"][0];
        let [lower, upper] = ["lower_pps", "upper_pps"].map(|bound| goal[bound].as_f64().unwrap());
        assert!((upper - lower) / upper <= 0.005_001, "{machine:?}: {goal}");
        // Below two thousandths of what is sent nothing gathers in a second; above the upper bound more does.
        let [sent, lost, under_way] = for_a_second(machine, lower);
        assert!(
            lost == 0.0 && under_way < 0.002 * sent,
            "{machine:?}: {lost} lost, {under_way} under way at {lower}"
        );
        let [sent, lost, under_way] = for_a_second(machine, 1.003 * upper);
        assert!(
            lost + under_way > 0.002 * sent,
            "{machine:?}: {lost} lost, {under_way} under way at {upper}"
        );
        if let Some(overload) = overload {
            let truth = sustained_pps(machine, overload);
            // Batches begin and end in the second: a thousandth.
            let holds = lower <= truth * 1.001 && upper >= truth * 0.999;
            assert!(holds, "{machine:?}: {lower} to {upper}, sustained is {truth}");
        }
    }
}

/// The best cell of a grid is chosen by its sustained rate, not by the frames that a ring holds at the end.
#[test]
fn the_best_cell_of_a_grid_is_sustained() {
    let machine =
        ["--machine", "morris2000", "--chip", "82545em", "--driver", "kpps", "--set", "driver.rx_ring=4096"];
    let loads = ["--vary", "load=1100kpps,1180kpps"];
    let output = Command::cargo_bin("kpps").unwrap().arg("grid").args(machine).args(loads).output().unwrap();
    let said = String::from_utf8(output.stdout).unwrap();
    let best = said.lines().find_map(|line| line.trim().strip_prefix("most:")).unwrap();
    let kpps: f64 = best.split_whitespace().next().unwrap().parse().unwrap();
    let truth = sustained_pps(&machine, "1300kpps") / 1e3;
    assert!((kpps / truth - 1.0).abs() < 0.005, "{kpps} kpps are called best, {truth} are sustained: {said}");
    assert!(said.contains("queues grew during the measurement"), "{said}");
}

/// Nothing is lost in 50 ms at a load that is not sustained: the trial says by how much its queues grew.
#[test]
fn a_short_trial_says_that_a_queue_grew() {
    let machine = ["--machine", "morris2000", "--driver", "kpps"];
    let truth = sustained_pps(&machine, "720kpps");
    let trial = kpps(&[&["trial", "--load", "682kpps"], &machine[..]].concat());
    assert_eq!(trial["loss_ratio"], 0.0, "{trial:#}");
    let grew = trial["queue_growth"].as_f64().unwrap();
    let above = (682e3 - truth) * 0.05;
    assert!((grew - above).abs() <= 0.1 * above, "{grew} frames, {above} are above the rate");
    assert_eq!(trial["doubts"][0]["what"], "queues-grew", "{trial:#}");
    // No loss so far, and no loss is accepted.
    let words = ["trial", "--load", "682kpps", "--max-loss", "0"];
    let output = Command::cargo_bin("kpps").unwrap().args(words).args(machine).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(
        !output.status.success() && said.contains("frames that still waited in growing queues"),
        "{said}"
    );
    let steady = kpps(&[&["trial", "--load", "670kpps", "--max-loss", "0"], &machine[..]].concat());
    assert_eq!((&steady["queue_growth"], &steady["doubts"]), (&0.into(), &Value::Null));
}
