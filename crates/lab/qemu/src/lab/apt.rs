//! Debian packages through apt, without installing anything and without touching the system's own lists.
//!
//! apt runs with a state directory of its own and an empty status file. So it works for every user, and for
//! other releases than the host's.

use crate::lab::{Error, Result};
use std::fs::{self, File};
use std::io::{Read, Seek};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

const MIRROR: &str = "http://deb.debian.org";
const KEYRING: &str = "/usr/share/keyrings/debian-archive-keyring.gpg";
/// How long a mirror may take.
const MIRROR_TIMEOUT: Duration = Duration::from_secs(300);

/// apt for a few suites of the mirror.
#[derive(Debug)]
pub struct Apt {
    state: PathBuf,
}

impl Apt {
    /// With its state in the directory `state` and these suites, each "archive suite" ("debian bookworm").
    /// Fetches the indices of the suites.
    ///
    /// # Errors
    /// If there is no apt, or the mirror cannot be reached.
    pub fn new(state: &Path, suites: &[String]) -> Result<Self> {
        fs::create_dir_all(state.join("lists/partial"))?;
        fs::create_dir_all(state.join("archives/partial"))?;
        fs::create_dir_all(state.join("none"))?;
        let mirror = std::env::var("KPPS_LAB_MIRROR").unwrap_or_else(|_| MIRROR.into());
        let mut sources = String::new();
        for suite in suites {
            let (archive, suite) = suite.split_once(' ').unwrap_or(("debian", suite));
            sources += &format!("deb [signed-by={KEYRING}] {mirror}/{archive} {suite} main\n");
        }
        fs::write(state.join("sources.list"), sources)?;
        fs::write(state.join("status"), "")?;
        let at = state.display();
        // The host's own settings, as a proxy, stay in force: this file is read in addition to them.
        let configuration = format!(
            "Dir::State \"{at}\";\nDir::State::Lists \"{at}/lists\";\nDir::State::status \"{at}/status\";\n\
             Dir::Cache \"{at}\";\nDir::Cache::archives \"{at}/archives\";\n\
             Dir::Etc::SourceList \"{at}/sources.list\";\nDir::Etc::SourceParts \"{at}/none\";\n\
             Dir::Etc::Preferences \"{at}/none/none\";\nDir::Etc::PreferencesParts \"{at}/none\";\n\
             APT::Architecture \"amd64\";\nAPT::Architectures {{ \"amd64\"; }};\nAPT::Sandbox::User \"\";\n\
             APT::Install-Recommends \"false\";\nAcquire::Languages \"none\";\nAcquire::Retries \"2\";\n\
             Acquire::http::Timeout \"30\";\nAcquire::IndexTargets::deb::DEP-11::DefaultEnabled \"false\";\n"
        );
        fs::write(state.join("apt.conf"), configuration)?;
        let apt = Self { state: state.to_owned() };
        if !Path::new(KEYRING).exists() {
            return Err(Error::NotInstalled { program: KEYRING.into(), package: "debian-archive-keyring" });
        }
        apt.run("apt-get", &["-q", "update"], &apt.state, &format!("fetching the index of {mirror}"))?;
        Ok(apt)
    }

    /// The packages that `package` depends on directly.
    ///
    /// # Errors
    /// If there is no such package.
    pub fn depends(&self, package: &str) -> Result<Vec<String>> {
        let answer = self.run("apt-cache", &["depends", package], &self.state, "looking up a package")?;
        let names = answer.lines().filter_map(|line| line.trim().strip_prefix("Depends: "));
        Ok(names.map(str::to_owned).collect())
    }

    /// `package` of the release `suite` and all packages that it needs, each as "name=version".
    ///
    /// # Errors
    /// If there is no such package.
    pub fn with_all_that_it_needs(&self, package: &str, suite: &str) -> Result<Vec<String>> {
        let arguments = ["--simulate", "--target-release", suite, "install", package];
        let answer = self.run("apt-get", &arguments, &self.state, "looking up what a package needs")?;
        // "Inst libc6 (2.41-12 Debian:13/stable [amd64])"
        let names = answer.lines().filter_map(|line| {
            let (name, version) = line.strip_prefix("Inst ")?.split_once(" (")?;
            Some(format!("{name}={}", version.split(' ').next()?))
        });
        Ok(names.collect())
    }

    /// The version of `package` that would be downloaded.
    ///
    /// # Errors
    /// If there is no such package.
    pub fn version(&self, package: &str) -> Result<String> {
        let answer = self.run(
            "apt-cache",
            &["show", "--no-all-versions", package],
            &self.state,
            "looking up a package",
        )?;
        let version = answer.lines().find_map(|line| line.strip_prefix("Version: "));
        version
            .map(str::to_owned)
            .ok_or_else(|| Error::Package(format!("the mirror has no package {package}")))
    }

    /// Downloads `packages`, which apt verifies, and unpacks them all into the directory `root`.
    ///
    /// # Errors
    /// If one of them cannot be downloaded.
    pub fn unpack(&self, packages: &[impl AsRef<str>], root: &Path) -> Result<()> {
        let place = tempfile::tempdir_in(&self.state)?;
        let mut arguments = vec!["-q", "download"];
        arguments.extend(packages.iter().map(AsRef::as_ref));
        self.run("apt-get", &arguments, place.path(), "downloading packages")?;
        for package in fs::read_dir(place.path())? {
            let package = package?.path();
            let mut command = Command::new("dpkg-deb");
            command.arg("-x").arg(&package).arg(root);
            finished(&mut command, &format!("unpacking {}", package.display()))?;
        }
        Ok(())
    }

    fn run(&self, program: &str, arguments: &[&str], directory: &Path, what: &str) -> Result<String> {
        let mut command = Command::new(program);
        command.args(arguments).current_dir(directory);
        command.env("APT_CONFIG", self.state.join("apt.conf")).env("LC_ALL", "C");
        finished(&mut command, what)
    }
}

/// Runs a program to its end and returns its output. Kills it when its time is over.
fn finished(command: &mut Command, what: &str) -> Result<String> {
    let program = command.get_program().to_string_lossy().into_owned();
    let (mut out, mut err) = (tempfile::tempfile()?, tempfile::tempfile()?);
    command.stdin(Stdio::null()).stdout(out.try_clone()?).stderr(err.try_clone()?);
    let mut child = command.spawn().map_err(|error| match error.kind() {
        std::io::ErrorKind::NotFound => Error::NotInstalled { program: program.clone(), package: "apt" },
        _ => error.into(),
    })?;
    let since = Instant::now();
    let status = loop {
        if let Some(status) = child.try_wait()? {
            break Some(status);
        }
        if since.elapsed() > MIRROR_TIMEOUT {
            // It may end by itself between the two.
            let _ = child.kill();
            let _ = child.wait();
            break None;
        }
        std::thread::sleep(Duration::from_millis(5));
    };
    if status.is_some_and(|status| status.success()) {
        return text(&mut out);
    }
    let complaints = text(&mut err)?;
    let reason = complaints.lines().find(|line| line.starts_with("E:")).unwrap_or("no answer in time");
    Err(Error::Package(format!("{what} with {program} failed: {reason}")))
}

fn text(file: &mut File) -> Result<String> {
    let mut bytes = Vec::new();
    file.rewind()?;
    file.read_to_end(&mut bytes)?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}
