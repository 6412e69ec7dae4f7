//! A snapshot in one line.

use super::sample::Snapshot;
use kpps_documents::words::rate;
use std::fmt::Write;
use std::time::Duration;

/// The snapshot as a line.
pub fn line(snapshot: &Snapshot) -> String {
    let Snapshot { elapsed, rates, lost, doing, .. } = snapshot;
    let mut text = format!("{:>5.0} s", elapsed.as_secs_f64());
    let done = done(snapshot);
    if !done.is_empty() {
        let _ = write!(text, "  {done}");
    }
    if let Some(rates) = rates {
        let (sent, received) = (rate(rates.sent_pps), rate(rates.received_pps));
        let _ = write!(text, "  sent {sent}  received {received}");
    }
    if lost.due > 0 && !lost.so_far {
        let _ = write!(text, "  {:.4} % lost", share(lost.frames, lost.due) * 100.0);
    }
    if !doing.is_empty() {
        let _ = write!(text, "  {doing}");
    }
    text
}

/// The trials done, and the estimated time left; empty for a run with a single trial.
pub(crate) fn done(snapshot: &Snapshot) -> String {
    let &Snapshot { done, wanted, elapsed, .. } = snapshot;
    match wanted {
        Some(wanted) if (1..wanted).contains(&done) => {
            let left_s = elapsed.as_secs_f64() * (wanted - done) as f64 / done as f64;
            let left = Duration::try_from_secs_f64(left_s).unwrap_or(Duration::MAX);
            format!("{done} of {wanted} done, {} left", duration(left))
        }
        Some(wanted) => format!("{done} of {wanted} done"),
        None if done > 0 => format!("{done} trials"),
        None => String::new(),
    }
}

pub(crate) fn duration(time: Duration) -> String {
    match time.as_secs() {
        seconds @ 0..60 => format!("{seconds} s"),
        seconds @ 60..3600 => format!("{}:{:02} min", seconds / 60, seconds % 60),
        seconds => format!("{}:{:02} h", seconds / 3600, seconds / 60 % 60),
    }
}

/// A part of a whole, from 0 to 1.
pub(crate) fn share(part: u64, whole: u64) -> f64 {
    part as f64 / whole.max(1) as f64
}

#[cfg(test)]
mod tests {
    use super::super::sample::{Lost, Rates};
    use super::*;

    #[test]
    fn a_line_says_what_is_known() {
        let mut snapshot = Snapshot {
            elapsed: Duration::from_secs(7),
            rates: Some(Rates { offered_pps: None, sent_pps: 12_345.0, received_pps: 12_000.0 }),
            ..Snapshot::default()
        };
        assert_eq!(line(&snapshot), "    7 s  sent 12.3 kpps  received 12.0 kpps");
        snapshot.rates = Some(Rates { offered_pps: None, sent_pps: 20.0, received_pps: 19.5 });
        assert_eq!(line(&snapshot), "    7 s  sent 20 pps  received 19.5 pps");
        snapshot.rates = Some(Rates { offered_pps: None, sent_pps: 12_345.0, received_pps: 12_000.0 });
        snapshot.doing = "64 B: 12.3 kpps".into();
        (snapshot.done, snapshot.wanted) = (3, Some(8));
        snapshot.lost = Lost { due: 1000, frames: 5, ..Lost::default() };
        assert_eq!(
            line(&snapshot),
            "    7 s  3 of 8 done, 11 s left  sent 12.3 kpps  received 12.0 kpps  0.5000 % lost  64 B: 12.3 kpps"
        );
    }
}
