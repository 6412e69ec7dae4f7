//! Virtual cables in network namespaces, with kpps on some of their ends and ourselves on others.

use kpps_frames::{Tag, tag};
use kpps_namespaces::{says_short_of_cpu, signal};
use kpps_platform::memory::{BufferPool, Memory};
use kpps_platform::{Buffer, BufferSource};
use kpps_ports::port::{Frame, PacketPort, Port};
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};
use serde_json::Value;
use std::fs::File;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::fd::AsFd;
use std::process::{Child, Command, Output, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// The longest wait for a program to start, or for a frame, on a machine under load.
const EVENT_TIMEOUT: Duration = Duration::from_secs(60);

/// A network namespace of its own with virtual cables; gone when dropped.
pub struct Net(kpps_namespaces::Net);

impl Net {
    /// With these cables, both ends up; `None` without the right to make one.
    pub fn new(cables: &[(&str, &str)]) -> Option<Self> {
        Self::with_queues(cables, 1)
    }

    /// A bridge between this number of ports: `a`, `b` and so on.
    pub fn bridge_of_ports(ports: u8) -> Option<Self> {
        kpps_namespaces::Net::with_bridge_of_ports(ports).map(Self)
    }

    /// A bridge between `a` and `b`, with interfaces of several queues. The n-th queues of both ends of a
    /// cable belong together.
    pub fn with_queues(cables: &[(&str, &str)], queues: u32) -> Option<Self> {
        let net = Self(kpps_namespaces::Net::new()?);
        let several = format!("numtxqueues {queues} numrxqueues {queues}");
        for (a, b) in cables {
            net.0.run(&format!("ip link add name {a} {several} type veth peer name {b} {several}"));
            net.run(&["ip", "link", "set", "dev", a, "up"]);
            net.run(&["ip", "link", "set", "dev", b, "up"]);
        }
        Some(net)
    }

    /// A bridge between `a` and `b`.
    pub fn bridge() -> Option<Self> {
        kpps_namespaces::Net::with_bridge().map(Self)
    }

    /// The same with interfaces of several queues.
    pub fn bridge_of_queues(queues: u32) -> Option<Self> {
        kpps_namespaces::Net::with_bridge_of_queues(queues).map(Self)
    }

    /// Its name, as `ip` knows it.
    pub fn name(&self) -> &str {
        self.0.name()
    }

    pub fn command(&self, words: &[&str]) -> Command {
        let mut command = self.0.command(words[0]);
        command.args(&words[1..]);
        command
    }

    /// Whether this command line succeeds, as the system may lack what it needs.
    pub fn can(&self, words: &str) -> bool {
        self.0.can(words)
    }

    pub fn run(&self, words: &[&str]) {
        assert!(self.command(words).status().unwrap().success(), "{words:?}");
    }

    /// Frames that an interface has sent.
    pub fn sent(&self, interface: &str) -> u64 {
        self.0.sent(interface)
    }

    /// kpps to its end.
    pub fn kpps(&self, words: &[&str]) -> Output {
        let kpps = assert_cmd::cargo::cargo_bin("kpps");
        self.command(&[kpps.to_str().unwrap()]).args(words).output().unwrap()
    }

    /// kpps in the background, with this many ports open.
    pub fn start(&self, words: &[&str], ports: usize) -> Child {
        let kpps = assert_cmd::cargo::cargo_bin("kpps");
        let mut command = self.command(&[kpps.to_str().unwrap()]);
        let child = command.args(words).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let table = format!("/proc/{}/net/packet", child.id());
        let end = Instant::now() + EVENT_TIMEOUT;
        // A line of heading, and one for each bound socket (its 4th column is the protocol: all).
        let open = || {
            let text = std::fs::read_to_string(&table).unwrap_or_default();
            text.lines().filter(|line| line.split_whitespace().nth(3) == Some("0003")).count()
        };
        while open() < ports {
            assert!(Instant::now() < end, "{words:?} does not start");
            std::thread::sleep(Duration::from_millis(5));
        }
        child
    }

    /// The text that the metrics of a command there serve at an address; empty if nothing answers.
    pub fn metrics(&self, address: &str) -> String {
        let ask = || {
            // A socket of a thread that has moved there.
            self.0.enter();
            let mut said = String::new();
            if let Ok(mut stream) = TcpStream::connect(address) {
                let asked = stream.write_all(b"GET /metrics HTTP/1.1\r\n\r\n");
                let _ = asked.and_then(|()| stream.read_to_string(&mut said));
            }
            said
        };
        std::thread::scope(|scope| scope.spawn(ask).join().unwrap())
    }

    /// An end of a cable in our own hands.
    pub fn end(&self, interface: &str) -> End {
        let namespace = File::open(format!("/run/netns/{}", self.name())).unwrap();
        let interface = interface.to_owned();
        // A socket stays in the namespace that it was made in.
        let port = std::thread::spawn(move || {
            move_into_link_name_space(namespace.as_fd(), Some(LinkNameSpaceType::Network)).unwrap();
            let pool: BufferPool = Memory::private(4 << 20).unwrap().pool(600, 2048, None).unwrap();
            PacketPort::open(&interface, pool).unwrap()
        });
        End(port.join().unwrap())
    }
}

/// Whether a frame is an ARP message behind `tag` bytes of VLAN tags, and does not just announce its sender.
pub fn is_arp(frame: &[u8], tag: usize) -> bool {
    let frame = &frame[tag..];
    frame[12..14] == [8, 6] && frame[28..32] != frame[38..42]
}

pub struct End(PacketPort);

impl End {
    pub fn send(&mut self, bytes: &[u8]) {
        let mut buffer = self.0.pool().take().unwrap();
        buffer.bytes_mut()[..bytes.len()].copy_from_slice(bytes);
        self.0.send(Frame { buffer, bytes: bytes.len() as u16 }).unwrap();
        self.0.flush().unwrap();
    }

    /// The next frame that `wanted` likes.
    pub fn receive(&mut self, what: &str, wanted: impl Fn(&[u8]) -> bool) -> Vec<u8> {
        let end = Instant::now() + EVENT_TIMEOUT;
        while Instant::now() < end {
            let mut found = None;
            self.0
                .receive(1, |frame| {
                    found = Some(frame.as_ref().to_vec()).filter(|frame| wanted(frame));
                    Some(frame.buffer)
                })
                .unwrap();
            if let Some(found) = found {
                return found;
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        panic!("{what} does not come");
    }

    /// The answer to a frame, which is sent again each second: a busy machine may drop one.
    pub fn answer(&mut self, to: &[u8], what: &str, wanted: impl Fn(&[u8]) -> bool) -> Vec<u8> {
        let end = Instant::now() + EVENT_TIMEOUT;
        while Instant::now() < end {
            self.send(to);
            let again = Instant::now() + Duration::from_secs(1);
            while Instant::now() < again {
                if let Some(found) = self.drain().into_iter().find(|frame| wanted(frame)) {
                    return found;
                }
                std::thread::sleep(Duration::from_millis(1));
            }
        }
        panic!("{what} does not come");
    }

    /// All frames that have arrived.
    pub fn drain(&mut self) -> Vec<Vec<u8>> {
        let mut frames = Vec::new();
        let keep = |frame: Frame| {
            frames.push(frame.as_ref().to_vec());
            Some(frame.buffer)
        };
        self.0.receive(64, keep).unwrap();
        frames
    }

    /// The answer has nothing that was not asked for.
    pub fn is_silent(&mut self) -> bool {
        std::thread::sleep(Duration::from_millis(100));
        self.0.receive(32, |frame| Some(frame.buffer)).unwrap() == 0
    }
}

/// A program between two ends of cables, on a thread of its own.
pub struct Middle<T> {
    doing: Arc<AtomicBool>,
    thread: JoinHandle<T>,
}

impl<T: Send + 'static> Middle<T> {
    /// Frames from the second end are forwarded unchanged. `pass` decides about frames from the first end. It
    /// is called as well when no frame arrives.
    pub fn between(
        mut from: End,
        mut to: End,
        mut all: T,
        mut pass: impl FnMut(&mut T, Option<Vec<u8>>, &mut End) + Send + 'static,
    ) -> Self {
        let doing = Arc::new(AtomicBool::new(true));
        let go_on = doing.clone();
        let thread = std::thread::spawn(move || {
            while go_on.load(Ordering::Relaxed) {
                to.drain().iter().for_each(|frame| from.send(frame));
                let came = from.drain();
                if came.is_empty() {
                    pass(&mut all, None, &mut to);
                    std::thread::sleep(Duration::from_micros(50));
                }
                came.into_iter().for_each(|frame| pass(&mut all, Some(frame), &mut to));
            }
            all
        });
        Self { doing, thread }
    }

    /// Ends it. Returns its notes.
    pub fn stop(self) -> T {
        self.doing.store(false, Ordering::Relaxed);
        self.thread.join().unwrap()
    }
}

/// Frames that this machine's own queues had no room for while it was busy.
pub fn backlog(trial: &Value) -> u64 {
    let dropped = trial["ledger"]["dropped"].as_object().unwrap().iter();
    dropped.filter(|(place, _)| place.contains(" backlog")).map(|(_, frames)| frames.as_u64().unwrap()).sum()
}

pub fn document(output: &Output) -> Value {
    let text = String::from_utf8_lossy(&output.stdout);
    serde_json::from_str(&text)
        .unwrap_or_else(|e| panic!("{e}: {text}{}", String::from_utf8_lossy(&output.stderr)))
}

/// Ends a command as Ctrl-C would.
pub fn stop(child: Child) -> Output {
    signal(&child, "-INT");
    child.wait_with_output().unwrap()
}

/// Whether the tester itself was too slow on this machine: there is a result, but it is no measurement.
pub fn is_short_of_cpu(output: &Output) -> bool {
    output.status.code() == Some(3) && says_short_of_cpu(&String::from_utf8_lossy(&output.stderr))
}

/// The trial and the tag of a trial's frame, damaged or not.
pub fn tag_of(frame: &[u8]) -> Option<(u32, Tag)> {
    let is_test = frame.get(12..14)? == [8, 0] && *frame.get(23)? == 17 && frame.get(36..38)? == [0, 9];
    let number = |from: usize, bytes: usize| {
        let bytes = frame.get(tag::OFFSET + from..)?.get(..bytes)?;
        Some(bytes.iter().fold(0, |all, byte| all << 8 | u64::from(*byte)))
    };
    let [first, sequence, sent_ps] = [number(0, 5)?, number(4, 5)?, number(9, 6)?];
    let tag = Tag { stream: (first >> 4) as u16, sequence: sequence & ((1 << 36) - 1), sent_ps };
    is_test.then_some(((first >> 20) as u32, tag))
}
