//! The messages between tester and agent, from arbitrary bytes.

/// Reads bytes as each message.
pub fn run(bytes: &[u8]) {
    kpps_agent::fuzzing::read(bytes);
}
