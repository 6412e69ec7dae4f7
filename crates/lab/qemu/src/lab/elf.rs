//! Facts in ELF files: the libraries that a program needs, and the modules that a kernel module needs.

use crate::lab::{Error, Result};
use object::elf::{DT_NEEDED, FileHeader64, PT_INTERP};
use object::read::elf::{Dyn, ElfFile64, FileHeader, ProgramHeader};
use object::{LittleEndian, Object, ObjectSection};
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

type File<'a> = ElfFile64<'a, LittleEndian>;
/// Where the header has the place and number of the section table.
const SECTION_TABLE: [std::ops::Range<usize>; 2] = [0x28..0x30, 0x3c..0x40];

/// The libraries that a program or library names, the loader among them.
///
/// # Errors
/// If the bytes are no ELF file of this architecture.
pub fn needed(bytes: &[u8]) -> object::Result<Vec<String>> {
    let header = FileHeader64::<LittleEndian>::parse(bytes)?;
    let endian = header.endian()?;
    let mut names = Vec::new();
    for segment in header.program_headers(endian, bytes)? {
        if segment.p_type(endian) == PT_INTERP
            && let Ok(path) = segment.data(endian, bytes)
        {
            let path = String::from_utf8_lossy(path.strip_suffix(&[0]).unwrap_or(path));
            names.extend(path.rsplit('/').next().map(str::to_owned));
        }
    }
    let sections = header.sections(endian, bytes)?;
    if let Some((entries, strings)) = sections.dynamic(endian, bytes)? {
        let strings = sections.strings(endian, bytes, strings)?;
        for entry in entries.iter().filter(|entry| entry.tag(endian) == DT_NEEDED) {
            let at = entry.val32(endian).unwrap_or(u32::MAX);
            if let Ok(name) = strings.get(at) {
                names.push(String::from_utf8_lossy(name).into_owned());
            }
        }
    }
    Ok(names)
}

/// The entries of a kernel module's information: "name=value".
fn module_info(bytes: &[u8]) -> object::Result<Vec<(String, String)>> {
    let file = File::parse(bytes)?;
    let Some(section) = file.section_by_name(".modinfo") else { return Ok(vec![]) };
    let entries = section.data()?.split(|byte| *byte == 0).map(String::from_utf8_lossy);
    Ok(entries.filter_map(|entry| entry.split_once('=').map(|(a, b)| (a.to_owned(), b.to_owned()))).collect())
}

/// The modules that a kernel module needs, in its order.
///
/// # Errors
/// If the bytes are no kernel module.
pub fn module_depends(bytes: &[u8]) -> object::Result<Vec<String>> {
    let info = module_info(bytes)?;
    let names = info.iter().find(|(name, _)| name == "depends").map_or("", |(_, names)| names);
    Ok(names.split(',').filter(|name| !name.is_empty()).map(|name| name.replace('-', "_")).collect())
}

/// The name of a kernel module, and the release of the kernel that it was built for.
///
/// # Errors
/// If the bytes are no kernel module.
pub fn module_identity(bytes: &[u8]) -> object::Result<(String, String)> {
    let info = module_info(bytes)?;
    let value = |wanted: &str| info.iter().find(|(name, _)| name == wanted).map_or("", |(_, value)| value);
    let release = value("vermagic").split(' ').next().unwrap_or_default();
    Ok((value("name").replace('-', "_"), release.to_owned()))
}

/// The parameters of a kernel module, and whether each is an array.
///
/// # Errors
/// If the bytes are no kernel module.
pub fn module_parameters(bytes: &[u8]) -> object::Result<BTreeMap<String, bool>> {
    let info = module_info(bytes)?.into_iter().filter(|(name, _)| name == "parmtype");
    Ok(info
        .filter_map(|(_, value)| {
            value.split_once(':').map(|(name, kind)| (name.to_owned(), kind.starts_with("array")))
        })
        .collect())
}

