//! The headings of options in the help. Each option names its own; options without one are those of the
//! command alone, and stand first.

/// The system under test: ports, a guest, a known rate.
pub const TESTBED: &str = "Testbed";
/// An operating system of the user as a guest.
pub const FOREIGN_GUEST: &str = "Foreign guest";
/// The simulated machine.
pub const MACHINE: &str = "Machine";
/// The offered load.
pub const LOAD: &str = "Load";
/// The frames of the load.
pub const TRAFFIC: &str = "Traffic";
/// Captures as the load.
pub const REPLAY: &str = "Replay";
/// The loads that are tried, and when a search ends.
pub const SEARCH: &str = "Search";
/// Durations.
pub const TIME: &str = "Time";
/// Knowledge of the device under test, and control of it.
pub const DEVICE_UNDER_TEST: &str = "Device under test";
/// Destinations of results.
pub const RESULTS: &str = "Results";
/// Bounds of results.
pub const BOUNDS: &str = "Bounds";
/// Service of cards, and CPUs.
pub const CARDS_AND_CPUS: &str = "Cards and CPUs";
/// Ports of other hosts.
pub const AGENTS: &str = "Agents";
/// Progress of a run.
pub const VIEW: &str = "View";

/// All headings in the order of a command's help.
pub const ORDER: [&str; 14] = [
    TESTBED,
    FOREIGN_GUEST,
    MACHINE,
    LOAD,
    TRAFFIC,
    REPLAY,
    SEARCH,
    TIME,
    DEVICE_UNDER_TEST,
    RESULTS,
    BOUNDS,
    CARDS_AND_CPUS,
    AGENTS,
    VIEW,
];
