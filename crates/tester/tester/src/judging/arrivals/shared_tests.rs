//! Several judges, each of the frames of some flows, find what one judge of all frames finds.
#![allow(clippy::unwrap_used)]

use super::*;
use crate::judging::received::OfFlow;
use kpps_frames::flows::{Addresses, Flows, PortNumbers};
use kpps_frames::{Mac, Mix};
use kpps_ports::port::run::SentNumbers;
use proptest::prelude::*;

const FLOWS: u32 = 10;
/// The stream of the tests.
const STREAM: u16 = 7;

fn templates() -> Arc<Templates> {
    let addresses = ["198.18.0.1", "198.19.0.2"].map(|text| text.parse::<Addresses>().unwrap());
    let ports = [PortNumbers::from(49152, FLOWS as u16), PortNumbers::from(9, 1)];
    let flows = Flows::new(Some(FLOWS), addresses, ports).unwrap();
    let mix: Mix = "100:2,120:1".parse().unwrap();
    Arc::new(Templates::tests(&flows, [Mac([2; 6]), Mac([4; 6])], None, &mix).unwrap().of_trial(3))
}

/// A frame, sent each µs; `change` is added to a byte of its header.
fn frame(templates: &Templates, sequence: u64, change: u8) -> Vec<u8> {
    let mut frame = vec![0; 200];
    let bytes = templates.write(sequence, &mut frame).unwrap();
    frame.truncate(bytes.into());
    let tag = Tag { stream: STREAM, sequence, sent_ps: (sequence + 1) * 1_000_000 };
    templates.tag().write(&mut frame, tag).unwrap();
    // The type of service.
    frame[15] = frame[15].wrapping_add(change);
    frame
}

/// Judges of the frames on each core, or one of all.
fn judges(templates: &Arc<Templates>, cores: usize) -> Vec<Arrivals> {
    let epoch = Instant::now();
    let judge = |_| {
        let one = Arrivals::new(STREAM, templates.clone(), epoch, 700).in_parts(1, Duration::from_millis(2));
        if cores > 1 { one.beside_others() } else { one }
    };
    (0..cores).map(judge).collect()
}

/// All records together.
fn together(judges: Vec<Arrivals>, sent: u64, by_cores: &[u64]) -> (Received, Vec<Latency>) {
    let all = judges.into_iter().reduce(|mut all, more| {
        all.add(more);
        all
    });
    let mut all = all.unwrap();
    all.settle_sent(&[sent], by_cores);
    all.finish(&[sent])
}

/// The findings, as numbers: counts, flows, sizes, the runs of lost frames.
type Found = (Arrived, Vec<OfFlow>, Vec<(u64, u64)>, Option<[u64; 5]>);

fn found(received: &Received) -> Found {
    let runs = received
        .losses
        .map(|it| [it.first.first, it.first.frames, it.longest.first, it.longest.frames, it.frames]);
    (received.arrived, received.flows.clone(), received.sizes.clone(), runs)
}

