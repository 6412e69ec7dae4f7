//! An initial file system: a cpio archive in the "newc" format that the kernel unpacks
//! (Documentation/driver-api/early-userspace/buffer-format.rst).

use std::collections::BTreeSet;

const DIRECTORY: u32 = 0o040_755;
const PROGRAM: u32 = 0o100_755;
const LINK: u32 = 0o120_777;

/// An archive being written.
#[derive(Debug, Default)]
pub struct Archive {
    bytes: Vec<u8>,
    entries: u32,
    seen: BTreeSet<String>,
}

impl Archive {
    /// Adds a file at `path`, without a leading slash, and the directories above it. It is executable. If the
    /// name exists, the first file stays.
    pub fn file(&mut self, path: &str, contents: &[u8]) {
        self.add(path, PROGRAM, contents);
    }

    /// Adds a symbolic link at `path` to `target`.
    pub fn link(&mut self, path: &str, target: &str) {
        self.add(path, LINK, target.as_bytes());
    }

    /// Adds a directory and those above it.
    pub fn directory(&mut self, path: &str) {
        self.add(path, DIRECTORY, &[]);
    }

    /// The archive.
    pub fn finish(mut self) -> Vec<u8> {
        self.entry("TRAILER!!!", 0, &[]);
        self.bytes
    }

    fn add(&mut self, path: &str, mode: u32, contents: &[u8]) {
        let above = path.match_indices('/').map(|(at, _)| &path[..at]);
        for directory in above.collect::<Vec<_>>() {
            if self.seen.insert(directory.to_owned()) {
                self.entry(directory, DIRECTORY, &[]);
            }
        }
        if self.seen.insert(path.to_owned()) {
            self.entry(path, mode, contents);
        }
    }

    fn entry(&mut self, path: &str, mode: u32, contents: &[u8]) {
        self.entries += 1;
        let links = if mode == DIRECTORY { 2 } else { 1 };
        // inode, mode, user, group, links, time, size, four device numbers, length of the name, no checksum.
        let size = u32::try_from(contents.len()).unwrap_or(u32::MAX);
        let fields = [self.entries, mode, 0, 0, links, 0, size, 0, 0, 0, 0, path.len() as u32 + 1, 0];
        self.bytes.extend(b"070701");
        for field in fields {
            self.bytes.extend(format!("{field:08x}").as_bytes());
        }
        self.bytes.extend(path.as_bytes());
        self.bytes.push(0);
        self.pad();
        self.bytes.extend(contents);
        self.pad();
    }

    fn pad(&mut self) {
        self.bytes.resize(self.bytes.len().next_multiple_of(4), 0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_archive_has_its_directories_first_and_everything_once() {
        let mut archive = Archive::default();
        archive.file("a/b/c", b"hello");
        archive.file("a/b/c", b"again");
        archive.link("a/d", "b/c");
        archive.directory("e");
        let bytes = archive.finish();
        assert_eq!(bytes.len() % 4, 0);
        let names: Vec<_> = ["a\0", "a/b\0", "a/b/c\0", "a/d\0", "e\0", "TRAILER!!!\0"]
            .map(|name| bytes.windows(name.len()).position(|w| w == name.as_bytes()))
            .into();
        assert!(names.iter().all(Option::is_some) && names.is_sorted(), "{names:?}");
        assert_eq!(&bytes[..6], b"070701");
        assert!(bytes.windows(5).filter(|w| w == b"hello").count() == 1);
        assert!(!bytes.windows(5).any(|w| w == b"again"));
    }
}
