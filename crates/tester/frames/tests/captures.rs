//! Captures are read as others read them: classic pcap as tcpdump, pcapng and compressed files as tshark.
//! Each file here is one that a writer somewhere makes, or a damaged one.
#![cfg(feature = "captures")]
#![allow(clippy::unwrap_used)]

use kpps_frames::capture::{Capture, CaptureError, Captured};
use kpps_namespaces::skip;
use serde_json::Value;
use std::io::Write;
use std::path::Path;
use std::process::{Command, Output, Stdio};

/// A frame as both sides see it: time in ns, captured bytes, original length.
type Seen = (Option<i128>, Vec<u8>, usize);

/// The frames that a reader gets from a file, and whether it gets to the end.
type Read = (Vec<Seen>, bool);

/// Numbers in an order of bytes, one after the other.
#[derive(Clone, Copy)]
struct Endian(bool);

impl Endian {
    fn u16s(self, numbers: &[u16]) -> Vec<u8> {
        numbers.iter().flat_map(|it| if self.0 { it.to_be_bytes() } else { it.to_le_bytes() }).collect()
    }
    fn u32s(self, numbers: &[u32]) -> Vec<u8> {
        numbers.iter().flat_map(|it| if self.0 { it.to_be_bytes() } else { it.to_le_bytes() }).collect()
    }
    fn i64(self, number: i64) -> Vec<u8> {
        if self.0 { number.to_be_bytes().to_vec() } else { number.to_le_bytes().to_vec() }
    }
    fn block(self, kind: u32, body: &[u8]) -> Vec<u8> {
        let body = padded(body);
        let length = self.u32s(&[body.len() as u32 + 12]);
        [&self.u32s(&[kind])[..], &length, &body, &length].concat()
    }
    fn option(self, code: u16, value: &[u8]) -> Vec<u8> {
        [self.u16s(&[code, value.len() as u16]), padded(value)].concat()
    }
    fn section(self, minor: u16, options: &[u8]) -> Vec<u8> {
        let head = [self.u32s(&[0x1a2b_3c4d]), self.u16s(&[1, minor]), self.i64(-1)].concat();
        self.block(0x0a0d_0d0a, &[&head, options].concat())
    }
    fn interface(self, link: u16, snap: u32, options: &[u8]) -> Vec<u8> {
        self.block(1, &[&self.u16s(&[link, 0]), &self.u32s(&[snap])[..], options].concat())
    }
    fn packet(self, interface: u32, at: u64, bytes: &[u8], length: u32, options: &[u8]) -> Vec<u8> {
        let head = self.u32s(&[interface, (at >> 32) as u32, at as u32, bytes.len() as u32, length]);
        self.block(6, &[&head, &padded(bytes), options].concat())
    }
    /// A classic file with this magic, version, snapshot length and link type.
    fn classic(self, magic: u32, version: [u16; 2], snap: u32, link: u32, records: &[u8]) -> Vec<u8> {
        let head = [self.u32s(&[magic]), self.u16s(&version), self.u32s(&[0, 0, snap, link])].concat();
        [&head, records].concat()
    }
    fn record(self, time: [u32; 2], lengths: [u32; 2], more: usize, bytes: &[u8]) -> Vec<u8> {
        [&self.u32s(&time), &self.u32s(&lengths)[..], &vec![0x55; more], bytes].concat()
    }
}

fn padded(bytes: &[u8]) -> Vec<u8> {
    let mut bytes = bytes.to_vec();
    bytes.resize(bytes.len().next_multiple_of(4), 0);
    bytes
}

const LE: Endian = Endian(false);
const BE: Endian = Endian(true);
const AT: u64 = 1_700_000_000_123_456;
const ETHERNET: u32 = 1;

fn frame(n: u8, bytes: usize) -> Vec<u8> {
    [&[2, 0, 0, 0, 0, n, 2, 0, 0, 0, 0, 1, 8, 0, 0x45, n][..], &vec![n; bytes - 16]].concat()
}

