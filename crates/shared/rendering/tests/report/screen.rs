//! The view of a person, on a usual terminal and on a small one.

use kpps_rendering::live::{Ended, Footer, LiveCpu, Lost, Rates, Snapshot, StreamCount, draw};
use ratatui::Terminal;
use ratatui::backend::TestBackend;
use std::time::Duration;

/// The rates of a second.
fn rates(offered_pps: f64, received_pps: f64) -> Rates {
    Rates { offered_pps: Some(offered_pps), sent_pps: offered_pps, received_pps }
}

fn search() -> Snapshot {
    let trial = |kpps: f64, lost: f64| Ended {
        offered_pps: Some(kpps * 1e3),
        received_pps: kpps * 1e3 * (1.0 - lost),
        loss_ratio: lost,
        ..Ended::default()
    };
    let kinds = |user, system, softirq, irq| {
        vec![("interrupts", irq), ("softirqs", softirq), ("kernel", system), ("programs", user)]
    };
    Snapshot {
        title: "kpps ndr: packet:a and packet:b".into(),
        doing: "64 B: 512.3 kpps for 1 s".into(),
        elapsed: Duration::from_secs(83),
        done: 17,
        wanted: None,
        rates: Some(Rates { offered_pps: Some(512_300.0), sent_pps: 512_287.0, received_pps: 511_940.0 }),
        minute: (0..50)
            .map(|second| rates(512_300.0, 511_940.0 * (f64::from(second % 10) + 1.0) / 10.0))
            .collect(),
        lost: Lost {
            so_far: true,
            due: 512_287,
            frames: 412,
            places: vec![("pb backlog".into(), 310), ("packet:b missed".into(), 62)],
        },
        streams: (vec![], 0),
        cpus: vec![
            LiveCpu { busy: kinds(0.25, 0.4, 0.25, 0.02), idle: 0.08 },
            LiveCpu { busy: kinds(0.1, 0.2, 0.0, 0.0), idle: 0.7 },
        ],
        trials: vec![trial(600.0, 0.1466), trial(500.0, 0.0), trial(1488.1, 0.6559)],
        footer: Footer::Ends,
    }
}

fn curve() -> Snapshot {
    Snapshot {
        title: "kpps curve: morris2000, 82543gc".into(),
        doing: "intel-5.7.6".into(),
        elapsed: Duration::from_secs(12),
        done: 34,
        wanted: Some(75),
        rates: Some(Rates { offered_pps: Some(4e5), sent_pps: 4e5, received_pps: 319_840.0 }),
        minute: [1e5, 2e5, 3e5, 319_840.0].map(|received| rates(4e5, received)).into(),
        lost: Lost {
            so_far: false,
            due: 40_000,
            frames: 8016,
            places: vec![("backlog".into(), 6000), ("ring".into(), 2016)],
        },
        streams: (vec![], 0),
        cpus: vec![LiveCpu {
            busy: vec![("interrupts", 0.4), ("softirqs", 0.6), ("threads", 0.0), ("idle polls", 0.0)],
            idle: 0.0,
        }],
        trials: vec![],
        footer: Footer::Ending,
    }
}

fn screen(snapshot: &Snapshot, columns: u16, rows: u16) -> String {
    let mut terminal = Terminal::new(TestBackend::new(columns, rows)).unwrap();
    terminal.draw(|frame| draw(snapshot, frame.area(), frame.buffer_mut(), false)).unwrap();
    terminal.backend().to_string()
}

#[test]
fn a_search_on_a_usual_terminal() {
    insta::assert_snapshot!(screen(&search(), 80, 24));
}

/// More streams than rows: the worst are shown.
#[test]
fn streams_on_a_usual_terminal() {
    let stream = |(n, missing): (usize, u64)| StreamCount {
        name: format!("stream {n} with a name that is longer than its column"),
        sent: 10_000,
        received: 10_000 - missing,
    };
    let missing = [400, 31, 7, 1, 0, 0, 0, 0, 0, 0].into_iter().enumerate();
    let snapshot = Snapshot { streams: (missing.map(stream).collect(), 1000), trials: vec![], ..search() };
    insta::assert_snapshot!(screen(&snapshot, 80, 24));
}

#[test]
fn a_search_on_a_small_terminal() {
    insta::assert_snapshot!(screen(&search(), 40, 12));
}

#[test]
fn a_curve_on_a_usual_terminal() {
    insta::assert_snapshot!(screen(&curve(), 80, 24));
}

#[test]
fn many_cpus_on_a_small_terminal() {
    let mut snapshot = search();
    let two = snapshot.cpus.clone();
    snapshot.cpus = two.iter().cycle().take(16).cloned().collect();
    insta::assert_snapshot!(screen(&snapshot, 40, 12));
}

/// The keys that change the load are shown where it can be changed, with the typed text and its effect.
#[test]
fn the_last_row_is_of_the_keys() {
    for (footer, columns, words) in [
        (Footer::Ends, 80, "q ends the run; results so far are kept"),
        (Footer::ChangesRate, 80, "q ends the run; + and - change the load, or type one"),
        (Footer::ChangesRate, 40, "q ends the run; + and - change the load"),
        (Footer::Typing("80k".into()), 40, "load: 80k▏ Enter sets it, Esc does not"),
        (Footer::Says("80.0 kpps from now on".into()), 40, "80.0 kpps from now on"),
        (Footer::Ending, 40, "ending …; Ctrl-C again ends at once"),
    ] {
        let screen = screen(&Snapshot { footer, ..search() }, columns, 12);
        assert!(screen.lines().last().unwrap().starts_with(&format!("\"{words}")), "{screen}");
    }
}

#[test]
fn no_terminal_is_too_small() {
    for columns in 1..45 {
        for rows in 1..26 {
            screen(&search(), columns, rows);
            screen(&Snapshot::default(), columns, rows);
        }
    }
}

#[test]
fn colours_are_only_where_they_are_wanted() {
    let colours = |wanted| {
        let mut terminal = Terminal::new(TestBackend::new(80, 24)).unwrap();
        terminal.draw(|frame| draw(&search(), frame.area(), frame.buffer_mut(), wanted)).unwrap();
        let cells = terminal.backend().buffer().content();
        cells.iter().filter(|cell| cell.fg != ratatui::style::Color::Reset).count()
    };
    assert_eq!(colours(false), 0);
    assert!(colours(true) > 50);
}
