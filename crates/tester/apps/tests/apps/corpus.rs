//! Invalid frames, one file each in `tests/corpus`. Its name and first line name the fault, the next lines
//! the expected outcome in each app; the rest is the frame in hexadecimal.
//!
//! Outcomes: `out 1`: it leaves by port 1; a reason: it ends and is counted so; `held`: it waits. In
//! addition, `told`: an ICMP error is sent; `asked`: an ARP request is sent.

use crate::network::{HERE, HOST, OURS, S, THERE, interface, interfaces};
use crate::router::{arp, udp};
use crate::wires::{Frame, push};
use kpps_apps::{App, EtherSwitch, Nat, Router};
use kpps_frames::{Mac, ethernet};
use std::collections::BTreeMap;
use std::path::PathBuf;

struct Case {
    name: String,
    fields: BTreeMap<String, String>,
    frame: Frame,
}

fn case(path: PathBuf) -> Case {
    let text = std::fs::read_to_string(&path).unwrap();
    let (head, hex) = text.split_once("\n\n").unwrap_or((&text, ""));
    let byte = |digits: &str| u8::from_str_radix(digits, 16).unwrap();
    let fields = head.lines().skip(1).map(|line| line.split_once(": ").unwrap());
    Case {
        name: path.file_stem().unwrap().to_str().unwrap().into(),
        fields: fields.map(|(name, value)| (name.into(), value.into())).collect(),
        frame: hex.split_whitespace().map(byte).collect(),
    }
}

fn cases() -> Vec<Case> {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/corpus");
    std::fs::read_dir(folder).unwrap().map(|entry| case(entry.unwrap().path())).collect()
}

/// The outcome of a frame.
fn outcome(app: &mut impl App<Frame>, port: usize, frame: &Frame) -> String {
    let before = app.ledger();
    let out = push(app, port, frame.clone(), S);
    let after = app.ledger();
    let kind = |frame: &Frame| ethernet::Frame::new_checked(&frame[..]).unwrap().ethertype();
    let made = (after.made - before.made) as usize;
    let ended: Vec<_> = after
        .reasons()
        .filter(|(reason, count)| *count > before.ended(*reason))
        .map(|(reason, _)| reason.name())
        .collect();
    // Frames that an app makes leave before the frame itself.
    let what = match (&ended[..], after.held - before.held, &out[made.min(out.len())..]) {
        ([reason], 0, []) => (*reason).into(),
        ([], 1, []) => "held".into(),
        ([], 0, [(port, _)]) => format!("out {port}"),
        other => format!("{other:?}"),
    };
    let more = match &out[..made.min(out.len())] {
        [] => "",
        [(_, made)] if kind(made) == ethernet::TYPE_ARP => ", asked",
        [_] => ", told",
        _ => ", and more",
    };
    what + more
}

/// Both hosts announce themselves in the untagged networks.
fn acquainted(mut router: Router<Frame>) -> Router<Frame> {
    for port in [0, 1] {
        push(&mut router, port, arp(1, (HOST[port], THERE[port]), (Mac::BROADCAST, HERE[port])), 0);
    }
    router
}

fn router() -> Router<Frame> {
    acquainted(Router::new(interfaces(), &[]).unwrap())
}

fn vlan_router() -> Router<Frame> {
    let vlans =
        [interface(0, Some(10), [10, 0, 10, 1].into()), interface(1, Some(20), [10, 0, 20, 1].into())];
    acquainted(Router::new([interfaces(), vlans.to_vec()].concat(), &[]).unwrap())
}

/// A NAT with a mapping: host 0, port 4000, has sent to host 1, port 9.
fn nat() -> Router<Frame> {
    let mut nat = acquainted(Router::new(interfaces(), &[]).unwrap().with_nat(Nat::new(1)).unwrap());
    push(&mut nat, 0, udp(THERE[1], 64, b"question"), 0);
    nat
}

#[test]
fn each_frame_has_its_outcome() {
    let mut wrong = String::new();
    let cases = cases();
    assert!(cases.len() > 100, "{}", cases.len());
    for Case { name, fields, frame } in &cases {
        let port = fields["port"].parse().unwrap();
        for (app, became) in [
            ("bridge", outcome(&mut EtherSwitch::new(2), port, frame)),
            ("route", outcome(&mut router(), port, frame)),
            ("vlan-route", outcome(&mut vlan_router(), port, frame)),
            ("nat", outcome(&mut nat(), port, frame)),
        ] {
            if fields[app] != became {
                wrong += &format!("{name}: {app}: {became}, not {}\n", fields[app]);
            }
        }
    }
    assert!(wrong.is_empty(), "\n{wrong}");
}

/// All of them in turn, cut at every byte and with every bit flipped: nothing panics, and ledgers close
/// (`push` checks).
#[test]
fn cut_and_damaged_frames_are_accounted_for() {
    let (mut bridge, mut router, mut vlan_router, mut nat) =
        (EtherSwitch::new(2), router(), vlan_router(), nat());
    let mut came = 0;
    for Case { fields, frame, .. } in cases() {
        let port = fields["port"].parse().unwrap();
        let cut = (0..frame.len().min(100)).map(|length| frame[..length].to_vec());
        let spoilt = (0..frame.len().min(100) * 8).map(|bit| {
            let mut frame = frame.clone();
            frame[bit / 8] ^= 1 << (bit % 8);
            frame
        });
        for frame in cut.chain(spoilt) {
            push(&mut bridge, port, frame.clone(), S);
            push(&mut router, port, frame.clone(), S);
            push(&mut vlan_router, port, frame.clone(), S);
            push(&mut nat, port, frame, S);
            came += 1;
        }
    }
    assert_eq!(App::<Frame>::ledger(&bridge).received, came);
    assert_eq!(OURS.len() as u64 + came, router.ledger().received);
    assert_eq!(OURS.len() as u64 + came, vlan_router.ledger().received);
    assert_eq!(OURS.len() as u64 + 1 + came, nat.ledger().received);
}