/// Classic files.
fn classics() -> Vec<(String, Vec<u8>)> {
    let mut all = Vec::new();
    let mut add = |name: &str, file: Vec<u8>| all.push((name.to_owned(), file));
    let two = |e: Endian, more| {
        let first = e.record([1_700_000_000, 5], [60, 60], more, &frame(1, 60));
        [first, e.record([1_700_000_001, 999_999], [96, 1514], more, &frame(2, 96))].concat()
    };
    for (order, e) in [("little", LE), ("big", BE)] {
        for (name, magic, more) in [
            ("micro", 0xa1b2_c3d4, 0),
            ("nano", 0xa1b2_3c4d, 0),
            ("kuznetzov", 0xa1b2_cd34, 8),
            ("navtel", 0xa12b_3c4d, 0),
            ("mesquita", 0xa1b2_34cd, 8),
            ("ixia", 0x1c00_01ac, 0),
        ] {
            add(&format!("{name} {order}"), e.classic(magic, [2, 4], 65_535, ETHERNET, &two(e, more)));
        }
        let late = e.record([0xf000_0000, 5], [60, 60], 0, &frame(1, 60));
        add(&format!("2097 {order}"), e.classic(0xa1b2_c3d4, [2, 4], 65_535, ETHERNET, &late));
    }
    let plain = |version, snap, link, records: &[u8]| LE.classic(0xa1b2_c3d4, version, snap, link, records);
    for snap in [0, 1, 50, 96, 262_144, 262_145, 0x7fff_ffff, 0x8000_0000, u32::MAX] {
        add(&format!("snapshots of {snap}"), plain([2, 4], snap, ETHERNET, &two(LE, 0)));
    }
    for upper in [0x2400_0000, 0x2000_0000, 0x0800_0000, 0x1_0000] {
        add(&format!("link type with {upper:x}"), plain([2, 4], 65_535, ETHERNET | upper, &two(LE, 0)));
    }
    for version in [[2, 0], [2, 2], [2, 3], [543, 0], [2, 5], [1, 2], [3, 0]] {
        let swapped = LE.record([1_700_000_000, 5], [100, 60], 0, &frame(1, 60));
        let records = [swapped, LE.record([1_700_000_000, 6], [60, 60], 0, &frame(1, 60))].concat();
        add(&format!("version {version:?}"), plain(version, 65_535, ETHERNET, &records));
    }
    let longest = LE.record([1_700_000_002, 5], [262_144, 262_144], 0, &frame(1, 262_144));
    for (name, snap, record) in [
        (
            "fraction above a second",
            65_535,
            LE.record([1_700_000_000, 2_500_000], [60, 60], 0, &frame(1, 60)),
        ),
        ("no original length", 65_535, LE.record([1_700_000_000, 5], [60, 0], 0, &frame(1, 60))),
        ("nothing captured", 65_535, LE.record([1_700_000_000, 5], [0, 60], 0, &[])),
        ("longest", 262_144, longest.clone()),
        ("above the snapshot length", 65_535, longest),
        ("too long", 65_535, LE.record([1_700_000_002, 5], [262_145, 262_145], 0, &frame(1, 262_145))),
        ("impossible", 65_535, LE.record([1_700_000_002, 5], [u32::MAX, u32::MAX], 0, &frame(1, 60))),
    ] {
        add(name, plain([2, 4], snap, ETHERNET, &[two(LE, 0), record, two(LE, 0)].concat()));
    }
    let whole = plain([2, 4], 65_535, ETHERNET, &two(LE, 0));
    for missing in [0, 1, 90, 96, 97, 111, 112, 172, 188, 189, 200] {
        add(&format!("{missing} bytes missing"), whole[..whole.len() - missing].to_vec());
    }
    all
}

