//! Unmodified drivers on our model, in guests. They need Debian's mirror once, and are part of `make lab`.
#![allow(clippy::unwrap_used)]

use kpps_audit::Plan;
use kpps_qemu::lab::load::Rate;
use kpps_qemu::lab::workload::{Driver, Settings, Work};
use kpps_report::audit::screen;
use std::time::Duration;

fn plan(drivers: &[Driver], works: &[Work]) -> Plan {
    Plan {
        kernel: "linux-6.1".into(),
        driver_module: None,
        chip: "82540em".into(),
        bus: "pci-32-33".into(),
        drivers: drivers.into(),
        works: works.into(),
        rate: Rate::Pps(1000.0),
        duration: Duration::from_secs(2),
        count: None,
        settings: Settings::default(),
        kpps: std::env::var_os("KPPS_LAB_BINARY").map(Into::into).unwrap_or_default(),
    }
}

#[test]
#[ignore = "a guest for a minute: `make lab`"]
fn linux_on_our_model() {
    let audit =
        plan(&[Driver::Linux], &[Work::Transmit, Work::Receive, Work::Bridge]).run(&(), || true).unwrap();
    println!("{}", screen(&audit));
    assert_eq!(audit.failures, [""; 0]);
    assert_eq!(audit.rows.len(), 3);
    for row in &audit.rows {
        assert!(row.frames > 100, "{row:?}");
    }
    let bridge = &audit.rows[2];
    assert_eq!((bridge.lost, bridge.changed), (Some(0), Some(0)));
}
