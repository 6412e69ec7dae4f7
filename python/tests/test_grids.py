"""Grids on engines: the same bytes as the command, and no cell lost whoever is killed."""

import os
import signal
import subprocess
import sys
import time
from concurrent.futures import Future, ThreadPoolExecutor

import kpps
import pytest
from kpps import grids

pyarrow = pytest.importorskip("pyarrow")
# Workers import this package, and nothing of the test.
os.environ["PYTHONPATH"] = os.path.dirname(os.path.dirname(kpps.__file__))


class Here:
    """An executor that measures at once. It fails as `fails` says, given the cells."""

    _max_workers = 2

    def __init__(self, fails=lambda cells: None):
        self.fails, self.chunks = fails, []

    def submit(self, task, cells):
        future = Future()
        self.chunks.append(cells)
        error = self.fails(cells)
        if error is not None:
            future.set_exception(error)
        else:
            future.set_result(task(cells))
        return future


@pytest.fixture(scope="module")
def processes():
    """Two processes. Starting them takes longer than all that they do here."""
    import concurrent.futures
    import multiprocessing

    with concurrent.futures.ProcessPoolExecutor(2, multiprocessing.get_context("forkserver")) as executor:
        yield executor


def test_an_engine_has_the_bytes_of_the_command(small, command, processes):
    words = ["grid", "--driver", "intel-5.7.6", "--duration", "2ms", "--size", "64"]
    words += ["--vary", "driver.rx_ring=64,12,256", "--vary", "load=10%..100%/30%", "--json"]
    wanted = command(*words)
    assert kpps.grid(**small).to_json() == wanted
    for executor in (processes, Here(), ThreadPoolExecutor(2)):
        assert kpps.grid(**small, executor=executor).to_json() == wanted


def test_dask_has_the_same_bytes(small):
    distributed = pytest.importorskip("distributed")
    with distributed.Client(n_workers=2, threads_per_worker=1, dashboard_address=None, processes=True) as client:
        assert kpps.grid(**small, executor=grids.Dask(client)).to_json() == kpps.grid(**small).to_json()


def test_a_scheduler_that_goes_ends_the_call_and_the_same_call_resumes(small, tmp_path):
    dask, distributed = pytest.importorskip("dask"), pytest.importorskip("distributed")
    address = tmp_path / "scheduler.json"

    def start(kind, *more):
        words = [sys.executable, "-m", "distributed.cli.dask_" + kind, "--scheduler-file", str(address), "--no-dashboard"]
        return subprocess.Popen([*words, *more], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    many = {**small, "vary": {**small["vary"], "load": "1%..100%/4%"}}
    scheduler = start("scheduler", "--port", "0", "--host", "127.0.0.1")
    worker = start("worker", "--nthreads", "1")
    try:
        with dask.config.set({"distributed.comm.timeouts.connect": "1s"}):
            while not address.exists():
                time.sleep(0.05)
            client = distributed.Client(scheduler_file=str(address))
            client.wait_for_workers(1)

            def progress(done, of, doing):
                if done >= 2:
                    scheduler.kill()

            with pytest.raises(kpps.Error, match="Dask's scheduler has gone") as raised:
                kpps.grid(
                    **many, executor=grids.Dask(client), progress=progress, resume=tmp_path / "kept.jsonl", chunk_s=0.01
                )
        total = len(kpps.grid(**many).cells)
        assert 2 <= len(raised.value.result.cells) < total
        again = Here()
        resumed = kpps.grid(**many, executor=again, resume=tmp_path / "kept.jsonl")
        assert resumed.to_json() == kpps.grid(**many).to_json()
        assert len(sum(again.chunks, [])) <= total - 2, "what is kept is not measured again"
    finally:
        for process in (scheduler, worker):
            process.kill()
            process.wait()


def test_jobs_of_submitit_have_the_same_bytes(small, tmp_path):
    submitit = pytest.importorskip("submitit")
    few = {**small, "vary": {"load": "10%..100%/45%"}}
    grid = kpps.grid(**few, executor=submitit.LocalExecutor(folder=tmp_path), workers=2)
    assert grid.to_json() == kpps.grid(**few).to_json()


def test_a_lost_machine_of_a_campaign_is_told_and_tried_again(monkeypatch, tmp_path):
    from kpps.campaigns import beyond

    def row(seed, ids):
        value = {} if seed == 3 else {"W1.held": float(seed)}
        return {"cell": f"{version} {seed}", "seed": seed, "problem": None, "missed": "", **value}

    version = kpps.study("beyond", claim=["W1"], seeds="1..1").kpps_version
    monkeypatch.setattr(beyond, "row", row)
    lost = Here(lambda seeds: RuntimeError("killed") if 2 in seeds else None)
    table = beyond.campaign(4, lost, tmp_path, first=1).to_pylist()
    assert [it["problem"] is not None for it in table] == [False, True, False, False]
    assert [it["W1.held"] for it in table] == [1.0, None, None, 4.0]
    again = Here()
    table = beyond.campaign(4, again, tmp_path, first=1).to_pylist()
    assert again.chunks == [[2]] and table[1]["W1.held"] == 2.0


def test_a_store_takes_one_grid(small, tmp_path):
    kpps.grid(**small, executor=Here(), store=tmp_path)
    before = rows_of(tmp_path)
    other = {**small, "vary": {"driver.rx_ring": [64], "load": ["imix"]}}
    with pytest.raises(kpps.Error):
        kpps.grid(**other, executor=Here(), store=tmp_path)
    assert rows_of(tmp_path) == before


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        ({"workers": -1}, "workers= is -1: give a number above 0"),
        ({"workers": "2"}, "workers= is '2'"),
        ({"chunk_s": float("nan")}, "chunk_s= is nan"),
        ({"executor": lambda: None}, "executor= is a function that returned None"),
        ({"executor": 3}, "executor= takes"),
        ({"executor": "nosuch"}, "there is no engine called nosuch"),
        ({"store": 3}, "store=3 cannot be used"),
        ({"store": "nosuch://x"}, "store='nosuch://x' cannot be used"),
        ({"store": __file__}, "cannot be used"),
        ({"progress": 3}, "progress= is 3"),
        ({"stor": "x"}, "store="),
        ({"duration": 10**400}, "duration= cannot be read"),
        ({"duration": "\ud800"}, "duration= cannot be read"),
    ],
)
def test_what_is_wrong_with_a_call_is_said(small, wrong, says):
    with pytest.raises(kpps.InputError) as raised:
        kpps.grid(**{**small, "executor": Here(), **wrong})
    assert says in str(raised.value) and "\n" not in str(raised.value)