/// A program without the parts that it does not need to run: the debug information behind its last segment.
pub fn without_debug(mut bytes: Vec<u8>) -> Vec<u8> {
    let end = FileHeader64::<LittleEndian>::parse(&*bytes).and_then(|header| {
        let endian = header.endian()?;
        let segments = header.program_headers(endian, &*bytes)?.iter();
        let ends = segments.map(|s| s.file_range(endian)).map(|(start, size)| start.saturating_add(size));
        Ok(ends.max().unwrap_or(u64::MAX))
    });
    if let Ok(end) = usize::try_from(end.unwrap_or(u64::MAX))
        && (0x40..bytes.len()).contains(&end)
    {
        bytes.truncate(end);
        for field in SECTION_TABLE {
            bytes[field].fill(0);
        }
    }
    bytes
}

/// A program with the loader at `path`, which must not be longer than the name of its own loader.
pub fn with_loader(mut bytes: Vec<u8>, path: &str) -> Vec<u8> {
    let place = FileHeader64::<LittleEndian>::parse(&*bytes).and_then(|header| {
        let endian = header.endian()?;
        let segments = header.program_headers(endian, &*bytes)?.iter();
        let loader = segments.filter(|s| s.p_type(endian) == PT_INTERP).map(|s| s.file_range(endian)).next();
        Ok(loader.unwrap_or_default())
    });
    let (start, size) = place.unwrap_or_default();
    let range = usize::try_from(start).unwrap_or(0)..usize::try_from(start.saturating_add(size)).unwrap_or(0);
    if let Some(place) = bytes.get_mut(range)
        && path.len() < place.len()
    {
        place.fill(0);
        place[..path.len()].copy_from_slice(path.as_bytes());
    }
    bytes
}

/// Every library that `programs` need, directly or not, by its name, as found in `directories`.
///
/// # Errors
/// If a program cannot be read or a library does not exist.
pub fn libraries(programs: &[&Path], directories: &[PathBuf]) -> Result<BTreeMap<String, PathBuf>> {
    let mut found = BTreeMap::new();
    let mut unread: Vec<PathBuf> = programs.iter().map(|path| path.to_path_buf()).collect();
    while let Some(path) = unread.pop() {
        let bytes = fs::read(&path).map_err(|e| Error::file(&path, e))?;
        for name in needed(&bytes).map_err(|e| Error::file(&path, e))? {
            if found.contains_key(&name) {
                continue;
            }
            let places = directories.iter().map(|directory| directory.join(&name));
            let place = places
                .into_iter()
                .find(|place| place.is_file())
                .ok_or_else(|| Error::file(&path, format!("needs {name}, which is not there")))?;
            unread.push(place.clone());
            found.insert(name, place);
        }
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn this_very_program_needs_the_c_library_and_a_loader() {
        let us = std::env::current_exe().unwrap();
        let bytes = fs::read(&us).unwrap();
        let names = needed(&bytes).unwrap();
        assert!(names.iter().any(|name| name.starts_with("libc.so")), "{names:?}");
        assert!(names.iter().any(|name| name.starts_with("ld-linux")), "{names:?}");
        let found = libraries(&[&us], &crate::lab::userland::host_libraries()).unwrap();
        assert!(names.iter().all(|name| found.contains_key(name)));
    }

    #[test]
    fn a_program_runs_without_its_debug_information() {
        use std::os::unix::fs::PermissionsExt;
        let us = fs::read(std::env::current_exe().unwrap()).unwrap();
        let less = without_debug(us.clone());
        assert!(less.len() < us.len());
        let place = tempfile::tempdir().unwrap();
        let program = place.path().join("less");
        fs::write(&program, less).unwrap();
        fs::set_permissions(&program, PermissionsExt::from_mode(0o755)).unwrap();
        let listed = std::process::Command::new(&program).arg("--list").output().unwrap();
        assert!(listed.status.success(), "{listed:?}");
    }

    proptest! {
        #[test]
        fn any_bytes_are_survived(flips in proptest::collection::vec((0usize..4096, any::<u8>()), 0..40), cut in 0usize..4096) {
            let mut bytes = fs::read("/bin/true").unwrap();
            for (at, byte) in flips {
                bytes[at] = byte;
            }
            bytes.truncate(bytes.len() - cut);
            let _ = needed(&bytes);
            let _ = module_depends(&bytes);
            let _ = without_debug(bytes);
        }
    }
}
