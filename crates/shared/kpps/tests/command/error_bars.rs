//! Error bars: how far the model's uncertain constants make its results uncertain.

use assert_cmd::Command;
use serde_json::Value;

fn kpps(words: &[&str]) -> std::process::Output {
    Command::cargo_bin("kpps").unwrap().args(words).output().unwrap()
}

#[test]
fn a_curve_has_error_bars_on_the_screen_in_its_documents_and_on_its_page() {
    let folder = tempfile::tempdir().unwrap();
    let page = folder.path().join("page.html");
    let words =
        ["curve", "--driver", "kpps", "--load", "300kpps,100%", "--duration", "2ms", "--error-bars", "20"];
    let output = kpps(&[&words[..], &["--report", page.to_str().unwrap()]].concat());
    let said = String::from_utf8(output.stdout).unwrap();
    assert!(said.contains("p5 to p95") && said.contains("of 20 draws"), "{said}");
    assert!(std::fs::read_to_string(page).unwrap().contains("of 20 draws"));

    let curve: Value = serde_json::from_slice(&kpps(&[&words[..], &["--json"]].concat()).stdout).unwrap();
    assert_eq!(curve["environment"]["draws"], 20);
    let field = |point: usize, name: &str| curve["series"][0]["points"][point][name].as_f64().unwrap();
    let range = |point| ["delivered_pps_p5", "delivered_pps", "delivered_pps_p95"].map(|it| field(point, it));
    let [low, rate, high] = range(0);
    assert!(high - low < 0.01 * rate, "all of a light load arrives: {low} to {high}");
    let [low, rate, high] = range(1);
    assert!(low < rate && rate < high && low > 0.5 * high, "{low} to {high} around {rate}");

    let rows = String::from_utf8(kpps(&[&words[..], &["--csv", "-"]].concat()).stdout).unwrap();
    assert!(rows.lines().next().unwrap().contains("delivered_pps_p5,delivered_pps_p95"), "{rows}");
}

/// A constant that was set is not drawn: with the engine of the card known, its limit is.
#[test]
fn a_constant_that_was_set_is_known() {
    let width = |set: &[&str]| {
        let words = [
            "curve",
            "--driver",
            "kpps",
            "--load",
            "100%",
            "--duration",
            "2ms",
            "--error-bars",
            "20",
            "--json",
        ];
        let curve: Value = serde_json::from_slice(&kpps(&[&words[..], set].concat()).stdout).unwrap();
        let point = &curve["series"][0]["points"][0];
        let [low, high] = ["delivered_pps_p5", "delivered_pps_p95"].map(|it| point[it].as_f64().unwrap());
        high / low - 1.0
    };
    let (unknown, known) = (width(&[]), width(&["--set", "chip.rx_engine_ps=1430000"]));
    assert!(known < 0.7 * unknown, "{known} with the engine known, {unknown} without");
}

#[test]
fn a_study_shows_how_many_figures_are_inside() {
    let words = ["study", "napi2002", "--claim", "N1", "--error-bars", "20"];
    // Lines end where the terminal does.
    let said = String::from_utf8(kpps(&words).stdout).unwrap();
    let said = said.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(said.contains(" of 1 figures that a document states"), "{said}");
    let study: Value = serde_json::from_slice(&kpps(&[&words[..], &["--json"]].concat()).stdout).unwrap();
    let claim = &study["claims"][0];
    let [low, high] = [0, 1].map(|end| claim["values_p5_p95"]["pps"][end].as_f64().unwrap());
    assert!(low < high && study["draws"] == 20, "{claim:#}");
}

#[test]
fn only_a_simulated_machine_has_them() {
    for (words, says) in [
        (&["curve", "--testbed", "known:1Mpps", "--error-bars", "20"][..], "this testbed is none"),
        (&["curve", "--error-bars", "19"], "20 to 10000"),
        (&["study", "napi2002", "--fit", "--error-bars", "20"], "cannot be used"),
    ] {
        let output = kpps(words);
        let said = String::from_utf8(output.stderr).unwrap();
        assert!(output.status.code() == Some(2) && said.contains(says), "{said}");
    }
}
