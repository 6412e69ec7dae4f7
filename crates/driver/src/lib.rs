//! The e1000 driver: rings, bursts, moderation, offloads, service policies.
