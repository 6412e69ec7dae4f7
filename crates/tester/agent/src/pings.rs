//! Reading a remote clock by datagrams, which are not delayed by other traffic of the session.
//!
//! A question and its answer have the same 40 bytes: the session's cookie, a number, and the times when the
//! question arrived and the answer was sent, by the agent's clock. Unknown cookies are not answered.

use kpps_tester::clock::{Clock, Ping};
use std::collections::HashSet;
use std::io;
use std::net::UdpSocket;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, Instant};

/// The proof that a question is of an open session.
pub(crate) type Cookie = [u8; 16];
/// Bytes of a datagram.
const BYTES: usize = 40;
/// Questions for one reading before or after a trial, and how long a reading may take.
pub(crate) const PINGS: u64 = 40;
pub(crate) const READING_TIMEOUT: Duration = Duration::from_millis(500);
/// How long an answer may take. Two questions without an answer mean that none will come.
const ANSWER_TIMEOUT: Duration = Duration::from_millis(150);
/// How often the answering thread checks whether it is still needed.
const SLOW: Duration = Duration::from_millis(500);

type Cookies = Mutex<HashSet<Cookie>>;

fn lock(cookies: &Cookies) -> MutexGuard<'_, HashSet<Cookie>> {
    cookies.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Answers questions about a clock, with a thread of its own.
pub(crate) struct Responder {
    cookies: Arc<Cookies>,
    /// The address at which it listens.
    pub port: u16,
}

/// A cookie that is valid while this lives.
pub(crate) struct Known {
    cookies: Arc<Cookies>,
    pub cookie: Cookie,
}

impl Drop for Known {
    fn drop(&mut self) {
        lock(&self.cookies).remove(&self.cookie);
    }
}

impl Responder {
    /// On this socket.
    pub fn start(socket: UdpSocket, clock: Clock) -> io::Result<Self> {
        socket.set_read_timeout(Some(SLOW))?;
        let port = socket.local_addr()?.port();
        let cookies = Arc::new(Cookies::default());
        let weak = Arc::downgrade(&cookies);
        std::thread::Builder::new().name("clock".into()).spawn(move || respond(&socket, &clock, &weak))?;
        Ok(Self { cookies, port })
    }

    /// A new cookie; `None` if the system has no random numbers.
    pub fn cookie(&self) -> Option<Known> {
        let mut cookie = Cookie::default();
        getrandom::fill(&mut cookie).ok()?;
        lock(&self.cookies).insert(cookie);
        Some(Known { cookies: self.cookies.clone(), cookie })
    }
}

fn respond(socket: &UdpSocket, clock: &Clock, cookies: &Weak<Cookies>) {
    let mut bytes = [0; BYTES + 1];
    loop {
        let received = socket.recv_from(&mut bytes);
        let came_ns = clock.now_ns();
        let Some(cookies) = cookies.upgrade() else { return };
        // A refusal is of an earlier answer whose receiver is gone.
        let Ok((BYTES, from)) = received else { continue };
        let (question, times) = bytes.split_at_mut(24);
        if !question.first_chunk().is_some_and(|cookie| lock(&cookies).contains::<Cookie>(cookie)) {
            continue;
        }
        times[..8].copy_from_slice(&came_ns.to_be_bytes());
        times[8..16].copy_from_slice(&clock.now_ns().to_be_bytes());
        // A tester without an answer asks again.
        let _ = socket.send_to(&bytes[..BYTES], from);
    }
}

/// Reads the remote clock with `questions` datagrams over a connected socket. Empty if no datagrams come
/// through.
pub(crate) fn ask(socket: &UdpSocket, cookie: &Cookie, questions: u64) -> io::Result<Vec<Ping>> {
    let clock = Clock::here();
    let begin = Instant::now();
    let mut pings = Vec::new();
    let mut unanswered = 0;
    socket.set_read_timeout(Some(ANSWER_TIMEOUT))?;
    for number in 0..questions {
        let mut question = [0; BYTES];
        question[..16].copy_from_slice(cookie);
        question[16..24].copy_from_slice(&number.to_be_bytes());
        let sent_ns = clock.now_ns();
        socket.send(&question)?;
        match answer(socket, &question[..24]) {
            Some((came_ns, left_ns, back_ns)) => pings.push(Ping { sent_ns, back_ns, came_ns, left_ns }),
            None => unanswered += 1,
        }
        if begin.elapsed() > READING_TIMEOUT || unanswered >= 2 && pings.is_empty() {
            break;
        }
    }
    Ok(pings)
}

/// Waits for the answer to this question. Returns when the question arrived, when the answer was sent, and
/// when it arrived here.
fn answer(socket: &UdpSocket, question: &[u8]) -> Option<(u64, u64, u64)> {
    let begin = Instant::now();
    // Answers to earlier questions may come late.
    while begin.elapsed() < ANSWER_TIMEOUT {
        let mut bytes = [0; BYTES + 1];
        let received = socket.recv(&mut bytes).ok()?;
        let back_ns = Clock::here().now_ns();
        if received == BYTES && bytes[..24] == *question {
            let number = |at: usize| Some(u64::from_be_bytes(*bytes.get(at..)?.first_chunk()?));
            return Some((number(24)?, number(32)?, back_ns));
        }
    }
    None
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use kpps_tester::clock::Reading;

    fn pair() -> (Responder, UdpSocket, Clock) {
        // Its origin differs from that of this process's clock.
        let clock = Clock::showing(1_000_000_000_000);
        let responder = Responder::start(UdpSocket::bind("127.0.0.1:0").unwrap(), clock.clone()).unwrap();
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        socket.connect(("127.0.0.1", responder.port)).unwrap();
        (responder, socket, clock)
    }

    #[test]
    fn the_offset_is_found_within_its_error() {
        let (responder, socket, clock) = pair();
        let known = responder.cookie().unwrap();
        let pings = ask(&socket, &known.cookie, PINGS).unwrap();
        assert!(pings.len() > 10, "{}", pings.len());
        let reading = Reading::best_of(clock.id(), "udp", &pings).unwrap();
        // Both clocks are this host's, so the truth is known, except for the time between two readings.
        let (before, there, after) = (Clock::here().now_ns(), clock.now_ns(), Clock::here().now_ns());
        let truth = there as i64 - ((before + after) / 2) as i64;
        let wrong = reading.ahead_ns.abs_diff(truth);
        assert!(wrong <= reading.error_ns + (after - before), "{wrong} of {reading:?}");
    }

    #[test]
    fn strangers_are_not_answered() {
        let (responder, socket, _) = pair();
        assert!(ask(&socket, &[7; 16], PINGS).unwrap().is_empty());
        let known = responder.cookie().unwrap();
        assert!(!ask(&socket, &known.cookie, PINGS).unwrap().is_empty());
        let cookie = known.cookie;
        drop(known);
        assert!(ask(&socket, &cookie, PINGS).unwrap().is_empty(), "a session that is over");
    }
}
