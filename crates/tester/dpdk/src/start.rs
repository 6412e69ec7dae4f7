//! DPDK's environment (EAL) in this process: started once, with the first device.

use crate::adapter::Adapter;
use crate::error::Error;
use std::ffi::CString;
use std::fs;
use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};
use std::thread;

/// The memory of DPDK where there are no huge pages, in MiB: buffers for a few ports.
const ORDINARY_MIB: u32 = 512;
/// The least memory in huge pages with which they are used, in KiB: buffers for two ports.
const HUGE_KIB: u64 = 64 << 10;
/// No network card has this address: with it DPDK takes no card that was not asked for.
const NO_CARD: &str = "0000:00:00.0";

/// A start of DPDK: its arguments, and why it failed, if it did.
struct Start {
    arguments: Vec<String>,
    result: Result<(), Error>,
}

/// The further arguments of the user.
static ARGUMENTS: Mutex<Vec<String>> = Mutex::new(Vec::new());
/// The start of this process.
static START: Mutex<Option<Start>> = Mutex::new(None);

/// From now on DPDK starts with these arguments, too, separated by spaces; no arguments if there are none.
/// They have no effect on a DPDK that runs already: then opening a device refuses other ones.
pub fn use_arguments(arguments: Option<&str>) {
    let words = arguments.unwrap_or_default().split_whitespace().map(str::to_owned).collect();
    *ARGUMENTS.lock().unwrap_or_else(PoisonError::into_inner) = words;
}

/// Starts DPDK if it does not run.
///
/// # Errors
/// [`Error`]: the adapter's, or DPDK's. After a failure DPDK cannot be started again in this process.
pub(crate) fn started() -> Result<&'static Adapter, Error> {
    let adapter = Adapter::load()?;
    let arguments = ARGUMENTS.lock().unwrap_or_else(PoisonError::into_inner).clone();
    let mut start = START.lock().unwrap_or_else(PoisonError::into_inner);
    let start = start.get_or_insert_with(|| {
        let result = begin(adapter, &arguments);
        Start { arguments: arguments.clone(), result }
    });
    start.result.clone()?;
    match start.arguments == arguments {
        true => Ok(adapter),
        false => Err(Error::Arguments(format!("'{}'", start.arguments.join(" ")))),
    }
}

/// Whether the user gave one of these arguments, as `--log-level`, `--log-level=debug`, `-l` or `-l1`.
fn has(given: &[String], names: &[&str]) -> bool {
    let is = |word: &str, name: &str| match name.starts_with("--") {
        true => word.split('=').next() == Some(name),
        false => word.starts_with(name),
    };
    given.iter().any(|word| names.iter().any(|name| is(word, name)))
}

/// Whether enough huge pages of all sizes together are free. Their folders are called `hugepages-2048kB`.
fn has_huge_pages() -> bool {
    let sizes = fs::read_dir("/sys/kernel/mm/hugepages").into_iter().flatten().flatten();
    let free_kib = |size: fs::DirEntry| {
        let name = size.file_name().into_string().ok()?;
        let kib: u64 = name.strip_prefix("hugepages-")?.strip_suffix("kB")?.parse().ok()?;
        let pages = fs::read_to_string(size.path().join("free_hugepages")).ok()?;
        Some(kib.saturating_mul(pages.trim().parse().ok()?))
    };
    sizes.filter_map(free_kib).sum::<u64>() >= HUGE_KIB
}

/// DPDK's arguments, with those of the user behind ours. `cpu` is one that this process may use.
fn arguments(given: &[String], cpu: usize, huge_pages: bool) -> Vec<String> {
    let mut all: Vec<String> = vec!["kpps".into(), "--no-telemetry".into()];
    // The threads that send and receive are ours: DPDK gets one CPU for itself.
    if !has(given, &["--lcores", "-l", "-c"]) {
        all.extend(["--lcores".into(), format!("0@{cpu}")]);
    }
    if !has(given, &["--file-prefix"]) {
        all.extend(["--file-prefix".into(), prefix()]);
    }
    if !has(given, &["--log-level"]) {
        all.extend(["--log-level".into(), "error".into()]);
    }
    if !has(given, &["-a", "--allow", "-b", "--block", "--no-pci"]) {
        all.extend(["-a".into(), NO_CARD.into()]);
    }
    // No files for other processes, which --in-memory refuses beside --no-huge.
    let chooses = ["--in-memory", "--no-huge", "--huge-dir", "--socket-mem", "--legacy-mem"];
    match has(given, &chooses) {
        true => {}
        false if huge_pages => all.push("--in-memory".into()),
        false => {
            all.extend(["--no-huge", "--no-shconf"].map(str::to_owned));
            if !has(given, &["-m"]) {
                all.extend(["-m".into(), ORDINARY_MIB.to_string()]);
            }
        }
    }
    all.extend_from_slice(given);
    all
}