def test_loky_has_the_same_bytes(small):
    loky = pytest.importorskip("loky")
    with loky.get_reusable_executor(max_workers=2) as executor:
        assert kpps.grid(**small, executor=executor).to_json() == kpps.grid(**small).to_json()


def test_a_cell_that_fails_is_a_row_with_its_error(small, tmp_path):
    grid = kpps.grid(**small, executor=Here(), store=tmp_path / "rows")
    problems = {row["problem"] for row in grid.to_arrow().to_pylist() if row["driver.rx_ring"] == 12}
    assert len(problems) == 1 and "rx_ring" in problems.pop() and grid.complete
    stored = grids.Store(tmp_path / "rows").read()
    assert len(stored) == 12 and sum(row["problem"] is not None for row in stored.to_pylist()) == 4


def test_chunks_are_of_about_a_second(small):
    small["vary"] = {"load": "1%..100%/1%"}
    executor = Here()
    kpps.grid(**small, executor=executor, workers=1)
    assert sorted(sum(executor.chunks, [])) == list(range(100))
    assert len(executor.chunks) < 50, "cells of milliseconds go together"


def rows_of(folder):
    """The rows of a store, as bytes."""
    table = grids.Store(folder).read()
    sink = pyarrow.BufferOutputStream()
    with pyarrow.ipc.new_stream(sink, table.schema) as stream:
        stream.write_table(table.combine_chunks())
    return sink.getvalue().to_pybytes()


def test_an_interrupted_campaign_ends_with_the_same_rows(small, tmp_path):
    whole, parts = tmp_path / "whole", tmp_path / "parts"
    kpps.grid(**small, executor=Here(), store=whole)

    class Broken(Here):
        def submit(self, *values):
            if len(self.chunks) > 4:
                raise OSError("the scheduler has gone")
            return super().submit(*values)

    broken = Broken()
    with pytest.raises(kpps.Error, match="the scheduler has gone") as raised:
        kpps.grid(**small, executor=broken, store=parts, resume=tmp_path / "kept.jsonl")
    assert 0 < len(raised.value.result.cells) < 12
    again = Here()
    resumed = kpps.grid(**small, executor=again, store=parts, resume=tmp_path / "kept.jsonl")
    assert resumed.to_json() == kpps.grid(**small).to_json()
    assert rows_of(parts) == rows_of(whole)
    assert len(sum(again.chunks, [])) < 12, "what is kept is not measured again"
    # The rows alone are enough to resume.
    nothing = Here()
    assert kpps.grid(**small, executor=nothing, store=whole).to_json() == resumed.to_json()
    assert nothing.chunks == [] and rows_of(parts) == rows_of(whole)


def test_a_lost_worker_loses_no_cell(small):
    def fails(cells):
        first = not any(cells == chunk for chunk in lost.chunks[:-1])
        return RuntimeError("killed") if first else None

    lost = Here(fails)
    assert kpps.grid(**small, executor=lost).to_json() == kpps.grid(**small).to_json()


