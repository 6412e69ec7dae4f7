"""Packages of the extras that are missing: one line names the extra."""

import pathlib
import subprocess
import sys
import tomllib

import kpps
import pytest

# A name whose module is None cannot be imported: as if the package were not installed.
WITHOUT = """
import sys
import tomllib
sys.modules[{package!r}] = None
import kpps
try:
    {call}
except kpps.MissingPackage as error:
    assert isinstance(error, ImportError) and isinstance(error, kpps.InputError)
    print(error)
"""

@pytest.mark.parametrize(
    ("package", "extra", "call"),
    [
        ("pyarrow", "grid", "kpps.grid(vary=['machine.nic=genesis'], executor='dask')"),
        ("pyarrow", "grid", "kpps.grid(vary=['machine.nic=genesis'], store='/tmp/kpps-none')"),
        ("fsspec", "grid", "kpps.grid(vary=['machine.nic=genesis'], store='/tmp/kpps-none')"),
        ("distributed", "dask", "kpps.grid(vary=['machine.nic=genesis'], executor='dask')"),
        ("SALib", "sensitivity", "kpps.sensitivity('morris2000')"),
    ],
)
def test_a_missing_package_is_named_with_the_extra_that_installs_it(package, extra, call):
    if package != "pyarrow" and call.startswith("kpps.grid"):
        pytest.importorskip("pyarrow")
    done = subprocess.run([sys.executable, "-c", WITHOUT.format(package=package, call=call)], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("\n") == 1 and f"'kpps[{extra}]'" in done.stdout and package in done.stdout, done.stdout


def test_all_installs_are_of_extras_that_exist():
    project = tomllib.loads((pathlib.Path(__file__).parents[1] / "pyproject.toml").read_text())["project"]
    known = set(project["optional-dependencies"])
    assert {"grid", "dask", "notebook", "sensitivity"} <= known, known
