//! The task of a trial, in parts. With all frames of a load the task is long, and decoding needs several
//! times as much memory. So an agent limits the bytes that all sessions together have sent, before it decodes
//! any.

use crate::proto;
use crate::proto::question::Question as QuestionKind;
use prost::Message;
use std::sync::{Arc, Mutex, PoisonError};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// The longest question, in bytes. A relayed frame fits into it.
pub(crate) const QUESTION: usize = 64 << 10;
/// Bytes of a part.
const PART: usize = 32 << 10;
/// The longest work: a hundred thousand flows of several sizes, in both directions.
pub(crate) const LONGEST: usize = 64 << 20;
/// The most bytes of all trials under way together.
const ALL: usize = 2 * LONGEST;

/// A task split into messages, followed by the message that starts it and gets the reply.
pub(crate) fn split(work: &proto::Work) -> Vec<QuestionKind> {
    let bytes = work.encode_to_vec();
    let parts = bytes.chunks(PART).map(|part| QuestionKind::Part(part.to_vec()));
    parts.chain([QuestionKind::Begin(proto::Begin {})]).collect()
}

/// The memory that the work of all sessions may take.
pub(crate) struct Memory {
    free: Arc<Semaphore>,
    /// Only one task is read at a time.
    reading: Mutex<()>,
}

impl Default for Memory {
    fn default() -> Self {
        Self::of(ALL)
    }
}

impl Memory {
    fn of(bytes: usize) -> Self {
        Self { free: Arc::new(Semaphore::new(bytes)), reading: Mutex::default() }
    }
}

/// The parts of a session's next trial so far.
#[derive(Default)]
pub(crate) struct Parts {
    bytes: Vec<u8>,
    held: Option<OwnedSemaphorePermit>,
    /// Why the trial cannot begin.
    refused: Option<&'static str>,
}

/// A trial's share of the memory, until it is dropped.
pub(crate) struct Share {
    _held: Option<OwnedSemaphorePermit>,
}

impl Parts {
    /// Adds a part. A part beyond the limits makes the trial impossible.
    pub fn add(&mut self, part: &[u8], memory: &Memory) {
        if self.refused.is_some() {
            return;
        }
        let bytes = u32::try_from(part.len()).unwrap_or(u32::MAX);
        let held = memory.free.clone().try_acquire_many_owned(bytes);
        match held {
            Ok(held) if self.bytes.len() + part.len() <= LONGEST => {
                self.bytes.extend_from_slice(part);
                match &mut self.held {
                    Some(all) => all.merge(held),
                    None => self.held = Some(held),
                }
            }
            Ok(_) => {
                *self = Self {
                    refused: Some(
                        "the trial has more different frames than an agent accepts: give fewer flows or sizes",
                    ),
                    ..Self::default()
                }
            }
            Err(_) => {
                let refused = Some(
                    "trials of other testers use the memory that this agent has for frames: try again later",
                );
                *self = Self { refused, ..Self::default() };
            }
        }
    }

    /// The work, which is complete.
    ///
    /// # Errors
    /// There was too much of it, or it cannot be read; in one line.
    pub fn take(&mut self, memory: &Memory) -> Result<(proto::Work, Share), String> {
        let Self { bytes, held, refused } = std::mem::take(self);
        if let Some(why) = refused {
            return Err(why.into());
        }
        let _only = memory.reading.lock().unwrap_or_else(PoisonError::into_inner);
        let work = proto::Work::decode(&bytes[..]);
        let work = work.map_err(|error| format!("the description of the trial cannot be read: {error}"))?;
        Ok((work, Share { _held: held }))
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn work(bytes: usize) -> proto::Work {
        proto::Work { ips: "x".repeat(bytes), at: 1, ..proto::Work::default() }
    }

    fn add(parts: &mut Parts, work: &proto::Work, memory: &Memory) {
        for asks in split(work) {
            match asks {
                QuestionKind::Part(part) => parts.add(&part, memory),
                asks => assert!(matches!(asks, QuestionKind::Begin(_))),
            }
        }
    }

    #[test]
    fn work_arrives_as_it_was() {
        let (mut parts, memory) = (Parts::default(), Memory::default());
        for bytes in [0, 1, PART, 3 * PART, 200_000] {
            add(&mut parts, &work(bytes), &memory);
            assert_eq!(parts.take(&memory).unwrap().0, work(bytes));
        }
        assert_eq!(memory.free.available_permits(), ALL, "all of it is given back");
        parts.add(&[0xff; 9], &memory);
        assert!(parts.take(&memory).err().unwrap().contains("cannot be read"));
        assert_eq!(memory.free.available_permits(), ALL);
    }

    #[test]
    fn there_is_no_more_of_it_than_memory() {
        let memory = Memory::of(100_000);
        let [mut a, mut b] = [Parts::default(), Parts::default()];
        add(&mut a, &work(60_000), &memory);
        add(&mut b, &work(60_000), &memory);
        assert!(b.take(&memory).err().unwrap().contains("trials of other testers"));
        let (_, share) = a.take(&memory).unwrap();
        // While the trial is under way, its frames are in memory.
        add(&mut b, &work(60_000), &memory);
        assert!(b.take(&memory).is_err());
        drop(share);
        add(&mut b, &work(60_000), &memory);
        assert!(b.take(&memory).is_ok());
        // A single one has a limit of its own.
        let memory = Memory::of(10 * LONGEST);
        let part = vec![0; LONGEST / 4];
        (0..5).for_each(|_| a.add(&part, &memory));
        assert_eq!((a.bytes.capacity(), memory.free.available_permits()), (0, 10 * LONGEST));
        assert!(a.take(&memory).err().unwrap().contains("more different frames than an agent accepts"));
        assert!(a.refused.is_none());
    }
}