/// A name that no other process has.
fn prefix() -> String {
    format!("kpps-{}", std::process::id())
}

/// Starts DPDK. It binds the thread that starts it to a CPU, so that is a thread of its own. The threads that
/// DPDK starts from it may use the CPUs of this thread.
fn begin(adapter: &'static Adapter, given: &[String]) -> Result<(), Error> {
    // It would print its help, and end this process.
    let asks_for_help = |word: &String| matches!(word.trim_start_matches('-'), "h" | "help");
    if given.iter().any(asks_for_help) {
        return Err(Error::Start("its help is shown by its own programs, as dpdk-testpmd".into()));
    }
    let cpus = rustix::thread::sched_getaffinity(None).unwrap_or_default();
    let cpu = (0..rustix::thread::CpuSet::MAX_CPU).find(|&cpu| cpus.is_set(cpu)).unwrap_or(0);
    let words = arguments(given, cpu, has_huge_pages());
    let quiet = !has(given, &["--log-level"]);
    let no_zero = |_| Error::Start("an argument has a zero byte".into());
    let words = words.into_iter().map(CString::new).collect::<Result<Vec<_>, _>>().map_err(no_zero)?;
    // DPDK keeps pointers to its arguments.
    let words: &'static [CString] = words.leak();
    let start = move || {
        let mut pointers: Vec<_> = words.iter().map(|word| word.as_ptr().cast_mut()).collect();
        let count = pointers.len() as i32;
        pointers.push(std::ptr::null_mut());
        let pointers = pointers.leak();
        // SAFETY: these are `count` C strings, and a null pointer behind them, which live as long as the
        // process. DPDK reorders the pointers and does not write to the strings. `started` calls this once.
        unsafe { (adapter.start)(count, pointers.as_mut_ptr(), quiet.into()) }
    };
    let failed = |why: String| Error::Start(why);
    let thread = thread::Builder::new().name("dpdk".into()).spawn(start);
    let result = thread.map_err(|why| failed(why.to_string()))?.join();
    // DPDK has made a folder for files that it does not write.
    for folder in runtime_folders() {
        let _ = fs::remove_dir(folder);
    }
    match result {
        Ok(0) => Ok(()),
        Ok(error) => Err(failed(adapter.why(error))),
        Err(_) => Err(failed("its thread ended".into())),
    }
}

/// Where DPDK makes a folder for this process: for root, and for other users.
fn runtime_folders() -> impl Iterator<Item = PathBuf> {
    let parents = [Some("/var/run".into()), std::env::var_os("XDG_RUNTIME_DIR"), Some("/tmp".into())];
    parents.into_iter().flatten().map(|parent| PathBuf::from(parent).join("dpdk").join(prefix()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(given: &str, huge_pages: bool) -> String {
        let given: Vec<_> = given.split_whitespace().map(str::to_owned).collect();
        arguments(&given, 3, huge_pages).join(" ")
    }

    #[test]
    fn what_the_user_gives_replaces_ours() {
        let ours = of("", true);
        assert!(ours.starts_with("kpps --no-telemetry --lcores 0@3 --file-prefix kpps-"), "{ours}");
        assert!(ours.ends_with("--log-level error -a 0000:00:00.0 --in-memory"), "{ours}");
        assert!(of("", false).ends_with("--no-huge --no-shconf -m 512"));
        assert!(of("-m 64", false).ends_with("--no-huge --no-shconf -m 64"));
        let short = of("-l1 -b0000:01:00.0 -m64", false);
        assert!(
            !short.contains("--lcores") && !short.contains("-a ") && !short.contains("-m 512"),
            "{short}"
        );
        let given = of("-l 1 --file-prefix=x --log-level=debug --no-pci --no-huge", true);
        assert_eq!(given, "kpps --no-telemetry -l 1 --file-prefix=x --log-level=debug --no-pci --no-huge");
    }
}
