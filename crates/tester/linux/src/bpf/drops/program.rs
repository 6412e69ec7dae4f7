//! The program at the tracepoint.

use super::assembler::{Assembler, Helper, If, R, Size, With};
use crate::bpf::btf::Btf;
use crate::bpf::load::Instruction;
use If::{Above, AtLeast, Below, Equal, NotEqual};
use R::{R0, R1, R2, R3, R4, R6, R7, R8, R9, R10};
use Size::{B1, B2, B4, B8};
use With::{Register, Value};

/// Bytes of a key: place in the code (8), reason (4), namespace (4), name of the interface (16).
pub(super) const KEY: usize = 32;
/// The most interfaces that are the tester's own.
pub(super) const OWN: usize = 16;
/// Bytes of the settings: trial (4; more than 20 bits for all packets), namespace of the tester's ports (4),
/// where a packet socket's function and that which frees packets begin and end (8 each), and the numbers of
/// the ports' interfaces (4 each).
pub(super) const SETTINGS: usize = 40 + 4 * OWN;

/// The stack: the key, a word, and the beginning of the packet.
const LOCATION: i16 = -(KEY as i16);
const REASON: i16 = LOCATION + 8;
const NAMESPACE: i16 = LOCATION + 12;
const INTERFACE: i16 = LOCATION + 16;
const NAME_BYTES: i32 = 16;
const WORD: i16 = LOCATION - 8;
const PACKET: i16 = WORD - PACKET_BYTES as i16;
const PACKET_BYTES: i32 = 112;

/// Where an IP header may be, in bytes from what the kernel takes for the network header: there, behind one
/// to three VLAN tags or labels, and inside VXLAN over IPv4, with or without a VLAN tag.
const IP_HEADERS: [i16; 6] = [0, 4, 8, 12, 50, 54];
const UDP: i32 = 17;
/// From an IP header to its protocol, and to the payload of UDP; of IPv4 without options, and of IPv6.
const IPV4: (i16, i16) = (9, 28);
const IPV6: (i16, i16) = (6, 48);

/// Where the kernel keeps what the program reads.
#[derive(Debug)]
pub(super) struct Layout {
    device: i16,
    came_by: i16,
    length: i16,
    head: i16,
    end: i16,
    network_header: i16,
    segment_bytes: i16,
    segments: i16,
    name: i16,
    index: i16,
    namespace: i16,
    inode: i16,
}

impl Layout {
    /// As the kernel describes it.
    pub(super) fn of(btf: &Btf) -> Option<Self> {
        let packet = |name| btf.offset("sk_buff", name);
        let device = |name| btf.offset("net_device", name);
        let shared = |name| btf.offset("skb_shared_info", name);
        Some(Self {
            device: packet("dev")?,
            came_by: packet("skb_iif")?,
            length: packet("len")?,
            head: packet("head")?,
            end: packet("end")?,
            network_header: packet("network_header")?,
            segment_bytes: shared("gso_size")?,
            segments: shared("gso_segs")?,
            name: device("name")?,
            index: device("ifindex")?,
            namespace: device("nd_net.net")?,
            inode: btf.offset("net", "ns.inum")?,
        })
    }
}

/// The program for a kernel with this layout, and for maps with these descriptors.
pub(super) fn program(layout: &Layout, settings: i32, counts: i32) -> Option<Vec<Instruction>> {
    let mut program = Assembler::default();
    key(&mut program, layout, settings);
    skip_merged(&mut program);
    skip_received(&mut program, layout);
    select(&mut program, layout);
    count_frames(&mut program, layout);
    put_down(&mut program, layout, counts);
    program.finish()
}

/// Writes the key without the interface's name. Then `R6` is the interface or 0, `R7` the packet, and `R8`
/// the settings.
fn key(program: &mut Assembler, layout: &Layout, settings: i32) {
    program.set(R9, Register(R1)).value_of(R8, settings).set(R0, Value(0));
    for at in (LOCATION..0).step_by(8) {
        program.store(B8, R10, at, R0);
    }
    program.load(B8, R7, R9, 0);
    program.load(B8, R1, R9, 8).store(B8, R10, LOCATION, R1);
    program.load(B8, R1, R9, 16).store(B4, R10, REASON, R1);
    program.load(B8, R6, R7, layout.device).go_if(R6, Equal, Value(0), ("packet", 0));
    program.load(B8, R1, R6, layout.namespace).go_if(R1, Equal, Value(0), ("packet", 0));
    program.load(B4, R1, R1, layout.inode).store(B4, R10, NAMESPACE, R1);
}

/// Ends if the packet is a part of another one, which is counted as all of its frames.
fn skip_merged(program: &mut Assembler) {
    program.load(B8, R1, R10, LOCATION);
    program.load(B8, R2, R8, 24).go_if(R1, Below, Register(R2), ("whole", 0));
    program.load(B8, R2, R8, 32).go_if(R1, Below, Register(R2), ("end", 0));
    program.here(("whole", 0));
}

