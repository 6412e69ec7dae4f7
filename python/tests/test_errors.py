"""Bad input is an error with one line, never a panic, and interruptions keep what was measured."""

import json
import os
import signal
import subprocess
import sys
import threading
import time

import kpps
import pytest


@pytest.mark.parametrize(
    "call, says",
    [
        (lambda: kpps.curve(laod="50%"), "near it are load="),
        (lambda: kpps.curve(load="fast"), "'fast' is not a load"),
        (lambda: kpps.curve(load=float("nan")), "load= is nan: give a finite number"),
        (lambda: kpps.curve(load=float("-inf")), "give a finite number"),
        (lambda: kpps.curve(load=-5), "'-5' is not a load"),
        (lambda: kpps.curve(machine="vax"), "there is no machine called 'vax'"),
        (lambda: kpps.curve(machine=b"vax"), "machine= cannot be of type bytes"),
        (lambda: kpps.curve(driver=object()), "driver= cannot be of type object"),
        (lambda: kpps.curve(machine=["a", "b"]), "no machine called 'a,b'"),
        (lambda: kpps.ndr(bisection="yes"), "bisection= is a switch"),
        (lambda: kpps.curve("kpps"), "takes none by position"),
        (lambda: kpps.curve(load="100%", duration="0s"), "duration="),
        (lambda: kpps.trial(ports=("packet:no-such-port", "packet:b"), load="1kpps"), "no-such-port"),
        (lambda: kpps.trial(ports=("packet:a",), load="1kpps"), "two ports"),
        (lambda: kpps.trial(), "load="),
        (lambda: kpps.study("nobody1999"), "there is no study called"),
        (lambda: kpps.grid(vary={}), "vary="),
        (lambda: kpps.grid(vary={"driver.rx_ring": []}), "vary= has no value for driver.rx_ring"),
        (lambda: kpps.grid(vary={"driver.nothing": [1]}), "nothing"),
        (lambda: kpps.grid(vary={"load": ["50%"]}, executor=3), "executor="),
        (lambda: kpps.grid(vary={"load": ["50%"]}, executor="cloud"), "there is no engine called cloud"),
        (lambda: kpps.grid(vary={"load": ["50%"]}, testbed="known:1kpps", executor="processes"), "only a grid of the simulator"),
        (lambda: kpps.compare("/no/such/file", "/no/such/file"), "/no/such/file"),
        (lambda: kpps.curve(machine="a\0b"), "a"),
        (lambda: kpps.curve(seed=-1), "a seed is a whole number from 0 to 18446744073709551615"),
        (lambda: kpps.curve(seed=2**64), "a seed is a whole number from 0 to 18446744073709551615"),
        (lambda: kpps.compare([], []), "compare() got a side without results"),
        (lambda: kpps.curve(results="/no/such/folder/x.json"), "/no/such/folder"),
    ],
)
def test_bad_input_is_an_input_error_of_one_line(call, says):
    with pytest.raises(kpps.InputError) as raised:
        call()
    line = str(raised.value)
    assert says in line and "\n" not in line and "--" not in line, line
    assert isinstance(raised.value, ValueError) and raised.value.result is None


def test_lines_are_the_commands_own(command):
    code, line = command("curve", "--machine", "vax", fails=True)
    with pytest.raises(kpps.InputError) as raised:
        kpps.curve(machine="vax")
    assert (code, line) == (2, str(raised.value))


def test_whole_numbers_are_exact():
    curve = kpps.curve(driver="kpps", load="50%", duration="1ms", seed=2**63 + 1)
    assert curve.environment.seed == 2**63 + 1


def test_a_bound_that_is_broken_carries_the_result():
    with pytest.raises(kpps.CheckFailed) as raised:
        kpps.trial(testbed="known:10kpps", load="20kpps", duration="1s", max_loss="1%")
    assert raised.value.result.loss_ratio == 0.5


def test_ctrl_c_keeps_what_was_measured(tmp_path):
    program = """
import json, kpps, signal, sys
# A background job of a shell ignores Ctrl-C.
signal.signal(signal.SIGINT, signal.default_int_handler)
def progress(done, of, doing):
    if done >= 2: print("ready", flush=True)
try:
    # It would take minutes, so the signal comes before its end on a busy machine, too.
    kpps.curve(driver="kpps", load="100kpps..1400kpps/1kpps", duration="200ms", progress=progress)
except kpps.Interrupted as error:
    assert isinstance(error, KeyboardInterrupt) and isinstance(error, kpps.Error)
    print(json.dumps([str(error), len(error.result.series[0].points), error.result.complete]))
print(kpps.trial(load="50%", duration="1ms").kind)
"""
    python = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True)
    assert python.stdout.readline() == "ready\n"
    python.send_signal(signal.SIGINT)
    out, _ = python.communicate(timeout=120)
    told = [json.loads(line) for line in out.splitlines() if line.startswith("[")]
    assert len(told) == 1, out
    line, points, complete = told[0]
    assert line.startswith("interrupted: ") and points >= 2 and not complete
    assert out.endswith("trial\n"), "the interpreter goes on"


def test_an_error_of_the_progress_ends_the_call():
    begun = time.monotonic()

    def fails(done, of, doing):
        raise LookupError("enough")

    with pytest.raises(LookupError, match="enough"):
        kpps.curve(load="100kpps..1400kpps/1kpps", duration="1s", progress=fails)
    assert time.monotonic() - begun < 120


def test_ctrl_c_in_the_progress_keeps_what_was_measured():
    def interrupted(done, of, doing):
        if done >= 2:
            raise KeyboardInterrupt

    with pytest.raises(kpps.Interrupted, match="interrupted: ") as raised:
        kpps.curve(driver="kpps", load="100kpps..1400kpps/1kpps", duration="50ms", progress=interrupted)
    assert len(raised.value.result.series[0].points) >= 2 and not raised.value.result.complete


def test_progress_ends_with_all_trials():
    seen = []
    kpps.curve(driver="kpps", load="100kpps..300kpps/100kpps", duration="2ms", progress=lambda *it: seen.append(it))
    assert seen[-1][:2] == (3, 3)


def test_other_threads_run_meanwhile():
    counted = []
    stop = threading.Event()

    def count():
        while not stop.is_set():
            counted.append(1)
            time.sleep(0.001)

    other = threading.Thread(target=count)
    other.start()
    before = len(counted)
    kpps.curve(driver="kpps", load="500kpps,1000kpps", duration="1s")
    during = len(counted) - before
    stop.set()
    other.join()
    assert during >= 3, "the interpreter's lock is released"


@pytest.mark.skipif(os.geteuid() != 0, reason="takes root, to give it up")
def test_a_port_without_permission_is_an_input_error():
    program = (
        "import os, kpps\nos.setgid(65534); os.setuid(65534)\n"
        "try: kpps.trial(ports=('packet:lo', 'packet:lo'), load='1kpps')\n"
        "except kpps.InputError as error: print(error)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert "lo" in done.stdout and "\n" == done.stdout[-1] and done.stdout.count("\n") == 1, done
