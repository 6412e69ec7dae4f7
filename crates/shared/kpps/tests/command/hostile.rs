//! Bad command lines and bad files, over all commands. Each ends soon with exit code 2 and one line that
//! names the mistake. Nothing is printed, and no file is changed.

use kpps_methods::journal::Journal;
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs;
use std::os::unix::ffi::OsStringExt;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};

/// How long a row may take in s, on a busy machine with a build for debugging.
const PATIENCE_S: u32 = 60;
/// The memory that a row may map, in KiB.
const MEMORY_KIB: u32 = 6 << 20;
/// A port that needs no privilege.
const UDP: &str = "udp:127.0.0.1:9";
/// Two ports that do not exist.
const PAIR: &str = "packet:nosuch,packet:nosuch2";

/// Arguments that have no place in a table: `<name>` stands for them.
fn arguments(words: &str) -> Vec<OsString> {
    let stands_for = [
        ("<empty>", String::new()),
        ("<space>", " ".into()),
        ("<newline>", "\n".into()),
        ("<escape>", "\u{1b}[2J".into()),
        ("<tiny>", format!("0.{}1", "0".repeat(300))),
        ("<huge>", "9".repeat(400)),
        ("<nines>", "9".repeat(20)),
        ("<long>", "x".repeat(100_000)),
        ("<sizes>", (64..8064).map(|size| format!("{size}:10000")).collect::<Vec<_>>().join(",")),
        ("<udp>", UDP.into()),
        ("<pair>", PAIR.into()),
    ];
    let argument = |word: &str| {
        let word = stands_for.iter().fold(word.to_owned(), |word, (name, text)| word.replace(name, text));
        // A word that is not UTF-8 is no String.
        let parts: Vec<&[u8]> = word.split("<byte>").map(str::as_bytes).collect();
        OsString::from_vec(parts.join(&b"\xff"[..]))
    };
    words.split(' ').map(argument).collect()
}

/// A capture of these frames: the time in s, the length that is claimed, and the bytes.
fn capture(link: u32, frames: &[(u32, u32, &[u8])]) -> Vec<u8> {
    let mut file: Vec<u8> = [0xa1b2_c3d4_u32, 4 << 16 | 2, 0, 0, 65_535, link].map(u32::to_le_bytes).concat();
    for &(seconds, length, bytes) in frames {
        file.extend([seconds, 0, length, length].map(u32::to_le_bytes).concat());
        file.extend(bytes);
    }
    file
}

