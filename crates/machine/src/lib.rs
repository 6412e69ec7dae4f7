//! The machine room: virtual clock, bus, memory, CPUs with interrupt levels, operating-system stacks.
