//! The functions of a guest by address: of its kernel and modules, and of a program and its libraries.

use object::elf::FileHeader64;
use object::read::elf::{ElfFile64, FileHeader, ProgramHeader};
use object::{LittleEndian, Object, ObjectSymbol, SymbolKind};

/// The index of a function among all symbols.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct FunctionIndex(pub(crate) u32);

/// The function of an instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct At {
    pub(crate) function: FunctionIndex,
    /// Whether the instruction is the function's first.
    pub(crate) is_first: bool,
}

#[derive(Clone, Debug)]
struct Symbol {
    start: u64,
    end: u64,
    name: String,
    /// The kernel, a module, a program or a library.
    of: String,
}

/// All functions, by their first address.
#[derive(Clone, Debug, Default)]
pub(crate) struct Symbols {
    all: Vec<Symbol>,
}

/// The index for code that belongs to no function.
const UNKNOWN: FunctionIndex = FunctionIndex(u32::MAX);

impl Symbols {
    /// The symbols of `/proc/kallsyms`. A function ends where the next one begins.
    pub(crate) fn of_kernel(kallsyms: &str) -> Self {
        let mut all: Vec<Symbol> = kallsyms
            .lines()
            .filter_map(|line| {
                let mut words = line.split_whitespace();
                let start = u64::from_str_radix(words.next()?, 16).ok()?;
                let kind = words.next()?;
                let name = words.next()?.to_owned();
                let of = words.next().map_or("kernel", |module| module.trim_matches(['[', ']'])).to_owned();
                "tTwW".contains(kind).then_some(Symbol { start, end: start, name, of })
            })
            .collect();
        all.sort_by_key(|symbol| symbol.start);
        // If an address has several names, the last is kept, which is the function's: the first ones mark
        // sections.
        all.reverse();
        all.dedup_by_key(|symbol| symbol.start);
        all.reverse();
        for index in 1..all.len() {
            all[index - 1].end = all[index].start;
        }
        if let Some(last) = all.last_mut() {
            last.end = u64::MAX;
        }
        Self { all }
    }

    /// Adds those of the files that a process executes. `maps` is its `/proc/PID/maps`; `read` gives a file
    /// of the guest by its path. A file without symbols, or that cannot be read, is one function of its own
    /// name.
    pub(crate) fn add_process(&mut self, maps: &str, read: impl Fn(&str) -> Option<Vec<u8>>) {
        for line in maps.lines() {
            let words: Vec<&str> = line.split_whitespace().collect();
            let [range, flags, offset, _, _, path, ..] = words[..] else { continue };
            let numbers = range.split_once('-').and_then(|(start, end)| {
                let hex = |digits| u64::from_str_radix(digits, 16).ok();
                Some((hex(start)?, hex(end)?, hex(offset)?))
            });
            let Some((start, end, offset)) = numbers.filter(|_| flags.contains('x')) else { continue };
            let of = path.rsplit('/').next().unwrap_or(path).to_owned();
            let bytes = read(path).unwrap_or_default();
            let functions = functions(&bytes, (start, end, offset));
            // The code between the functions that have names.
            let mut at = start;
            for (from, to, name) in functions.into_iter().chain([(end, end, String::new())]) {
                if from > at {
                    let name = format!("{of} (no symbols)");
                    self.all.push(Symbol { start: at, end: from, name, of: of.clone() });
                }
                if to > at {
                    let start = from.max(at);
                    self.all.push(Symbol { start, end: to, name, of: of.clone() });
                    at = to;
                }
            }
        }
        self.all.sort_by_key(|symbol| symbol.start);
    }

    /// The function of the instruction at `address`.
    pub(crate) fn at(&self, address: u64) -> At {
        let after = self.all.partition_point(|symbol| symbol.start <= address);
        let found = after.checked_sub(1).and_then(|index| Some((index, self.all.get(index)?)));
        match found.filter(|(_, symbol)| address < symbol.end) {
            Some((index, symbol)) => {
                // A stretch without symbols has calls of its own, which are not seen.
                let is_first = address == symbol.start && !symbol.name.ends_with(')');
                At { function: FunctionIndex(index as u32), is_first }
            }
            None => At { function: UNKNOWN, is_first: false },
        }
    }