/// The files that rows name, in the folder in which they run.
fn write_files(folder: &Path) {
    let write = |name: &str, contents: &[u8]| fs::write(folder.join(name), contents).unwrap();
    let frame = [0; 60];
    for (name, text) in [
        ("old.json", "years of work\n"),
        ("text", "years of work\n"),
        ("empty", ""),
        ("truncated.json", r#"{"schema": "kpps/3", "kind": "trial", "seconds":"#),
        ("schema.json", r#"{"schema": "kpps/1", "kind": "trial"}"#),
        ("kind.json", r#"{"schema": "kpps/3", "kind": "inventory"}"#),
        ("missing.json", r#"{"schema": "kpps/3", "kind": "curve"}"#),
        ("range.json", r#"{"schema": "kpps/3", "kind": "trial", "delivered_pps": 1e400}"#),
        ("arrays.json", "[".repeat(100_000).as_str()),
        ("objects.json", r#"{"a":"#.repeat(100_000).as_str()),
        ("changed.journal", "[\"eba24002\",\"journal of kpps\"]\n[\"00000000\",\"of another run\",1.5,1]\n"),
        ("itself.toml", "base = 'itself.toml'"),
        ("one.toml", "base = 'two.toml'"),
        ("two.toml", "base = 'one.toml'"),
        ("key.toml", "chip = '82540em'\nstimulus = ['arp']"),
        ("value.toml", "chip = '82540em'\nstimuli = ['arp', 'pign']"),
        ("bound.toml", "max = { lost = 0 }"),
        ("card.toml", "options = ['-device', 'e1000']"),
        ("type.toml", "base = 'kpps'\nrx_ring = 'many'"),
        ("negative.toml", "base = 'kpps'\nrx_ring = -1"),
        ("nan.toml", "base = 'kpps'\nrx_ring = nan"),
        ("zero.toml", "base = 'kpps'\nrx_ring = 0"),
        ("large.toml", "base = 'kpps'\nrx_ring = 9223372036854775807"),
        ("larger.toml", "base = 'kpps'\nrx_ring = 99999999999999999999"),
        ("unknown.toml", "base = 'kpps'\nno_such = 1"),
        ("syntax.toml", "base = = 3"),
        ("number.toml", "base = 3"),
        ("nested.toml", format!("x = {}", "[".repeat(100_000)).as_str()),
        ("tables.toml", format!("x = {}", "{a=".repeat(50_000)).as_str()),
        ("dots.toml", format!("{} = 1", ["a"; 20_000].join(".")).as_str()),
        ("megabyte.toml", format!("base = '{}'", "x".repeat(1_000_000)).as_str()),
        ("short.token", "abc"),
        ("two.token", "0123456789abcdef 0123456789abcdef"),
        ("good.token", "0123456789abcdef"),
        ("long.hex", "00".repeat(500_000).as_str()),
    ] {
        write(name, text.as_bytes());
    }
    write("binary", &[0xff; 1000]);
    write("header.pcap", &capture(1, &[]));
    write("one.pcap", &capture(1, &[(0, 60, &frame)]));
    write("two.pcap", &capture(1, &[(0, 60, &frame), (1, 60, &frame)]));
    write("century.pcap", &capture(1, &[(0, 60, &frame), (u32::MAX, 60, &frame)]));
    write("cut.pcap", &capture(1, &[(0, 60, &frame[..40])]));
    write("claims.pcap", &capture(1, &[(0, u32::MAX, &frame)]));
    write("wifi.pcap", &capture(105, &[(0, 60, &frame)]));
    write("runt.pcap", &capture(1, &[(0, 10, &frame[..10])]));
    write("giant.pcap", &capture(1, &[(0, 9100, &[0; 9100])]));
    // A section of pcapng, and a block without an interface, or a block that claims 4 GB.
    let section = [0x0a0d_0d0a, 28, 0x1a2b_3c4d, 1, u32::MAX, u32::MAX, 28].map(u32::to_le_bytes).concat();
    let packet = [6, 32 + 60, 7, 0, 0, 60, 60].map(u32::to_le_bytes).concat();
    write("nowhere.pcapng", &[&section[..], &packet[..], &frame[..], &92_u32.to_le_bytes()[..]].concat());
    write("block.pcapng", &[&section[..], &[1, 0xffff_fff0].map(u32::to_le_bytes).concat()[..]].concat());
    write("cut.pcapng", &section[..20]);
    fs::create_dir(folder.join("folder")).unwrap();
    Journal::<f64>::open(&folder.join("other.journal")).unwrap().keep("of a study", &1.5).unwrap();
    for entry in fs::read_dir(folder).unwrap().map(Result::unwrap) {
        use std::os::unix::fs::PermissionsExt;
        // Nobody is warned of secrets that others may read.
        let mode = if entry.path().is_dir() { 0o700 } else { 0o600 };
        fs::set_permissions(entry.path(), fs::Permissions::from_mode(mode)).unwrap();
    }
}

/// Command lines, and a part of the message for each.
const SIMULATED: &[(&str, &str)] = &[
    ("nosuch", "unrecognized subcommand 'nosuch'; `kpps --help` lists the commands"),
    ("<empty>", "unrecognized subcommand ''"),
    ("<byte>", "unrecognized subcommand"),
    ("--nosuch", "unexpected argument '--nosuch'"),
    // Loads.
    ("curve --load <empty>", "'' is not a load: give frames per second"),
    ("curve --load -5", "unexpected argument '-5'"),
    ("curve --load NaN", "'NaN' is not a load"),
    ("curve --load inf", "'inf' is not a load"),
    ("curve --load 1e308", "'1e308' is not a load"),
    ("curve --load <tiny>", "out of range"),
    ("curve --load <huge>", "out of range"),
    ("curve --load <nines>", "99999999999999999999 is out of range"),
    ("curve --load 50%,", "'' is not a load"),
    ("curve --load 1..", "'' is not a load"),
    (
        "curve --load 1kpps..1Mpps/1",
        "a step of 1 pps makes 999000 loads: give a step that makes at most 10000",
    ),
    ("curve --load 1..1Gpps/<tiny>", "'1Gpps' is not a load"),
    ("curve --load 100%..10%", "goes down"),
    ("curve --load 10MbpsL1,10MbpsL2", "give all of them with L1 or all with L2"),
    ("curve --load ٣kpps", "'٣kpps' is not a load"),
    ("curve --load <byte>", "invalid UTF-8"),
    ("curve --load <long>", "is not a load: give frames per second"),
    // Sizes.
    ("curve --size 0", "no frames of 0 bytes: a frame has 64 to 9018 bytes"),
    ("curve --size 59", "no frames of 59 bytes"),
    ("curve --size 63", "no frames of 63 bytes"),
    ("curve --size 9019", "no frames of 9019 bytes"),
    ("curve --size 65536", "'65536' is not a frame size: give bytes with FCS, 64 to 9018"),
    ("curve --size 64.5", "'64.5' is not a frame size"),
    ("curve --size 64:0", "\"64:0\" is no frame size and no mix"),
    ("curve --size 0:1", "\"0:1\" is no frame size and no mix"),
    ("curve --size 64:1,1518:10001", "\"64:1,1518:10001\" is no frame size and no mix"),
    ("curve --size <sizes>", "sizes with weights as 64:7"),
    ("curve --set machine.affinity=spread", "this simulation has no app between two cards"),
    (
        "curve --app nat --machine evans2005-router --set machine.affinity=spread",
        "affinity has no effect: the system",
    ),
    ("curve --app nat --set machine.affinity=both", "affinity"),
    ("study ./nowhere.toml", "cannot read the study ./nowhere.toml"),
    ("study mine", "there is no study called 'mine'"),
    ("curve --size imix-csit", "cannot send the mix imix-csit"),
    // Times, bounds and seeds.
    ("curve --duration 0", "a time of 0 is out of range: give 1ms to 30d"),
    ("curve --duration 31d", "31d is out of range"),
    ("curve --duration <huge>", "out of range: give 1ms to 30d"),
    ("curve --duration NaN", "'NaN' is not a time: give it as 50ms, 2s, 5min or 72h"),
    ("curve --duration 1fortnight", "'1fortnight' is not a time"),
    ("curve --seed -1", "unexpected argument '-1'"),
    ("curve --seed <nines>", "'99999999999999999999' for '--seed <SEED>'"),
    ("curve --max-loss 100%", "'100%' is not a loss: give 0, 0.1% or 0.001"),
    ("curve --min-rate 50%", "'50%' is not a rate in frames per second"),
    ("curve --max-p99 2h", "'2h' is not a latency: give it as 100us, 2.5ms or 1s"),
    // Profiles.
    ("curve --machine <empty>", "no machine called ''"),
    ("curve --machine folder", "no machine called 'folder'"),
    ("curve --machine nosuch.toml", "cannot read the machine profile nosuch.toml"),
    ("curve --machine a<newline>b", "no machine called 'a\\nb'"),
    ("curve --machine a<escape>b", "no machine called 'a\\u{1b}[2Jb'"),
    ("curve --chip 8139", "no chip called '8139'"),
    ("curve --driver kpps,", "no driver preset called ''"),
    ("curve --driver itself.toml", "more than 8 files: is it its own?"),
    ("curve --driver one.toml", "'one.toml': `base` leads through more than 8 files"),
    ("curve --driver number.toml", "must be the name"),
    (
        "curve --driver type.toml",
        "'type.toml': rx_ring: found \"many\", allowed is a whole number from 0 to 65535",
    ),
    (
        "curve --driver negative.toml",
        "'negative.toml': rx_ring: found -1, allowed is a whole number from 0 to 65535",
    ),
    ("curve --driver nan.toml", "'nan.toml': rx_ring: found nan, allowed is a whole number from 0 to 65535"),
    (
        "curve --driver zero.toml",
        "'zero.toml' cannot drive the 82542: configuration: rx_ring: 0 is not within 8 to 256",
    ),
    ("curve --driver large.toml", "'large.toml': rx_ring: found "),
    ("curve --driver larger.toml", "'larger.toml': line 2"),
    ("curve --driver unknown.toml", "'unknown.toml': there is no entry 'no_such'; it may be rx_ring, "),
    ("curve --driver syntax.toml", "'syntax.toml': line 1"),
    ("curve --driver nested.toml", "'nested.toml': line 1: cannot recurse further"),
    ("curve --driver tables.toml", "'tables.toml': line 1: cannot recurse further"),
    ("curve --driver dots.toml", "'dots.toml': line 1: recursion limit"),
    ("curve --driver megabyte.toml", "or give the path of a .toml file"),
    ("curve --set driver.rx_ring", "'driver.rx_ring' is not PATH=VALUE"),
    ("curve --set cpu.ghz=3", "kinds are machine, chip"),
    ("curve --set driver.no_such=3", "there is no entry 'no_such'; it may be rx_ring, "),
    ("curve --set driver.rx_ring=inf", "rx_ring: found inf, allowed is a whole number"),
    ("curve --set machine.drivers=kpps", "machine.drivers cannot be set: choose a driver"),
    ("profile --machine ols2005 --set driver.rx_ring=16", "driver preset 'intel-5.7.6'"),
    // Entries of profiles: the entry, the value found, the allowed values.
    ("curve --set driver.rx_low=third", "rx_low: found \"third\", allowed are half, quarter, eighth"),
    ("curve --set driver.transmit_tail=1", "transmit_tail: found 1, allowed are each-frame, each-poll"),
    (
        "curve --driver kpps --set driver.service.napi.weight=64",
        "the base has self-pacing: replace it with service = { value = { napi = { … } } }",
    ),
    (
        "curve --driver kpps --set driver.service.nappi.weight=64",
        "no entry 'service.nappi'; the entries of service are interrupt-loop",
    ),
    ("curve --driver kpps --set driver.flow_control=full", "does not obey PAUSE frames"),
    ("curve --driver kpps --set stack.backlog=10", "no driver of this simulation hands frames to netif_rx"),
    ("curve --set driver.rescue=3", "rescue: found 3, allowed is true or false"),
    (
        "curve --set driver.moderation.radv=-1",
        "moderation.radv: found -1, allowed is a whole number from 0 to 65535",
    ),
    (
        "curve --set driver.moderation.rdtv=1",
        "no entry 'moderation.rdtv'; the entries of moderation are rdtr, radv, tidv",
    ),
    (
        "curve --set driver.service=napi",
        "service: found \"napi\", which takes entries of its own: { napi = { … } }",
    ),
    (
        "curve --machine ols2005 --set driver.itr=2",
        "moderation.itr: found 2, allowed is off (or 0), dynamic (1)",
    ),
    (
        "curve --machine ols2005 --set driver.itr=fast",
        "moderation.itr: found \"fast\", allowed is off (or 0)",
    ),
    ("curve --set stack.buffers.array=x", "'linux-2.2.16-click': buffers.array: found \"x\", allowed is"),
    ("curve --set host.cache_bytes=true", "'p3-800': cache_bytes: found true, allowed is"),
    ("curve --set driver.rx_ring=100", "rx_ring: 100 is not a multiple of 8"),
    (
        "curve --set driver.rx_ring=512",
        "cannot drive the 82542: configuration: rx_ring: 512 is not within 8 to 256",
    ),
    (
        "curve --app bridge --set driver.report_every=200",
        "completion.report_every: 200 is not within 1 to 128",
    ),
    // Settings that are valid and would change nothing.
    ("curve --set machine.cpus=2", "machine.cpus has no effect: this simulation uses one CPU only"),
    ("curve --app bridge --set machine.cpus=1", "machine.cpus has no effect"),
    ("ndr --app nat --set machine.cpus=1", "machine.cpus has no effect"),
    ("profile --app route --machine lunz2003 --set machine.cpus=1", "machine.cpus has no effect"),
    ("grid --app route --vary machine.cpus=1,2", "machine.cpus has no effect"),
    ("transmit --set machine.cpus=2", "machine.cpus has no effect"),
    ("trace --machine morris2000 --set machine.cpus=1", "machine.cpus has no effect"),
    (
        "grid --vary machine.nic=genesis,yukon",
        "machine.nic has no effect: the card of this simulation is no rate-limited NIC",
    ),
    (
        "scale --set machine.chip=82544",
        "machine.chip has no effect: the card of this simulation is a rate-limited NIC",
    ),
    (
        "scale --nic yukon --set machine.nic=genesis",
        "machine.nic has no effect: another argument already chooses the card",
    ),
    (
        "curve --chip 82544 --set machine.chip=82542",
        "machine.chip has no effect: another argument already chooses the card",
    ),
    (
        "curve --set machine.bus.any=pci-32-33",
        "machine.bus.any has no effect: the card's bus is machine.bus.82542",
    ),
    ("scale --nic 82598 --set machine.bus.any=pcie-x1", "the card's bus is machine.bus.82598"),
    ("curve --set driver.tx_ring=80", "driver.tx_ring has no effect: this simulation sends no frames"),
    ("transmit --set driver.rx_ring=80", "driver.rx_ring has no effect: this simulation receives no frames"),
    ("scale --set nic.tx_ring=80", "nic.tx_ring has no effect: this simulation sends no frames"),
    (
        "curve --driver intel-2.5.11 --set driver.itr=8000",
        "driver.itr has no effect: the 82542 does not have",
    ),
    ("curve --set driver.vlan=true", "driver.vlan has no effect: the 82542 does not have VLAN tags"),
    ("grid --vary one-way=true", "one-way has no effect: there is no app between two cards"),
    ("curve --machine evans2005-em --driver em-1.7.35-polling", "stack.hz=100 is too low"),
    (
        "grid --load 50% --vary load=10%,20%",
        "--load has no effect: --vary load gives each cell another value",
    ),
    ("grid --size 64 --vary size=64,128", "--size has no effect"),
    ("grid --driver kpps --vary driver=kpps,rdr", "--driver has no effect"),
    ("grid --set driver.rx_ring=80 --vary driver.rx_ring=64,128", "--set driver.rx_ring has no effect"),
    ("curve --testbed known:1kpps --clock wall", "--clock is for guests"),
    ("curve --testbed known:1kpps --seed 3", "--seed is for the simulator"),
    ("transmit --fragments 1 --coalesce", "--coalesce has no effect on frames of one buffer"),
    ("trace --spacing 900ns", "--group"),
    ("trial --load 10kpps --drain 3s", "--drain is for two ports"),
    ("curve --service napi", "--service is for two ports"),
    ("rfc2544 --quick --reset true", "--reset is for two ports"),
    // Testbeds.
    ("curve --app fly", "there is no app 'fly': bridge, route, vlan-route, nat"),
    ("curve --testbed sim:a/b/c/d", "has too many parts: give sim:MACHINE/DRIVER/APP"),
    ("curve --testbed sim:morris2000/nosuch", "no driver preset called 'nosuch'"),
    ("curve --testbed known:50%", "give the known rate in frames per second"),
    ("curve --testbed known:<huge>", "out of range"),
    ("curve --testbed known:700kpps,known:1Mpps", "'700kpps,known:1Mpps' is not a load"),
    ("curve --testbed lab:", "'' is no guest: give KERNEL/DEVICE"),
    ("curve --testbed lab:linux-2.4/e1000", "no kernel called 'linux-2.4'"),
    ("curve --testbed lab:linux-6.1/ne2000", "no device called 'ne2000'"),
    ("curve --testbed lab:linux-6.1/e1000/x", "does not say how the driver reaches its card"),
    ("curve --testbed nosuch:x", "`nosuch:x` is not a port: give vfio:ADDRESS"),
    ("curve --testbed known:1Mpps --machine rss", "--machine is for the simulator, not for known:1Mpps"),
    ("curve --testbed known:1Mpps --dscp 7", "--dscp is for two ports"),
    ("curve --testbed known:1Mpps --ipv6", "--ipv6 is for two ports"),
    ("curve --testbed known:1Mpps --vlan 7", "--vlan is for two ports"),
    ("curve --testbed sim:/kpps --noise", "--noise is for a system with a known rate"),
    ("curve --resume folder", "cannot use folder: it is not a regular file"),
    ("curve --resume text", "text is not a journal of this command: give another path"),
    ("curve --resume binary", "binary is not a journal of this command"),
    ("curve --resume changed.journal", "line 2 of changed.journal was changed"),
    ("curve --resume other.journal", "other.journal is not a journal of this command"),
    ("curve --resume no/where", "cannot use no/where: No such file"),
    ("curve --report text/page.html", "cannot write text/page.html"),
    ("curve --results old.json --csv folder/../old.json", "old.json is given twice"),
    ("curve --results old.html --report old.html", "old.html is given twice"),
    ("curve --resume r --csv folder/../r", "folder/../r is given twice, and --csv would replace it"),
    ("grid --vary load=50% --resume other.journal --results other.journal", "--results would replace it"),
    ("curve --driver zero.toml --csv zero.toml", "zero.toml is given twice, and --csv would replace it"),
    ("curve --set nic.rx_ring=80", "nic.rx_ring has no effect: this simulation has no nic"),
    // The other simulated commands.
    ("grid --vary driver.nosuch=1..100000 --vary load=10%..100%/10%", "driver.nosuch=1: "),
    ("grid --vary stack.no.such=1..100000", "stack.no.such=1: "),
    ("grid --vary nic.rx_ring=8,16", "nic.rx_ring has no effect"),
    ("grid --vary x", "'x' is not a parameter with values: give them as driver.rx_ring=16,32,64"),
    ("grid --vary load=10%..1Mpps", "has two units"),
    ("grid --vary driver.rx_ring=1..<nines>", "more than 100000 values"),
    ("grid --vary driver.rx_ring=1..inf", "more than 100000 values"),
    ("grid --vary driver.rx_ring=1..9/1e-300", "more than 100000 values"),
    ("grid --vary driver.rx_ring=nan..10", "is not a parameter with values"),
    ("grid --vary driver.rx_ring=1..9*1", "never ends: give a factor above 1"),
    ("grid --vary driver.rx_ring=1..9/0", "never ends: give a step above 0"),
    ("grid --vary driver.rx_ring=9..1", "give the lower value first"),
    ("grid --vary driver.rx_ring=1..9999 --vary driver.tx_ring=1..9999", "more than 1000000 cells"),
    ("grid --vary driver=kpps,nosuch.toml", "driver=nosuch.toml: cannot read"),
    ("grid --vary machine.chip=nosuch", "machine.chip=nosuch: there is no chip"),
    ("grid --vary size=64,9019", "size=9019: there are no frames"),
    ("grid --vary load=50% --vary load=60%", "'load' is given twice"),
    ("grid --testbed known:1Mpps --vary driver=kpps", "this testbed has no parameter driver"),
    ("transmit --fragments 0", "'0' for '--fragments <BUFFERS>': 0 is not in 1..=16"),
    ("transmit --segments 2 --checksum cpu", "cannot be used with '--checksum"),
    ("transmit --chip 82542 --segments 10", "the 82542 cannot cut superpackets into segments"),
    ("transmit --driver kpps,kpps", "'kpps' is given twice"),
    ("transmit --rate 10kpps", "leave out --rate, or give --program netsend or --fillers"),
    ("transmit --fillers", "--rate"),
    ("transmit --fillers --rate 2Mpps", "at most line rate, 1488095 pps"),
    ("transmit --fillers --rate 10kpps --shape ramp", "give constant, poisson:SEED or bursts:FRAMES"),
    ("transmit --fillers --rate 10kpps --segments 2", "cannot be used with"),
    ("transmit --nic yukon --fillers --rate 10kpps", "sends no fillers"),
    ("send udp:127.0.0.1:9 --load 1kpps --fillers", "cannot send frames with a wrong FCS"),
    (
        "transmit --set driver.tx_gap_bytes=99999999",
        "tx_gap_bytes: found 99999999, allowed is a whole number from 0 to 65535",
    ),
    ("scale --cpu-counts 0", "'0' is no list of numbers above 0"),
    ("scale --cpu-counts 1..1000000", "has more than 100000 values"),
    ("scale --cpu-counts 9999", "9999 CPUs: rss has 1 to 8"),
    ("scale --flows 65536", "65536 is not in 1..=65535"),
    ("scale --load 2Mpps", "a load of 2000000 pps cannot be offered"),
    ("scale --load 0.00001", "sends no frame in 10 ms"),
    ("scale --machine morris2000", "it has no rate-limited NIC"),
    (
        "scale --set driver.rx_ring=80",
        "driver.rx_ring has no effect: this simulation has no chip and no driver",
    ),
    ("scale --set nic.header_bytes=70000", "header_bytes = 70000 is out of range: 0 to 1024"),
    ("profile --driver kpps,rdr", "this command takes one driver"),
    ("profile --load 0.00001", "sends no frame"),
    ("profile --set host.examine_ps=9223372036854775807", "out of range: 0 to 1000000000"),
    ("trace --load <tiny>", "out of range"),
    ("trace --group 0", "'0' for '--group <FRAMES>'"),
    ("trace --spacing 1s", "'1s' is not a short time: give nanoseconds or microseconds"),
    ("trace --cards 0", "0 ports: 1 to 8 can be traced"),
    ("trace --cards 1000000000000", "1 to 8 can be traced"),
    ("trace --duration 1h", "at most 10 s can be traced"),
    ("trace --window 5..4", "'5..4' is not a range: give FROM..TO"),
    ("trace --machine morris2000", "only machines with Linux 2.4 or 2.6 can be traced"),
    ("trace --pcap folder", "cannot write folder: Is a directory"),
    ("trace --timeline a --pcap ./a", "./a is given twice"),
    ("simulate-faults --worlds 0", "'0' for '--worlds <WORLDS>'"),
    ("simulate-faults --trace --duration 1s", "cannot be used with '--duration"),
    ("simulate-faults --seed 1.5", "'1.5' for '--seed <SEED>'"),
    ("study nosuch", "no study called 'nosuch': known are beyond"),
    ("study morris2000 morris2000", "'morris2000' is given twice"),
    ("study --claim Z99", "no claim 'Z99'"),
    ("study --perturb NaN", "'NaN' is not a share: give 10% or 0.1"),
    ("study morris2000 --seeds 1..2", "choose the study beyond"),
    ("study morris2000 --drawn 5", "choose the study beyond"),
    ("study beyond --seeds 0..4294967295", "more than 100000 seeds"),
    ("study --resume other.journal --claim M2 --seeds 5", "'5' is not a range"),
    ("list planes", "known are machines, chips"),
    ("list chips nosuch", "no chip called 'nosuch'"),
    ("list driver nested.toml", "cannot recurse further"),
    (
        "list driver type.toml --toml",
        "'type.toml': rx_ring: found \"many\", allowed is a whole number from 0 to 65535",
    ),
    ("list driver zero.toml --toml", "rx_ring"),
    ("list driver unknown.toml", "there is no entry 'no_such'; it may be rx_ring, "),
    ("list chips --toml", "required arguments were not provided: <NAME>"),
    ("schema extra", "unexpected argument 'extra'"),
    ("man text/x", "cannot make the folder text/x"),
    ("completions csh", "'csh'"),
];

/// The same for commands that measure, on ports or without.
const MEASURED: &[(&str, &str)] = &[
    ("trial", "not provided: --load"),
    ("trial --load maximum", "'maximum' is not a load"),
    ("trial --load 200%", "200% is above line rate: give at most 100%"),
    ("trial --load 2Mpps", "a load of 2000000 pps cannot be offered"),
    ("trial --load <nines> --testbed known:1Mpps", "out of range"),
    ("trial --load 50% --testbed known:<tiny>", "out of range"),
    ("trial --load 50% --shape bursts:0", "'bursts:0' is not a shape: give constant, poisson"),
    ("trial --load 50% --shape ramp:1kpps/0", "a time of 0 is out of range"),
    ("trial --load 50% --shape poisson", "--shape is for two ports"),
    ("trial --load 50% --replay two.pcap --speed 2x", "cannot be used with '--speed"),
    ("trial --load 50% --calibration text", "--calibration is for two ports"),
    ("trial --load 50% --strict", "not provided: --calibration"),
    ("trial --load 50% --ring 8", "--ring is for two ports"),
    ("trial --load 50% --service sometimes", "known are polling, napi and kpps"),
    ("trial --load 50% --live", "--live draws on standard error"),
    ("trial --load 50% --json --csv -", "both print on standard output"),
    ("trial --load 50% --ports packet:nosuch", "a trial needs two ports"),
    ("trial --load 50% --ports <pair>", "packet:nosuch: there is no such interface"),
    ("trial --load 50% --ports <pair> --testbed known:1Mpps", "cannot be used with '--testbed"),
    ("trial --load 50% --ports packet:nosuch,packet:nosuch", "packet:nosuch is given twice"),
    ("trial --load 50% --ports <pair> --vlan 7,8,9", "--vlan takes at most 2 values here, and 3 were given"),
    ("trial --load 50% --ports <pair> --vlan 4095", "4095 is not in 0..=4094"),
    ("trial --load 50% --ports <pair> --gateway 10.0.0.1,10.0.0.2,10.0.0.3", "--gateway takes at most 2"),
    ("trial --load 50% --ports <pair> --gateway nonsense", "'nonsense' for '--gateway"),
    ("trial --load 50% --ports <pair> --gateway 2001:db8::1", "have different IP versions"),
    ("trial --load 50% --ports <pair> --set driver.rx_ring=8", "--set is for the simulator"),
    ("trial --load 50% --ports <pair> --noise", "--noise is for a system with a known rate"),
    ("trial --load 50% --ports <pair> --watch /", "'/' is not a place to observe"),
    ("trial --load 50% --ports <pair> --from 127.0.0.1:65536", "'127.0.0.1:65536' is not a host"),
    (
        "trial --load 50% --ports <pair> --from 127.0.0.1:1 --to 127.0.0.1:1",
        "give --token-file FILE, or --tls-ca",
    ),
    (
        "trial --load 50% --ports <pair> --from 127.0.0.1:1 --to 127.0.0.1:1 --token-file good.token",
        "agent 127.0.0.1:1: transport error",
    ),
    ("trial --ports <pair> --replay two.pcap --bidirectional", "--replay sends in one direction"),
    ("trial --ports <pair> --replay two.pcap --flows 5", "cannot be used with '--flows"),
    ("trial --ports <pair> --replay two.pcap --load <tiny>", "out of range"),
    ("ndr --min 100% --max 10%", "is empty: give a lowest load below the highest one"),
    ("ndr --min 1MbpsL1 --max 1GbpsL2", "give all of them with L1 or all with L2"),
    ("ndr --min <tiny>", "out of range"),
    ("ndr --precision <tiny>", "is not a share"),
    ("ndr --precision 0.0000000001% --testbed known:700kpps", "is not a share"),
    ("ndr --pdr-loss 0", "'0' is not a share"),
    ("ndr --max-time 1y", "'1y' is not a time"),
    ("ndr --testbed known:700kpps --set driver.rx_ring=8", "--set is for the simulator"),
    ("sizes --size 64,64", "'64' is given twice"),
    ("sizes --size 64,,128", "'' is not a frame size"),
    ("sizes --size 64,imix-csit", "cannot send the mix imix-csit"),
    (
        "sizes --testbed known:700kpps --min 100kpps --size 64,9018",
        "is empty: give a lowest load below the highest one",
    ),
    ("rfc2544 --test nosuch", "RFC 2544 has no test 'nosuch': its tests are throughput"),
    ("rfc2544 --repeat 0", "'0' for '--repeat <TIMES>'"),
    ("rfc2544 --repeat 1000000000000000000", "'1000000000000000000' for '--repeat <TIMES>'"),
    ("rfc2544 --min 10% --max 5%", "is empty: give a lowest load below the highest one"),
    ("merge new.jsonl", "required arguments were not provided: <JOURNAL>"),
    ("merge new.jsonl nosuch", "cannot use nosuch: No such file"),
    ("merge new.jsonl text", "text is not a journal"),
    ("merge new.jsonl changed.journal", "line 2 of changed.journal was changed"),
    ("merge new.jsonl other.journal folder", "cannot use folder: it is not a regular file"),
    ("merge new.jsonl /dev/zero", "cannot use /dev/zero: it is not a regular file"),
    ("merge text other.journal", "text is not a journal"),
    ("merge folder other.journal", "cannot use folder: it is not a regular file"),
    ("merge nosuch/new.jsonl other.journal", "cannot use nosuch/new.jsonl: No such file"),
    ("compare old.json", "2 values required"),
    ("compare text empty --csv text", "text is given twice, and --csv would replace it"),
    ("trial --load 1kpps --ports <pair> --token-file good.token", "give --from or --to"),
    ("trial --load 1kpps --token-file good.token", "--token-file is for two ports, not for the simulator"),
    ("trial --ports <pair> --replay two.pcap --capture two.pcap", "--capture would replace it"),
    ("trial --ports <pair> --replay two.pcap --capture-all two.pcap", "--capture-all would replace it"),
    ("trial --ports <pair> --load 1kpps --capture-ring 2MB", "not provided: --capture-all <FILE>"),
    ("trial --ports <pair> --load 1kpps --capture-bytes 128", "not provided: --capture-all <FILE>"),
    (
        "trial --ports <pair> --load 1kpps --capture-all new.pcap --capture-ring 1TB",
        "'1TB' is no size of a ring: give 2MB to 2GB",
    ),
    (
        "trial --ports <pair> --load 1kpps --capture-all new.pcap --capture-ring <huge>MB",
        "is no size of a ring",
    ),
    ("trial --ports <pair> --load 1kpps --capture-all new.pcap --capture-ring NaNMB", "is no size of a ring"),
    ("trial --ports <pair> --load 1kpps --capture-all new.pcap --capture-bytes 60", "60 is not in 128.."),
    (
        "trial --ports <pair> --load 1kpps --to localhost --capture-all new.pcap",
        "--capture-all is for ports of this host, and localhost/",
    ),
    ("trial --load 1kpps --capture-all new.pcap", "--capture-all is for two ports, not for sim: morris2000"),
    ("send <udp> --count 1 --capture-all new.pcap", "unexpected argument '--capture-all'"),
    ("compare nosuch.json text", "cannot read results of nosuch.json: No such file"),
    ("compare text text", "cannot read results of text: expected value at line 1"),
    ("compare empty empty", "empty has no results"),
    ("compare folder folder", "folder has no results"),
    ("compare binary binary", "binary: stream did not contain valid UTF-8"),
    // Not even root can read this one.
    ("compare /proc/self/mem text", "cannot read results of /proc/self/mem"),
    ("compare truncated.json text", "truncated.json: EOF while parsing"),
    (
        "compare schema.json text",
        "an earlier version of kpps wrote it (schema kpps/1, this version reads kpps/3): measure again",
    ),
    ("compare kind.json text", "\"inventory\" cannot be compared; these kinds can"),
    ("compare missing.json text", "missing.json: missing field"),
    ("compare range.json text", "range.json: number out of range"),
    ("compare arrays.json text", "arrays.json: recursion limit exceeded"),
    ("compare objects.json text", "objects.json: recursion limit exceeded"),
    ("compare text text --threshold 2", "'2' is not a share"),
    ("compare text text --significance 0", "'0' is not a share"),
];

/// The same for commands on ports, cards, agents and guests.
const REAL: &[(&str, &str)] = &[
    ("send eth0", "`eth0` is not a port: give vfio:ADDRESS"),
    ("send packet:nosuch", "there is no such interface: `ip -brief link` shows them"),
    ("send packet:a<newline>b", "is not a port"),
    ("send packet:sixteen-letters-", "`packet:sixteen-letters-` is not a port"),
    ("send xdp:lo:<nines>", "`xdp:lo:99999999999999999999` is not a port"),
    ("send udp:127.0.0.1:65536", "`udp:127.0.0.1:65536` is not a port"),
    ("send uio:nosuch", "`nosuch` is not a PCI address like 0000:00:10.0"),
    ("send vfio:0000:ff:1f.7", "no PCI device 0000:ff:1f.7: `kpps device list` shows all cards"),
    ("send <udp> --ring 7 --count 1", "a ring size can be chosen only for cards"),
    (
        "send packet:lo --ring 7 --count 1",
        "a ring size can be chosen only for cards that kpps' own driver drives",
    ),
    ("send packet:lo --service napi --count 1", "--service is for cards that kpps' own driver drives"),
    ("trial --ports packet:lo,packet:lo --service polling --load 1kpps", "--service is for cards"),
    ("trial --replay nosuch.pcap --load 10kpps", "--replay is for two ports"),
    ("ndr --testbed known:100kpps --one-way", "--one-way is for the simulator, not for known:100kpps"),
    ("ndr --one-way", "--one-way is for an app between two simulated cards"),
    ("ndr --testbed sim:morris2000 --driver kpps", "leave out --machine, --driver and --app"),
    ("ndr --testbed sim:a,sim:b", "sim:a is a complete testbed"),
    ("grid --testbed sim:ols2005/kpps --vary machine=rdr2007", "the machine in --testbed has no effect"),
    ("grid --testbed sim:ols2005/kpps --vary driver=kpps,rdr", "the driver in --testbed has no effect"),
    ("grid --vary seed=1,2 --seed 3", "'seed' names no constant"),
    ("profile --one-way", "--one-way is for an app between two simulated cards"),
    ("trial --load 50% --shape constant", "--shape is for two ports"),
    ("send packet:lo --priority maybe --count 1", "[possible values: yes, no]"),
    ("send <udp> --ring 65536", "65536 is not in 0..=65535"),
    ("send <udp> --cpus 1000", "CPU 1000 may not be used by this program"),
    ("send <udp> --cpus 0-4294967295", "'0-4294967295' is no list of CPUs"),
    ("send <udp> --cpus 3-0", "'3-0' is no list of CPUs: give their numbers"),
    ("send <udp> --load <tiny> --count 1", "out of range"),
    ("send <udp> --load <huge> --count 1", "out of range"),
    ("send <udp> --load max --shape bursts:5 --count 1", "the distribution of gaps needs a rate"),
    ("send <udp> --count 0", "'0' for '--count <FRAMES>'"),
    ("send <udp> --stream 65536", "65536 is not in 0..=65535"),
    ("send <udp> --every 0", "a time of 0 is out of range"),
    ("send <udp> --size <sizes> --count 1", "sizes with weights as 64:7"),
    ("send <udp> --ipv6 --size 64", "no frame of this size can be built"),
    ("send <udp> --vlan 0", "0 is not in 1..=4094"),
    ("send <udp> --vlan 7 --encap vlan:7", "cannot be used with '--encap"),
    ("send <udp> --dst-mac 00:00:00:00:00", "'00:00:00:00:00' is not a MAC address"),
    ("send <udp> --src 10.0.0.9-10.0.0.1", "is no range of addresses: give ADDRESS, FIRST-LAST"),
    ("send <udp> --src 10.0.0.1-10.0.0.9/0", "is no range of addresses"),
    ("send <udp> --src 0.0.0.0-255.255.255.255", "more than 100000: give a number of flows"),
    ("send <udp> --src 10.0.0.1 --dst 2001:db8::1", "have different IP versions"),
    ("send <udp> --sport 1-65535 --dport 1-65535", "more than 100000: give a number of flows"),
    ("send <udp> --sport 65536", "'65536' is no range of ports"),
    ("send <udp> --flows 0", "0 is not in 1..=100000"),
    ("send <udp> --flows 9 --sport 5", "have fewer flows than requested"),
    ("send <udp> --dscp 64", "64 is out of range: give 0 to 63"),
    ("send <udp> --ttl 0", "0 is out of range: give 1 to 255"),
    ("send <udp> --encap vlan:4096", "'vlan:4096' is no encapsulation: give none, or up to 4"),
    ("send <udp> --encap vlan:1+vlan:2+vlan:3+vlan:4+vlan:5", "is no encapsulation"),
    ("send <udp> --encap vxlan:1/10.0.0.1/2001:db8::1", "is no encapsulation"),
    ("send <udp> --encap mpls:1048576", "'mpls:1048576' is no encapsulation"),
    ("send <udp> --template 00", "is no Ethernet frame"),
    ("send <udp> --template folder", "folder cannot be read: Is a directory"),
    ("send <udp> --template long.hex", "long.hex is longer than 9018 bytes"),
    ("send <udp> --template header.pcap", "header.pcap has 0 frames, and no frame 1"),
    ("send <udp> --template one.pcap:2", "one.pcap has 1 frames, and no frame 2"),
    ("send <udp> --replay nosuch.pcap", "nosuch.pcap cannot be opened: No such file"),
    ("send <udp> --replay folder", "folder is no capture"),
    ("send <udp> --replay text", "text is no capture: neither pcap nor pcapng"),
    ("send <udp> --replay header.pcap", "header.pcap has no frames"),
    ("send <udp> --replay one.pcap", "has no two frames at different times: give a load"),
    ("send <udp> --replay cut.pcap", "cut.pcap ends within frame 1"),
    ("send <udp> --replay claims.pcap", "claims.pcap is broken at frame 1: its captured length"),
    ("send <udp> --replay wifi.pcap", "another link layer (IEEE802_11), not of Ethernet"),
    ("send <udp> --replay runt.pcap --load 1kpps", "frame 1 has 10 bytes"),
    ("send <udp> --replay giant.pcap --load 1kpps", "frame 1 has 9100 bytes"),
    ("send <udp> --replay century.pcap", "the trial would take 8589934590 s: give a higher load"),
    ("send <udp> --replay cut.pcapng", "cut.pcapng is no capture"),
    ("send <udp> --replay nowhere.pcapng", "nowhere.pcapng is broken at frame 1"),
    ("send <udp> --replay block.pcapng", "block.pcapng is broken at frame 1: a block has"),
    ("send <udp> --replay two.pcap --load <tiny>", "out of range"),
    ("send <udp> --replay two.pcap --speed <tiny>x", "give a higher load, or fewer frames"),
    ("send <udp> --replay two.pcap --speed <huge>x", "is not a factor: give 2x, 0.5x"),
    ("send <udp> --replay two.pcap --loop 0", "0 is not in 1..=4294967295"),
    ("send <udp> --replay two.pcap --loop 4294967295", "two.pcap cannot be sent: the trial would take"),
    ("send <udp> --replay two.pcap --map 10.0.0.1-10.0.0.9=10.1.0.1", "two ranges of the same length"),
    ("send <udp> --replay two.pcap --src 10.0.0.1", "unchanged, with their own addresses"),
    ("count <udp> --duration 31d", "31d is out of range"),
    ("count <udp> --expect <nines>", "'99999999999999999999' for '--expect <FRAMES>'"),
    ("count xdp:nosuch", "xdp:nosuch: there is no such interface"),
    ("calibrate auto:nosuch", "auto:nosuch: there is no such interface"),
    ("calibrate <udp> --size 63", "no frames of 63 bytes"),
    ("calibrate <udp> --results folder", "cannot write folder: Is a directory"),
    ("connections", "not provided: --ports"),
    ("connections --ports packet:nosuch", "one port needs --to or --serve"),
    ("connections --ports packet:nosuch,packet:nosuch --to 10.0.0.1:80", "--to is for one port"),
    ("connections --ports packet:nosuch --to 10.0.0.1", "invalid value '10.0.0.1'"),
    ("connections --ports packet:nosuch --to 10.0.0.1:80", "there is no such interface"),
    ("connections --ports packet:nosuch --to 198.18.0.1:80", "client and server have the same address"),
    ("connections --ports packet:nosuch --serve 0", "0 is not in 1..=65535"),
    ("connections --ports packet:nosuch --serve 80 --rate 7", "are for a client"),
    ("connections --ports packet:nosuch --serve 80 --find rate", "are for a client"),
    (
        "connections --ports packet:nosuch --to 10.0.0.1:80 --rate 0",
        "'0' is no number of connections a second",
    ),
    ("connections --ports packet:nosuch --to 10.0.0.1:80 --rate nan", "'nan' is no number of connections"),
    ("connections --ports packet:nosuch --to 10.0.0.1:80 --src ::1", "connections are over IPv4 only"),
    (
        "connections --ports packet:nosuch --to 10.0.0.1:80 --concurrent 70000",
        "give more addresses with --src",
    ),
    ("connections --ports packet:nosuch --to 10.0.0.1:80 --http path", "'path' is no path"),
    ("connections --ports packet:nosuch --to 10.0.0.1:80 --http / --answer 7", "the server decides"),
    ("connections --ports packet:nosuch --to 10.0.0.1:80 --http / --request 7", "cannot be used with"),
    ("connections --ports packet:nosuch --to 10.0.0.1:80 --find rate --rate 7", "chooses the rates itself"),
    ("connections --ports packet:nosuch --to 10.0.0.1:80 --most 7", "not provided: --find"),
    ("connections --ports packet:nosuch --to 10.0.0.1:80 --tries 16", "16 is not in 0..=15"),
    ("forward packet:nosuch", "not provided: <B>"),
    ("forward packet:nosuch packet:nosuch", "is given twice"),
    ("forward <udp> packet:nosuch --prime 4294967296", "4294967296 is not in 0..=4294967295"),
    ("bridge <udp>", "2 values required"),
    ("bridge <udp> packet:nosuch", "there is no such interface"),
    ("route packet:nosuch", "is not a port with its address, like packet:eth1=10.0.0.1/24"),
    ("route packet:nosuch=10.0.0.1/33", "is not a port with its address"),
    ("route packet:nosuch=10.0.0.255/24", "10.0.0.255/24 is no address that a router can have"),
    ("route packet:nosuch@4095=10.0.0.1/24", "4095 is no VLAN: 1 to 4094"),
    ("route packet:nosuch=10.0.0.1/24 packet:nosuch2=10.0.0.2/24", "overlap: each interface needs its own"),
    ("route packet:nosuch=10.0.0.1/24 packet:nosuch=10.0.1.1/24", "have the same port and VLAN"),
    ("route packet:nosuch=10.0.0.1/24 --route 0.0.0.0/0", "'0.0.0.0/0' is not a route like"),
    (
        "route packet:nosuch=10.0.0.1/24 --route 0.0.0.0/0=10.9.0.1",
        "no interface is in the network of 10.9.0.1",
    ),
    ("nat packet:nosuch=10.0.0.1/24", "2 values required"),
    ("nat packet:nosuch=10.0.0.1/24 packet:nosuch2=10.0.1.1/24 --mappings 0", "0 mappings"),
    (
        "nat packet:nosuch=10.0.0.1/24 packet:nosuch2=10.0.1.1/24 --udp-timeout 0",
        "a time of 0 is out of range",
    ),
    ("agent --allow-ports <empty>", "`` is not a port"),
    ("agent --allow-ports udp:", "give --token-file FILE, or --tls-ca"),
    ("agent --allow-ports udp: --token-file nosuch", "nosuch: No such file"),
    ("agent --allow-ports udp: --token-file folder", "folder: Is a directory"),
    ("agent --allow-ports udp: --token-file binary", "binary: stream did not contain valid UTF-8"),
    ("agent --allow-ports udp: --token-file short.token", "at least 16 characters"),
    ("agent --allow-ports udp: --token-file two.token", "in one line"),
    ("agent --allow-ports udp: --tls-ca text", "not provided: --tls-cert <FILE> --tls-key <FILE>"),
    ("agent --allow-ports udp: --tls-ca text --tls-cert text --tls-key text", "certificates cannot be used"),
    ("agent --allow-ports udp: --listen 127.0.0.1", "'127.0.0.1' for '--listen <ADDRESS:PORT>'"),
    (
        "agent --allow-ports udp: --token-file good.token --listen 192.0.2.1:5777",
        "cannot listen on 192.0.2.1",
    ),
    ("agent --allow-ports udp: --allow-to 10.0.0.0/33", "'10.0.0.0/33' is not a network"),
    ("agent --allow-ports udp: --max-load 50%", "give --max-load in frames per second"),
    ("agent keys text h1", "text: File exists"),
    ("agent keys new ../h1", "'../h1' is not a host name"),
    ("agent keys new a<space>b", "'a b' is not a host name"),
    ("agent keys new tester", "an agent cannot be called 'tester'"),
    ("device eject 0000:ff:1f.7", "unrecognized subcommand 'eject'"),
    ("device bind 0000:ff:1f.8", "`0000:ff:1f.8` is not a PCI address"),
    ("device bind 0000:ff:1f.7", "no PCI device 0000:ff:1f.7"),
    ("device bind 0000:ff:1f.7 --backend nosuch", "give vfio or uio"),
    ("device release nosuch", "`nosuch` is not a PCI address"),
    ("device list --csv no/where", "cannot write no/where"),
    ("conformance --chip nosuch", "known are 82542"),
    ("conformance --on nosuch", "neither model nor qemu, nor a card"),
    ("conformance --on uio:0000:ff:1f.7", "name its peer"),
    (
        "conformance --on model --peer lo",
        "an interface at the other end of the cable is for a real card: vfio:ADDRESS",
    ),
    ("conformance --on qemu --link-control text", "control of the link is for a real card"),
    ("conformance --peer lo", "not provided: --on <DEVICE>"),
    ("lab --device ne2000", "no device called 'ne2000': known are e1000, e1000e, igb, virtio-net, vmxnet3"),
    ("lab --backend kernel", "kernel is the backend of the driver linux only"),
    ("lab --workload nosuch", "no workload called 'nosuch'"),
    ("lab --kernel linux-2.4", "no kernel called 'linux-2.4'"),
    ("lab --rounds 0", "0 is not in 1..1000"),
    ("lab --load 50%", "give frames per second, or max"),
    ("lab --load <tiny>", "out of range"),
    ("lab --set linux.x=1;reboot", "'linux.x=1;reboot' is not a setting"),
    ("lab --set kpps.ring=7", "a multiple of 8 of descriptors, 80 to 4096"),
    ("lab --set napi.defer_hard_irqs=many", "'napi.defer_hard_irqs=many' is not a setting"),
    ("audit --chip 82542", "the 82542 cannot be audited"),
    ("audit --chip 82574l", "the 82574l cannot be audited: stock drivers are audited on chips of PCI only"),
    ("audit --chip nosuch", "nosuch"),
    ("audit --bus nosuch", "nosuch"),
    ("audit --driver bsd", "no driver called 'bsd'"),
    // Its earlier name.
    ("audit --under-test bsd", "no driver called 'bsd'"),
    ("audit --count 0", "0 is not in 1.."),
    ("audit --max reads", "give NAME=VALUE; names are reads-per-frame"),
    ("audit --max speed=1", "'speed' cannot be bounded"),
    ("audit --max lost=few", "the value must be a number, 0 or more"),
    ("audit --load 50%", "give frames per second, or max"),
    ("audit --setup x.toml", "not provided: --guest"),
    (
        "audit --guest --qemu nosuch",
        "there is no program nosuch; without a QEMU of your own, kpps fetches one",
    ),
    ("audit --guest --qemu ./nosuch", "there is no program ./nosuch"),
    ("audit --guest --qemu ./text", "./text cannot run: Permission denied"),
    ("audit --guest --qemu ./folder", "./folder cannot run: "),
    ("audit --guest --qemu /bin/true", "/bin/true is no QEMU"),
    ("audit --guest --qemu /bin/false", "/bin/false is no QEMU"),
    ("audit --guest --arch arm", "no architecture called 'arm': known are x86_64, aarch64, riscv64"),
    ("audit --guest --chip 82542", "the 82542 cannot be audited"),
    ("audit --guest --stimulus pign", "no stimulus called 'pign'"),
    ("audit --guest --faults fire", "no fault called 'fire'"),
    ("audit --guest --quirk x", "no quirk called 'x'"),
    ("audit --guest --send root", "write PROMPT=>LINE"),
    ("audit --guest --address 10.0.2", "'10.0.2' for '--address"),
    ("audit --guest --at-most 0", "a time of 0 is out of range"),
    ("audit --guest --beside xen", "'xen' is nothing to compare with"),
    ("audit --guest --max lost=0", "does not have the quantity 'lost': it has must, should"),
    ("audit --guest --junit folder", "cannot write folder: Is a directory"),
    ("audit --guest --junit no/where", "cannot write no/where"),
    ("audit --guest --setup nosuch", "nosuch cannot be read: No such file"),
    ("audit --guest --setup folder", "folder cannot be read: Is a directory"),
    ("audit --guest --setup binary", "binary is no set-up of an audit"),
    ("audit --guest --setup /dev/zero", "more than 1048576 bytes"),
    ("audit --guest --setup text", "text, line 1: "),
    ("audit --guest --setup key.toml", "key.toml, line 2: unknown key `stimulus`"),
    (
        "audit --guest --setup value.toml",
        "value.toml, line 2: stimuli[1]: there is no stimulus called 'pign'",
    ),
    ("audit --guest --setup bound.toml", "does not have the quantity 'lost'"),
    ("audit --guest --setup card.toml", "-device e1000: kpps brings the network card"),
    (
        "audit --guest -- -device e1000",
        "-device e1000: kpps brings the network card; leave this out, or write",
    ),
    ("audit --guest -- -nic user", "-nic user: kpps brings the network card"),
    ("audit --guest -- -device @CARD@ -device @CARD@", "is given twice"),
    ("audit --guest -- -device @CARD@,addr", "write settings as @CARD@,addr=3"),
    ("audit --guest -- -m 0", "-m 0: no size of a memory; write -m 512M"),
    ("audit --guest -- -m", "-m: no size of a memory"),
    ("audit --guest -- -daemonize", "-daemonize: QEMU would run no guest for kpps"),
];

/// Commands without a file of results, and arguments that exclude one or name one.
const WITHOUT_RESULTS: [&str; 17] = [
    // Words after the guest's dashes are of QEMU.
    "audit --guest",
    "<",
    "-",
    "nosuch",
    "schema",
    "man",
    "completions",
    "agent",
    "otg",
    "merge",
    "device bind",
    "device release",
    "device eject",
    "--results",
    "--toml",
    "--perturb",
    "--drawn",
];

/// Runs a command line; it may replace the years of work in old.json when it ends well.
fn run(folder: &Path, words: &str) -> Output {
    let has_results = !WITHOUT_RESULTS.iter().any(|it| match it.strip_prefix("--") {
        Some(_) => words.contains(it),
        None => words.starts_with(it),
    });
    let results = if has_results { &["--results", "old.json"][..] } else { &[] };
    let limits = format!("ulimit -v {MEMORY_KIB}; exec timeout -k 1 {PATIENCE_S} \"$0\" \"$@\"");
    let mut command = Command::new("sh");
    command.current_dir(folder).arg("-c").arg(limits).arg(assert_cmd::cargo::cargo_bin("kpps"));
    command.args(arguments(words)).args(results).stdin(Stdio::null()).output().unwrap()
}

/// The contents of all files in a folder.
fn contents(folder: &Path) -> BTreeMap<OsString, Option<Vec<u8>>> {
    let entries = fs::read_dir(folder).unwrap().map(Result::unwrap);
    entries.map(|entry| (entry.file_name(), fs::read(entry.path()).ok())).collect()
}

/// The mistake in the end of a row, if there is one.
fn mistake(output: &Output, says: &str) -> Option<String> {
    let said = String::from_utf8_lossy(&output.stderr);
    let wrong = match output.status.code() {
        Some(2) if !output.stdout.is_empty() => "it prints something",
        Some(2) if said.trim_end().lines().count() != 1 => "it does not say one line",
        Some(2) if !said.starts_with("kpps: ") || said.chars().count() > 3000 => "that is no clear line",
        Some(2) if !said.contains(says) => "it says something else",
        Some(2) => return None,
        Some(124 | 137) => "it does not end",
        _ => "the exit code is not 2",
    };
    let said: String = said.chars().take(500).collect();
    Some(format!("{wrong} ({:?}; {says:?}): {said}", output.status.code()))
}

#[test]
fn whatever_is_wrong_is_said_in_one_line_and_nothing_is_lost() {
    let rows: Vec<_> = [SIMULATED, MEASURED, REAL].concat();
    assert!(rows.len() >= 150);
    let (next, mistakes) = (AtomicUsize::new(0), std::sync::Mutex::new(Vec::new()));
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                let folder = tempfile::tempdir().unwrap();
                write_files(folder.path());
                let before = contents(folder.path());
                while let Some((words, says)) = rows.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let mistake = mistake(&run(folder.path(), words), says);
                    let is_changed = contents(folder.path()) != before;
                    let changed = is_changed.then(|| "files are changed".to_owned());
                    mistakes.lock().unwrap().extend(mistake.or(changed).map(|it| format!("{words}: {it}")));
                    if is_changed {
                        break;
                    }
                }
            });
        }
    });
    let mistakes = mistakes.into_inner().unwrap();
    assert!(mistakes.is_empty(), "{} of {} rows:\n{}", mistakes.len(), rows.len(), mistakes.join("\n"));
}
