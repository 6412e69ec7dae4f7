//! What a busy machine may prevent is tried again.

/// Tries something up to six times, until it happens: a program that gets no CPU for a while sends too
/// little, or looks too late. What must hold in any case, `once` asserts itself, in every try.
///
/// # Panics
/// If it does not happen.
pub fn in_six_tries(what: &str, mut once: impl FnMut() -> bool) {
    assert!((0..6).any(|_| once()), "not once in six tries: {what}");
}