def test_a_cell_that_kills_its_workers_is_a_row_with_that_error(small):
    grid = kpps.grid(**small, executor=Here(lambda cells: RuntimeError("killed") if 2 in cells else None))
    problems = [cell.problem for cell in grid.cells if cell.get("problem") and cell.at[0] != 1]
    assert problems == ["its worker was lost 3 times: RuntimeError: killed"] and grid.complete


def test_a_killed_process_is_replaced(small):
    """SIGKILL of a worker in the middle of a campaign."""
    made = []

    def make():
        made.append(grids.processes())
        return made[-1]

    def kill(done, of, doing):
        if done >= 2 and not killed and made[0]._processes:
            os.kill(next(iter(made[0]._processes)), signal.SIGKILL)
            killed.append(1)

    killed = []
    grid = kpps.grid(**small, executor=make, workers=2, chunk_s=0.001, progress=kill)
    assert grid.to_json() == kpps.grid(**small).to_json()
    assert not killed or len(made) > 1


def test_a_killed_driver_resumes(small, tmp_path):
    program = f"""
import kpps, os, signal
from concurrent.futures import ThreadPoolExecutor
def progress(done, of, doing):
    if done >= 3: os.kill(os.getpid(), signal.SIGKILL)
kpps.grid(**{small!r}, executor=ThreadPoolExecutor(1), chunk_s=0.001, resume={str(tmp_path / "kept.jsonl")!r}, progress=progress)
"""
    killed = subprocess.run([sys.executable, "-c", program])
    again = Here()
    resumed = kpps.grid(**small, executor=again, resume=tmp_path / "kept.jsonl")
    assert resumed.to_json() == kpps.grid(**small).to_json()
    if killed.returncode == -signal.SIGKILL:
        assert len(sum(again.chunks, [])) < 12


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="takes /dev/full")
def test_a_full_disk_is_told_and_loses_no_result(small, tmp_path, monkeypatch):
    def full(*values, **named):
        raise OSError(28, "No space left on device")

    from pyarrow import parquet

    monkeypatch.setattr(parquet, "write_table", full)
    with pytest.raises(kpps.Error, match="No space left") as raised:
        kpps.grid(**small, executor=Here(), store=tmp_path / "rows")
    assert len(raised.value.result.cells) == 12
    monkeypatch.undo()
    kpps.grid(**small, executor=Here(), store=tmp_path / "rows")
    assert len(grids.Store(tmp_path / "rows").read()) == 12


def test_a_store_may_be_a_url(small):
    url = f"memory://campaign-{time.monotonic_ns()}"
    kpps.grid(**small, executor=Here(), store=url)
    assert len(grids.Store(url).read()) == 12


def test_shards_of_the_command_are_merged(small, command, tmp_path):
    words = ["grid", "--driver", "intel-5.7.6", "--duration", "2ms", "--size", "64"]
    words += ["--vary", "driver.rx_ring=64,12,256", "--vary", "load=10%..100%/30%"]
    for shard in (1, 2, 3):
        command(*words, "--shard", f"{shard}/3", "--resume", tmp_path / f"{shard}.jsonl")
    said = command("merge", tmp_path / "all.jsonl", *(tmp_path / f"{shard}.jsonl" for shard in (1, 2, 3)))
    assert "8 results, 8 added" in said
    assert "0 added" in kpps.merge(tmp_path / "all.jsonl", tmp_path / "1.jsonl")
    engine = Here()
    grid = kpps.grid(**small, executor=engine, resume=tmp_path / "all.jsonl")
    assert grid.to_json() == command(*words, "--json") and engine.chunks == []


def test_the_command_hands_over_to_the_package(small, command, monkeypatch, tmp_path):
    monkeypatch.setenv("KPPS_PYTHON", sys.executable)
    words = ["grid", "--driver", "intel-5.7.6", "--duration", "2ms", "--size", "64", "--vary", "driver.rx_ring=64,12,256"]
    words += ["--vary", "load=10%..100%/30%", "--json"]
    assert command(*words, "--on", "processes") == command(*words)
    assert "no engine called cloud" in command(*words, "--on", "cloud", fails=True)[1]
    monkeypatch.setenv("KPPS_PYTHON", "/no/such/python")
    assert "cannot be run" in command(*words, "--on", "processes", fails=True)[1]


def test_names_hold_version_profiles_settings_and_seed(small):
    def names(**more):
        more = {"duration": "2ms", **more}
        words = ["kpps", "grid", "--vary=load=50%", *(f"--{name}={value}" for name, value in more.items())]
        return pyarrow.table(kpps._kpps.cells(words, [0])).to_pylist()[0]["cell"]

    all_names = [names(), names(seed=2), names(set="driver.rx_ring=80"), names(machine="rdr2007"), names(duration="3ms")]
    assert len(set(all_names)) == 5 and names() == all_names[0]
