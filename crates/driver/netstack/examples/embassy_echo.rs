//! QEMU's e1000 answers ping and serves a TCP echo (port 7) through embassy-net. A client at the other end of
//! the cable tests both.
//!
//!     cargo run --example embassy_echo -p kpps-netstack

use embassy_executor::Spawner;
use embassy_net::tcp::TcpSocket;
use embassy_net::{Config, Ipv4Address, Ipv4Cidr, Stack, StackResources, StaticConfigV4};
use embassy_time::Timer;
use kpps_driver::{Chip, probe};
use kpps_netstack::embassy::{Interrupt, Nic, Signal, config};
use kpps_netstack::{Offload, buffers_needed};
use kpps_qemu::qtest::{BufferPool, Model, Options, Qemu, QtestPlatform, Window};
use peer::{EchoClient, PORT, Peer, Ping};
use smoltcp::time::Instant;
use static_cell::StaticCell;

#[allow(dead_code, clippy::unwrap_used)]
#[path = "../tests/netstack/common/peer.rs"]
mod peer;

const ECHO_BYTES: usize = 1 << 20;

static SIGNAL: Signal = Signal::new();

#[embassy_executor::main]
async fn main(spawner: Spawner) {
    if let Err(error) = start(spawner) {
        eprintln!("{error}");
        std::process::exit(1);
    }
}

fn start(spawner: Spawner) -> Result<(), Box<dyn std::error::Error>> {
    static RESOURCES: StaticCell<StackResources<3>> = StaticCell::new();

    let qemu = Qemu::start(&Options::new(Model::I82540Em))?;
    let config = config();
    let pool = qemu.ram().pool(buffers_needed(&config), 2048, Some(1 << 16)).map_err(|_| "out of memory")?;
    let device = probe(qemu.platform(), Chip::I82540em, config, pool)?;
    let (nic, interrupt) = Nic::new(device, Offload::ALL, &SIGNAL);
    let address = StaticConfigV4 {
        address: Ipv4Cidr::new(Ipv4Address::new(10, 0, 0, 1), 24),
        gateway: None,
        dns_servers: Default::default(),
    };
    let resources = RESOURCES.init(StackResources::new());
    let (stack, runner) = embassy_net::new(nic, Config::ipv4_static(address), resources, 1);
    spawner.spawn(network(runner)?);
    spawner.spawn(echo(stack)?);
    spawner.spawn(watchdog()?);
    spawner.spawn(client(qemu, interrupt)?);
    Ok(())
}

#[embassy_executor::task]
async fn network(mut runner: embassy_net::Runner<'static, Nic<'static, QtestPlatform, BufferPool>>) -> ! {
    runner.run().await
}

/// Runs the watchdog of an idle card.
#[embassy_executor::task]
async fn watchdog() {
    loop {
        Timer::after_secs(2).await;
        SIGNAL.wake();
    }
}

/// The echo server.
#[embassy_executor::task]
async fn echo(stack: Stack<'static>) {
    let (mut rx, mut tx, mut chunk) = ([0; 16_384], [0; 16_384], [0; 4096]);
    loop {
        let mut socket = TcpSocket::new(stack, &mut rx, &mut tx);
        if socket.accept(PORT).await.is_err() {
            continue;
        }
        'connection: while let Ok(taken @ 1..) = socket.read(&mut chunk).await {
            let mut rest = &chunk[..taken];
            while !rest.is_empty() {
                let Ok(written) = socket.write(rest).await else { break 'connection };
                rest = &rest[written..];
            }
        }
        socket.close();
        let _ = socket.flush().await;
    }
}

/// The cable, its other end, and the card's interrupt.
#[embassy_executor::task]
async fn client(qemu: Qemu, interrupt: Interrupt<'static, Window>) {
    let mut peer = Peer::new();
    let ping = Ping::start(&mut peer, 56);
    let mut answered = false;
    let mut client = None;
    let mut interrupts = 0;
    let result = loop {
        if qemu.interrupt_line() {
            interrupts += u32::from(interrupt.handle());
        }
        if let Err(error) = carry(&qemu, &mut peer) {
            break Err(error);
        }
        if !answered {
            answered = ping.is_answered(&mut peer);
        } else if client.get_or_insert_with(|| EchoClient::start(&mut peer, ECHO_BYTES)).work(&mut peer) {
            break Ok(());
        }
        // Let the other tasks run.
        embassy_futures::yield_now().await;
    };
    match &result {
        Ok(()) => println!("ping and {ECHO_BYTES} bytes of echo came back; {interrupts} interrupts"),
        Err(error) => eprintln!("{error}"),
    }
    // Ends QEMU's process.
    drop(qemu);
    std::process::exit(i32::from(result.is_err()));
}

/// Moves frames in both directions.
fn carry(qemu: &Qemu, peer: &mut Peer) -> Result<(), kpps_qemu::Error> {
    while let Some(frame) = qemu.collect()? {
        peer.cable.to_peer.push_back(frame);
    }
    peer.poll(Instant::from_micros(embassy_time::Instant::now().as_micros() as i64));
    while let Some(frame) = peer.cable.from_peer.pop_front() {
        qemu.inject(&frame)?;
    }
    qemu.advance(0)
}