    /// A function's name, and the program or module that has it.
    pub(crate) fn name(&self, function: FunctionIndex) -> (String, Option<String>) {
        let found = self.all.get(function.0 as usize);
        found.map_or_else(|| ("(unknown)".into(), None), |it| (it.name.clone(), Some(it.of.clone())))
    }
}

/// The functions of a file that is mapped from `start` to `end` with this offset: where each begins and ends,
/// and its name.
fn functions(bytes: &[u8], (start, end, offset): (u64, u64, u64)) -> Vec<(u64, u64, String)> {
    let Ok(file) = ElfFile64::<LittleEndian>::parse(bytes) else { return Vec::new() };
    let segment = FileHeader64::<LittleEndian>::parse(bytes).and_then(|header| {
        let endian = header.endian()?;
        let mut segments = header.program_headers(endian, bytes)?.iter();
        let within = |it: &&_| {
            let (from, size) = ProgramHeader::file_range(*it, endian);
            // Mappings begin at a page.
            (from & !0xFFF..from.saturating_add(size)).contains(&offset)
        };
        Ok(segments.rfind(within).map(|it| it.p_vaddr(endian).wrapping_sub(it.p_offset(endian))))
    });
    let Ok(Some(ahead)) = segment else { return Vec::new() };
    // From an address in the file to one in the process.
    let shift = start.wrapping_sub(offset.wrapping_add(ahead));
    let mut all: Vec<(u64, u64, String)> = file
        .symbols()
        .chain(file.dynamic_symbols())
        .filter(|symbol| symbol.kind() == SymbolKind::Text && symbol.is_definition())
        .filter_map(|symbol| {
            let from = symbol.address().wrapping_add(shift);
            let to = from.checked_add(symbol.size().max(1))?;
            let name = symbol.name().ok()?;
            let name = format!("{:#}", rustc_demangle::demangle(name));
            (from >= start && to <= end).then_some((from, to, name))
        })
        .collect();
    all.sort();
    all.dedup_by_key(|(from, ..)| *from);
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernel_s_functions_end_where_the_next_begins() {
        let symbols = Symbols::of_kernel(
            "ffffffff81000000 T _stext\nffffffff81000000 T startup_64\nffffffff81000040 D data\n\
             ffffffff81000080 t next\nffffffffc0000000 t e1000_clean\t[e1000]\nnonsense\n",
        );
        let name = |address| symbols.name(symbols.at(address).function);
        assert_eq!(name(0xffff_ffff_8100_0044).1, Some("kernel".into()));
        assert_eq!(name(0xffff_ffff_8100_0080).0, "next");
        assert_eq!(name(0xffff_ffff_c000_0010), ("e1000_clean".into(), Some("e1000".into())));
        assert_eq!(name(0x1000), ("(unknown)".into(), None));
        assert!(symbols.at(0xffff_ffff_8100_0080).is_first && !symbols.at(0xffff_ffff_8100_0081).is_first);
    }

    /// The addresses of this very program are those of its functions.
    #[test]
    #[allow(clippy::unwrap_used)]
    fn a_program_and_its_libraries() {
        let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
        let mut symbols = Symbols::of_kernel("");
        symbols.add_process(&maps, |path| std::fs::read(path).ok());
        let at = symbols.at(super::functions as *const () as u64);
        let (name, _) = symbols.name(at.function);
        assert!(at.is_first && name.contains("profile::symbols::functions"), "{name}");
        let mut symbols = Symbols::of_kernel("");
        symbols.add_process(&maps, |_| None);
        let (name, of) = symbols.name(symbols.at(super::functions as *const () as u64).function);
        assert!(name.ends_with("(no symbols)") && name.starts_with(&of.unwrap()), "{name}");
    }
}
