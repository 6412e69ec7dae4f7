//! The kernel's own driver: pktgen, early drop, routing, bridging.

use super::card::MissedFrames;
use super::{CARDS, Count, LOADED, OPEN, Running, Settings, Work, bind, involved};
use crate::lab::counters::Snapshot;
use crate::lab::options::address;
use crate::lab::{Error, Guest, Model, Result};
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// How long a link may take: the driver checks every two seconds.
const LINK: Duration = Duration::from_secs(15);
/// Frames that pktgen gives to the driver for each doorbell.
const BURST: u32 = 32;

/// Reads the number that follows `words` in `text`.
fn number(text: &str, words: &[&str]) -> Option<u64> {
    let mut rest = text;
    for word in words {
        rest = &rest[rest.find(word)? + word.len()..];
    }
    let digits = rest.trim_start();
    digits[..digits.find(|c: char| !c.is_ascii_digit()).unwrap_or(digits.len())].parse().ok()
}

/// The interface of the `index`-th card.
pub(crate) fn interface(guest: &mut Guest, index: usize) -> Result<String> {
    // A virtio card is a bus with one device.
    let device = format!("/sys/bus/pci/devices/{}", address(index));
    let name = guest
        .run(&format!("for at in {device}/net {device}/virtio*/net; do [ -d $at ] && ls $at; done; :"))?;
    match name.trim() {
        "" => Err(Error::Input(format!("the card {} has no interface", address(index)))),
        name => Ok(name.to_owned()),
    }
}

/// Waits until the link of an interface is up.
pub(crate) fn await_link(guest: &mut Guest, interface: &str) -> Result<()> {
    let since = Instant::now();
    while guest.run(&format!("cat /sys/class/net/{interface}/carrier"))?.trim() != "1" {
        if since.elapsed() > LINK {
            return Err(Error::Silent {
                seconds: LINK.as_secs(),
                waiting_for: format!("the link of {interface}"),
                tail: String::new(),
            });
        }
        guest.wait(Duration::from_millis(20))?;
    }
    Ok(())
}

struct Linux {
    work: Work,
    counter: String,
    /// The commands that undo the setup.
    undo: String,
    /// Frames that found the card's ring full; `None` if it does not count them.
    missed: Option<MissedFrames>,
    stored: Stored,
}

/// Frames that the watched card has stored in memory.
struct Stored {
    /// The command that prints their number behind a word.
    command: String,
    word: &'static str,
    /// The count at the start.
    before: u64,
}

pub(super) fn start(
    guest: &mut Guest,
    model: Model,
    work: Work,
    settings: &Settings,
) -> Result<Box<dyn Running>> {
    if model == Model::VirtioNet {
        // Cards that are not under test, the source of frames among them, stay as they are.
        guest.run("echo 0 > /sys/bus/virtio/drivers_autoprobe")?;
    }
    settings.load_driver(guest, model, CARDS)?;
    for index in involved(work) {
        bind(guest, index, model.pci_driver())?;
        if model == Model::VirtioNet {
            bind_virtio(guest, index)?;
        }
    }
    let watched = if work.is_loaded() { LOADED } else { OPEN };
    let mut names = Vec::new();
    for index in involved(work) {
        let name = interface(guest, index)?;
        guest.run(&format!("ip link set {name} up"))?;
        settings.apply(guest, &name)?;
        names.push(name);
    }
    for name in &names {
        await_link(guest, name)?;
    }
    let first = names.first().cloned().unwrap_or_default();
    let second = names.get(1).cloned().unwrap_or_default();
    let queue = format!("/bin/tc -s qdisc show dev {second}");
    let (setup, counter, undo) = match work {
        Work::Transmit => pktgen(guest, &first)?,
        Work::Receive => {
            for module in ["sch_ingress", "cls_matchall", "act_gact"] {
                guest.load(module, "")?;
            }
            (
                format!(
                    "/bin/tc qdisc add dev {first} clsact && \
                     /bin/tc filter add dev {first} ingress matchall action drop"
                ),
                format!("/bin/tc -s filter show dev {first} ingress"),
                format!("/bin/tc qdisc del dev {first} clsact"),
            )
        }
        Work::Forward => (
            format!(
                "sysctl -w net.ipv4.ip_forward=1 net.ipv4.conf.all.rp_filter=0 && \
                 /bin/ip address add 198.18.255.254/16 dev {first} && \
                 /bin/ip address add 198.19.255.254/16 dev {second} && \
                 /bin/ip neigh add 198.19.0.2 lladdr 02:00:00:00:00:02 dev {second} && \
                 /bin/ip neigh add 198.18.0.1 lladdr 02:00:00:00:00:01 dev {first}"
            ),
            queue,
            format!("/bin/ip address flush dev {first}; /bin/ip address flush dev {second}"),
        ),
        Work::Bridge => {
            guest.load("bridge", "")?;
            (
                format!(
                    "/bin/ip link add lab type bridge forward_delay 0 && /bin/ip link set {first} master lab && \
                     /bin/ip link set {second} master lab && /bin/ip link set lab up"
                ),
                queue,
                "/bin/ip link del lab".to_owned(),
            )
        }
        Work::Loop => return Err(Error::Input("Linux has no loop".into())),
    };
    guest.run(&setup)?;
    let undo = format!("{undo}; for name in {}; do ip link set $name down; done", names.join(" "));
    let missed = model.has_statistics().then(|| MissedFrames::of(guest, watched)).transpose()?;
    let stored = Stored::of(guest, model, &first)?;
    Ok(Box::new(Linux { work, counter, undo, missed, stored }))
}

