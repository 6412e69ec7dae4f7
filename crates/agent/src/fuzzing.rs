//! Entries for the fuzz target of messages.

use crate::convert;
use crate::proto::answer::Answer as Says;
use crate::proto::question::Question as Asks;
use crate::proto::{Answer, Question, Work};
use prost::Message;

/// Reads bytes as an agent reads what a tester sends, and as a tester reads what an agent sends.
pub fn read(bytes: &[u8]) {
    if let Ok(Question { question: Some(Asks::After(after)) }) = Question::decode(bytes) {
        after.ports.into_iter().for_each(|count| drop(convert::counted_port(count)));
    }
    if let Ok(work) = Work::decode(bytes)
        && let Ok((task, senders)) = convert::task(work)
    {
        // What is understood is told on in the same way.
        let again = convert::work(&task, senders);
        assert!(convert::task(again).is_ok_and(|(again, _)| again.at == task.at));
    }
    match Answer::decode(bytes).map(|answer| answer.answer) {
        Ok(Some(Says::Done(done))) => drop(convert::was_done(done)),
        Ok(Some(Says::Counted(counted))) => drop(convert::was_counted(counted)),
        _ => {}
    }
}