/// Files of the format pcapng.
fn blocks() -> Vec<(String, Vec<u8>)> {
    let mut all: Vec<(String, Vec<u8>)> = Vec::new();
    let mut add = |name: &str, parts: &[&[u8]]| all.push((name.to_owned(), parts.concat()));
    let section = LE.section(0, &[]);
    let interface = LE.interface(1, 0, &[]);
    let packet = LE.packet(0, AT, &frame(1, 60), 60, &[]);
    add("plain", &[&section, &interface, &packet]);
    add("empty", &[&section]);
    let end = [0; 4];
    add(
        "options without an end",
        &[
            &LE.section(0, &LE.option(4, b"a writer")),
            &LE.interface(1, 0, &LE.option(2, b"eth0")),
            &LE.packet(0, AT, &frame(1, 60), 60, &LE.option(1, b"hello")),
        ],
    );
    add(
        "bytes behind the end of options",
        &[&section, &LE.interface(1, 0, &[&end[..], &[0xff; 8]].concat()), &packet],
    );
    add(
        "texts that are not UTF-8",
        &[
            &LE.section(0, &LE.option(3, b"\xff\xfe")),
            &LE.interface(1, 0, &LE.option(2, b"\xe9th")),
            &LE.packet(0, AT, &frame(1, 60), 60, &LE.option(1, b"caf\xe9")),
        ],
    );
    let beyond = [&LE.u16s(&[99, 100])[..], b"eth0"].concat();
    add("an option behind its interface", &[&section, &LE.interface(1, 0, &beyond), &packet]);
    add(
        "an option behind its packet",
        &[&section, &interface, &packet, &LE.packet(0, AT, &frame(1, 60), 60, &beyond)],
    );
    add("an unused interface of PPP", &[&section, &interface, &LE.interface(9, 0, &[]), &packet]);
    add(
        "an unused interface of an unknown type",
        &[&section, &LE.interface(60_000, 0, &[]), &interface, &LE.packet(1, AT, &frame(1, 60), 60, &[])],
    );
    for seconds in [1000, -1_600_000_000, -1_700_000_100] {
        for (order, e) in [("little", LE), ("big", BE)] {
            add(
                &format!("times {seconds} s later, {order}"),
                &[
                    &e.section(0, &[]),
                    &e.interface(1, 0, &e.option(14, &e.i64(seconds))),
                    &e.packet(0, AT, &frame(1, 60), 60, &[]),
                ],
            );
        }
    }
    // Of finer ones tshark's numbers overflow: see below.
    for resolution in [1, 3, 6, 9, 0x80 | 1, 0x80 | 10, 0x80 | 20, 0x80 | 30] {
        let resolved = LE.interface(1, 0, &LE.option(9, &[resolution]));
        let packets = [7, AT].map(|at| LE.packet(0, at, &frame(1, 60), 60, &[])).concat();
        add(&format!("resolution {resolution:02x}"), &[&section, &resolved, &packets]);
    }
    let two = [LE.option(9, &[9]), LE.option(9, &[6])].concat();
    add("two resolutions", &[&section, &LE.interface(1, 0, &two), &packet]);
    add(
        "a resolution of four bytes",
        &[&section, &LE.interface(1, 0, &LE.option(9, &[9, 0, 0, 0])), &packet],
    );
    add("an offset of four bytes", &[&section, &LE.interface(1, 0, &LE.option(14, &[9, 0, 0, 0])), &packet]);
    let simple = |bytes: &[u8], length| LE.block(3, &[&LE.u32s(&[length]), bytes].concat());
    add("simple packets", &[&section, &interface, &simple(&frame(1, 61), 61), &packet]);
    add(
        "a simple packet cut off",
        &[&section, &LE.interface(1, 40, &[]), &simple(&frame(1, 40), 100), &packet],
    );
    add("a simple packet that is too short", &[&section, &interface, &packet, &simple(&frame(1, 40), 100)]);
    add("a simple packet of no interface", &[&section, &simple(&frame(1, 40), 40)]);
    let obsolete = |interface: u16| {
        let head = [LE.u16s(&[interface, 3]), LE.u32s(&[(AT >> 32) as u32, AT as u32, 60, 99])].concat();
        LE.block(2, &[head, frame(3, 60)].concat())
    };
    let nano = LE.interface(1, 0, &LE.option(9, &[9]));
    add("obsolete packets", &[&section, &interface, &nano, &obsolete(0), &obsolete(1), &packet]);
    add(
        "sections in both orders",
        &[
            &section,
            &interface,
            &packet,
            &BE.section(0, &[]),
            &BE.interface(1, 0, &BE.option(9, &[9])),
            &BE.packet(0, AT, &frame(2, 61), 61, &[]),
            &LE.section(2, &[]),
            &interface,
            &packet,
        ],
    );
    add(
        "a section without interfaces",
        &[&section, &interface, &packet, &BE.section(0, &[]), &BE.packet(0, AT, &frame(2, 61), 61, &[])],
    );
    add(
        "an interface that is not there",
        &[&section, &interface, &packet, &LE.packet(3, AT, &frame(1, 60), 60, &[])],
    );
    add(
        "unknown blocks",
        &[
            &section,
            &LE.block(0x77, b"abcde"),
            &interface,
            &LE.block(0x8000_0001, &[]),
            &LE.block(4, &end),
            &LE.block(5, &[0; 12]),
            &packet,
            &LE.block(0x77, &[1; 70_000]),
            &packet,
        ],
    );
    // To tshark these are records, too.
    add(
        "custom blocks",
        &[
            &section,
            &interface,
            &LE.block(0xbad, &[LE.u32s(&[32_473]), vec![7; 4]].concat()),
            &packet,
            &LE.block(0x4000_0bad, &[LE.u32s(&[32_473]), vec![7; 4]].concat()),
            &packet,
        ],
    );
    for length in [0, 8, 11, 13, 0x0900_0000, u32::MAX] {
        add(
            &format!("a block of {length} bytes"),
            &[&section, &interface, &packet, &LE.u32s(&[0x77, length]), &packet],
        );
    }
    add(
        "a length without its padding",
        &[&section, &interface, &LE.u32s(&[0x77, 14]), b"ab\0\0", &LE.u32s(&[14]), &packet],
    );
    let mut other = packet.clone();
    *other.last_mut().unwrap() = 1;
    add("lengths that differ", &[&section, &interface, &packet, &other]);
    for minor in [1, 2, 3] {
        add(&format!("version 1.{minor}"), &[&LE.section(minor, &[]), &interface, &packet]);
    }
    add("an interface that is too short", &[&section, &interface, &packet, &LE.block(1, &[1; 4])]);
    add("a packet that is too short", &[&section, &interface, &packet, &LE.block(6, &[0; 8])]);
    let mut claims = packet.clone();
    claims[20] = 100;
    add("more captured than there is", &[&section, &interface, &packet, &claims]);
    add(
        "a length below the captured one",
        &[&section, &interface, &LE.packet(0, AT, &frame(1, 60), 20, &[])],
    );
    add("above the snapshot length", &[&section, &LE.interface(1, 40, &[]), &packet]);
    add("nothing captured", &[&section, &interface, &LE.packet(0, AT, &[], 60, &[]), &packet]);
    for bytes in [262_144, 262_145] {
        let long = LE.packet(0, AT, &frame(1, bytes), bytes as u32, &[]);
        add(&format!("{bytes} bytes captured"), &[&section, &interface, &packet, &long]);
    }
    for missing in [1, 4, 30, 59, 60, 80, 87, 88, 91] {
        add(&format!("{missing} bytes missing"), &[&section, &interface, &packet, &packet[..92 - missing]]);
    }
    add("something else at the end", &[&section, &interface, &packet, b"garbage!garbage!"]);
    all
}

