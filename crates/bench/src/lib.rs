//! Trials, the ledger, curves: what is measured and how.
