//! How many small packets a card, its driver and the machine around it can handle, and why the rest are lost.
fn main() {}