/// Ends if a port of the tester has received the packet: the kernel has taken it in at the port's interface,
/// and it is not the ring of a packet socket that has no room.
fn skip_received(program: &mut Assembler, layout: &Layout) {
    program.load(B4, R1, R10, NAMESPACE).load(B4, R2, R8, 4);
    program.go_if(R1, NotEqual, Register(R2), ("packet", 0));
    program.load(B4, R2, R6, layout.index).load(B4, R3, R7, layout.came_by);
    program.go_if(R2, NotEqual, Register(R3), ("packet", 0));
    for at in (0..OWN as i16).map(|n| 40 + 4 * n) {
        program.load(B4, R3, R8, at).go_if(R2, Equal, Register(R3), ("own", 0));
    }
    program.go(("packet", 0));
    program.here(("own", 0)).load(B8, R1, R10, LOCATION);
    program.load(B8, R2, R8, 8).go_if(R1, Below, Register(R2), ("end", 0));
    program.load(B8, R2, R8, 16).go_if(R1, AtLeast, Register(R2), ("end", 0));
}

/// Ends if the packet is not a frame of the trial.
fn select(program: &mut Assembler, layout: &Layout) {
    program.here(("packet", 0)).load(B4, R1, R8, 0).go_if(R1, Above, Value(0xf_ffff), ("frames", 0));
    program.load(B8, R3, R7, layout.head).load(B2, R1, R7, layout.network_header).add(R3, Register(R1));
    program.set(R1, Register(R10)).add(R1, Value(PACKET.into())).set(R2, Value(PACKET_BYTES));
    program.call(Helper::ReadKernel).go_if(R0, NotEqual, Value(0), ("end", 0));
    for (number, at) in IP_HEADERS.into_iter().enumerate() {
        program.load(B1, R1, R10, PACKET + at).shift_right(R1, Value(4));
        program.go_if(R1, Equal, Value(4), ("ipv4", number));
        program.go_if(R1, NotEqual, Value(6), ("next", number));
        for (label, (protocol, payload)) in [("ipv6", IPV6), ("ipv4", IPV4)] {
            program.here((label, number)).load(B1, R1, R10, PACKET + at + protocol);
            program.go_if(R1, NotEqual, Value(UDP), ("next", number));
            // The tag begins with the 20 bits of the trial.
            program.load(B2, R1, R10, PACKET + at + payload).load(B1, R3, R10, PACKET + at + payload + 2);
            if label == "ipv6" {
                program.go(("trial", number));
            }
        }
        program.here(("trial", number)).swap_16(R1).shift_left(R1, Value(4)).shift_right(R3, Value(4));
        program.add(R1, Register(R3)).load(B4, R2, R8, 0).go_if(R1, Equal, Register(R2), ("frames", 0));
        program.here(("next", number));
    }
    program.go(("end", 0));
}

/// `R9` is the number of frames that the packet stands for.
fn count_frames(program: &mut Assembler, layout: &Layout) {
    program.here(("frames", 0)).set(R9, Value(1));
    let read_shared = |program: &mut Assembler, at: i16| {
        program.load(B8, R3, R7, layout.head).load(B4, R1, R7, layout.end).add(R3, Register(R1));
        program.add(R3, Value(at.into())).set(R0, Value(0)).store(B8, R10, WORD, R0);
        program.set(R1, Register(R10)).add(R1, Value(WORD.into())).set(R2, Value(2));
        program.call(Helper::ReadKernel).load(B2, R1, R10, WORD);
    };
    read_shared(program, layout.segments);
    program.go_if(R1, Equal, Value(0), ("unnumbered", 0));
    program.set(R9, Register(R1)).go(("count", 0));
    // The kernel has not numbered them yet. Headers are shorter than a segment and its headers.
    program.here(("unnumbered", 0));
    read_shared(program, layout.segment_bytes);
    program.go_if(R1, Equal, Value(0), ("count", 0));
    program.load(B4, R2, R7, layout.length).subtract(R2, Value(IPV4.1.into())).divide(R2, Register(R1));
    program.go_if(R2, Equal, Value(0), ("count", 0)).set(R9, Register(R2));
}

/// Adds `R9` to the entry.
fn put_down(program: &mut Assembler, layout: &Layout, counts: i32) {
    program.here(("count", 0)).go_if(R6, Equal, Value(0), ("named", 0));
    program.set(R1, Register(R10)).add(R1, Value(INTERFACE.into())).set(R2, Value(NAME_BYTES));
    program.set(R3, Register(R6)).add(R3, Value(layout.name.into())).call(Helper::ReadKernel);
    program.here(("named", 0));
    let lookup = |program: &mut Assembler| {
        program.map(R1, counts).set(R2, Register(R10)).add(R2, Value(LOCATION.into()));
        program.call(Helper::Lookup);
    };
    lookup(program);
    program.go_if(R0, NotEqual, Value(0), ("add", 0));
    // A new entry, unless another CPU makes it at the same time.
    program.set(R1, Value(0)).store(B8, R10, WORD, R1).map(R1, counts);
    program.set(R2, Register(R10)).add(R2, Value(LOCATION.into()));
    program.set(R3, Register(R10)).add(R3, Value(WORD.into())).set(R4, Value(1)).call(Helper::Update);
    lookup(program);
    program.go_if(R0, Equal, Value(0), ("end", 0));
    program.here(("add", 0)).add_in_memory(R0, 0, R9);
    program.here(("end", 0)).set(R0, Value(0)).exit();
}
