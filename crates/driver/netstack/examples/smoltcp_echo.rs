//! An e1000 that answers ping and serves a TCP echo (port 7) through smoltcp.
//!
//!     cargo run --example smoltcp_echo -p kpps-netstack -- qemu
//!     cargo run --example smoltcp_echo -p kpps-netstack -- uio:0000:00:04.0 [10.0.0.1/24]
//!     cargo run --example smoltcp_echo -p kpps-netstack -- vfio:0000:00:04.0 [10.0.0.1/24]
//!
//! With `qemu`, a client at the other end of the cable tests both, and the program ends. On a real card it
//! serves until it is interrupted.

use kpps_driver::{Config, Device, probe};
use kpps_linux::{Card, Domain};
use kpps_netstack::smoltcp::Nic;
use kpps_netstack::{Offload, buffers_needed};
use kpps_platform::{BufferSource, Platform};
use kpps_ports::Spec;
use kpps_qemu::qtest::{Model, Options, Qemu};
use peer::{EchoClient, PORT, Peer, Ping};
use smoltcp::iface::{Config as InterfaceConfig, Interface, SocketHandle, SocketSet};
use smoltcp::socket::tcp;
use smoltcp::time::Instant;
use smoltcp::wire::{IpCidr, Ipv4Address};
use std::error::Error;
use std::process::ExitCode;
use std::time::Duration;

#[allow(dead_code, clippy::unwrap_used)]
#[path = "../tests/netstack/common/peer.rs"]
mod peer;

/// Bytes of a packet buffer.
const BUFFER_BYTES: usize = 2048;
/// Buffers must not cross this (errata of the 82545 and 82546, revision 1).
const BOUNDARY: Option<u64> = Some(1 << 16);
/// Bytes that the client sends to be echoed.
const ECHO_BYTES: usize = 1 << 20;
/// How long the client waits, in seconds.
const PATIENCE_S: u64 = 60;

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

fn run() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let address = match arguments.get(1) {
        None => IpCidr::new(Ipv4Address::new(10, 0, 0, 1).into(), 24),
        Some(text) => text.parse().map_err(|()| format!("{text} is not an address like 10.0.0.1/24"))?,
    };
    match arguments.first().map(String::as_str) {
        Some("qemu") => on_qemu(),
        Some(spec) if arguments.len() <= 2 => on_card(&spec.parse()?, address),
        _ => Err("usage: smoltcp_echo qemu | uio:ADDRESS [IP/PREFIX] | vfio:ADDRESS [IP/PREFIX]".into()),
    }
}

/// A card, the stack on it, and the echo server.
struct Server<P: Platform, S: BufferSource> {
    nic: Nic<P, S>,
    interface: Interface,
    sockets: SocketSet<'static>,
    echo: SocketHandle,
}

impl<P: Platform, S: BufferSource> Server<P, S> {
    fn new(device: Device<P, S>, address: IpCidr) -> Self {
        let mut nic = Nic::new(device, Offload::ALL);
        let config = InterfaceConfig::new(nic.hardware_address());
        let mut interface = Interface::new(config, &mut nic, Instant::ZERO);
        // The list is empty, so there is room.
        interface.update_ip_addrs(|list| _ = list.push(address));
        let mut sockets = SocketSet::new(Vec::new());
        let buffer = || tcp::SocketBuffer::new(vec![0; 65_536]);
        let echo = sockets.add(tcp::Socket::new(buffer(), buffer()));
        Self { nic, interface, sockets, echo }
    }

    /// Polls once. Returns whether there was anything to do.
    fn work(&mut self) -> Result<bool, Box<dyn Error>> {
        self.nic.endpoint.look_after()?;
        let before = self.frames();
        let now = self.now();
        self.nic.poll(now, &mut self.interface, &mut self.sockets);
        if echo(self.sockets.get_mut(self.echo))? {
            // The answer is sent with the next poll.
            return Ok(true);
        }
        Ok(self.frames() != before)
    }

    fn frames(&self) -> (u64, u64) {
        let (rx, tx) = self.nic.endpoint.driver_counters();
        (rx.frames, tx.frames)
    }

    fn now(&self) -> Instant {
        Instant::from_micros(self.nic.endpoint.control().platform().now_ns() as i64 / 1000)
    }
}

