//! Packets that the kernel drops, counted by reason and place.
//!
//! Since Linux 5.17 the kernel says why it drops a packet (`enum skb_drop_reason`), and it always said where,
//! at the tracepoint `kfree_skb`. A program at that tracepoint counts the test frames among the dropped
//! packets: by reason, function, network namespace and interface. It sees each dropped packet of the host, in
//! all namespaces, also one that another counter has. A packet of several frames (GSO) counts as the number
//! of its frames.
//!
//! The program is made here from the kernel's own description of its types, so it needs no compiler and fits
//! the running kernel. It takes root, or `CAP_BPF` and `CAP_PERFMON`.

mod assembler;
mod program;

use crate::bpf::btf::Btf;
use crate::bpf::load::{Map, MapKind, load};
use crate::bpf::symbols::Symbols;
use crate::interface::Interface;
use crate::sys::bpf_open;
use program::{KEY, Layout, OWN, SETTINGS, program};
use std::collections::HashMap;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::fs::MetadataExt;

/// A command, a type of programs and where they run (linux/bpf.h).
const RAW_TRACEPOINT_OPEN: i32 = 17;
const PROG_TYPE_TRACING: u32 = 26;
const TRACE_RAW_TP: u32 = 23;

/// Test frames are dropped in few places, so a small table is enough.
const PLACES: u32 = 4096;
/// The tracepoint's function, with its parameters in the order of Linux 5.17: its own data, the packet, the
/// place, and the reason.
const TRACEPOINT: &str = "btf_trace_kfree_skb";
const PARAMETERS: usize = 4;
/// The function that puts received frames into the rings of packet sockets.
const PACKET_SOCKET: &str = "tpacket_rcv";
/// The function that frees a packet's data, and with it the packets that were merged into it. Before Linux
/// 6.4 each of them seems to be dropped, even if the whole was received. They are counted with the whole.
const RELEASE: &str = "skb_release_data";

/// Frames that the kernel dropped at one place for one reason.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Dropped {
    /// The inode of the network namespace, as of `/run/netns/NAME`; 0 if the packet had left its interface.
    pub namespace: u32,
    /// The interface that the packet was at: the one it came from, or the one it was to leave by.
    pub interface: String,
    /// The kernel's name of the reason, without `SKB_DROP_REASON_`; a number if it has none.
    pub reason: String,
    /// The function that dropped it; `None` if the kernel shows no addresses.
    pub function: Option<String>,
    /// How many frames.
    pub frames: u64,
}

impl Dropped {
    /// Whether it was dropped because the ring of a packet socket was full. If another socket still holds the
    /// packet, it is not lost.
    pub fn is_at_packet_socket(&self) -> bool {
        self.function.as_deref() == Some(PACKET_SOCKET)
    }
}

/// A counter of dropped test frames, in the kernel. It ends when this is dropped, and with the process.
#[derive(Debug)]
pub struct Drops {
    _program: OwnedFd,
    _attached: OwnedFd,
    settings: Map<4, SETTINGS>,
    counts: Map<KEY, 8>,
    reasons: HashMap<u32, String>,
    /// The namespace and the interfaces of the tester's ports.
    own: (u32, [u32; OWN]),
}

