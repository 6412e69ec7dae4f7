//! A stimulus: a request every 100 ms until it is stopped. It shows when the guest was deaf.

use super::path::{Answer, Path, SECOND_PS, pattern};

/// The time from one request to the next, in ps.
const EVERY_PS: u64 = SECOND_PS / 10;
/// Silence of this length in ps is deafness: two requests in a row had no answer.
pub const DEAF_PS: u64 = 3 * EVERY_PS;
/// Data of an echo request in bytes.
const DATA_BYTES: usize = 18;

/// The requests of a probe.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProbeBy {
    /// ARP requests.
    Arp,
    /// ICMP echo requests; ARP requests while the guest's station address is unknown.
    Echo,
}

/// A time without an answer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Gap {
    /// Its start in ps: the last answer, or the start of the probe.
    pub from_ps: u64,
    /// Its length in ps.
    pub ps: u64,
    /// Whether an answer has ended it.
    pub has_ended: bool,
}

/// The result of a probe.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Probed {
    /// When the stimulus began, in ps.
    pub started_ps: u64,
    /// When it was stopped, in ps; `None` before.
    pub ended_ps: Option<u64>,
    /// Requests so far.
    pub sent: u64,
    /// Answers so far, at most one for each request.
    pub answered: u64,
    /// The time of the first answer in ps.
    pub first_answer_ps: Option<u64>,
    /// The time of the last answer in ps.
    pub last_answer_ps: Option<u64>,
    /// The longest time without an answer, the current one included.
    pub longest: Gap,
    /// How often the guest was deaf for at least 300 ms and then came back.
    pub returns: u64,
    /// Whether the guest has been deaf for at least 300 ms.
    pub is_deaf: bool,
}

/// The probe.
#[derive(Debug)]
pub struct Probe {
    by: ProbeBy,
    id: u16,
    result: Probed,
    due_ps: u64,
    /// Requests up to this one are answered, or overtaken by an answer.
    settled: u64,
}

impl Probe {
    /// A probe from `now_ps` on, with this ICMP identifier.
    pub fn new(now_ps: u64, id: u16, by: ProbeBy) -> Self {
        let result = Probed { started_ps: now_ps, ..Probed::default() };
        Self { by, id, result, due_ps: now_ps, settled: 0 }
    }

    /// The time without an answer that ends at `now_ps`.
    fn gap(&self, now_ps: u64, has_ended: bool) -> Gap {
        let from_ps = self.result.last_answer_ps.unwrap_or(self.result.started_ps);
        Gap { from_ps, ps: now_ps.saturating_sub(from_ps), has_ended }
    }

    /// The result at `now_ps`, or when the probe was stopped.
    pub fn result(&self, now_ps: u64) -> Probed {
        let mut result = self.result;
        let gap = self.gap(result.ended_ps.unwrap_or(now_ps), false);
        result.is_deaf = gap.ps >= DEAF_PS;
        if gap.ps > result.longest.ps {
            result.longest = gap;
        }
        result
    }

    /// Ends the probe.
    pub fn stop(&mut self, now_ps: u64) {
        self.result.ended_ps.get_or_insert(now_ps);
        self.due_ps = u64::MAX;
    }

    /// When the next request is due, in ps.
    pub fn due_ps(&self) -> u64 {
        self.due_ps
    }

    /// The next request.
    pub fn next(&mut self, now_ps: u64, path: &Path) -> Option<Vec<u8>> {
        if self.due_ps > now_ps {
            return None;
        }
        self.due_ps = now_ps.saturating_add(EVERY_PS);
        let number = self.result.sent as u32;
        self.result.sent += 1;
        let echo = match self.by {
            ProbeBy::Arp => None,
            ProbeBy::Echo => path.echo_request([self.id, number as u16], &pattern(number, DATA_BYTES)),
        };
        echo.or_else(|| path.arp_request(path.guest))
    }

    /// Takes an answer of the guest. Each answer settles the oldest requests: only the last one counts.
    pub fn take(&mut self, now_ps: u64, answer: &Answer<'_>) {
        let is_mine = match *answer {
            Answer::Arp(_) => true,
            Answer::Echo { id: [id, _], .. } => id == self.id,
            Answer::Udp { .. } => false,
        };
        if !is_mine || self.result.ended_ps.is_some() || self.settled >= self.result.sent {
            return;
        }
        self.settled = self.result.sent;
        let gap = self.gap(now_ps, true);
        if gap.ps > self.result.longest.ps {
            self.result.longest = gap;
        }
        if gap.ps >= DEAF_PS {
            self.result.returns += 1;
        }
        self.result.answered += 1;
        self.result.first_answer_ps.get_or_insert(now_ps);
        self.result.last_answer_ps = Some(now_ps);
    }
}
