//! Frames of a trial that the kernel dropped, with reason and function.

use std::collections::BTreeMap;
use std::fmt;

/// A place where the kernel drops frames.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct KernelDrop {
    /// The interface, with its network namespace if that is another: `router/eth0`; only the namespace if
    /// the frame was at none.
    pub at: String,
    /// The kernel's name of the reason: `NETFILTER_DROP`.
    pub reason: String,
    /// The function; `None` if the kernel shows no addresses.
    pub function: Option<String>,
    /// Whether the ring of a packet socket had no room.
    pub at_packet_socket: bool,
}

impl KernelDrop {
    /// The namespace, if it is not the tester's.
    pub fn namespace(&self) -> Option<&str> {
        self.at.split_once('/').map(|(namespace, _)| namespace)
    }
}

/// `router/eth0 netfilter drop (nf_hook_slow)`
impl fmt::Display for KernelDrop {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let reason = match self.reason.as_str() {
            "NOT_SPECIFIED" | "NOT_DROPPED_YET" => "dropped".to_owned(),
            reason => reason.to_lowercase().replace('_', " "),
        };
        write!(f, "{} {reason}", self.at)?;
        self.function.as_ref().map_or(Ok(()), |function| write!(f, " ({function})"))
    }
}

/// Frames dropped so far, by place.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KernelDrops(BTreeMap<KernelDrop, u64>);

impl FromIterator<(KernelDrop, u64)> for KernelDrops {
    fn from_iter<I: IntoIterator<Item = (KernelDrop, u64)>>(drops: I) -> Self {
        let mut all = BTreeMap::new();
        for (drop, frames) in drops {
            *all.entry(drop).or_insert(0) += frames;
        }
        Self(all)
    }
}

impl KernelDrops {
    /// The places and their frames.
    pub fn iter(&self) -> impl Iterator<Item = (&KernelDrop, u64)> {
        self.0.iter().map(|(drop, frames)| (drop, *frames))
    }

    /// The drops since an earlier observation.
    #[must_use]
    pub fn since(&self, before: Option<&Self>) -> Self {
        let was = |drop: &KernelDrop| before.and_then(|before| before.0.get(drop)).copied().unwrap_or(0);
        let since = self.iter().map(|(drop, frames)| (drop.clone(), frames.saturating_sub(was(drop))));
        since.filter(|(_, frames)| *frames > 0).collect()
    }
}

#[cfg(target_os = "linux")]
pub(super) use linux::Counter;

#[cfg(target_os = "linux")]
mod linux {
    use super::{KernelDrop, KernelDrops};
    use crate::accounting::observe::NAMESPACES;
    use kpps_linux::drops::Drops;
    use std::collections::BTreeSet;
    use std::io;
    use std::os::unix::fs::MetadataExt;
    use std::path::Path;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicBool, Ordering};

    /// The kernel's counter, if it is available, and else the reason.
    #[derive(Clone, Debug)]
    pub(in crate::accounting::observe) struct Counter {
        drops: Result<Arc<Drops>, String>,
        /// Whether both ports are here. If not, another port may be on this host, in another namespace:
        /// frames that the kernel drops there after the port has received them must not count.
        everywhere: bool,
        /// Whether only test frames are counted, which are recognised by their tags. If not, packets of other
        /// hosts that happen to be namespaces of this system must not count.
        tagged: Arc<AtomicBool>,
    }

    impl Default for Counter {
        fn default() -> Self {
            Self { drops: Err("nothing is observed".into()), everywhere: false, tagged: Arc::default() }
        }
    }

    impl Counter {
        /// For the tester's own interfaces in the namespace of this thread.
        pub(in crate::accounting::observe) fn start(own: &[String]) -> Self {
            let drops = Drops::start(own).map(Arc::new).map_err(|error| error.to_string());
            Self { drops, everywhere: own.len() > 1, tagged: Arc::default() }
        }

        /// Why it is not available.
        pub(in crate::accounting::observe) fn lacks(&self) -> Option<&str> {
            self.drops.as_ref().err().map(String::as_str)
        }

        /// Counts the frames of this trial from now on, wherever the kernel drops them. Without a trial it
        /// counts all packets, but only in the tester's namespace and in observed namespaces.
        pub(in crate::accounting::observe) fn begin(&self, trial: Option<u32>) -> io::Result<()> {
            self.tagged.store(trial.is_some(), Ordering::Relaxed);
            self.drops.as_ref().map_or(Ok(()), |drops| drops.count(trial))
        }

        /// The drops so far. `observed` are the other namespaces that are observed, `left_out` the interfaces
        /// of the tester's namespace that are not.
        pub(in crate::accounting::observe) fn read(
            &self,
            observed: &BTreeSet<&String>,
            left_out: &BTreeSet<String>,
        ) -> Option<KernelDrops> {
            let drops = self.drops.as_ref().ok()?.read().ok()?;
            let inode =
                |path: &Path| std::fs::metadata(path).ok().and_then(|file| u32::try_from(file.ino()).ok());
            let own = inode(Path::new("/proc/thread-self/ns/net"));
            let named: Vec<_> = std::fs::read_dir(NAMESPACES)
                .into_iter()
                .flatten()
                .flatten()
                .filter_map(|entry| {
                    Some((inode(&entry.path())?, entry.file_name().to_string_lossy().into_owned()))
                })
                .collect();
            let everywhere = self.everywhere && self.tagged.load(Ordering::Relaxed);
            let one = |it: kpps_linux::drops::Dropped| {
                let name = named.iter().find(|(number, _)| *number == it.namespace).map(|(_, name)| name);
                let is_own = Some(it.namespace) == own;
                if is_own && left_out.contains(&it.interface) {
                    return None;
                }
                if !everywhere && !is_own && name.is_none_or(|name| !observed.contains(name)) {
                    return None;
                }
                let at = match name {
                    _ if it.interface.is_empty() => "kernel".to_owned(),
                    _ if is_own => it.interface.clone(),
                    Some(name) => format!("{name}/{}", it.interface),
                    None => format!("namespace {}/{}", it.namespace, it.interface),
                };
                let at_packet_socket = it.is_at_packet_socket();
                Some((
                    KernelDrop { at, reason: it.reason, function: it.function, at_packet_socket },
                    it.frames,
                ))
            };
            Some(drops.into_iter().filter_map(one).collect())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_is_named_by_interface_reason_and_function() {
        let at_router = |reason: &str, function: Option<&str>| {
            let function = function.map(ToOwned::to_owned);
            KernelDrop { at: "r/ra".into(), reason: reason.into(), function, at_packet_socket: false }
        };
        let filter = at_router("NETFILTER_DROP", Some("nf_hook_slow"));
        assert_eq!(filter.to_string(), "r/ra netfilter drop (nf_hook_slow)");
        assert_eq!(at_router("NOT_SPECIFIED", None).to_string(), "r/ra dropped");
        assert_eq!((filter.namespace(), KernelDrop::default().namespace()), (Some("r"), None));
    }

    #[test]
    fn earlier_drops_are_taken_away() {
        let place = |at: &str| KernelDrop { at: at.into(), ..KernelDrop::default() };
        let before: KernelDrops = [(place("a"), 3), (place("b"), 1)].into_iter().collect();
        let after: KernelDrops = [(place("a"), 5), (place("b"), 1), (place("c"), 2)].into_iter().collect();
        let expected: KernelDrops = [(place("a"), 2), (place("c"), 2)].into_iter().collect();
        assert_eq!((after.since(Some(&before)), after.since(None)), (expected, after.clone()));
    }
}
