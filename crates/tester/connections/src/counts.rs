//! The counters of an end, and the times of its connections.

use kpps_methods::Latency;

/// The part of a connection's life in which it failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// Until both ends have acknowledged their SYNs.
    Connect,
    /// Request and answer.
    Use,
    /// From the first FIN on.
    Close,
}

/// Connections by the phase in which they failed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Phases {
    /// In [`Phase::Connect`].
    pub connect: u64,
    /// In [`Phase::Use`].
    pub using: u64,
    /// In [`Phase::Close`].
    pub close: u64,
}

impl Phases {
    /// Counts one.
    pub(crate) fn count(&mut self, phase: Phase) {
        *match phase {
            Phase::Connect => &mut self.connect,
            Phase::Use => &mut self.using,
            Phase::Close => &mut self.close,
        } += 1;
    }

    /// All of them.
    pub const fn all(&self) -> u64 {
        self.connect + self.using + self.close
    }
}

/// Segments that an end has sent again.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Retransmitted {
    /// A client's SYN, or a server's SYN with ACK.
    pub syn: u64,
    /// Segments with data, also those with a FIN.
    pub data: u64,
    /// A FIN without data.
    pub fin: u64,
}

/// The counters of an end. `opened` is the sum of `closed`, `incomplete`, `timeouts`, `resets`, `aborted` and
/// `open`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Connections for which a SYN was sent, or, at a server, taken.
    pub opened: u64,
    /// Connections whose SYNs were acknowledged by both ends.
    pub established: u64,
    /// Connections that were closed by both ends, with the whole message of the peer.
    pub closed: u64,
    /// Connections that the peer closed before its message was complete.
    pub incomplete: u64,
    /// Connections given up, because the peer did not answer.
    pub timeouts: Phases,
    /// Connections that the peer reset.
    pub resets: Phases,
    /// Connections that were open at the end, and were reset by this end.
    pub aborted: u64,
    /// Connections that are open: neither ended, nor in TIME-WAIT.
    pub open: u64,
    /// The established ones among the open connections.
    pub established_now: u64,
    /// The most connections that were established at a time.
    pub most_established: u64,
    /// Segments sent again.
    pub retransmitted: Retransmitted,
    /// Segments sent.
    pub sent: u64,
    /// Bytes of data sent, each time.
    pub sent_bytes: u64,
    /// Segments received for addresses of this end.
    pub received: u64,
    /// Bytes of data received in order, each once.
    pub received_bytes: u64,
    /// Segments whose data came before data that is missing. They are dropped, which RFC 9293 allows.
    pub out_of_order: u64,
    /// Segments without a new byte.
    pub repeated: u64,
    /// Segments that belong to no connection, or do not fit its state.
    pub unexpected: u64,
    /// Segments whose data is not that of the expected message.
    pub wrong_data: u64,
    /// SYNs that a server without a free place has dropped.
    pub refused: u64,
    /// Resets sent.
    pub resets_sent: u64,
    /// Acknowledgements that ask a peer to confirm a reset or a SYN (RFC 5961).
    pub challenges: u64,
    /// Connections whose TIME-WAIT was cut short for a new connection.
    pub recycled: u64,
}

impl Counts {
    /// Connections that failed: all that were opened, and were not closed with the whole message.
    pub const fn failed(&self) -> u64 {
        self.incomplete + self.timeouts.all() + self.resets.all() + self.aborted
    }

    /// Whether each opened connection is in exactly one place.
    pub const fn closes(&self) -> bool {
        self.opened == self.closed + self.failed() + self.open
    }
}

/// The times of a client's connections. They contain delays of the tester itself.
#[derive(Default)]
pub struct Times {
    /// From the first SYN to the SYN of the server.
    pub connect: Latency,
    /// From the request to the first byte of the answer.
    pub first_byte: Latency,
    /// From the request to the last byte of the answer.
    pub last_byte: Latency,
    /// From the first FIN to the end of the connection, or to TIME-WAIT.
    pub close: Latency,
}

impl Times {
    /// Adds those of another end.
    pub fn add(&mut self, other: &Self) {
        self.connect.add(&other.connect);
        self.first_byte.add(&other.first_byte);
        self.last_byte.add(&other.last_byte);
        self.close.add(&other.close);
    }
}
