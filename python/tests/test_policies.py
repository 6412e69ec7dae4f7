"""Service policies as Python classes."""

import signal
import subprocess
import sys
import threading

import kpps
import pytest

SHORT = {"load": "300kpps", "duration": "2ms"}


class Napi(kpps.Policy):
    """Polls until a poll is not full."""

    budget = 16
    made = []

    def __init__(self):
        self.interrupts, self.polls = 0, 0
        self.made.append(self)

    def on_interrupt(self, now_us):
        self.interrupts += 1
        return True

    def on_poll(self, received, reclaimed, now_us):
        assert 0 <= received <= self.budget
        self.polls += 1
        return 0 if received == self.budget else None


class Seldom(Napi):
    """Polls each 50 us."""

    budget = 64

    def on_poll(self, received, reclaimed, now_us):
        return 50 if received else None


def test_a_policy_is_a_driver_beside_others():
    Napi.made.clear()
    curve = kpps.curve(driver=[Napi, Seldom, "intel-5.7.6"], **SHORT)
    own, seldom, other = [series.points[0] for series in curve.series]
    assert [series.name for series in curve.series] == ["Napi", "Seldom", "intel-5.7.6"]
    assert own.loss_ratio == 0 and seldom.loss_ratio == 0
    # A poll for 50 us finds 15 frames, and masks interrupts meanwhile.
    assert seldom.interrupts_per_s < own.interrupts_per_s / 4
    assert Napi.made and any(policy.polls >= policy.interrupts > 0 for policy in Napi.made)


def test_the_same_policy_has_the_same_result():
    assert kpps.curve(driver=Napi, **SHORT).to_json() == kpps.curve(driver=Napi, **SHORT).to_json()


def test_a_class_does_not_replace_a_preset():
    with pytest.raises(kpps.InputError, match="kpps is the name of a driver preset: rename the class"):
        kpps.curve(driver=type("kpps", (kpps.Policy,), {}), **SHORT)


def test_a_policy_that_never_polls_loses_everything():
    class Deaf(kpps.Policy):
        def on_interrupt(self, now_us):
            return False

    point = kpps.curve(driver=Deaf, **SHORT).series[0].points[0]
    assert point.delivered_pps == 0 and point.loss_ratio == 1


@pytest.mark.parametrize(
    "wrong, line",
    [
        ({"on_poll": lambda self, *_: 1 / 0}, "ZeroDivisionError: division by zero"),
        ({"on_poll": lambda self, *_: "later"}, "on_poll returned 'later': give None for interrupts"),
        ({"on_poll": lambda self, *_: float("nan")}, "on_poll returned nan"),
        ({"__init__": lambda self: 1 / 0}, "ZeroDivisionError"),
        ({"budget": 0}, "Wrong.budget is 0: give a number of frames"),
        ({"base": "nosuch"}, "no driver preset called 'nosuch'"),
    ],
)
def test_an_error_of_a_policy_is_one_line(wrong, line):
    with pytest.raises(kpps.Error) as raised:
        kpps.curve(driver=type("Wrong", (kpps.Policy,), wrong), **SHORT)
    assert line in str(raised.value) and "\n" not in str(raised.value)


GAP_US = 50


def gap_us():
    return GAP_US


class Spaced(Napi):
    """Polls at the distance that a function of this module returns."""

    def on_poll(self, received, reclaimed, now_us):
        return gap_us() if received else None


def key(policy):
    """The key of the results of a policy."""
    from kpps.policies import _texts

    return list(_texts(policy, set()))


def test_kept_results_are_of_a_policy_with_all_that_it_uses(tmp_path, monkeypatch):
    def measured():
        kpps.grid(vary={"load": ["100kpps"]}, driver=Spaced, duration="2ms", resume=tmp_path / "kept")
        # The journal's first line is no result.
        return len((tmp_path / "kept").read_text().splitlines()) - 1

    assert measured() == 1
    assert measured() == 1, "nothing is measured again"
    monkeypatch.setitem(globals(), "GAP_US", 100)
    assert measured() == 2, "a constant that a function of the policy uses"
    monkeypatch.setattr(Napi, "on_interrupt", lambda self, now_us: False)
    assert measured() == 3, "a method of its base"


def test_whatever_changes_what_a_policy_does_changes_its_key(monkeypatch, tmp_path):
    (tmp_path / "distances.py").write_text("def gap():\n    return 50\n")
    monkeypatch.syspath_prepend(tmp_path)
    import distances

    def made(constant, default):
        class Made(kpps.Policy):
            gap = constant

            def by_default(self, gap=default):
                return gap

            def within(self):
                return [GAP_US for _ in range(2)], lambda: GAP_US, constant

            @property
            def distance(self):
                return GAP_US

            def of_module(self):
                return distances.gap()

        return Made

    first = key(made(1, 2))
    assert first == key(made(1, 2)), "the same each time"
    assert first != key(made(3, 2)), "a value of the class, and of a closure"
    assert first != key(made(1, 3)), "a default"
    monkeypatch.setitem(globals(), "GAP_US", 7)
    assert first != key(made(1, 2)), "a global in a comprehension, a lambda and a property"
    monkeypatch.undo()
    (tmp_path / "distances.py").write_text("def gap():\n    return 500\n")
    import linecache

    linecache.checkcache()
    assert first != key(made(1, 2)), "a module of one's own"


def test_a_policy_cannot_call_kpps():
    class Caller(Napi):
        def on_poll(self, received, reclaimed, now_us):
            kpps.curve(driver=Caller, load="100kpps", duration="1ms")

    class AtFirst(Napi):
        def __init__(self):
            kpps.profiles()

    for policy in (Caller, AtFirst):
        with pytest.raises(kpps.Error, match="a policy cannot call kpps: the simulator waits for its answer"):
            kpps.curve(driver=policy, load="100kpps", duration="1ms")


@pytest.mark.parametrize("where", ["on_poll", "on_interrupt", "__init__"])
@pytest.mark.parametrize("what", ["while True: pass", "import time; time.sleep(3600)"])
def test_ctrl_c_ends_a_run_whose_policy_does_not(where, what):
    program = f"""
import kpps, sys
class Endless(kpps.Policy):
    def {where}(self, *_):
        print("in the policy", flush=True)
        {what}
try:
    kpps.curve(driver=Endless, load="100kpps", duration="1ms")
except kpps.Interrupted as error:
    print("interrupted", flush=True)
    # A thread that sleeps would be waited for.
    import os; os._exit(0)
"""
    child = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True)
    # If it does not end, its output does.
    patience = threading.Timer(300, child.kill)
    patience.start()
    try:
        assert child.stdout.readline() == "in the policy\n"
        child.send_signal(signal.SIGINT)
        assert child.stdout.readline() == "interrupted\n"
        assert child.wait(300) == 0
    finally:
        patience.cancel()
        child.kill()