proptest! {
    /// Several judges find what one finds of frames of ten flows, some of them lost, twice, late, or damaged,
    /// whatever flows each judge gets.
    #[test]
    fn several_judges_find_what_one_finds(
        fates in prop::collection::vec(0..40_u8, 1..300),
        cores in 2..5_usize,
        hash in prop::collection::vec(0..5_usize, FLOWS as usize),
        unsent in 0..3_u64,
    ) {
        let templates = templates();
        let (mut one, mut several) = (judges(&templates, 1), judges(&templates, cores));
        let mut order: Vec<(u64, u8)> = Vec::new();
        let mut late: Vec<(u64, u8)> = Vec::new();
        // Until a judge has seen whole frames, it does not know how most headers have changed.
        let whole = [9; 2 * FLOWS as usize];
        for (sequence, fate) in (0..).zip(whole.iter().chain(&fates)) {
            match fate {
                0..=2 => {}
                3 => order.extend([(sequence, 0), (sequence, 0)]),
                4 => order.push((sequence, 8)),
                5 => order.extend([(sequence, 8), (sequence, 0)]),
                6 => late.push((sequence, 0)),
                _ => order.push((sequence, 0)),
            }
            if sequence % 25 == 24 {
                order.append(&mut late);
            }
        }
        let is_in_order = order.is_sorted() && late.is_empty();
        order.append(&mut late);
        for (n, (sequence, change)) in (0..).zip(&order) {
            let frame = frame(&templates, *sequence, *change);
            let core = hash[(*sequence % u64::from(FLOWS)) as usize] % cores;
            // The clock of the arrivals is the kernel's.
            let at_ns = one[0].epoch_of_day.ns + 1_000_000 + n * 1000;
            prop_assert!(one[0].take(&frame, Some(at_ns)));
            let stamp = several[core].epoch_of_day.ns + 1_000_000 + n * 1000;
            prop_assert!(several[core].take(&frame, Some(stamp)));
        }
        let sent = (whole.len() + fates.len()) as u64 + unsent;
        let (one, times) = one.pop().unwrap().finish(&[sent]);
        let (all, other_times) = together(several, sent, &[]);
        prop_assert_eq!(found(&one), found(&all));
        prop_assert_eq!(times[0].frames(), other_times[0].frames());
        prop_assert_eq!(times[0].variation.pairs, other_times[0].variation.pairs);
        // One judge takes the time of the first frame after a gap, whatever fills the gap's end later.
        if is_in_order {
            prop_assert_eq!(one.last_gap, all.last_gap);
            let of = |losses: Losses| [losses.first, losses.longest].map(|lost| lost.times_ps(0, sent * 1_000_000));
            prop_assert_eq!(one.losses.map(of), all.losses.map(of));
        }
    }

    /// Frames that a core of the sender could not send are not lost, wherever they are among the others.
    #[test]
    fn unsent_frames_are_not_lost(
        sent in prop::collection::vec(300..303_u64, 2..4),
        lost in prop::collection::btree_set(0..600_u64, 0..20),
        hash in prop::collection::vec(0..3_usize, FLOWS as usize),
    ) {
        let templates = templates();
        let numbers = SentNumbers::of(FLOWS, &sent);
        let unsent: std::collections::BTreeSet<u64> = numbers.unsent().collect();
        let mut judges = judges(&templates, 3);
        let mut missing = 0;
        for sequence in (0..numbers.end()).filter(|number| !unsent.contains(number)) {
            if lost.contains(&sequence) {
                missing += 1;
                continue;
            }
            let judge = &mut judges[hash[(sequence % u64::from(FLOWS)) as usize]];
            judge.take(&frame(&templates, sequence, 0), None);
        }
        let (all, _) = together(judges, numbers.all(), &sent);
        prop_assert_eq!(all.arrived.received, numbers.all() - missing);
        prop_assert_eq!(all.flows.iter().map(|flow| flow.sent).sum::<u64>(), numbers.all());
        prop_assert_eq!(all.flows.iter().map(|flow| flow.sent - flow.received).sum::<u64>(), missing);
        prop_assert_eq!(all.sizes.iter().map(|size| size.0).sum::<u64>(), numbers.all());
        if unsent.len() as f64 <= 0.01 * numbers.all() as f64 {
            prop_assert_eq!(all.losses.map_or(0, |losses| losses.frames), missing);
        }
    }

    /// A frame that comes to two cores is one frame and a duplicate.
    #[test]
    fn a_frame_on_two_cores_is_a_duplicate(frames in prop::collection::vec((0..80_u64, 0..2_usize, 0..4_u8), 0..120)) {
        let templates = templates();
        let (mut one, mut several) = (judges(&templates, 1), judges(&templates, 2));
        for (sequence, core, damage) in frames {
            let frame = frame(&templates, sequence, if damage == 0 { 8 } else { 0 });
            one[0].take(&frame, None);
            several[core].take(&frame, None);
        }
        let (one, _) = one.pop().unwrap().finish(&[80]);
        let (all, _) = together(several, 80, &[]);
        // Which copy of a frame came first on all cores is unknown, and so is the order within its flow.
        let counts = |it: &Received| (it.arrived.received, it.arrived.duplicated, it.losses.map(|it| it.frames));
        prop_assert_eq!(counts(&one), counts(&all));
        let received = |it: &Received| -> Vec<_> { it.flows.iter().map(|it| it.received).collect() };
        prop_assert_eq!((received(&one), &one.sizes), (received(&all), &all.sizes));
    }
}
