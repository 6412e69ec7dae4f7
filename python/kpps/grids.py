"""Grids on engines that exist: any `concurrent.futures.Executor`.

The command plans the cells, finds those that an earlier run has kept, writes the journal and makes the document.
Here cells are grouped into chunks of about a second, chunks go out, and their rows come back as batches of
Arrow. A cell is named by a hash of all that its result depends on: version, profiles, settings, seed.
"""

from __future__ import annotations

import concurrent.futures
import contextlib
import functools
import hashlib
import io
import math
import os
import tempfile
import time
from collections import deque

from . import _kpps
from .errors import Error, InputError, failed, line_of, needed
from .executors import Dask, Ray, Submitit, adapted, engine_of, executor_of, is_loss, workers_of

__all__ = ["Chunks", "Dask", "Engine", "Ray", "Store", "Submitit", "engine_of", "grid", "measure"]

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
    pyarrow = needed("pyarrow", "grid")
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
        self.task, self.chunk_s = task, _positive("chunk_s", chunk_s, float)
        self.make = None if hasattr(executor, "submit") else executor
        self.executor = self._made() if self.make is not None else adapted(executor)
        self.given = None if workers is None else _positive("workers", workers, int)
        self.known, self.asked = workers_of(self.executor), time.monotonic()
        # How long one item takes, in s, once it is known.
        self.item_s = None

    @property
    def workers(self) -> int:
        """How many chunks are worked on at a time. A cluster may grow and shrink."""
        if self.given is not None:
            return self.given
        if time.monotonic() - self.asked > 1:
            self.asked = time.monotonic()
            # An engine that has gone is noticed elsewhere.
            with contextlib.suppress(Exception):
                self.known = workers_of(self.executor)
        return self.known

    def run(self, items: list, take, give_up, goes_on=lambda: True) -> None:
        """Has all items worked on. `take(items, rows)` takes the results, in any order. `give_up(item, why)`
        gets an item whose worker was lost again and again."""
        # Lost chunks, with the number of losses, come before the items that no worker has had yet.
        lost: deque[tuple[list, int]] = deque()
        at, under_way = 0, {}
        try:
            while (at < len(items) or lost or under_way) and goes_on():
                self._look()
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
                # With an engine all its chunks are lost, which says nothing of their items.
                self._look()
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
                    elif not is_loss(error):
                        # Items that cannot be measured have rows: this is the worker's own defect, as a
                        # package that it lacks, and other items would fail there, too.
                        raise Error(f"a worker cannot work: {line_of(error)}; the same call resumes") from error
                    elif len(chunk) > 1:
                        # One of its items may be what ends workers: its halves tell.
                        half = len(chunk) // 2
                        lost += [(chunk[:half], tries), (chunk[half:], tries)]
                    elif tries + 1 < TRIES:
                        lost.append((chunk, tries + 1))
                    else:
                        give_up(chunk[0], f"its worker was lost {TRIES} times: {line_of(error)}")
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
                raise Error(
                    "the executor has lost its workers and takes no more: the same call resumes with another one; "
                    "a function that makes executors is called again"
                ) from None
            self.executor = self._made()
            return self.executor.submit(self.task, chunk)

    def _look(self) -> None:
        """Lets an adapter look at its jobs. It raises if its engine has gone."""
        if hasattr(self.executor, "look"):
            self.executor.look()

    def _made(self):
        try:
            made = self.make()
        except Error:
            raise
        except Exception as error:
            raise InputError(f"executor= is a function that failed: {line_of(error)}") from error
        if not hasattr(made, "submit"):
            raise InputError(f"executor= is a function that returned {made!r}: it must make an executor")
        return adapted(made)


