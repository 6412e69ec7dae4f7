//! The priority of this process's session among others (autogroups, sched(7)).
//!
//! It is that of all programs of the session and outlives this one. So while it is raised, a process in a
//! group of its own waits for the end of this program, however that comes, and puts the priority back.

use rustix::process::getsid;
use std::fs;
use std::io::Write;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};

/// The highest priority (nice(1)).
const HIGHEST: i32 = -20;
/// Where it is set.
const PATH: &str = "/proc/self/autogroup";
/// The process that puts it back calls itself so.
const KEEPER: &str = "kpps-priority";
/// It gets a line when the priority was put back, or nothing when this program has died. Without privilege
/// the kernel takes a new priority only ten times a second.
const KEEP: &str = "trap '' HUP INT QUIT TERM; read _ && exit
    for _ in 1 2 3 4 5 6 7 8 9; do echo \"$1\" > /proc/self/autogroup && exit; sleep 0.1; done";

/// The session's priority; `None` if sessions have none.
fn nice() -> Option<i32> {
    // The last word of `/autogroup-13 nice 0`.
    fs::read_to_string(PATH).ok()?.trim().rsplit(' ').next()?.parse().ok()
}

/// While it lives, the session runs before others.
#[derive(Debug)]
pub(super) struct Raised {
    before: i32,
    /// `None` if another process of this session has raised the priority, and puts it back.
    keeper: Option<Child>,
}

impl Raised {
    /// Raises the priority, if that is permitted and it can be put back.
    pub(super) fn now() -> Option<Self> {
        let before = nice()?;
        if before == HIGHEST {
            return Some(Self { before, keeper: None });
        }
        let mut keeper = Command::new("sh");
        keeper.args(["-c", KEEP, KEEPER, &before.to_string()]).process_group(0);
        keeper.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
        let raised = Self { before, keeper: Some(keeper.spawn().ok()?) };
        fs::write(PATH, HIGHEST.to_string()).is_ok().then_some(raised)
    }
}

impl Drop for Raised {
    fn drop(&mut self) {
        let Some(keeper) = &mut self.keeper else { return };
        let is_back = fs::write(PATH, self.before.to_string()).is_ok();
        // Without a line it tries again.
        if let (Some(mut line), true) = (keeper.stdin.take(), is_back) {
            let _ = line.write_all(b"\n");
        }
        let _ = keeper.wait();
    }
}

/// How to end it, if this session runs before others and no running kpps has raised it.
pub fn left_raised() -> Option<String> {
    // Another kpps of this session may begin or end between the two readings: only a state that lasts counts.
    let is_left = || nice() == Some(HIGHEST) && !has_keeper();
    let lasts = (0..3).all(|_| is_left()) && nice() == Some(HIGHEST);
    lasts.then(|| {
        "this session runs before all others (autogroup nice -20), so other programs may starve: \
         `echo 0 > /proc/$$/autogroup` ends that"
            .into()
    })
}

/// Whether a process of this session puts its priority back.
fn has_keeper() -> bool {
    let Ok(session) = getsid(None) else { return false };
    let processes = fs::read_dir("/proc").into_iter().flatten().flatten();
    processes.into_iter().any(|process| {
        let read = |name: &str| fs::read(process.path().join(name)).unwrap_or_default();
        let is_keeper = read("cmdline").split(|&byte| byte == 0).any(|word| word == KEEPER.as_bytes());
        // The state, the parent, the group and the session follow the name, which is in parentheses.
        let stat = String::from_utf8_lossy(&read("stat")).into_owned();
        let number = stat.rsplit(')').next().and_then(|rest| rest.split_whitespace().nth(3)?.parse().ok());
        is_keeper && number == Some(session.as_raw_nonzero().get())
    })
}