fn output(program: &str, arguments: &[&str], path: &Path) -> Output {
    Command::new(program).args(arguments).arg(path).output().unwrap()
}

/// Frames as tcpdump reads them: it writes them into a new file of one kind.
fn tcpdump(path: &Path) -> Read {
    let Output { status, stdout, .. } = output("tcpdump", &["--nano", "-w", "-", "-r"], path);
    let mut frames = Vec::new();
    let mut rest = stdout.get(24..).unwrap_or_default();
    while let Some((head, behind)) = rest.split_at_checked(16) {
        let number = |at: usize| u32::from_ne_bytes(head[at..at + 4].try_into().unwrap());
        let (bytes, behind) = behind.split_at(number(8) as usize);
        let at = i128::from(number(0)) * 1_000_000_000 + i128::from(number(4));
        frames.push((Some(at), bytes.to_vec(), number(12) as usize));
        rest = behind;
    }
    (frames, status.success())
}

fn tshark(path: &Path) -> Read {
    let Output { status, stdout, .. } = output("tshark", &["-T", "json", "-x", "-J", "frame", "-r"], path);
    // Names of interfaces are in it as they are.
    let packets: Vec<Value> = serde_json::from_str(&String::from_utf8_lossy(&stdout)).unwrap_or_default();
    let frames = packets.iter().filter_map(|packet| {
        let layers = &packet["_source"]["layers"];
        let frame = &layers["frame"];
        // A record that is no packet has none.
        frame["frame.encap_type"].as_str()?;
        let text = |name: &str| frame[name].as_str();
        let hex = layers["frame_raw"][0].as_str().unwrap_or_default();
        let bytes = (0..hex.len() / 2).map(|at| u8::from_str_radix(&hex[2 * at..2 * at + 2], 16).unwrap());
        let at = text("frame.time_epoch").map(|time| {
            let (seconds, nanos) = time.split_once('.').unwrap();
            let (seconds, nanos): (i128, i128) = (seconds.parse().unwrap(), nanos.parse().unwrap());
            // Before 1970 it prints the parts apart: nanoseconds count forward.
            seconds * 1_000_000_000 + nanos
        });
        Some((at, bytes.collect(), text("frame.len")?.parse().unwrap()))
    });
    (frames.collect(), status.success())
}

