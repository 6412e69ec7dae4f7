//! Entries for the fuzz target of the kernel's reports.

use crate::bpf::{Btf, Symbols};
use crate::interface::{ethtool, spread};

/// Reads bytes as the kernel's description of its types, as the list of its functions, and as what drivers
/// answer to ethtool.
pub fn read(bytes: &[u8]) {
    if let Some(btf) = Btf::parse(bytes.to_vec()) {
        let _ = (btf.definition("sk_buff"), btf.parameters("btf_trace_kfree_skb"));
        let _ = (btf.offset("sk_buff", "dev.ifindex"), btf.values("skb_drop_reason"));
    }
    let words = bytes.chunks_exact(8).map(|word| word.try_into().map_or(0, u64::from_ne_bytes));
    let words: Vec<_> = words.collect();
    ethtool::read(&words);
    spread::read_words(&words);
    let symbols = Symbols::parse(&String::from_utf8_lossy(bytes));
    let _ = (symbols.at(u64::MAX), symbols.at(1), symbols.range("ip_rcv"));
}