impl Drops {
    /// Starts to count. Packets that the kernel drops at `own` interfaces of this thread's namespace, after
    /// packet sockets have seen them, are not counted: there the tester has received them. At most 16
    /// interfaces are its own.
    ///
    /// # Errors
    /// The kernel is older than 5.17, does not describe its types, or does not permit it.
    pub fn start(own: &[String]) -> io::Result<Self> {
        let btf = Btf::of_kernel()?;
        let lacks = |what: &str| io::Error::new(io::ErrorKind::Unsupported, format!("this kernel {what}"));
        let tracepoint =
            btf.definition(TRACEPOINT).ok_or_else(|| lacks("has no tracepoint for dropped packets"))?;
        if btf.parameters(TRACEPOINT).is_none_or(|count| count < PARAMETERS) {
            return Err(lacks("does not say why it drops packets: that takes Linux 5.17"));
        }
        let layout = Layout::of(&btf).ok_or_else(|| lacks("describes its packets in another way"))?;
        let settings = Map::new(MapKind::Array, 1)?;
        let counts = Map::new(MapKind::Hash, PLACES)?;
        let instructions = program(&layout, settings.number(), counts.number())
            .ok_or_else(|| lacks("has packets too large for this program"))?;
        let program = load(PROG_TYPE_TRACING, TRACE_RAW_TP, tracepoint, &instructions)?;
        let attribute = Attach { name: 0, program: program.as_raw_fd() as u32, _pad: 0 };
        // SAFETY: the attribute of this command. Without a name, the program itself says where it runs.
        let attached = unsafe { bpf_open(RAW_TRACEPOINT_OPEN, &attribute) }?;
        let mut indices = own.iter().filter_map(|name| Some(Interface::find(name).ok()?.index()));
        let indices = [0; OWN].map(|none| indices.next().unwrap_or(none));
        let namespace = std::fs::metadata("/proc/thread-self/ns/net")?.ino() as u32;
        let reasons = btf.values("skb_drop_reason").into_iter().map(|(number, name)| {
            (number, name.strip_prefix("SKB_DROP_REASON_").map_or(name.clone(), ToOwned::to_owned))
        });
        Ok(Self {
            _program: program,
            _attached: attached,
            settings,
            counts,
            reasons: reasons.collect(),
            own: (namespace, indices),
        })
    }

    /// Begins anew, and counts only the frames of this trial. `None` counts all packets.
    ///
    /// # Errors
    /// Errors of the system.
    pub fn count(&self, trial: Option<u32>) -> io::Result<()> {
        let ranges =
            [PACKET_SOCKET, RELEASE].map(|name| Symbols::of_kernel().range(name).unwrap_or_default());
        let (namespace, own) = self.own;
        let words = [trial.unwrap_or(u32::MAX), namespace];
        let mut settings = [0; SETTINGS];
        let bytes = words.into_iter().flat_map(u32::to_ne_bytes);
        let bytes =
            bytes.chain(ranges.into_iter().flat_map(|(from, to)| [from, to]).flat_map(u64::to_ne_bytes));
        let bytes = bytes.chain(own.into_iter().flat_map(u32::to_ne_bytes));
        settings.iter_mut().zip(bytes).for_each(|(place, byte)| *place = byte);
        self.settings.put([0; 4], settings)?;
        for key in self.counts.keys()? {
            self.counts.remove(key)?;
        }
        Ok(())
    }

    /// The drops since the last [`count`](Self::count).
    ///
    /// # Errors
    /// Errors of the system.
    pub fn read(&self) -> io::Result<Vec<Dropped>> {
        let mut all = Vec::new();
        for key in self.counts.keys()? {
            let Some(frames) = self.counts.get(key)? else { continue };
            all.push(self.dropped(&key, u64::from_ne_bytes(frames)));
        }
        Ok(all)
    }

    /// An entry in words.
    fn dropped(&self, key: &[u8; KEY], frames: u64) -> Dropped {
        let (location, rest) = key.split_first_chunk().unwrap_or((&[0; 8], &[]));
        let word = |at: usize| rest.get(at..at + 4).and_then(|bytes| bytes.try_into().ok());
        let reason = word(0).map_or(0, u32::from_ne_bytes);
        let name: Vec<u8> = rest.iter().skip(8).copied().take_while(|&byte| byte != 0).collect();
        Dropped {
            namespace: word(4).map_or(0, u32::from_ne_bytes),
            interface: String::from_utf8_lossy(&name).into_owned(),
            reason: self.reasons.get(&reason).cloned().unwrap_or_else(|| reason.to_string()),
            function: Symbols::of_kernel().at(u64::from_ne_bytes(*location)).map(ToOwned::to_owned),
            frames,
        }
    }
}