class Engine:
    """Measures the cells of a grid on an executor: see crates/shared/methods/src/grid.rs for what an engine is.

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
        except Exception as error:
            raise failed(error) from error
        finally:
            if self.store is not None:
                self.store.flush()


def _positive(name: str, value, kind):
    """A number of this kind above 0."""
    is_number = isinstance(value, (int, kind)) and not isinstance(value, bool)
    if not is_number or not 0 < value < math.inf:
        raise InputError(f"{name}= is {value!r}: give a number above 0")
    return value


def _error(future) -> BaseException | None:
    try:
        return future.exception()
    except concurrent.futures.CancelledError as error:
        return error


class Store:
    """Rows of cells as partitions in Parquet, in a folder or at a URL of fsspec.

    A partition is written as a whole and never changed. Its name ends in a checksum of all its bytes, which is
    verified when it is read; its pages have Parquet's own checksums for other readers. A cell is in one partition
    only. Several grids with the same axes may be in it: the column `key` has all settings of a cell.
    """

    # Rows are written when there are ROWS of them, or after SECONDS.
    ROWS, SECONDS = 20_000, 30.0

    def __init__(self, url):
        fsspec = needed("fsspec", "grid")
        needed("pyarrow.parquet", "grid")
        try:
            self.fs, self.path = fsspec.core.url_to_fs(os.fspath(url))
            self.fs.makedirs(self.path, exist_ok=True)
            self._clear()
            self.kept = self.read()
        except (OSError, TypeError, ValueError, ImportError, RuntimeError) as error:
            raise InputError(f"store={url!r} cannot be used: {line_of(error)}") from error
        self.waiting, self.since = [], time.monotonic()
        # Cells that could not be measured are tried again; their rows are not written twice.
        self.names = set(self.kept.column("cell").to_pylist()) if self.kept is not None else set()

    def _clear(self) -> None:
        """Removes what killed drivers left of partitions. Those of the last day may be written by another one
        now."""
        for path in self.fs.glob(f"{self.path}/.half-*.parquet"):
            since = path.rpartition("/.half-")[2].partition("-")[0]
            if since.isdecimal() and time.time() - int(since) > 24 * 3600:
                self.fs.rm(path)

    def read(self):
        """All rows as a pyarrow.Table, sorted by the cells' names; None if there are none."""
        from pyarrow import parquet

        paths = sorted(self.fs.glob(f"{self.path}/part-*.parquet"))
        tables = []
        for path in paths:
            partition = self.fs.cat_file(path)
            if path.rpartition("-")[2] != f"{_checksum(partition)}.parquet":
                raise ValueError(
                    f"{path} is damaged, or was written by an earlier version: its bytes do not have the checksum "
                    "that its name ends in; remove it, and its cells are measured again"
                )
            # Without threads of Arrow: a program that ends while one of them starts is aborted.
            tables.append(parquet.read_table(io.BytesIO(partition), use_threads=False, pre_buffer=False))
        return joined(tables).sort_by("cell") if tables else None

    def seed(self, journal: str) -> int:
        """Adds the results to a journal from which the command resumes."""
        if self.kept is None:
            return 0
        key, trial = (self.kept.column(name).to_pylist() for name in ("key", "trial"))
        there = [(key, trial) for key, trial in zip(key, trial) if trial is not None]
        return _kpps.keep(journal, *(list(column) for column in zip(*there))) if there else 0

    def add(self, rows) -> None:
        """Adds rows. Rows that exist already are left out."""
        import pyarrow

        table = pyarrow.table(rows)
        names = table.column("cell").to_pylist()
        new = [at for at, name in enumerate(names) if name not in self.names]
        if new:
            self._check(table)
            self.names.update(names[at] for at in new)
            self.waiting.append(table.take(new))
        rows = sum(len(table) for table in self.waiting)
        if rows >= self.ROWS or rows and time.monotonic() - self.since > self.SECONDS:
            self.flush()

    def _check(self, table) -> None:
        """An error if these rows cannot stand beside those that are there."""
        import pyarrow

        if self.kept is None:
            return
        try:
            pyarrow.unify_schemas([self.kept.schema, table.schema], promote_options="permissive")
        except (TypeError, ValueError) as error:
            line = f"{self.path} has the rows of another grid ({line_of(error)}): give another store="
            raise Error(line) from error

    def flush(self) -> None:
        """Writes the rows that wait."""
        from pyarrow import parquet

        self.since = time.monotonic()
        if not self.waiting:
            return
        table = joined(self.waiting).sort_by("cell")
        partition, cells = io.BytesIO(), _checksum("".join(table.column("cell").to_pylist()).encode())
        # Half a partition has another name, and is not read.
        half = f"{self.path}/.half-{int(time.time())}-{cells}.parquet"
        try:
            parquet.write_table(table, partition, compression="zstd", write_page_checksum=True)
            with self.fs.open(half, "wb") as file:
                file.write(partition.getvalue())
            self.fs.mv(half, f"{self.path}/part-{cells}-{_checksum(partition.getvalue())}.parquet")
        except OSError as error:
            with contextlib.suppress(OSError):
                self.fs.rm(half)
            raise Error(f"cannot write to {self.path}: {error}; make room, and the same call resumes") from error
        self.waiting = []


def _checksum(text: bytes) -> str:
    """A checksum of these bytes: 16 hexadecimal digits of SHA-256."""
    return hashlib.sha256(text).hexdigest()[:16]


def joined(tables: list):
    """One pyarrow.Table of several. A column that one of them does not have is null there."""
    import pyarrow

    return pyarrow.concat_tables(tables, promote_options="permissive")


def table_of(rows: list[dict]):
    """A pyarrow.Table of rows, which may have different fields."""
    import pyarrow

    names = dict.fromkeys(name for row in rows for name in row)
    return pyarrow.Table.from_pylist([{name: row.get(name) for name in names} for row in rows])


def grid(call, command, *, executor=None, store=None, chunk_s=None, workers=None, progress=None, **named):
    """`kpps.grid` with an executor: `call` runs the command's words, `command` makes them."""
    if executor is None and store is None:
        if chunk_s is not None or workers is not None:
            raise InputError("chunk_s= and workers= are for an executor: give executor=")
        return call(command.words((), named), progress)
    # Before workers are asked, which have the same packages.
    needed("pyarrow", "grid")
    executor = executor_of("processes" if executor is None else executor)
    store = Store(store) if store is not None else None
    with tempfile.TemporaryDirectory() as folder:
        if store is not None and store.kept is not None:
            named.setdefault("resume", f"{folder}/kept.jsonl")
            if not isinstance(named["resume"], (str, os.PathLike)):
                raise InputError(f"resume= is {named['resume']!r}: give the path of a file")
            store.seed(os.fspath(named["resume"]))
        words = command.words((), named)
        plain = {name: value for name, value in named.items() if name not in NOT_OF_WORKERS}
        chunk_s = CHUNK_S if chunk_s is None else chunk_s
        engine = Engine(command.words((), plain), executor, store, chunk_s, workers)
        try:
            return call(words, progress, engine)
        finally:
            engine.chunks.close()
