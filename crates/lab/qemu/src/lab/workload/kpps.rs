//! kpps itself, as a program in the guest.

use super::{Backend, Count, LOADED, OPEN, PAIR, Running, Work, bind, involved, load_backend, stand_in};
use crate::lab::counters::Snapshot;
use crate::lab::options::address;
use crate::lab::workload::card::{MissedFrames, StoredFrames};
use crate::lab::{Error, Guest, Result};
use serde_json::Value;
use std::collections::BTreeMap;

const OUT: &str = "/tmp/kpps.json";
const SO_FAR: &str = "/tmp/kpps.lines";
/// Frames that circulate in a loop: as many as testpmd sends by its two ports.
const PRIME: u32 = 64;

struct Kpps {
    work: Work,
    missed: MissedFrames,
    stored: StoredFrames,
}

pub(super) fn start(guest: &mut Guest, backend: Backend, work: Work, ring: u16) -> Result<Box<dyn Running>> {
    load_backend(guest, backend)?;
    for index in involved(work) {
        bind(guest, index, stand_in(backend))?;
    }
    let port = |index: usize| format!("{}:{}", backend.name(), address(index));
    let command = match work {
        Work::Transmit => format!("send {}", port(OPEN)),
        Work::Receive => format!("count {}", port(LOADED)),
        Work::Loop => format!("forward {} {} --prime {PRIME}", port(PAIR[0]), port(PAIR[1])),
        Work::Forward => format!("forward {} {}", port(LOADED), port(OPEN)),
        Work::Bridge => format!("bridge {} {}", port(LOADED), port(OPEN)),
    };
    guest.run(&format!("rm -f {OUT} {SO_FAR}"))?;
    guest.run(&format!(
        "setsid kpps {command} --ring {ring} --duration 1h --every 20ms --json > {OUT} 2> {SO_FAR} &"
    ))?;
    let begun = guest.run(&format!(
        "i=0; while ! grep -q seconds {SO_FAR}; do i=$((i + 1)); \
         if [ $i -gt 2000 ] || ! pidof kpps > /dev/null; then tail -3 {SO_FAR}; exit 1; fi; usleep 5000; done"
    ));
    begun.map_err(|error| match error {
        Error::Command { output, .. } => Error::Input(format!("kpps does not start: {output}")),
        other => other,
    })?;
    let card = *involved(work).first().unwrap_or(&LOADED);
    let (missed, stored) = (MissedFrames::of(guest, card)?, StoredFrames::of(guest, card)?);
    Ok(Box::new(Kpps { work, missed, stored }))
}

impl Running for Kpps {
    fn counter(&self) -> String {
        format!("tail -2 {SO_FAR}")
    }

    fn frames(&self, snapshot: &Snapshot) -> Result<Count> {
        let wrong = || Error::Protocol { what: "the counters of kpps".into(), answer: snapshot.text.clone() };
        // The last line may be incomplete.
        let line = snapshot.text.lines().rfind(|line| line.ends_with('}')).ok_or_else(wrong)?;
        let value: Value = serde_json::from_str(line).map_err(|_| wrong())?;
        let frames = if self.work == Work::Receive { &value["received"] } else { &value["sent"] };
        let seconds = value["seconds"].as_f64().ok_or_else(wrong)?;
        Ok(Count { at_ns: (seconds * 1e9) as u64, frames: frames.as_u64().ok_or_else(wrong)? })
    }

    fn drops(&self, guest: &mut Guest) -> Result<BTreeMap<String, u64>> {
        Ok([("ring".to_owned(), self.missed.now(guest)?)].into())
    }

    fn stored(&self, guest: &mut Guest) -> Result<u64> {
        self.stored.take(guest)
    }

    fn finish(self: Box<Self>, guest: &mut Guest) -> Result<BTreeMap<String, u64>> {
        let mut drops = self.drops(guest)?;
        guest.run(
            "killall -INT kpps; i=0; while pidof kpps > /dev/null && [ $i -lt 500 ]; \
             do usleep 10000; i=$((i + 1)); done; ! pidof kpps > /dev/null",
        )?;
        let text = guest.run(&format!("cat {OUT}"))?;
        let results: Value = serde_json::from_str(&text)
            .map_err(|_| Error::Protocol { what: "the results of kpps".into(), answer: text.clone() })?;
        for port in results["ports"].as_array().into_iter().flatten() {
            for (place, count) in port["drops"].as_object().into_iter().flatten() {
                let place = match place.as_str() {
                    // Counted above, by the card itself.
                    "missed" => continue,
                    "full" => "transmit ring",
                    other => other,
                };
                // Null is a place that this port does not count.
                if let Some(count) = count.as_u64() {
                    *drops.entry(place.to_owned()).or_insert(0) += count;
                }
            }
        }
        Ok(drops)
    }
}
