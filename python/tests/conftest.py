import json
import os
import subprocess

import pytest

# The command that was built with the module.
COMMAND = os.environ.get("KPPS_COMMAND")


@pytest.fixture
def command():
    """Runs the command in a process of its own: its standard output, or its exit code and its one line."""
    if COMMAND is None:
        pytest.skip("KPPS_COMMAND names the built command")

    def run(*words, fails=False):
        done = subprocess.run([COMMAND, *map(str, words)], capture_output=True, text=True)
        if fails:
            return done.returncode, done.stderr.strip().removeprefix("kpps: ")
        assert done.returncode == 0, done.stderr
        return done.stdout

    return run


# A grid whose cells take milliseconds.
SMALL = {"driver": "intel-5.7.6", "duration": "2ms", "size": 64}


@pytest.fixture
def small():
    return dict(SMALL, vary={"driver.rx_ring": [64, 12, 256], "load": "10%..100%/30%"})


def without_time(text):
    return {name: value for name, value in json.loads(text).items() if name != "provenance"}