impl Stored {
    /// Counts from now on. Reading the register of a card of Intel's clears it, and its driver reads it every
    /// two seconds and sums up. The other cards count nothing, but their drivers count the frames that they
    /// take.
    fn of(guest: &mut Guest, model: Model, interface: &str) -> Result<Self> {
        let (command, word) = match model.has_statistics() {
            true => (format!("/bin/ethtool -S {interface}"), " rx_packets:"),
            false => {
                (format!("echo taken: $(cat /sys/class/net/{interface}/statistics/rx_packets)"), "taken:")
            }
        };
        let mut stored = Self { command, word, before: 0 };
        stored.before = stored.now(guest)?;
        Ok(stored)
    }

    /// Frames since then.
    fn now(&self, guest: &mut Guest) -> Result<u64> {
        let answer = guest.run(&self.command)?;
        let sum = number(&answer, &[self.word]);
        let sum = sum.ok_or_else(|| Error::Protocol { what: "the driver's counters".into(), answer })?;
        Ok(sum.saturating_sub(self.before))
    }
}

/// Gives the device of a virtio card to the driver of network cards, if it has none.
fn bind_virtio(guest: &mut Guest, index: usize) -> Result<()> {
    guest.run(&format!(
        "cd /sys/bus/pci/devices/{} && name=$(echo virtio*) && \
         {{ [ -e $name/driver ] || echo $name > /sys/bus/virtio/drivers/virtio_net/bind; }}",
        address(index)
    ))?;
    Ok(())
}

/// The kernel's packet generator, without end: setup, counter, undo.
fn pktgen(guest: &mut Guest, interface: &str) -> Result<(String, String, String)> {
    guest.load("pktgen", "")?;
    let at = "/proc/net/pktgen";
    let options = ["count 0", "pkt_size 60", "delay 0", "clone_skb 1000000", "dst_mac 02:00:00:00:00:02"];
    let options: String =
        options.iter().map(|option| format!("echo {option} > {at}/{interface} && ")).collect();
    let setup = format!(
        "echo rem_device_all > {at}/kpktgend_0; echo add_device {interface} > {at}/kpktgend_0 && {options}\
         echo burst {BURST} > {at}/{interface} && {{ (echo start > {at}/pgctrl) & sleep 0.1; }}"
    );
    Ok((setup, format!("cat {at}/{interface}"), format!("echo stop > {at}/pgctrl; sleep 0.2")))
}

impl Running for Linux {
    fn counter(&self) -> String {
        self.counter.clone()
    }

    fn frames(&self, snapshot: &Snapshot) -> Result<Count> {
        let text = snapshot.text.as_str();
        let frames = match self.work {
            Work::Transmit => number(text, &["pkts-sofar:"]),
            Work::Receive => number(text, &["(dropped"]),
            _ => number(text, &["Sent", "bytes"]),
        };
        let frames = frames
            .ok_or_else(|| Error::Protocol { what: "the kernel's counters".into(), answer: text.into() })?;
        Ok(Count { at_ns: snapshot.at_ns, frames })
    }

    fn drops(&self, guest: &mut Guest) -> Result<BTreeMap<String, u64>> {
        let missed = self.missed.as_ref().map(|missed| missed.now(guest)).transpose()?;
        Ok(missed.map(|missed| ("ring".to_owned(), missed)).into_iter().collect())
    }

    fn stored(&self, guest: &mut Guest) -> Result<u64> {
        self.stored.now(guest)
    }

    fn finish(self: Box<Self>, guest: &mut Guest) -> Result<BTreeMap<String, u64>> {
        let drops = self.drops(guest)?;
        guest.run(&self.undo)?;
        Ok(drops)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_are_found_in_what_the_tools_print() {
        let pktgen = "Params: count 0\nCurrent:\n     pkts-sofar: 805632  errors: 0\n";
        assert_eq!(number(pktgen, &["pkts-sofar:"]), Some(805_632));
        let filter = "filter protocol all pref 49152 matchall chain 0 handle 0x1\n\tAction statistics:\n\
            \tSent 4600 bytes 100 pkt (dropped 99, overlimits 0 requeues 0)\n";
        assert_eq!(number(filter, &["(dropped"]), Some(99));
        let queue =
            "qdisc pfifo_fast 0: root\n Sent 6000 bytes 100 pkt (dropped 0, overlimits 0 requeues 0)\n";
        assert_eq!(number(queue, &["Sent", "bytes"]), Some(100));
        assert_eq!(number("Sent nothing", &["Sent", "bytes"]), None);
    }
}
