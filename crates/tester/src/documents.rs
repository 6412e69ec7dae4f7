//! What the commands on ports did, as published: cards, loads, streams, apps, captures, replays.

use crate::document::gaps;
use crate::playback::Playback;
use crate::trial::{DirectionOutcome, Offer};
use kpps_frames::Mix;
use kpps_ports::port::run::{Sent, Shape, Streams};
use kpps_results::detail::{Capture, TrialReplay};
use kpps_results::run::{AppRun, Offered, Stream};

/// The network cards of this host.
#[cfg(target_os = "linux")]
pub fn devices() -> kpps_results::inventory::Devices {
    use kpps_ports::devices::{self, Device};
    use kpps_results::inventory::{DeviceEntry, DeviceInterface, Devices};
    let entry = |device: &Device| DeviceEntry {
        address: device.address.to_string(),
        vendor: format!("{:04x}", device.vendor),
        device: format!("{:04x}", device.device_id),
        chip: device.chip.map(|chip| chip.name().into()),
        driver: device.driver.clone(),
        interface: device.interface.as_ref().map(|interface| DeviceInterface {
            name: interface.name.clone(),
            up: interface.up,
            master: interface.master.clone(),
            carries: interface.carries.clone(),
            addresses: interface.addresses.as_ref().map(|all| all.iter().map(ToString::to_string).collect()),
        }),
        in_other_namespace: device.in_other_namespace,
        iommu_group: device.iommu_group,
        port: device.backend().map(|backend| format!("{backend}:{}", device.address)),
    };
    Devices { devices: devices::list().iter().map(entry).collect(), ..Devices::default() }
}

/// What a port was to send, and what it sent of that.
pub fn offered(
    sizes: &Mix,
    offered_pps: Option<f64>,
    shape: Shape,
    replay: Option<&Playback>,
    sent: &Sent,
) -> Offered {
    Offered {
        size: sizes.name().into(),
        offered_pps,
        intended: sent.intended,
        shortfall: sent.shortfall,
        shape: shape.unusual(),
        gaps: sent.gaps.as_ref().map(gaps),
        departures: replay.map(|replay| replay.departures.clone()).unwrap_or_default(),
    }
}

/// The streams that arrived. Of `expect` frames, those that are missing are lost of the first stream: gaps in
/// the sequence do not show frames lost before the first one and after the last one that arrived.
pub fn streams(streams: &Streams, expect: Option<u64>) -> Vec<Stream> {
    let all = streams.all().into_iter();
    let mut rows: Vec<Stream> = all
        .map(|(stream, tally)| Stream {
            stream,
            received: tally.received,
            lost: tally.lost(),
            duplicated: tally.duplicated,
            reordered: tally.reordered,
            corrupted: 0,
        })
        .collect();
    if let Some(first) = rows.first_mut() {
        first.corrupted = streams.corrupted;
        let missing = expect.map_or(0, |expect| expect.saturating_sub(streams.unique()));
        first.lost = first.lost.max(missing);
    }
    rows
}

/// The account of an app.
pub fn app_run(ledger: &kpps_apps::Ledger) -> AppRun {
    AppRun {
        received: ledger.received,
        made: ledger.made,
        sent: ledger.sent,
        held: ledger.held,
        dropped: ledger.reasons().map(|(reason, count)| (reason.name().to_owned(), count)).collect(),
    }
}

/// The frames that were kept of a trial, in this file.
pub fn capture(file: String, directions: &[DirectionOutcome]) -> Capture {
    Capture {
        file,
        frames: directions.iter().map(|direction| direction.kept.frames.len() as u64).sum(),
        not_kept: directions.iter().map(|direction| direction.kept.not_kept).sum(),
    }
}

impl Playback {
    /// The replay as published, of the trial with this offer.
    pub fn document(&self, offer: &Offer) -> TrialReplay {
        TrialReplay {
            file: self.file.display().to_string(),
            frames: self.count,
            with_equals: offer.replay.as_ref().map_or(0, |replay| replay.classes.with_equals()),
            departures: self.departures.clone(),
        }
    }
}
