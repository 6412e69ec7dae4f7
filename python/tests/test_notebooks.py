"""The notebooks of the guide run. They are scripts with cells, as jupytext and editors open them."""

import os
import pathlib
import subprocess
import sys

import kpps
import pytest

FOLDER = pathlib.Path(__file__).parents[2] / "docs" / "notebooks"
TAKES = {"campaign": "distributed", "livelock": "pandas", "study": "pandas"}


@pytest.mark.parametrize("path", sorted(FOLDER.glob("*.py")), ids=lambda path: path.stem)
def test_a_notebook_runs(path, tmp_path):
    pytest.importorskip("matplotlib")
    pytest.importorskip(TAKES.get(path.stem, "matplotlib"))
    env = {**os.environ, "MPLBACKEND": "Agg", "PYTHONPATH": os.path.dirname(os.path.dirname(kpps.__file__))}
    done = subprocess.run([sys.executable, path], cwd=tmp_path, env=env, capture_output=True, text=True)
    if "PermissionError: skipped" in done.stderr:
        pytest.skip("a notebook takes root")
    assert done.returncode == 0, done.stdout + done.stderr


def test_there_are_notebooks():
    assert len(list(FOLDER.glob("*.py"))) >= 4
