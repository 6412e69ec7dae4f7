//! Files that are written as a whole: whatever happens, one has its old contents or all of the new ones.

use std::fs::{File, Metadata, OpenOptions};
use std::io::{self, ErrorKind, Write};
use std::path::{Path, PathBuf};
use std::{fs, process};

/// The largest number of symbolic links that are followed to a file.
const MOST_LINKS: usize = 40;

/// A file that is to be written.
pub struct WholeFile {
    path: PathBuf,
    target: Target,
}

/// The destination of the contents.
enum Target {
    /// The file at this path, which no symbolic link is. It is replaced.
    File(PathBuf),
    /// A target that cannot be replaced: a device, a pipe, or the file behind standard output or standard
    /// error.
    Stream(File),
}

impl WholeFile {
    /// A file at `path`, after a check that it can be written. Nothing is changed.
    ///
    /// # Errors
    /// Nothing can be written there.
    pub fn open(path: &Path) -> io::Result<Self> {
        Ok(Self { path: path.to_owned(), target: Target::of(path)? })
    }

    /// The path of the file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The canonical path of the file that is replaced; `None` for a device or a pipe, which accepts several
    /// contents one after the other.
    pub fn place(&self) -> Option<PathBuf> {
        match &self.target {
            Target::File(path) => Some(folder(path).canonicalize().ok()?.join(path.file_name()?)),
            Target::Stream(_) => None,
        }
    }

    /// Replaces the contents, and keeps the permissions. A device or a pipe just gets the new contents.
    ///
    /// # Errors
    /// The file could not be written. It is as it was, unless it can only be written in place: it is a mount
    /// point, or others own its folder.
    pub fn write(&self, contents: &[u8]) -> io::Result<()> {
        match &self.target {
            Target::Stream(stream) => (&*stream).write_all(contents),
            Target::File(path) => replace(path, contents, false),
        }
    }
}

/// Writes a file that does not exist yet. Only its owner may read a `secret` one.
///
/// # Errors
/// The file exists, or cannot be written; then none is left behind.
pub fn create(path: &Path, contents: &[u8], secret: bool) -> io::Result<()> {
    if path.symlink_metadata().is_ok() {
        return Err(ErrorKind::AlreadyExists.into());
    }
    replace(path, contents, secret)
}

impl Target {
    fn of(path: &Path) -> io::Result<Self> {
        let found = match fs::metadata(path) {
            Ok(found) => Some(found),
            Err(error) if error.kind() == ErrorKind::NotFound => None,
            Err(error) => return Err(error),
        };
        if let Some(found) = &found {
            // A user who may not write the file may not replace it either. Opening for appending changes
            // nothing.
            let file = OpenOptions::new().append(true).open(path)?;
            if let Some(own) = own_stream(found) {
                return Ok(Self::Stream(own));
            }
            if !found.is_file() {
                return Ok(Self::Stream(file));
            }
        }
        let path = without_links(path)?;
        match beside(&path, false) {
            Ok((temporary, _)) => fs::remove_file(temporary)?,
            Err(error) if found.is_some() && is_irreplaceable(&error) => (),
            Err(error) => return Err(error),
        }
        Ok(Self::File(path))
    }
}

/// The open stream, if the target is standard output or standard error: replacing the file would lose the
/// output. It shares their position, so that neither overwrites the other.
#[cfg(unix)]
fn own_stream(found: &Metadata) -> Option<File> {
    use std::os::fd::AsFd;
    use std::os::unix::fs::MetadataExt;
    let streams = [io::stdout().as_fd().try_clone_to_owned(), io::stderr().as_fd().try_clone_to_owned()];
    let is_found = |own: Metadata| (own.dev(), own.ino()) == (found.dev(), found.ino());
    let mut streams = streams.into_iter().flatten().map(File::from);
    streams.find(|stream| stream.metadata().is_ok_and(is_found))
}

#[cfg(not(unix))]
fn own_stream(_: &Metadata) -> Option<File> {
    None
}

