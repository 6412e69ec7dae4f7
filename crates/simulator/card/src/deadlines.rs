//! The card's future events: one slot for each source, no heap.

/// The time of an event that does not happen.
pub(crate) const NEVER: u64 = u64::MAX;

/// The sources of events. At equal times the earlier variant goes first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Source {
    /// A write-back of transmit descriptors has crossed the bus.
    TxWriteBack,
    /// A write-back of receive descriptors has crossed the bus.
    RxWriteBack,
    /// A burst of received data has crossed the bus.
    RxData,
    /// A burst of data to send has crossed the bus.
    TxData,
    /// Receive descriptors have arrived.
    RxFetch,
    /// Transmit descriptors have arrived.
    TxFetch,
    /// The last bit of the frame on the wire has left.
    Wire,
    /// The receive engine may start its next frame.
    RxEngine,
    /// The transmit engine may start its next descriptor.
    TxEngine,
    /// RDTR expires.
    Rdtr,
    /// RADV expires.
    Radv,
    /// TIDV expires.
    Tidv,
    /// TADV expires.
    Tadv,
    /// A PAUSE ends.
    Pause,
    /// Autonegotiation completes.
    Link,
    /// An MDI access completes.
    Mdi,
    /// The interrupt line may be raised again (ITR).
    Throttle,
}

const SOURCES: [Source; 17] = [
    Source::TxWriteBack,
    Source::RxWriteBack,
    Source::RxData,
    Source::TxData,
    Source::RxFetch,
    Source::TxFetch,
    Source::Wire,
    Source::RxEngine,
    Source::TxEngine,
    Source::Rdtr,
    Source::Radv,
    Source::Tidv,
    Source::Tadv,
    Source::Pause,
    Source::Link,
    Source::Mdi,
    Source::Throttle,
];

/// The deadlines of all sources, and the earliest of them.
#[derive(Clone, Debug)]
pub(crate) struct Deadlines {
    /// The deadline of each source.
    at: [u64; u32::BITS as usize],
    /// A bit for each pending source; few are pending at any time.
    pending: u32,
    next: u64,
    /// The source of `next`.
    first: usize,
}

impl Deadlines {
    /// Nothing pending.
    pub(crate) fn new() -> Self {
        Self { at: [NEVER; u32::BITS as usize], pending: 0, next: NEVER, first: 0 }
    }

    /// The earliest deadline, [`NEVER`] if there is none.
    #[inline]
    pub(crate) fn next(&self) -> u64 {
        self.next
    }

    /// Sets (or moves) the deadline of `source`.
    #[inline]
    pub(crate) fn set(&mut self, source: Source, at_ps: u64) {
        let i = source as usize;
        self.at[i] = at_ps;
        let bit = 1 << i;
        self.pending = if at_ps == NEVER { self.pending & !bit } else { self.pending | bit };
        if at_ps < self.next || (at_ps == self.next && i <= self.first) {
            self.next = at_ps;
            self.first = i;
        } else if i == self.first {
            self.find_next();
        }
    }

    /// Clears the deadline of `source`.
    #[inline]
    pub(crate) fn clear(&mut self, source: Source) {
        self.set(source, NEVER);
    }

    /// Whether `source` has a deadline.
    #[inline]
    pub(crate) fn pending(&self, source: Source) -> bool {
        self.pending >> source as usize & 1 != 0
    }

    /// The deadline of `source`, in ps; [`NEVER`] if none.
    #[inline]
    pub(crate) fn at(&self, source: Source) -> u64 {
        self.at[source as usize]
    }

    /// Takes the first event that is due at or before `until_ps`.
    #[inline]
    pub(crate) fn take(&mut self, until_ps: u64) -> Option<(u64, Source)> {
        let now = self.next;
        if now > until_ps || now == NEVER {
            return None;
        }
        let i = self.first;
        self.at[i] = NEVER;
        self.pending &= !(1 << i);
        self.find_next();
        Some((now, SOURCES[i]))
    }

    #[inline]
    fn find_next(&mut self) {
        let mut next = NEVER;
        let mut first = 0;
        let mut rest = self.pending;
        while rest != 0 {
            let i = rest.trailing_zeros() as usize;
            rest &= rest - 1;
            if self.at[i] < next {
                next = self.at[i];
                first = i;
            }
        }
        (self.next, self.first) = (next, first);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_table_is_in_the_order_of_the_enum() {
        for (i, s) in SOURCES.iter().enumerate() {
            assert_eq!(*s as usize, i);
        }
    }

    #[test]
    fn events_come_in_order_of_time_then_of_rank() {
        let mut d = Deadlines::new();
        assert_eq!(d.next(), NEVER);
        assert_eq!(d.take(NEVER), None);
        d.set(Source::Wire, 20);
        d.set(Source::RxData, 10);
        d.set(Source::TxData, 20);
        assert_eq!(d.next(), 10);
        d.set(Source::RxData, 30);
        assert_eq!(d.next(), 20);
        assert_eq!(d.take(19), None);
        assert_eq!(d.take(20), Some((20, Source::TxData)));
        d.clear(Source::Wire);
        assert!(!d.pending(Source::Wire));
        assert_eq!(d.take(100), Some((30, Source::RxData)));
        assert_eq!(d.next(), NEVER);
    }

    proptest! {
        /// Compares with the plain rule: the earliest, and among equals the first variant.
        #[test]
        fn the_first_is_always_known(
            ops in prop::collection::vec((0usize..SOURCES.len(), 0u64..20, any::<bool>()), 1..200),
        ) {
            let mut d = Deadlines::new();
            let mut model = [NEVER; SOURCES.len()];
            for (i, at, set) in ops {
                if set {
                    let at = if at == 0 { NEVER } else { at };
                    d.set(SOURCES[i], at);
                    model[i] = at;
                } else {
                    let want = (0..model.len()).min_by_key(|&j| model[j]).filter(|&j| model[j] <= at);
                    prop_assert_eq!(d.take(at), want.map(|j| (model[j], SOURCES[j])));
                    if let Some(j) = want {
                        model[j] = NEVER;
                    }
                }
                prop_assert_eq!(d.next(), model.into_iter().min().unwrap_or(NEVER));
            }
        }
    }
}
