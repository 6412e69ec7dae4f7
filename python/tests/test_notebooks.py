"""The notebooks of the guide run, as jupytext opens them and a kernel of Jupyter runs their cells."""

import os
import pathlib

import kpps
import pytest

FOLDER = pathlib.Path(__file__).parents[2] / "docs" / "notebooks"
TAKES = {"campaign": "distributed", "livelock": "pandas", "study": "pandas"}


@pytest.mark.parametrize("path", sorted(FOLDER.glob("*.py")), ids=lambda path: path.stem)
def test_a_notebook_runs(path, tmp_path, monkeypatch):
    jupytext, nbclient = pytest.importorskip("jupytext"), pytest.importorskip("nbclient")
    pytest.importorskip("matplotlib")
    pytest.importorskip(TAKES.get(path.stem, "matplotlib"))
    monkeypatch.setenv("PYTHONPATH", os.path.dirname(os.path.dirname(kpps.__file__)))
    # Of this Python, whatever else Jupyter knows.
    monkeypatch.setenv("JUPYTER_PREFER_ENV_PATH", "1")
    notebook = jupytext.read(path)
    assert notebook.cells[0].cell_type == "markdown", "a notebook begins with what it shows"
    client = nbclient.NotebookClient(notebook, timeout=600, startup_timeout=600, kernel_name="python3")
    client.resources = {"metadata": {"path": str(tmp_path)}}
    try:
        client.execute()
    except nbclient.exceptions.CellExecutionError as error:
        if "PermissionError: skipped" in str(error):
            pytest.skip("a notebook takes root")
        raise
    outputs = [output for cell in notebook.cells if cell.cell_type == "code" for output in cell.outputs]
    assert outputs, "a notebook shows something"


def test_there_are_notebooks():
    assert len(list(FOLDER.glob("*.py"))) >= 4