fn ours(path: &Path) -> (Vec<Captured>, Option<CaptureError>) {
    let mut frames = Vec::new();
    let capture = match Capture::new(std::fs::File::open(path).unwrap()) {
        Ok(capture) => capture,
        Err(error) => return (frames, Some(error)),
    };
    for frame in capture {
        match frame {
            Ok(frame) => frames.push(frame),
            Err(error) => return (frames, Some(error)),
        }
    }
    (frames, None)
}

/// Whether the programs are installed.
fn have(programs: &[&str]) -> bool {
    let missing = programs.iter().find(|program| {
        let found =
            Command::new(program).arg("--version").stdout(Stdio::null()).stderr(Stdio::null()).status();
        found.is_err()
    });
    if let Some(missing) = missing {
        skip::needs(missing);
    }
    missing.is_none()
}

/// Compares the readers of all files; `fcs` bytes are left out at the end of some.
fn compare(files: &[(String, Vec<u8>)], other: fn(&Path) -> Read, fcs: fn(&str) -> usize) -> Vec<String> {
    let folder = tempfile::tempdir().unwrap();
    let one = |index: usize| {
        let (name, contents) = &files[index];
        let path = folder.path().join(index.to_string());
        std::fs::write(&path, contents).unwrap();
        let (mut expected, whole) = other(&path);
        for (_, bytes, length) in &mut expected {
            // Of a frame that is longer than the file says the captured bytes count.
            *length = (*length).max(bytes.len()) - fcs(name);
            bytes.truncate(*length);
        }
        let (frames, error) = ours(&path);
        let frames: Vec<Seen> = frames.into_iter().map(|it| (it.at_ns, it.bytes, it.length)).collect();
        let same = frames == expected && error.is_none() == whole;
        let short = |frames: &[Seen]| -> Vec<_> {
            frames.iter().map(|(at, bytes, length)| (*at, bytes.len(), *length)).collect()
        };
        let (us, them) = (short(&frames), short(&expected));
        (!same).then(|| format!("{name}: {us:?} {error:?}, and others read {them:?}, to the end: {whole}"))
    };
    // The other programs mostly wait.
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..4)
            .map(|first| {
                scope.spawn(move || (first..files.len()).step_by(4).filter_map(one).collect::<Vec<_>>())
            })
            .collect();
        threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect()
    })
}

#[test]
fn classic_files_are_read_as_tcpdump_reads_them() {
    if have(&["tcpdump"]) {
        let fcs = |name: &str| if name == "link type with 24000000" { 4 } else { 0 };
        assert_eq!(compare(&classics(), tcpdump, fcs), [""; 0]);
    }
}

#[test]
fn pcapng_files_are_read_as_tshark_reads_them() {
    if have(&["tshark"]) {
        assert_eq!(compare(&blocks(), tshark, |_| 0), [""; 0]);
    }
}