#[repr(C)]
struct Attach {
    name: u64,
    program: u32,
    _pad: u32,
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use kpps_frames::build::{Flow, udp_test};
    use kpps_frames::{Mac, Size, Tag, tag};
    use kpps_namespaces::{Net, skip};

    /// Sends `frames` frames of a trial from `a`, in both of its directions.
    fn send(trial: u32, frames: u32, to_mac: Mac) {
        let format = tag::TagFormat::default().of_trial(trial);
        let interface = Interface::find("a").unwrap();
        let socket = crate::rings::raw_socket(rustix::net::AddressFamily::PACKET).unwrap();
        crate::sys::options::bind_packet(std::os::fd::AsFd::as_fd(&socket), interface.index(), 0).unwrap();
        let flow = Flow { to_mac, ..Flow::default() };
        let mut frame = udp_test(&flow, Size::MIN).unwrap();
        for sequence in 0..frames {
            let stream = if sequence % 2 == 0 { 0 } else { tag::BACK };
            format.write(&mut frame, Tag { stream, sequence: sequence.into(), sent_ps: 0 }).unwrap();
            rustix::net::send(&socket, &frame, rustix::net::SendFlags::empty()).unwrap();
        }
    }

    #[test]
    fn dropped_frames_of_a_trial_are_counted_where_they_end() {
        let Some((net, router)) = Net::with_router() else { return };
        router.run("ip route add blackhole 198.19.0.2/32");
        let inode = router.output("stat -Lc %i /proc/self/ns/net").trim().parse::<u32>().unwrap();
        let mac = router.output("cat /sys/class/net/ra/address");
        let octets: Vec<u8> = mac.trim().split(':').map(|hex| u8::from_str_radix(hex, 16).unwrap()).collect();
        net.enter();
        let drops = match Drops::start(&["a".into(), "b".into()]) {
            Ok(drops) => drops,
            Err(error) if error.kind() == io::ErrorKind::Unsupported => {
                return skip::lacks(&error.to_string());
            }
            Err(error) => panic!("{error}"),
        };
        drops.count(Some(0xabcde)).unwrap();
        let mac = Mac(octets.try_into().unwrap());
        for (trial, frames) in [(0xabcde, 12), (0xabcdf, 5), (0xbbcde, 3), (0, 2)] {
            send(trial, frames, mac);
        }
        let seen = drops.read().unwrap();
        let [one] = &seen[..] else { panic!("{seen:?}") };
        assert_eq!((one.namespace, one.interface.as_str(), one.frames), (inode, "ra", 12), "{seen:?}");
        drops.count(Some(0xabcdf)).unwrap();
        assert_eq!(drops.read().unwrap(), []);
    }

    /// Behind a port of the tester, whichever of them it is, the kernel drops copies of received frames.
    #[test]
    fn drops_behind_any_port_of_the_tester_are_not_counted() {
        let Some(net) = Net::with_bridge_of_ports(4) else { return };
        let mac = net.output("cat /sys/class/net/d/address");
        let octets: Vec<u8> = mac.trim().split(':').map(|hex| u8::from_str_radix(hex, 16).unwrap()).collect();
        let mac = Mac(octets.try_into().unwrap());
        net.enter();
        for (own, counted) in [(&["a", "b", "c"][..], 12), (&["a", "b", "c", "d"], 0)] {
            let own: Vec<String> = own.iter().map(|name| (*name).to_owned()).collect();
            let drops = match Drops::start(&own) {
                Ok(drops) => drops,
                Err(error) if error.kind() == io::ErrorKind::Unsupported => {
                    return skip::lacks(&error.to_string());
                }
                Err(error) => panic!("{error}"),
            };
            // Another trial than that of the other test: the kernel's drops are those of all namespaces.
            drops.count(Some(0x12345)).unwrap();
            send(0x12345, 12, mac);
            let seen = drops.read().unwrap();
            let at_d: u64 = seen.iter().filter(|it| it.interface == "d").map(|it| it.frames).sum();
            assert_eq!(at_d, counted, "{own:?}: {seen:?}");
        }
    }
}
