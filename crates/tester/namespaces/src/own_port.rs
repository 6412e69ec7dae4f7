//! A port of UDP and TCP that no other test uses.

use std::fs::{File, OpenOptions};
use std::net::{TcpListener, UdpSocket};
use std::sync::Mutex;

/// Below the ports that a system gives to programs that ask for any (on Linux from 32,768 on). Such a port,
/// once it is given back, could be another program's when the test uses it.
const PORTS: std::ops::Range<u16> = 20_000..30_000;

/// The locks of this process, which keep other tests from its ports.
static LOCKS: Mutex<Vec<File>> = Mutex::new(Vec::new());

/// A number at which a program can listen on all addresses. No other test is given it while this process
/// lives.
///
/// # Panics
/// If no port is free.
pub fn own_port() -> u16 {
    let begin = std::process::id() as usize * 100 % PORTS.len();
    let mut ports = PORTS.cycle().skip(begin).take(PORTS.len());
    let is_free = |port: u16| {
        TcpListener::bind(("0.0.0.0", port)).is_ok() && UdpSocket::bind(("0.0.0.0", port)).is_ok()
    };
    let taken = ports.find_map(|port| {
        let path = std::env::temp_dir().join(format!("kpps-test-port-{port}"));
        let file = OpenOptions::new().create(true).truncate(false).write(true).open(path).ok()?;
        (file.try_lock().is_ok() && is_free(port)).then_some((port, file))
    });
    let (port, lock) = taken.expect("a free port");
    LOCKS.lock().unwrap().push(lock);
    port
}