/// tshark finds the FCS at the end of these, too, and shows it as a part of the frame.
#[test]
fn an_fcs_is_no_part_of_the_frame() {
    let section = LE.section(0, &[]);
    let interface = |options: &[u8]| LE.interface(1, 0, options);
    let whole = [frame(1, 60), vec![0xfc; 4]].concat();
    // In bytes, in bits, and of one packet.
    let files = [
        [section.clone(), interface(&LE.option(13, &[4])), LE.packet(0, AT, &whole, 64, &[])],
        [section.clone(), interface(&LE.option(13, &[32])), LE.packet(0, AT, &whole, 64, &[])],
        [section.clone(), interface(&[]), LE.packet(0, AT, &whole, 64, &LE.option(2, &[0x80, 0, 0, 0]))],
        // Cut off within the FCS.
        [section, interface(&LE.option(13, &[4])), LE.packet(0, AT, &whole[..62], 64, &[])],
    ];
    let files: Vec<_> = files.iter().enumerate().map(|(n, file)| (n.to_string(), file.concat())).collect();
    for (_, file) in &files {
        let frames: Vec<_> = Capture::new(&file[..]).unwrap().map(Result::unwrap).collect();
        assert_eq!((&frames[0].bytes, frames[0].length), (&frame(1, 60), 60));
    }
    if have(&["tshark"]) {
        assert_eq!(compare(&files[..3], tshark, |_| 4), [""; 0]);
    }
}

/// Finer than tshark computes: 10⁻¹² s and 2⁻⁶³ s.
#[test]
fn times_of_the_finest_resolutions_are_exact() {
    for (resolution, units, at_ns) in [
        (12, 1_700_000_000_123_456_789, 1_700_000_000_123_456),
        (0x80 | 63, 3 << 62, 1_500_000_000),
        (0xff, u64::MAX, 0),
        (127, u64::MAX, 0),
    ] {
        let interface = LE.interface(1, 0, &LE.option(9, &[resolution]));
        let packet = LE.packet(0, units, &frame(1, 60), 60, &[]);
        let file = [LE.section(0, &[]), interface, packet].concat();
        let first = Capture::new(&file[..]).unwrap().next().unwrap().unwrap();
        assert_eq!(first.at_ns, Some(at_ns), "{resolution:x}");
    }
}

#[test]
fn compressed_files_are_read_as_tshark_reads_them() {
    if !have(&["tshark", "gzip", "zstd", "lz4"]) {
        return;
    }
    let packed = |program: &str, contents: &[u8]| {
        let mut command = Command::new(program);
        // Blocks of 64 KB, as LZ4's files are decoded block by block.
        command.args(if program == "lz4" { &["-c", "-B4"][..] } else { &["-c"] });
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let mut input = child.stdin.take().unwrap();
        let contents = contents.to_vec();
        let writer = std::thread::spawn(move || input.write_all(&contents).unwrap());
        let output = child.wait_with_output().unwrap();
        writer.join().unwrap();
        assert!(output.status.success());
        output.stdout
    };
    let mut random = 1_u32;
    let mut noise = || {
        random = random.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (random >> 24) as u8
    };
    let frames: Vec<Vec<u8>> =
        (0..200).map(|n| [frame(n, 16), (0..1000).map(|_| noise()).collect()].concat()).collect();
    let packets: Vec<u8> = frames.iter().flat_map(|it| LE.packet(0, AT, it, 1016, &[])).collect();
    let head = [LE.section(0, &[]), LE.interface(1, 0, &[])].concat();
    let whole = [&head[..], &packets].concat();
    let records: Vec<u8> = frames.iter().flat_map(|it| LE.record([9, 9], [1016, 1016], 0, it)).collect();
    let classic = LE.classic(0xa1b2_3c4d, [2, 4], 65_535, ETHERNET, &records);
    let mut files = Vec::new();
    for program in ["gzip", "zstd", "lz4"] {
        let pressed = packed(program, &whole);
        files.push((format!("{program} of pcapng"), pressed.clone()));
        files.push((format!("{program} of pcap"), packed(program, &classic)));
        files.push((
            format!("{program} in two parts"),
            [packed(program, &head), packed(program, &packets)].concat(),
        ));
        files.push((format!("{program} of text"), packed(program, b"hello, world")));
        let mut damaged = pressed;
        // The checksum at the end, which tshark reads of gzip and of lz4.
        let at = damaged.len() - if program == "gzip" { 6 } else { 2 };
        damaged[at] ^= 1;
        let error = Capture::new(&damaged[..]).unwrap().find_map(Result::err).unwrap();
        assert!(matches!(error, CaptureError::Unreadable(201, _)), "{program}: {error}");
    }
    assert_eq!(compare(&files, tshark, |_| 0), [""; 0]);
    for program in ["gzip", "zstd", "lz4"] {
        // How many frames are whole depends on the buffers of who reads: of zstd none here.
        let pressed = packed(program, &whole);
        let cut = &pressed[..pressed.len() / 2];
        let read = Capture::new(cut).and_then(|frames| frames.collect::<Result<Vec<_>, _>>());
        let error = read.unwrap_err();
        assert!(matches!(error, CaptureError::Ends(_)), "{program}: {error}");
    }
    // Decoders skip such a frame (RFC 8878), and tshark does not know it.
    let skipped = [&LE.u32s(&[0x184d_2a50, 4])[..], b"abcd", &packed("zstd", &packets)].concat();
    let skipped = [packed("zstd", &head), skipped].concat();
    assert_eq!(Capture::new(&skipped[..]).unwrap().map(Result::unwrap).count(), 200);
}