/// Sends everything back. Returns whether there was anything.
fn echo(socket: &mut tcp::Socket) -> Result<bool, Box<dyn Error>> {
    if !socket.is_open() {
        socket.listen(PORT)?;
    }
    let mut moved = false;
    while socket.can_recv() && socket.can_send() {
        let room = socket.send_capacity() - socket.send_queue();
        let mut chunk = [0; 4096];
        let taken = socket.recv_slice(&mut chunk[..room.min(4096)])?;
        socket.send_slice(&chunk[..taken])?;
        moved = true;
    }
    if socket.state() == tcp::State::CloseWait && socket.recv_queue() == 0 {
        socket.close();
    }
    Ok(moved)
}

/// Runs the server on QEMU's card, with a client at the other end of the cable.
fn on_qemu() -> Result<(), Box<dyn Error>> {
    let qemu = Qemu::start(&Options::new(Model::I82540Em))?;
    let config = Config::kpps();
    let pool =
        qemu.ram().pool(buffers_needed(&config), BUFFER_BYTES, BOUNDARY).map_err(|_| "out of memory")?;
    let device = probe(qemu.platform(), kpps_driver::Chip::I82540em, config, pool)?;
    let mut server = Server::new(device, IpCidr::new(peer::OURS, 24));
    let mut peer = Peer::new();
    let mut run = |what: &str, done: &mut dyn FnMut(&mut Peer) -> bool| -> Result<_, Box<dyn Error>> {
        let since = std::time::Instant::now();
        while !done(&mut peer) {
            server.work()?;
            while let Some(frame) = qemu.collect()? {
                peer.cable.to_peer.push_back(frame);
            }
            peer.poll(server.now());
            while let Some(frame) = peer.cable.from_peer.pop_front() {
                qemu.inject(&frame)?;
            }
            qemu.advance(0)?;
            if since.elapsed() > Duration::from_secs(PATIENCE_S) {
                return Err(format!("{what}: not within {PATIENCE_S} s").into());
            }
        }
        Ok(since.elapsed())
    };
    let mut ping = None;
    let took = run("ping", &mut |peer| ping.get_or_insert_with(|| Ping::start(peer, 56)).is_answered(peer))?;
    println!("ping: 56 bytes came back ({:.1} ms, with ARP)", took.as_secs_f64() * 1e3);
    let mut client = None;
    let took = run("echo", &mut |peer| {
        client.get_or_insert_with(|| EchoClient::start(peer, ECHO_BYTES)).work(peer)
    })?;
    println!("echo: {ECHO_BYTES} bytes came back, each the one sent ({:.0} ms)", took.as_secs_f64() * 1e3);
    let (rx, tx) = server.nic.endpoint.driver_counters();
    println!("received {} frames with {} tail writes", rx.frames, rx.doorbells);
    println!("sent {} frames with {} tail writes", tx.frames, tx.doorbells);
    Ok(())
}

/// Runs the server on a real card, with interrupts.
fn on_card(spec: &Spec, address: IpCidr) -> Result<(), Box<dyn Error>> {
    let Spec::Card(backend, place) = *spec else {
        return Err(format!("{spec} is no card; expected uio:ADDRESS or vfio:ADDRESS").into());
    };
    let config = Config::kpps();
    let buffers = buffers_needed(&config);
    // Twice as much, for the rings.
    let domain = Domain::new(backend, 2 * buffers * BUFFER_BYTES)?;
    let card = Card::open(&domain, place)?;
    let pool = domain.memory().pool(buffers, BUFFER_BYTES, BOUNDARY).map_err(|_| "out of memory")?;
    let device = probe(card.platform(), card.chip(), config, pool)?;
    let mut interrupts = card.interrupts()?;
    let mut server = Server::new(device, address);
    println!("{spec}: {} is {address}, port {PORT} echoes", server.nic.hardware_address());
    let mut was_up = false;
    loop {
        let mut idle = !server.work()?;
        let up = server.nic.endpoint.control().link().up;
        if up != was_up {
            println!("link {}", if up { "up" } else { "down" });
            was_up = up;
        }
        if idle {
            interrupts.enable()?;
            idle = server.nic.endpoint.may_sleep()?;
        }
        if idle {
            let now = server.now();
            let delay = server.interface.poll_delay(now, &server.sockets);
            // Without a link, the watchdog runs every 0.2 s.
            let at_most = Duration::from_millis(200);
            interrupts.wait(delay.map_or(at_most, |delay| at_most.min(delay.into())))?;
            server.nic.endpoint.control().mask();
        }
    }
}
