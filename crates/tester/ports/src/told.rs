//! Reports the losses of an app of kpps to testers.
//!
//! Nobody but its owner can read how many frames a packet socket had no room for. So an app listens at an
//! abstract socket in its network namespace (unix(7)) and answers each connection with a line for each
//! counter that is not 0: interface, counter, frames. A tester that observes the namespace asks all apps.

use crate::port::Counters;
use std::collections::BTreeMap;
use std::io::{self, Read, Write};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixListener, UnixStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// How the names of the sockets begin; the process follows.
const NAME: &str = "kpps/app/";
/// The counters that are reported for each interface.
const COUNTERS: [&str; 3] = ["missed", "full", "errors"];
/// How long an app may take to answer.
const ANSWER_TIMEOUT: Duration = Duration::from_millis(500);
/// The most bytes of an answer.
const MOST_ANSWER_BYTES: u64 = 1 << 16;

/// The counters of each interface of an app.
type Told = Arc<Vec<(String, [AtomicU64; 3])>>;

/// Reports the counters of an app as long as its process lives.
#[derive(Debug)]
pub struct Teller(Told);

impl Teller {
    /// Begins to report the counters of these interfaces.
    ///
    /// # Errors
    /// Errors of the system.
    pub fn start(interfaces: impl IntoIterator<Item = String>) -> io::Result<Self> {
        let told: Told = Arc::new(interfaces.into_iter().map(|name| (name, Default::default())).collect());
        let name = format!("{NAME}{}", std::process::id());
        let listener = UnixListener::bind_addr(&SocketAddr::from_abstract_name(name)?)?;
        let all = told.clone();
        std::thread::Builder::new().name("told".into()).spawn(move || {
            for mut asks in listener.incoming().flatten() {
                let _ = asks.set_write_timeout(Some(ANSWER_TIMEOUT));
                let _ = asks.write_all(lines(&all).as_bytes());
            }
        })?;
        Ok(Self(told))
    }

    /// Updates the counters of the interface at this place in the order of [`start`](Self::start).
    pub fn update(&self, at: usize, counters: &Counters) {
        let Some((_, told)) = self.0.get(at) else { return };
        let now = [counters.missed.unwrap_or(0), counters.full, counters.errors];
        told.iter().zip(now).for_each(|(told, now)| told.store(now, Ordering::Relaxed));
    }
}

fn lines(told: &Told) -> String {
    let mut text = String::new();
    for (interface, counters) in told.iter() {
        for (name, count) in COUNTERS.iter().zip(counters) {
            match count.load(Ordering::Relaxed) {
                0 => {}
                count => text += &format!("{interface} {name} {count}\n"),
            }
        }
    }
    text
}

/// The losses of the apps in the network namespace of this thread so far, by interface and counter.
pub fn lost() -> BTreeMap<(String, &'static str), u64> {
    let mut all = BTreeMap::new();
    let sockets = std::fs::read_to_string("/proc/thread-self/net/unix").unwrap_or_default();
    let names = sockets.lines().filter_map(|line| line.split_whitespace().nth(7)?.strip_prefix('@'));
    for name in names.filter(|name| name.starts_with(NAME)) {
        let answer = ask(name).unwrap_or_default();
        for (place, frames) in answer.lines().filter_map(line) {
            *all.entry(place).or_insert(0) += frames;
        }
    }
    all
}

fn ask(name: &str) -> io::Result<String> {
    let app = UnixStream::connect_addr(&SocketAddr::from_abstract_name(name)?)?;
    app.set_read_timeout(Some(ANSWER_TIMEOUT))?;
    let mut answer = String::new();
    app.take(MOST_ANSWER_BYTES).read_to_string(&mut answer)?;
    Ok(answer)
}

/// A line of an answer.
fn line(text: &str) -> Option<((String, &'static str), u64)> {
    let mut words = text.split(' ');
    let interface = words.next()?.to_owned();
    let counter = words.next()?;
    let counter = COUNTERS.into_iter().find(|known| *known == counter)?;
    Some(((interface, counter), words.next()?.parse().ok()?))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use kpps_namespaces::Net;

    #[test]
    fn an_app_tells_what_it_has_lost_in_its_namespace() {
        let Some(net) = Net::new() else { return };
        net.enter();
        assert_eq!(lost(), BTreeMap::new());
        let app = Teller::start(["ra".into(), "rb".into()]).unwrap();
        assert_eq!(lost(), BTreeMap::new());
        app.update(0, &Counters { missed: Some(7), full: 2, ..Counters::default() });
        app.update(1, &Counters { missed: None, errors: 3, ..Counters::default() });
        let place = |interface: &str, counter| (interface.to_owned(), counter);
        let expected = [(place("ra", "missed"), 7), (place("ra", "full"), 2), (place("rb", "errors"), 3)];
        assert_eq!(lost(), expected.into());
        assert_eq!(line("ra missed many"), None);
        assert_eq!(line("ra eaten 3"), None);
    }
}