/// The packet is the same in Ethernet, and tshark sees the same addresses in it.
#[test]
fn packets_above_other_link_layers_become_ethernet_frames() {
    let ipv4 = [&[0x45, 0, 0, 32, 0, 1, 0, 0, 64, 17, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2][..], &[9; 12]].concat();
    let ipv6 = [&[0x60, 0, 0, 0, 0, 12, 17, 64][..], &[0xfd; 16], &[0xfe; 16], &[9; 12]].concat();
    let arp = [&[0, 1, 8, 0, 6, 4, 0, 1][..], &[7; 20]].concat();
    let cooked = |kind: u16, device: u16, octets: u16| {
        [&BE.u16s(&[0, device, octets])[..], &[2, 9, 9, 9, 9, 9, 0, 0], &BE.u16s(&[kind])].concat()
    };
    let cooked_2 = |kind: u16, device: u16| {
        [&BE.u16s(&[kind, 0, 0, 3, device])[..], &[0, 6, 2, 9, 9, 9, 9, 9, 0, 0]].concat()
    };
    let (mut others, mut made_of) = (Vec::new(), Vec::new());
    let (usual, seen) = ([2, 0, 0, 0, 0, 1], [2, 9, 9, 9, 9, 9]);
    for (link, head, packet, kind, from) in [
        (101, vec![], &ipv4, 0x0800, usual),
        (101, vec![], &ipv6, 0x86dd, usual),
        (12, vec![], &ipv4, 0x0800, usual),
        (228, vec![], &ipv4, 0x0800, usual),
        (229, vec![], &ipv6, 0x86dd, usual),
        (0, LE.u32s(&[2]), &ipv4, 0x0800, usual),
        (0, BE.u32s(&[2]), &ipv4, 0x0800, usual),
        (0, LE.u32s(&[30]), &ipv6, 0x86dd, usual),
        (0, LE.u32s(&[24]), &ipv6, 0x86dd, usual),
        (108, BE.u32s(&[2]), &ipv4, 0x0800, usual),
        (108, BE.u32s(&[28]), &ipv6, 0x86dd, usual),
        (113, cooked(0x0800, 1, 6), &ipv4, 0x0800, seen),
        (113, cooked(0x0806, 1, 6), &arp, 0x0806, seen),
        (113, cooked(0x86dd, 65_534, 0), &ipv6, 0x86dd, usual),
        (113, cooked(4, 1, 6), &arp, 28, seen),
        (276, cooked_2(0x0800, 1), &ipv4, 0x0800, seen),
        (276, cooked_2(0x86dd, 1), &ipv6, 0x86dd, seen),
    ] {
        let bytes = [&head[..], packet].concat();
        let record = LE.record([9, 9], [bytes.len() as u32, bytes.len() as u32 + 7], 0, &bytes);
        let file = LE.classic(0xa1b2_3c4d, [2, 4], 65_535, link, &record);
        let made = Capture::new(&file[..]).unwrap().next().unwrap().unwrap();
        // With a length in place of the type, it is that of the whole packet.
        let kind = if kind < 0x600 { kind + 7 } else { kind };
        let expected = [&[2, 0, 0, 0, 0, 2][..], &from, &BE.u16s(&[kind]), packet].concat();
        assert_eq!((&made.bytes, made.length, made.made), (&expected, expected.len() + 7, true), "{link}");
        let at = others.len() as u32;
        others.push((LE.interface(link as u16, 0, &[]), LE.packet(at, AT, &bytes, bytes.len() as u32, &[])));
        made_of.push((LE.interface(1, 0, &[]), LE.packet(at, AT, &expected, expected.len() as u32, &[])));
    }
    if have(&["tshark"]) {
        let folder = tempfile::tempdir().unwrap();
        let seen = [("others", &others), ("made", &made_of)].map(|(name, parts)| {
            let interfaces = parts.iter().flat_map(|it| it.0.clone());
            let packets = parts.iter().flat_map(|it| it.1.clone());
            let file: Vec<u8> = LE.section(0, &[]).into_iter().chain(interfaces).chain(packets).collect();
            let path = folder.path().join(name);
            std::fs::write(&path, file).unwrap();
            let fields = ["ip.src", "ip.dst", "ipv6.src", "ipv6.dst", "arp.src.hw_mac"];
            let fields = fields.map(|field| ["-e", field]).concat();
            output("tshark", &[&["-T", "fields"][..], &fields, &["-r"]].concat(), &path).stdout
        });
        assert!(seen[0] == seen[1] && seen[0].len() > 100, "{}", String::from_utf8_lossy(&seen.concat()));
    }
    // A frame that was sent to all stays a broadcast.
    for (link, mut head) in [(113, cooked(0x0806, 1, 6)), (276, cooked_2(0x0806, 1))] {
        head[if link == 113 { 1 } else { 10 }] = 1;
        let bytes = [head, arp.clone()].concat();
        let record = LE.record([9, 9], [bytes.len() as u32; 2], 0, &bytes);
        let file = LE.classic(0xa1b2_3c4d, [2, 4], 65_535, link, &record);
        let made = Capture::new(&file[..]).unwrap().next().unwrap().unwrap();
        assert_eq!(made.bytes[..12], [&[0xff; 6][..], &seen].concat()[..]);
    }
    for (link, bytes, says) in [
        (101, vec![0x95; 40], "frame 1 is IP of version 9"),
        (101, vec![], "frame 1 is cut off"),
        (0, LE.u32s(&[7, 0, 0]), "frame 1 is of address family 7"),
        (0, vec![2, 0], "frame 1 is cut off"),
        (113, cooked(0x0800, 824, 0), "frame 1 is of a device of type 824"),
        (113, cooked(0x000c, 1, 0), "frame 1 is of protocol 12"),
        (113, vec![0; 15], "frame 1 is cut off"),
        (276, cooked_2(0x0800, 803), "frame 1 is of a device of type 803"),
        (276, vec![8; 19], "frame 1 is cut off"),
        (9, frame(1, 60), "frame 1 is of another link layer (PPP)"),
        (127, frame(1, 60), "not of Ethernet"),
    ] {
        let record = LE.record([9, 9], [bytes.len() as u32; 2], 0, &bytes);
        let file = LE.classic(0xa1b2_3c4d, [2, 4], 65_535, link, &record);
        let error = Capture::new(&file[..]).unwrap().next().unwrap().unwrap_err().to_string();
        assert!(error.contains(says) && !error.contains('\n'), "{error}");
    }
}

/// Bytes of these files changed and missing: they are read or refused.
#[test]
fn damaged_files_are_read_or_refused() {
    let mut state = 1_u64;
    let mut draw = |below: usize| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) as usize % below.max(1)
    };
    for (name, file) in classics().into_iter().chain(blocks()).filter(|(_, file)| file.len() < 10_000) {
        for _ in 0..200 {
            let mut file = file.clone();
            for _ in 0..draw(5) {
                let at = draw(file.len());
                file[at] = [0, 1, 4, 0x7f, 0x80, 0xff, draw(256) as u8][draw(7)];
            }
            file.truncate(file.len() - if draw(3) == 0 { draw(file.len()) } else { 0 });
            for frame in Capture::new(&file[..]).into_iter().flatten().flatten() {
                assert!(frame.bytes.len() <= frame.length && frame.bytes.len() <= file.len() + 14, "{name}");
            }
        }
    }
}
