"""Grids on engines that exist: any `concurrent.futures.Executor`.

The command plans the cells, finds those that an earlier run has kept, writes the journal and makes the document.
Here cells are grouped into chunks of about a second, chunks go out, and their rows come back as batches of
Arrow. A cell is named by a hash of all that its result depends on: version, profiles, settings, seed.
"""

from __future__ import annotations

import concurrent.futures
import functools
import os
import tempfile
import time
from collections import deque

from . import _kpps
from .errors import InputError

CHUNK_S = 1.0
# A chunk is given out so often before its cells are given up, one by one.
TRIES = 3
# Options of a grid that are the calling process's alone: workers measure, and write no files.
NOT_OF_WORKERS = ("resume", "results", "csv", "report", "shard")
# Columns that the journal needs of an outcome.
TOLD = ("key", "trial", "problem")


def measure(words: list[str], cells: list[int]):
    """Measures cells of a grid in this process, on this thread. Workers run this. Returns a pyarrow.Table with
    a row for each cell, and how long it took, in s."""
    import pyarrow

    begun = time.perf_counter()
    table = pyarrow.table(_kpps.cells(words, cells))
    return table, time.perf_counter() - begun


class Chunks:
    """Gives items of work to an executor, in chunks of about the same time.

    Args:
        executor: a concurrent.futures.Executor, or a function that makes one, again if its workers are lost
        task: what workers call with a list of items; it returns rows, one for each item or fewer if it was
            interrupted, and how long it took, in s
        chunk_s: how long a chunk is to take, in s
        workers: how many chunks are worked on at a time; by default as many as the executor says
    """

    def __init__(self, executor, task, chunk_s: float = CHUNK_S, workers: int | None = None):
        self.task, self.chunk_s = task, chunk_s
        self.make = None if hasattr(executor, "submit") else executor
        self.executor = executor if self.make is None else executor()
        self.workers = workers or workers_of(self.executor)
        # How long one item takes, in s, once it is known.
        self.item_s = None

    def run(self, items: list, take, give_up, goes_on=lambda: True) -> None:
        """Has all items worked on. `take(items, rows)` takes what comes back, in any order. `give_up(item, why)`
        is told of an item whose worker was lost again and again."""
        # Chunks that were lost, with how often, come before the items that nobody has had yet.
        lost: deque[tuple[list, int]] = deque()
        at, under_way = 0, {}
        try:
            while (at < len(items) or lost or under_way) and goes_on():
                while len(under_way) < 2 * self.workers and (lost or at < len(items)):
                    if lost:
                        chunk, tries = lost.popleft()
                    else:
                        chunk, tries = items[at : at + self._size(len(items) - at)], 0
                        at += len(chunk)
                    under_way[self._submit(chunk)] = chunk, tries
                done, _ = concurrent.futures.wait(
                    under_way, timeout=0.2, return_when=concurrent.futures.FIRST_COMPLETED
                )
                for future in done:
                    chunk, tries = under_way.pop(future)
                    error = _error(future)
                    if error is None:
                        rows, took = future.result()
                        if len(rows):
                            each = took / len(rows)
                            self.item_s = each if self.item_s is None else 0.8 * self.item_s + 0.2 * each
                        # The rest was interrupted.
                        take(chunk[: len(rows)], rows)
                    elif len(chunk) > 1:
                        # One of its items may be what ends workers: its halves tell.
                        half = len(chunk) // 2
                        lost += [(chunk[:half], tries), (chunk[half:], tries)]
                    elif tries + 1 < TRIES:
                        lost.append((chunk, tries + 1))
                    else:
                        give_up(chunk[0], f"its worker was lost {TRIES} times: {_line(error)}")
        finally:
            for future in under_way:
                future.cancel()

    def close(self) -> None:
        """Ends the executor, if it was made here."""
        if self.make is not None:
            self.executor.shutdown(wait=False, cancel_futures=True)

    def _size(self, left: int) -> int:
        """How many items the next chunk has."""
        if self.item_s is None:
            return 1
        # At the end chunks are smaller, so that no worker waits long for another.
        share = max(1, left // (2 * self.workers))
        return max(1, min(share, round(self.chunk_s / max(self.item_s, 1e-6))))

    def _submit(self, chunk: list):
        try:
            return self.executor.submit(self.task, chunk)
        except concurrent.futures.BrokenExecutor:
            if self.make is None:
                raise RuntimeError(
                    "the executor has lost its workers and takes no more: the same call resumes with another one; "
                    "a function that makes executors is called again"
                ) from None
            self.executor = self.make()
            return self.executor.submit(self.task, chunk)


class Engine:
    """Measures the cells of a grid on an executor: see crates/measure/src/grid.rs for what an engine is.

    Args:
        words: the command line of the whole grid
        store: a Store for the rows, or None
        executor, chunk_s, workers: as Chunks takes them
    """

    def __init__(self, words, executor, store=None, chunk_s: float = CHUNK_S, workers: int | None = None):
        self.chunks = Chunks(executor, functools.partial(measure, words), chunk_s, workers)
        self.store = store

    def __call__(self, kept, cells: list[int], run) -> None:
        """Measures the cells."""
        if self.store is not None:
            self.store.add(kept)

        def take(cells, table):
            run.take(cells, *(table.column(name).to_pylist() for name in TOLD))
            if self.store is not None:
                self.store.add(table)

        try:
            self.chunks.run(cells, take, lambda cell, why: run.take([cell], [None], [None], [why]), run.goes_on)
        finally:
            if self.store is not None:
                self.store.flush()


def _error(future) -> BaseException | None:
    try:
        return future.exception()
    except concurrent.futures.CancelledError as error:
        return error


def _line(error: BaseException) -> str:
    text = str(error).strip().splitlines()
    return f"{type(error).__name__}{': ' + text[0] if text else ''}"


def workers_of(executor) -> int:
    """How many tasks an executor runs at a time, as far as it says."""
    client = getattr(executor, "_client", None)
    if client is not None and hasattr(client, "ncores"):
        return max(1, sum(client.ncores().values()))
    return getattr(executor, "_max_workers", None) or os.cpu_count() or 1


class Dask(concurrent.futures.Executor):
    """A `dask.distributed.Client` as an executor. Its own, `Client.get_executor()`, takes twice as long for
    each task."""

    def __init__(self, client):
        self._client = client

    def submit(self, function, /, *values, **named):
        """Submits a task. Equal tasks are not one: a lost one is measured again."""
        task = self._client.submit(function, *values, pure=False, **named)
        future: concurrent.futures.Future = concurrent.futures.Future()
        future.set_running_or_notify_cancel()

        def ended(task):
            try:
                future.set_result(task.result())
            except BaseException as error:  # noqa: BLE001: whatever it is, the engine tells it
                future.set_exception(error)

        task.add_done_callback(ended)
        return future

    def shutdown(self, wait=True, *, cancel_futures=False):
        self._client.close()


def _apply(function, *values, **named):
    return function(*values, **named)


class Ray(concurrent.futures.Executor):
    """Ray as an executor. It is started if it is not."""

    def __init__(self, **options):
        import ray

        if not ray.is_initialized():
            ray.init(log_to_driver=False, **options)
        self._ray, self._task = ray, ray.remote(_apply)
        self._max_workers = int(ray.cluster_resources().get("CPU", 1))

    def submit(self, function, /, *values, **named):
        """Submits a task."""
        return self._task.remote(function, *values, **named).future()

    def shutdown(self, wait=True, *, cancel_futures=False):
        self._ray.shutdown()


def engine_of(name: str):
    """The executor with a name: what the command's --on takes. Returns it, or a function that makes it."""
    kind, _, place = name.partition("://")
    try:
        if kind == "processes":
            return _processes
        if kind == "dask":
            return _dask(place)
        if kind == "ray":
            return Ray(**({"address": place} if place else {}))
        if kind == "slurm":
            return _slurm(place)
    except ImportError as error:
        raise InputError(f"{name} takes a package that is not here: {error}") from error
    known = "processes, dask, dask://HOST:PORT, ray and slurm are known"
    raise InputError(f"there is no engine called {name}: {known}")


def _processes():
    import multiprocessing

    # Without what this process has: threads, open files.
    return concurrent.futures.ProcessPoolExecutor(mp_context=multiprocessing.get_context("spawn"))


def _dask(place: str):
    from distributed import Client

    return Dask(Client(f"tcp://{place}") if place else Client(processes=True, threads_per_worker=1))


def _slurm(place: str):
    import submitit

    executor = submitit.AutoExecutor(folder="kpps-slurm")
    executor.update_parameters(slurm_partition=place or None, timeout_min=60, cpus_per_task=1)
    return executor


class Store:
    """Rows of cells as partitions in Parquet, in a folder or at a URL of fsspec.

    A partition is written as a whole and never changed. A cell is in one partition only.
    """

    # Rows are written when there are so many, or after so long.
    ROWS, SECONDS = 20_000, 30.0

    def __init__(self, url):
        import fsspec

        self.fs, self.path = fsspec.core.url_to_fs(os.fspath(url))
        self.fs.makedirs(self.path, exist_ok=True)
        self.waiting, self.since = [], time.monotonic()
        self.kept = self.read()
        # Cells that could not be measured are tried again; their rows are not written twice.
        self.names = set(self.kept.column("cell").to_pylist()) if self.kept is not None else set()

    def read(self):
        """All rows as a pyarrow.Table, sorted by the cells' names; None if there are none."""
        import pyarrow
        from pyarrow import parquet

        paths = sorted(self.fs.glob(f"{self.path}/part-*.parquet"))
        tables = []
        for path in paths:
            with self.fs.open(path, "rb") as file:
                tables.append(parquet.read_table(file))
        return pyarrow.concat_tables(tables).sort_by("cell") if tables else None

    def seed(self, journal: str) -> int:
        """Adds the results to a journal from which the command resumes."""
        if self.kept is None:
            return 0
        key, trial = (self.kept.column(name).to_pylist() for name in ("key", "trial"))
        there = [(key, trial) for key, trial in zip(key, trial) if trial is not None]
        return _kpps.keep(journal, *(list(column) for column in zip(*there))) if there else 0

    def add(self, rows) -> None:
        """Adds rows, of which those that are there already are left out."""
        import pyarrow

        table = pyarrow.table(rows)
        names = table.column("cell").to_pylist()
        new = [at for at, name in enumerate(names) if name not in self.names]
        if new:
            self.names.update(names[at] for at in new)
            self.waiting.append(table.take(new))
        rows = sum(len(table) for table in self.waiting)
        if rows >= self.ROWS or rows and time.monotonic() - self.since > self.SECONDS:
            self.flush()

    def flush(self) -> None:
        """Writes the rows that wait."""
        import hashlib

        import pyarrow
        from pyarrow import parquet

        self.since = time.monotonic()
        if not self.waiting:
            return
        table = pyarrow.concat_tables(self.waiting).sort_by("cell")
        name = hashlib.sha256("".join(table.column("cell").to_pylist()).encode()).hexdigest()[:16]
        # Half a partition has another name, and is not read.
        half, whole = (f"{self.path}/{kind}-{name}.parquet" for kind in (".half", "part"))
        try:
            with self.fs.open(half, "wb") as file:
                parquet.write_table(table, file, compression="zstd")
            self.fs.mv(half, whole)
        except OSError as error:
            raise RuntimeError(f"cannot write {whole}: {error}; make room, and the same call resumes") from error
        self.waiting = []


def grid(call, command, *, executor=None, store=None, chunk_s=None, workers=None, progress=None, **named):
    """`kpps.grid` with an executor: `call` runs the command's words, `command` makes them."""
    if executor is None and store is None:
        return call(command.words((), named), progress)
    if isinstance(executor, str):
        executor = engine_of(executor)
    elif executor is None:
        executor = _processes
    elif not hasattr(executor, "submit") and not callable(executor):
        raise InputError("executor= takes a concurrent.futures.Executor, a function that makes one, or a name")
    store = Store(store) if store is not None else None
    with tempfile.TemporaryDirectory() as folder:
        if store is not None and store.kept is not None:
            named.setdefault("resume", f"{folder}/kept.jsonl")
            store.seed(os.fspath(named["resume"]))
        words = command.words((), named)
        plain = {name: value for name, value in named.items() if name not in NOT_OF_WORKERS}
        engine = Engine(command.words((), plain), executor, store, chunk_s or CHUNK_S, workers)
        try:
            return call(words, progress, engine)
        finally:
            engine.chunks.close()
