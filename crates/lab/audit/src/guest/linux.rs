//! Linux's driver under the same stimuli, on the same model of the card: counts to compare with.

use super::card::{self, LOOK};
use super::steps::{Steps, Stimulus};
use crate::cards::{Cable, Cards};
use crate::responder::Handle;
use crate::serve::Server;
use kpps_documents::guest_audit::Work;
use kpps_host::bus;
use kpps_qemu::lab::{Cache, Error, Guest, Kernel, Machine, Model, Options, Result, Userland, newer};
use std::net::Ipv4Addr;
use std::time::{Duration, Instant};

/// The lab's kernel.
const KERNEL: &str = "linux-6.1";
/// How long the stimuli may take together.
const AT_MOST: Duration = Duration::from_secs(120);

/// Linux's driver under the stimuli.
pub(super) struct Measured {
    /// The kernel's version.
    pub(super) kernel: String,
    /// The stimuli that Linux was given, and reached.
    pub(super) stimuli: Vec<Stimulus>,
    /// The driver's work to the end of the stimuli.
    pub(super) work: Work,
}

/// Whether the lab's Linux responds to this stimulus by itself, without a server or a client.
const fn is_of_kernel(stimulus: Stimulus) -> bool {
    matches!(
        stimulus,
        Stimulus::Link
            | Stimulus::Arp
            | Stimulus::Ping
            | Stimulus::Flood
            | Stimulus::Overrun
            | Stimulus::LinkFlap
    )
}

/// Boots Linux with the model, gives it those of the stimuli that a kernel responds to, and counts.
///
/// # Errors
/// Kernel or QEMU cannot be fetched, the guest does not boot or does not reach a stimulus, or `go_on` returns
/// false.
pub(super) fn measure(
    params: (&kpps_card::Params, &bus::Params),
    (mac, address): ([u8; 6], Ipv4Addr),
    stimuli: &[Stimulus],
    responder: &Handle,
    go_on: &dyn Fn() -> bool,
) -> Result<Measured> {
    let cache = Cache::open()?;
    let kernel = Kernel::get(&cache, KERNEL)?;
    let userland = Userland::get(&cache)?;
    let mut cards = Cards::new(params.0, params.1, &[(Cable::Open, mac)]);
    cards.attach(0, Box::new(responder.clone()));
    let server = Server::start(cards)?;
    let mut card = card::Model::new(&server);
    let mut options = Options::new(Machine::Plain, Vec::new());
    options.qemu = Some(newer::get(&cache)?);
    options.served = server.sockets();
    let mut guest = Guest::boot(&options, &kernel, &userland, false, None)?;
    let driver = if params.0.chip.is_pci_express() { Model::E1000e } else { Model::E1000 };
    guest.load(driver.module(), "")?;
    guest.run(&format!("ip addr add {address}/24 dev eth0 && ip link set eth0 up"))?;
    let stimuli: Vec<_> = stimuli.iter().copied().filter(|it| is_of_kernel(*it)).collect();
    let mut steps = Steps::new(&stimuli, &[], |_| false);
    let since = Instant::now();
    while !steps.are_over(responder) {
        let (now_ps, state) = card.look();
        if let Some(act) = steps.advance(now_ps, state, responder) {
            card.perform(act);
        }
        if !go_on() {
            return Err(Error::Interrupted);
        }
        if since.elapsed() > AT_MOST {
            let waiting_for =
                format!("Linux's driver to reach {}", steps.awaits(responder).unwrap_or("link"));
            return Err(Error::Silent { seconds: AT_MOST.as_secs(), waiting_for, tail: String::new() });
        }
        std::thread::sleep(LOOK);
    }
    let work = card.work();
    // The guest must end before what serves its card.
    drop(guest);
    // "linux-image-6.1.0-56-amd64 6.1.192-2".
    let kernel = kernel.version.rsplit(' ').next().unwrap_or_default().to_owned();
    Ok(Measured { kernel, stimuli, work })
}
