//! Names of places in the kernel's code: `/proc/kallsyms`.

use std::sync::OnceLock;

/// Functions of the kernel by their addresses.
#[derive(Debug, Default)]
pub(crate) struct Symbols(Vec<(u64, String)>);

impl Symbols {
    /// The symbols of the running kernel, read once. Empty if it does not show its addresses
    /// (`kptr_restrict`).
    pub(crate) fn of_kernel() -> &'static Self {
        static SYMBOLS: OnceLock<Symbols> = OnceLock::new();
        SYMBOLS.get_or_init(|| Self::parse(&std::fs::read_to_string("/proc/kallsyms").unwrap_or_default()))
    }

    pub(crate) fn parse(text: &str) -> Self {
        let functions = text.lines().filter_map(|line| {
            let mut words = line.split_ascii_whitespace();
            let (address, kind, name) = (words.next()?, words.next()?, words.next()?);
            let address = u64::from_str_radix(address, 16).ok().filter(|&address| address > 0)?;
            matches!(kind, "t" | "T" | "w" | "W").then(|| (address, name.to_owned()))
        });
        let mut all: Vec<_> = functions.collect();
        all.sort_unstable();
        Self(all)
    }

    /// The function that an address is in.
    pub(crate) fn at(&self, address: u64) -> Option<&str> {
        let after = self.0.partition_point(|(from, _)| *from <= address);
        let (_, name) = self.0.get(after.checked_sub(1)?)?;
        // A part that the compiler has moved away has the name of the whole.
        Some(name.split('.').next().unwrap_or(name))
    }

    /// Where a function begins and ends.
    pub(crate) fn range(&self, function: &str) -> Option<(u64, u64)> {
        let at = self.0.iter().position(|(_, name)| name == function)?;
        let from = self.0[at].0;
        let to = self.0[at..].iter().map(|(address, _)| *address).find(|&address| address > from)?;
        Some((from, to))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_in_the_function_that_begins_before_it() {
        let text = "ffff0020 T second\nffff0010 t first\nffff0018 d data\nffff0030 t second.cold\n";
        let symbols = Symbols::parse(text);
        assert_eq!((symbols.at(0xffff_0010), symbols.at(0xffff_001f)), (Some("first"), Some("first")));
        assert_eq!((symbols.at(0xffff_0034), symbols.at(0xffff_0000)), (Some("second"), None));
        assert_eq!(symbols.range("second"), Some((0xffff_0020, 0xffff_0030)));
        assert_eq!(symbols.range("third"), None);
        assert!(Symbols::parse("0000000000000000 T hidden\n").at(5).is_none());
    }
}
