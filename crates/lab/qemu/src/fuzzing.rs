//! Entries for the fuzz target of what guests and QEMU say.

use crate::lab::console::Console;
use crate::lab::counters::{Snapshot, accesses};
use crate::lab::elf;
use crate::qmp::Monitor;
use crate::qtest::Qtest;
use std::io::Write;
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::time::Duration;

/// The end of a stream on which these bytes have come, and nothing more will.
fn heard(bytes: &[u8]) -> Option<(UnixStream, UnixStream)> {
    let (ours, mut theirs) = UnixStream::pair().ok()?;
    // No more bytes than a socket holds without a reader.
    theirs.write_all(&bytes[..bytes.len().min(1 << 16)]).ok()?;
    theirs.shutdown(Shutdown::Write).ok()?;
    Some((ours, theirs))
}

/// Reads bytes as a guest's console and its counters, as QEMU's trace, monitor and qtest, and as a program or
/// a module for a guest.
pub fn read(bytes: &[u8]) {
    let mut dead = || Err(crate::Error::Io(std::io::ErrorKind::UnexpectedEof.into()).into());
    let timeout = Duration::ZERO;
    if let Some((stream, _theirs)) = heard(bytes)
        && let Ok(mut console) = Console::new(stream)
    {
        let _ = console.expect("login:", timeout, &mut dead);
        let _ = console.run("true", false, timeout, &mut dead);
        let _ = (console.lines(), console.tail());
    }
    if let Some((stream, _theirs)) = heard(bytes)
        && let Ok(mut monitor) = Monitor::new(stream)
    {
        let _ = (monitor.version(), monitor.await_cable());
    }
    if let Some((stream, _theirs)) = heard(bytes)
        && let Ok(qtest) = Qtest::new(stream)
    {
        qtest.post("writel 0 0");
        let _ = (qtest.ask("readl 0"), qtest.line(), qtest.raised(), qtest.check());
    }
    let _ = (elf::needed(bytes), elf::module_depends(bytes), elf::module_parameters(bytes));
    let _ = (elf::without_debug(bytes.to_vec()), elf::with_loader(bytes.to_vec(), "/loader"));
    let _ = (Snapshot::parse(&String::from_utf8_lossy(bytes)), accesses(bytes, "0xfeb81000"));
}
