//! DPDK: testpmd with its e1000 driver, controlled by its command line.

use super::{Backend, Count, LOADED, Running, Work, bind, involved, load_backend, stand_in};
use crate::lab::counters::Snapshot;
use crate::lab::options::address;
use crate::lab::workload::card::{MissedFrames, Register, SENT, STORED, StoredFrames};
use crate::lab::{Error, Guest, Result};
use std::cell::Cell;
use std::collections::BTreeMap;
use std::time::Duration;

const LOG: &str = "/tmp/testpmd.log";
const IN: &str = "/tmp/testpmd.in";
/// Starting takes seconds: huge pages are cleared, links come up.
const START: Duration = Duration::from_secs(60);
/// How often the start is checked.
const LOOKS: u32 = 2000;
/// A CPU for testpmd's main thread, which sleeps, and one for the thread that forwards.
const LCORES: &str = "0@0,1@0";

/// Room for two cards with rings of 4096, and for frames under way: 36 MiB.
const BUFFERS: u32 = 17408;

struct Testpmd {
    work: Work,
    /// The cards' counters of its frames. Asking testpmd itself would take as much of its only CPU as sending
    /// thousands of frames.
    counters: Vec<Register>,
    /// Their sum so far: a read clears them.
    frames: Cell<u64>,
    missed: MissedFrames,
    stored: StoredFrames,
}

pub(super) fn start(guest: &mut Guest, backend: Backend, work: Work, ring: u16) -> Result<Box<dyn Running>> {
    load_backend(guest, backend)?;
    let cards = involved(work);
    for index in &cards {
        bind(guest, *index, stand_in(backend))?;
    }
    let (mode, begin) = match work {
        Work::Transmit => ("txonly", "start"),
        Work::Receive => ("rxonly", "start"),
        Work::Loop => ("io", "start tx_first"),
        Work::Forward => ("io", "start"),
        Work::Bridge => return Err(Error::Input("testpmd is no bridge".into())),
    };
    let drivers: String = guest.dpdk_drivers().iter().map(|name| format!(" -d {name}")).collect();
    let allowed: String = cards.iter().map(|index| format!(" -a {}", address(*index))).collect();
    guest.run(&format!("rm -f {IN} {LOG}; mkfifo {IN}"))?;
    guest.run(&format!(
        "LD_PRELOAD=libstdbuf.so _STDBUF_O=L setsid testpmd --lcores {LCORES} -n 1{drivers}{allowed} --in-memory \
         --no-telemetry -- -i --total-num-mbufs={BUFFERS} --rxd={ring} --txd={ring} --txpkts=60 --forward-mode={mode} --no-lsc-interrupt \
         <> {IN} > {LOG} 2>&1 &"
    ))?;
    let until = |what: &str| {
        format!(
            "i=0; while ! grep -q '{what}' {LOG}; do i=$((i + 1)); \
             if [ $i -gt {LOOKS} ] || ! pidof testpmd > /dev/null; then tail -5 {LOG}; exit 1; fi; usleep 5000; done"
        )
    };
    let failed = |error| match error {
        Error::Command { output, .. } => Error::Input(format!("testpmd does not start: {output}")),
        other => other,
    };
    let ready = guest.output(&until("^Done"), START)?;
    if ready.code != 0 {
        return Err(Error::Input(format!("testpmd does not start: {}", ready.text.trim())));
    }
    if work == Work::Loop {
        // QEMU's e1000 does not receive for a second after its setup: frames that are sent once to circulate
        // must not be lost.
        guest.run("sleep 1.2")?;
    }
    let card = *cards.first().unwrap_or(&LOADED);
    let (missed, stored) = (MissedFrames::of(guest, card)?, StoredFrames::of(guest, card)?);
    guest.run(&format!("echo {begin} > {IN}; {}", until("packet forwarding"))).map_err(failed)?;
    // Other drivers may have used the cards: their counts are cleared.
    let offset = if work == Work::Receive { STORED } else { SENT };
    let counters = cards.iter().map(|index| Register::of(guest, *index, offset)).collect::<Result<_>>()?;
    let testpmd = Testpmd { work, counters, frames: Cell::new(0), missed, stored };
    guest.at_once(&testpmd.counter())?;
    Ok(Box::new(testpmd))
}

impl Running for Testpmd {
    fn counter(&self) -> String {
        self.counters.iter().map(Register::command).collect::<Vec<_>>().join("; ")
    }

    fn frames(&self, snapshot: &Snapshot) -> Result<Count> {
        let since = snapshot.text.lines().map(Register::parse).sum::<Result<u64>>()?;
        self.frames.set(self.frames.get() + since);
        Ok(Count { at_ns: snapshot.at_ns, frames: self.frames.get() })
    }

    fn drops(&self, guest: &mut Guest) -> Result<BTreeMap<String, u64>> {
        Ok([("ring".to_owned(), self.missed.now(guest)?)].into())
    }

    fn stored(&self, guest: &mut Guest) -> Result<u64> {
        let since = self.stored.take(guest)?;
        // The counter of received frames is the same register, and has cleared it each time.
        Ok(if self.work == Work::Receive { self.frames.get() + since } else { since })
    }

    fn finish(self: Box<Self>, guest: &mut Guest) -> Result<BTreeMap<String, u64>> {
        let drops = self.drops(guest)?;
        guest.run(&format!(
            "echo quit > {IN}; i=0; while pidof testpmd > /dev/null && [ $i -lt 500 ]; \
             do usleep 10000; i=$((i + 1)); done; ! pidof testpmd > /dev/null || killall -9 testpmd"
        ))?;
        Ok(drops)
    }
}
