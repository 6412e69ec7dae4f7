//! Entries for the fuzz target of messages.

use crate::believe::{self, Limits};
use crate::convert;
use crate::proto::answer::Answer as AnswerKind;
use crate::proto::question::Question as QuestionKind;
use crate::proto::{self, Answer, Question, Work};
use kpps_tester::Counted;
use prost::Message;

/// The task of a port in a trial whose results are read.
fn work() -> Work {
    let frames = || {
        Some(proto::Frames {
            heads: vec![7; 60],
            head_bytes: vec![60],
            bytes: vec![60],
            order: vec![0],
            flows: 1,
            ..proto::Frames::default()
        })
    };
    Work {
        senders: 2,
        mac: vec![2; 6],
        ips: "198.18.0.1".into(),
        plan: Some(proto::SendPlan { pps: Some(1e6), frames: frames(), ..proto::SendPlan::default() }),
        expect: Some(proto::Expect { frames: frames(), parts: 16, keep: true, ..proto::Expect::default() }),
        duration_ns: 1_000_000_000,
        drain_ns: 1_000_000_000,
        every_ns: Some(1_000_000),
        ..Work::default()
    }
}

/// Reads bytes as an agent reads a tester's message, and as a tester reads an agent's.
pub fn read(bytes: &[u8]) {
    if let Ok(Question { question: Some(QuestionKind::After(after)) }) = Question::decode(bytes) {
        after.ports.into_iter().for_each(|count| drop(convert::counted_port(count)));
    }
    if let Ok(work) = Work::decode(bytes)
        && let Ok((task, senders)) = convert::task(work)
    {
        // A task that was understood is encoded to a message with the same meaning.
        let again = convert::work(&task, senders);
        assert!(convert::task(again).is_ok_and(|(again, _)| again.at == task.at));
    }
    if let Ok(Answer { answer: Some(says) }) = Answer::decode(bytes) {
        believed(says);
    }
}

/// Whatever an agent sends, the believed values are finite, and their sums are numbers.
pub(crate) fn believed(says: AnswerKind) {
    let Ok((task, _)) = convert::task(work()) else { unreachable!("it is a constant") };
    let limits = Limits::of(&task, false);
    match says {
        AnswerKind::Done(said) => {
            let (done, _) = believe::done(said, &task, &limits, (3, 2));
            let Some(of) = done.of_senders.first() else { unreachable!("there is one sender") };
            let arrived = of.received.arrived;
            let sums = [done.sent.intended, done.sent.frames, arrived.received, done.sent.given];
            assert!(sums.iter().all(|frames| *frames < 1 << 49), "{sums:?}");
            let points = done.line.as_ref().map_or(&[][..], |line| line.points());
            let received: u64 = points.iter().map(|point| point.received).sum();
            assert!(received < 1 << 49);
            let frames: u64 = of.latency.iter().map(|latency| latency.frames()).sum();
            assert!(frames <= arrived.received + arrived.duplicated);
            assert!(done.sent.rate_changes.iter().all(|it| it.at_s >= 0.0 && it.offered_pps.is_finite()));
            assert!(done.sent.elapsed <= task.duration * 100 && done.sent.begun <= task.duration * 100);
        }
        AnswerKind::Counted(said) => {
            let mut all = Counted::default();
            for host in ["10.9.0.1", "10.9.0.2"] {
                all.add(Some(host), believe::counted(said.clone()));
            }
            let _ = all.accounts.explaining(u64::MAX >> 1);
            assert!(all.accounts.total() < 1 << 63);
            assert!(all.cpus.iter().all(|cpu| (cpu.user_s + cpu.idle_s + cpu.steal_s).is_finite()));
        }
        AnswerKind::Progress(said) => {
            let progress = believe::progress(said, &limits, (3, 2));
            assert!(progress.sent < 1 << 49 && progress.received < 1 << 49);
        }
        AnswerKind::Port(said) => drop(believe::opened(said)),
        AnswerKind::Described(said) => drop(believe::environment(said.environment)),
        AnswerKind::Refused(why) => assert!(!believe::text(&why).contains('\n')),
        AnswerKind::Clock(_) | AnswerKind::Relayed(_) | AnswerKind::Observed(_) => {}
    }
}
