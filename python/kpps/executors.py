"""Executors of engines that are none by themselves: Dask, Ray, submitit (Slurm)."""

from __future__ import annotations

import asyncio
import concurrent.futures
import contextlib
import multiprocessing
import os
import signal
import time

from .errors import Error, InputError, MissingPackage, line_of, needed

# How long a scheduler is waited for, in s.
CONNECT_S = 10


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

    def look(self):
        """An error if the scheduler has gone: the client gives up after it has tried to connect again."""
        if self._client.status in ("closing", "closed"):
            raise Error("Dask's scheduler has gone: the same call resumes with another one")

    def submit(self, function, /, *values, **named):
        """Submits a task. Equal tasks are not one: a lost one is measured again."""
        self.look()
        task = self._client.submit(function, *values, pure=False, **named)
        future: concurrent.futures.Future = concurrent.futures.Future()
        future.set_running_or_notify_cancel()

        def ended(task):
            try:
                future.set_result(task.result())
            except BaseException as error:  # noqa: BLE001: whatever it is, the engine reports it
                future.set_exception(error)

        task.add_done_callback(ended)
        return future

    def shutdown(self, wait=True, *, cancel_futures=False):
        self._client.close()


def _apply(function, *values, **named):
    return function(*values, **named)


class Submitit(concurrent.futures.Executor):
    """An executor of submitit, whose jobs are no futures: they are looked at from time to time."""

    # Slurm is asked about its jobs so often, in s.
    PAUSE_S = 0.2

    def __init__(self, executor):
        self._executor, self._jobs, self._looked = executor, [], 0.0

    def submit(self, function, /, *values, **named):
        """Submits a task."""
        future: concurrent.futures.Future = concurrent.futures.Future()
        future.set_running_or_notify_cancel()
        self._jobs.append((self._executor.submit(function, *values, **named), future))
        return future

    def look(self):
        """Completes the futures of jobs that have ended."""
        if time.monotonic() - self._looked < self.PAUSE_S:
            return
        self._looked, left = time.monotonic(), []
        for job, future in self._jobs:
            if not job.done():
                left.append((job, future))
                continue
            error = job.exception()
            if error is None:
                future.set_result(job.result())
            else:
                future.set_exception(error)
        self._jobs = left

    def shutdown(self, wait=True, *, cancel_futures=False):
        for job, _ in self._jobs:
            job.cancel()
        self._jobs = []


def is_loss(error: BaseException) -> bool:
    """Whether a task ended with its worker. Otherwise the task itself raised the error."""
    ends = (concurrent.futures.BrokenExecutor, concurrent.futures.CancelledError, asyncio.CancelledError)
    # A worker may get the Ctrl-C that ends the call.
    if isinstance(error, (*ends, MemoryError, KeyboardInterrupt)):
        return True
    # Ray's error of a task is an error of the task's class, too.
    if isinstance(getattr(error, "cause", None), BaseException) or type(error).__name__ == "FailedJobError":
        return False
    # Engines have errors of their own for lost workers, as distributed.KilledWorker.
    engine = type(error).__module__.partition(".")[0]
    return engine in ("distributed", "loky", "mpi4py", "ray", "submitit") or isinstance(error, OSError)


def adapted(executor):
    """The executor, or an adapter if what it returns are no futures."""
    return Submitit(executor) if type(executor).__module__.partition(".")[0] == "submitit" else executor


class Ray(concurrent.futures.Executor):
    """Ray as an executor. It is started if it is not."""

    def __init__(self, **options):
        import ray

        self._is_ours = not ray.is_initialized()
        if self._is_ours:
            ray.init(log_to_driver=False, **options)
        self._ray, self._task = ray, ray.remote(_apply)
        self._max_workers = int(ray.cluster_resources().get("CPU", 1))

    def submit(self, function, /, *values, **named):
        """Submits a task."""
        return self._task.remote(function, *values, **named).future()

    def shutdown(self, wait=True, *, cancel_futures=False):
        if self._is_ours:
            self._ray.shutdown()


def engine_of(name: str):
    """A function that makes the executor with a name: what the command's --on takes."""
    kind, _, place = name.partition("://")
    make = {"processes": lambda _: Processes(), "dask": _dask, "ray": _ray, "slurm": _slurm}.get(kind)
    if make is None:
        known = "processes, dask, dask://HOST:PORT, ray and slurm are known"
        raise InputError(f"there is no engine called {name}: {known}")

    def made():
        try:
            return make(place)
        except MissingPackage:
            raise
        except ImportError as error:
            raise InputError(f"{name} takes a package that is not here: {error}") from error
        except Exception as error:
            raise InputError(f"{name} cannot be used: {line_of(error)}") from error

    return made


def executor_of(executor):
    """What `executor=` takes, as an executor or a function that makes one."""
    if isinstance(executor, str):
        return engine_of(executor)
    if isinstance(executor, type) or not hasattr(executor, "submit") and not callable(executor):
        raise InputError("executor= takes a concurrent.futures.Executor, a function that makes one, or a name")
    return executor


@contextlib.contextmanager
def _interrupts_blocked():
    """Processes that are started here never get Ctrl-C, not even before they run a line of Python. This
    process gets it at the end."""
    if not hasattr(signal, "pthread_sigmask"):
        yield
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT])
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


class Processes(concurrent.futures.ProcessPoolExecutor):
    """Processes of this machine, one for each CPU. Ctrl-C is for the call, which ends its workers."""

    def __init__(self):
        # Without what this process has: threads, open files. Where signals cannot be blocked, workers ignore
        # Ctrl-C as soon as they run.
        super().__init__(
            mp_context=multiprocessing.get_context("spawn"), initializer=signal.signal,
            initargs=(signal.SIGINT, signal.SIG_IGN),
        )

    def submit(self, function, /, *values, **named):
        """Submits a task. It may start workers."""
        # Python's resource tracker, which unblocks Ctrl-C when it starts, runs since the constructor.
        with _interrupts_blocked():
            return super().submit(function, *values, **named)


def _dask(place: str):
    Client = needed("distributed", "dask").Client
    if not place:
        return Dask(Client(processes=True, threads_per_worker=1, dashboard_address=None))
    # By default a client tries for half a minute.
    return Dask(Client(f"tcp://{place}", timeout=CONNECT_S))


def _ray(place: str):
    return Ray(**({"address": place} if place else {}))


def _slurm(place: str):
    import submitit

    executor = submitit.AutoExecutor(folder="kpps-slurm")
    executor.update_parameters(slurm_partition=place or None, timeout_min=60, cpus_per_task=1)
    return executor
