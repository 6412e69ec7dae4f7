"""The plugin for pytest."""

import pathlib
import subprocess
import sys

import pytest

TEST = """
import kpps
def test_rate(kpps_bench):
    assert kpps_bench.ndr(testbed="known:700kpps") > 690e3
    kpps_bench.keeps("box", lambda: kpps.trial(testbed="known:{rate}", load="900kpps", duration="1s"))
"""


def pytest_run(tmp_path, rate, *options):
    (tmp_path / "test_box.py").write_text(TEST.format(rate=rate))
    words = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "kpps.pytest_plugin", *options, "test_box.py"]
    done = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True)
    return done.returncode, done.stdout + done.stderr


def test_a_baseline_is_stored_and_compared_with(tmp_path):
    code, said = pytest_run(tmp_path, "700kpps")
    assert code == 1 and "make it with --kpps-store" in said
    assert pytest_run(tmp_path, "700kpps", "--kpps-store")[0] == 0
    assert pathlib.Path(tmp_path / "kpps-baseline/box.json").exists()
    code, said = pytest_run(tmp_path, "700kpps")
    assert code == 0, said
    code, said = pytest_run(tmp_path, "600kpps")
    assert code == 1 and "are worse" in said, said


def test_a_search_that_found_no_rate_fails_the_test(monkeypatch):
    import kpps
    from kpps.pytest_plugin import Bench
    from kpps.results import Record

    monkeypatch.setattr(kpps, "ndr", lambda **_: Record({"goals": [{"lower_pps": None}]}))
    with pytest.raises(pytest.fail.Exception, match="found no load without loss"):
        Bench("baseline", stores=False).ndr()