/// The path with symbolic links resolved. The target need not exist.
fn without_links(path: &Path) -> io::Result<PathBuf> {
    let mut path = path.to_owned();
    for _ in 0..MOST_LINKS {
        let Ok(next) = fs::read_link(&path) else { return Ok(path) };
        path = folder(&path).join(next);
    }
    Err(io::Error::other("too many symbolic links"))
}

fn folder(path: &Path) -> &Path {
    path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

/// Whether a file may be writable although it cannot be replaced: others own its folder, or it is a mount
/// point.
fn is_irreplaceable(error: &io::Error) -> bool {
    [ErrorKind::PermissionDenied, ErrorKind::ReadOnlyFilesystem, ErrorKind::ResourceBusy]
        .contains(&error.kind())
}

fn replace(path: &Path, contents: &[u8], secret: bool) -> io::Result<()> {
    let old = fs::metadata(path).ok();
    // A file that replaces a secret one is a secret from the start.
    let replaced = beside(path, secret || old.is_some()).and_then(|(temporary, file)| {
        let done = fill(file, contents, old.as_ref()).and_then(|()| fs::rename(&temporary, path));
        if done.is_err() {
            // If the temporary file cannot be removed, it stays: the error that is returned is the important
            // one.
            let _ = fs::remove_file(&temporary);
        }
        done
    });
    match replaced {
        Err(error) if old.is_some() && is_irreplaceable(&error) => {
            let mut file = OpenOptions::new().write(true).truncate(true).open(path)?;
            file.write_all(contents)?;
            file.sync_all()
        }
        Err(error) => Err(error),
        Ok(()) => {
            sync_folder(path);
            Ok(())
        }
    }
}

/// A new file in the folder of `path`, and its own path.
fn beside(path: &Path, secret: bool) -> io::Result<(PathBuf, File)> {
    let mut options = OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    if secret {
        use std::os::unix::fs::OpenOptionsExt;
        options.mode(0o600);
    }
    #[cfg(not(unix))]
    let _ = secret;
    let mut number = 0;
    loop {
        let temporary = folder(path).join(format!(".kpps-{}-{number}.tmp", process::id()));
        match options.open(&temporary) {
            Ok(file) => return Ok((temporary, file)),
            // The file belongs to another thread, or a killed process with this number left it.
            Err(error) if error.kind() == ErrorKind::AlreadyExists && number < 1000 => number += 1,
            Err(error) => return Err(error),
        }
    }
}

/// Gives a new file its contents, and the owner and permissions of the file that it replaces.
fn fill(mut file: File, contents: &[u8], old: Option<&Metadata>) -> io::Result<()> {
    file.write_all(contents)?;
    if let Some(old) = old {
        keep_owner(&file, old);
        file.set_permissions(old.permissions())?;
    }
    file.sync_all()
}

/// Keeps the old owner. This works only as root, and is not needed otherwise.
#[cfg(unix)]
fn keep_owner(file: &File, old: &Metadata) {
    use std::os::unix::fs::{MetadataExt, fchown};
    let _ = fchown(file, Some(old.uid()), Some(old.gid()));
}

#[cfg(not(unix))]
fn keep_owner(_: &File, _: &Metadata) {}

/// Makes the new name survive a power failure, on file systems that can do that.
#[cfg(unix)]
fn sync_folder(path: &Path) {
    let _ = File::open(folder(path)).and_then(|folder| folder.sync_all());
}

#[cfg(not(unix))]
fn sync_folder(_: &Path) {}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn names(folder: &Path) -> Vec<String> {
        let mut names: Vec<_> = fs::read_dir(folder)
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        names
    }

    #[test]
    fn a_file_is_replaced_and_nothing_else_is_left() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("results");
        let file = WholeFile::open(&path).unwrap();
        assert!(names(folder.path()).is_empty(), "nothing is there before it is written");
        file.write(b"first and long").unwrap();
        file.write(b"second").unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"second");
        assert_eq!(names(folder.path()), ["results"]);
        assert!(WholeFile::open(folder.path()).is_err(), "a folder");
        assert!(WholeFile::open(&path.join("x")).is_err(), "in a file");
        assert!(WholeFile::open(&folder.path().join("no/where")).is_err());
    }

    #[test]
    fn one_file_of_two_names_is_the_same() {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir(folder.path().join("in")).unwrap();
        let place = |name: &str| WholeFile::open(&folder.path().join(name)).unwrap().place();
        assert!(place("a").is_some() && place("a") == place("in/../a") && place("a") != place("b"));
        if cfg!(target_os = "linux") {
            assert_eq!(place("/dev/null"), None, "it keeps nothing that could be replaced");
        }
    }

    #[test]
    fn a_new_file_replaces_none() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("key");
        create(&path, b"one", true).unwrap();
        assert_eq!(create(&path, b"two", true).unwrap_err().kind(), ErrorKind::AlreadyExists);
        assert_eq!(
            (fs::read(&path).unwrap(), names(folder.path())),
            (b"one".to_vec(), vec!["key".to_owned()])
        );
        #[cfg(unix)]
        {
            use std::os::unix::fs::PermissionsExt;
            assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        }
    }

    /// A reader of the file, while it is written again and again, sees whole contents only.
    #[test]
    fn nobody_sees_half_a_file() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("results");
        let contents = |letter: u8| vec![letter; 1 << 20];
        WholeFile::open(&path).unwrap().write(&contents(b'a')).unwrap();
        let writer = {
            let path = path.clone();
            std::thread::spawn(move || {
                let file = WholeFile::open(&path).unwrap();
                (b'b'..=b'z').for_each(|letter| file.write(&contents(letter)).unwrap());
            })
        };
        while !writer.is_finished() {
            let seen = fs::read(&path).unwrap();
            assert_eq!(seen, contents(seen[0]));
        }
        writer.join().unwrap();
    }

    #[cfg(unix)]
    #[test]
    fn links_are_followed_and_permissions_stay() {
        use std::os::unix::fs::{PermissionsExt, symlink};
        let folder = tempfile::tempdir().unwrap();
        let (path, link) = (folder.path().join("data/results"), folder.path().join("link"));
        fs::create_dir(folder.path().join("data")).unwrap();
        symlink("data/other", folder.path().join("between")).unwrap();
        symlink("results", folder.path().join("data/other")).unwrap();
        symlink("between", &link).unwrap();
        // The target of links is created if it does not exist.
        WholeFile::open(&link).unwrap().write(b"one").unwrap();
        fs::set_permissions(&path, PermissionsExt::from_mode(0o640)).unwrap();
        WholeFile::open(&link).unwrap().write(b"two").unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"two");
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o640);
        assert!(link.symlink_metadata().unwrap().is_symlink());
        assert_eq!(names(&folder.path().join("data")), ["other", "results"]);
        symlink("itself", folder.path().join("itself")).unwrap();
        assert!(WholeFile::open(&folder.path().join("itself")).is_err());
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn devices_and_pipes_are_written_and_stay() {
        use std::io::Read;
        WholeFile::open(Path::new("/dev/null")).unwrap().write(b"nothing").unwrap();
        let full = WholeFile::open(Path::new("/dev/full")).unwrap();
        assert_eq!(full.write(b"something").unwrap_err().kind(), ErrorKind::StorageFull);
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("pipe");
        assert!(process::Command::new("mkfifo").arg(&path).status().unwrap().success());
        let reader = {
            let path = path.clone();
            std::thread::spawn(move || {
                let mut text = String::new();
                File::open(path).unwrap().read_to_string(&mut text).unwrap();
                text
            })
        };
        WholeFile::open(&path).unwrap().write(b"through a pipe").unwrap();
        assert_eq!(reader.join().unwrap(), "through a pipe");
        assert_eq!(names(folder.path()), ["pipe"]);
    }
}
