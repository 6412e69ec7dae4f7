//! The flows of a trial at the receive queues of a port: the queue of each flow is predicted, or a rule
//! steers it there.

use crate::error::Error;
use crate::judging::queues::{ExpectedQueues, OfQueues, QueuesOfFlows};
use crate::running::test_port::{Done, Expect};
use kpps_documents::queues::{ElsewhereReason, QueueChoice};
use kpps_frames::Templates;
use kpps_linux::{Rule, Rules, Spread};
use kpps_ports::port::AnyPort;
use std::io;

/// The receive queues of a port, each of which a core reads.
pub(crate) struct Spreading {
    interface: String,
    /// The queue that each core reads.
    read: Vec<u32>,
    /// How the interface spread flows before the trial.
    spread: Spread,
    /// The rules by which flows are steered, while they exist.
    rules: Option<(Vec<Rule>, Rules)>,
    expected: ExpectedQueues,
}

impl Spreading {
    /// Of a port on this interface; `None` unless each of its cores reads one receive queue.
    pub fn of(port: &AnyPort, interface: Option<&str>) -> Option<Self> {
        Some(Self {
            interface: interface?.to_owned(),
            read: port.queue_numbers()?,
            spread: Spread::default(),
            rules: None,
            expected: ExpectedQueues::default(),
        })
    }

    /// Before a trial: reads how the interface spreads flows. If `steers`, adds a rule for each flow that the
    /// port expects, so that flows come to the cores in turn. The rules stay until other ones are needed, or
    /// the port is closed.
    ///
    /// # Errors
    /// [`Error::NoSteering`].
    pub fn prepare(&mut self, port: &str, expect: &[Expect], steers: bool) -> Result<(), Error> {
        let refused = |why: String| Error::NoSteering { port: port.to_owned(), why };
        // A port that only sends receives no flows.
        let steers = steers && !expect.is_empty();
        self.spread = match self.read_spread() {
            Err(why) if steers => return Err(refused(why.to_string())),
            spread => spread.unwrap_or_default(),
        };
        if self.spread.queues <= 1 {
            // There is nothing to predict, nor to steer.
            self.expected = ExpectedQueues::default();
            return Ok(());
        }
        if steers {
            let rules = self.rules_for(expect).map_err(refused)?;
            if self.rules.as_ref().is_none_or(|(known, _)| *known != rules) {
                // The old rules go first: there may be no room for both.
                self.rules = None;
                let added = Rules::add(&self.interface, &rules).map_err(|why| refused(why.to_string()))?;
                self.rules = Some((rules, added));
            }
        } else {
            self.rules = None;
        }
        self.spread = self.read_spread().unwrap_or_default();
        let own_rules = self.rules.as_ref().map_or(0, |(rules, _)| rules.len() as u32);
        let mut expected = ExpectedQueues {
            count: self.spread.queues,
            read: self.read.clone(),
            by: if steers { QueueChoice::Rules } else { QueueChoice::Hash },
            system_key: !steers && self.spread.has_system_key,
            has_other_rules: self.spread.rules.is_some_and(|rules| rules > own_rules),
            ..ExpectedQueues::default()
        };
        for of in expect {
            let several = of.streams.len() > 1;
            let queues: QueuesOfFlows = (of.streams.iter().enumerate())
                .map(|(stream, it)| match steers {
                    true => self.turns(&it.frames, stream, several).map(Some).collect(),
                    false => predicted(&self.spread, &it.frames, &mut expected.unknown),
                })
                .collect();
            expected.of_senders.insert(of.from, queues);
        }
        self.expected = expected;
        Ok(())
    }

    fn read_spread(&self) -> io::Result<Spread> {
        Spread::of(&self.interface)
    }

    /// The queues of the flows of a stream, if they take turns on the cores: the flows of the only stream, or
    /// else the streams, as on the cores that send.
    fn turns(&self, frames: &Templates, stream: usize, several: bool) -> impl Iterator<Item = u32> {
        let cores = self.read.len().max(1);
        (0..frames.flows() as usize).filter_map(move |flow| {
            let turn = if several { stream } else { flow };
            self.read.get(turn % cores).copied()
        })
    }

    /// A rule for each expected flow. An error says why there is none, in words.
    fn rules_for(&self, expect: &[Expect]) -> Result<Vec<Rule>, String> {
        let mut rules = Vec::new();
        for of in expect {
            if of.recognise.is_some() {
                return Err("frames of a capture have no flows".into());
            }
            for (stream, it) in of.streams.iter().enumerate() {
                let heads = heads(&it.frames).ok_or("fields of a stream change from frame to frame")?;
                let queues = self.turns(&it.frames, stream, of.streams.len() > 1);
                for ((head, bytes), queue) in heads.zip(queues) {
                    let rule = Rule::of(&head, bytes, queue);
                    rules.push(rule.ok_or("only UDP and TCP without extension headers can be steered")?);
                }
            }
        }
        // Two rules of one flow would contradict each other.
        let mut known: Vec<&Rule> = rules.iter().collect();
        known.sort_by_key(|rule| rule.flow());
        if known.windows(2).any(|both| both[0].flow() == both[1].flow()) {
            return Err(
                "two of its flows have equal addresses and ports, which a rule cannot distinguish".into()
            );
        }
        Ok(rules)
    }

    /// The expected queues of the flows of the trial.
    pub fn expected(&self) -> &ExpectedQueues {
        &self.expected
    }

    /// Finds out after a trial why flows came to other queues than the expected ones.
    pub fn explain(&self, done: &mut Done) {
        let queues = done.of_senders.iter_mut().filter_map(|of| of.queues.as_mut());
        let unexplained: Vec<&mut OfQueues> = queues
            .filter(|it| !it.elsewhere.is_empty() && it.reason != Some(ElsewhereReason::Rewritten))
            .collect();
        let has_changed = || self.read_spread().is_ok_and(|now| now != self.spread);
        if !unexplained.is_empty() && has_changed() {
            unexplained.into_iter().for_each(|it| it.reason = Some(ElsewhereReason::Changed));
        }
    }
}

/// The headers of a frame of each flow, and its length; `None` if the fields of one flow change from frame to
/// frame.
fn heads(frames: &Templates) -> Option<impl Iterator<Item = (Vec<u8>, usize)>> {
    let edits = frames.edits();
    let is_one_of_many = frames.flows() == 1 && !edits.is_empty();
    let head = move |flow: u32| {
        let template = frames.at(flow.into())?;
        let mut head = template.head.to_vec();
        edits.write(flow.into(), &mut head);
        Some((head, usize::from(template.bytes)))
    };
    (!is_one_of_many).then(|| (0..frames.flows()).filter_map(head))
}

/// The predicted queues of the flows of a stream. `unknown` gets the first reason for which one is unknown.
fn predicted(spread: &Spread, frames: &Templates, unknown: &mut Option<String>) -> Vec<Option<u32>> {
    let Some(heads) = heads(frames) else {
        unknown.get_or_insert_with(|| "fields of a stream change from frame to frame".into());
        return vec![None];
    };
    let queue = |(head, bytes): (Vec<u8>, usize)| match spread.queue_of(&head, bytes) {
        Ok(queue) => Some(queue),
        Err(why) => {
            unknown.get_or_insert_with(|| why.to_string());
            None
        }
    };
    heads.map(queue).collect()
}
