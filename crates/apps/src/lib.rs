//! What stands on a driver: source, counter, discard.
