//! The priority of kpps' session: the kernel's `/proc/self/autogroup` (sched(7)) is the truth.

use crate::net::Net;
use kpps_namespaces::skip;

/// Runs a script in a session of its own, where each job has a process group, and returns its output. There
/// is a busy program for each CPU: none is idle.
fn in_a_session(net: &Net, script: &str) -> String {
    let kpps = assert_cmd::cargo::cargo_bin("kpps");
    let all = format!(
        "set -m
         busy=; for _ in $(seq $(nproc)); do command nice -n 19 sh -c 'while :; do :; done' & busy=\"$busy $!\"; done
         trap 'kill -9 $busy' EXIT
         nice() {{ sed 's/.* //' /proc/self/autogroup; }}
         await() {{ for _ in $(seq 3000); do test $(nice) = $1 && return; sleep 0.1; done; echo \"not $1: $(nice)\"; }}
         trial='{} trial --ports packet:a,packet:b --load 1kpps --duration'
         {script}",
        kpps.to_str().unwrap()
    );
    let output = net.command(&["setsid", "--wait", "bash", "-c", &all]).output().unwrap();
    String::from_utf8(output.stdout).unwrap()
}

fn net() -> Option<Net> {
    let net = Net::bridge()?;
    match std::fs::read_to_string("/proc/self/autogroup") {
        Ok(_) => Some(net),
        Err(_) => {
            skip::lacks("priorities of sessions");
            None
        }
    }
}

/// However kpps ends, its session has the priority that it had before.
#[test]
fn a_killed_sender_leaves_no_priority_behind() {
    let Some(net) = net() else { return };
    for (before, end) in [(0, "kill -9 $!"), (5, "kill -9 -$!"), (0, "kill $!"), (0, "kill -INT $!")] {
        let said = in_a_session(
            &net,
            &format!(
                "echo {before} > /proc/self/autogroup
                 $trial 900s > /dev/null 2>&1 & await -20; {end}; await {before}; echo so"
            ),
        );
        assert_eq!(said, "so\n", "{end}");
    }
}

/// Two testers in a session: the priority is put back when the first one has ended.
#[test]
fn a_session_that_stays_raised_is_said() {
    let Some(net) = net() else { return };
    let said = in_a_session(&net, "echo -20 > /proc/self/autogroup; $trial 50ms 2>&1 > /dev/null; nice");
    assert!(said.contains("`echo 0 > /proc/$$/autogroup` ends that") && said.ends_with("-20\n"), "{said}");
    // Not while another one puts it back.
    let said = in_a_session(
        &net,
        "$trial 900s > /dev/null 2>&1 & await -20; $trial 50ms 2>&1 > /dev/null; kill $!; await 0; echo so",
    );
    assert!(!said.contains("autogroup") && said.ends_with("so\n"), "{said}");
}

/// A user can do without.
#[test]
fn a_session_keeps_its_priority_if_asked_to() {
    let Some(net) = net() else { return };
    let said = in_a_session(
        &net,
        "$trial 2s --priority no > /dev/null 2>&1 &
         while kill -0 $! 2> /dev/null; do nice; sleep 0.05; done | sort -u; wait $!; echo $?",
    );
    // The trial took place, on a machine that may have been too busy for it.
    assert!(matches!(&*said, "0\n0\n" | "0\n3\n"), "{said}");
}
