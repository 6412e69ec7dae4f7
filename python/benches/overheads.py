"""The cost of calls and engines beyond the work, in CPU time, which does not depend on how busy the machine is.

    make overheads

A call in this process against the command; and for many small cells, what the process that called spends on each
against what a worker does. The speed-up of two workers is by the clock, and needs two free CPUs. The first argument
is the number of cells, 2,000 unless told. KPPS_COMMAND names the command of the same build.
"""

import os
import resource
import subprocess
import sys
import time

import kpps
from kpps import grids

SETTINGS = dict(driver="intel-5.7.6", duration="1ms")


def cpu_s(whose: int) -> float:
    """The CPU time of this process, or of its children that have ended."""
    used = resource.getrusage(whose)
    return used.ru_utime + used.ru_stime


def calls() -> None:
    """A curve in process against the command."""
    words = dict(driver="kpps", load="100kpps..1400kpps/100kpps", duration="50ms")
    command = [os.environ["KPPS_COMMAND"], "curve", *(f"--{name}={value}" for name, value in words.items()), "--json"]
    here, there = [], []
    for _ in range(5):
        before = cpu_s(resource.RUSAGE_SELF)
        result = kpps.curve(**words)
        here.append(cpu_s(resource.RUSAGE_SELF) - before)
        before = cpu_s(resource.RUSAGE_CHILDREN)
        said = subprocess.run(command, capture_output=True, text=True, check=True).stdout
        there.append(cpu_s(resource.RUSAGE_CHILDREN) - before)
        assert said == result.to_json()
    share = min(here) / min(there) - 1
    print(f"curve       {min(here):.3f} s of CPU in process, {min(there):.3f} s as a command: {share:+.1%}", flush=True)


def loads(cells: int) -> str:
    """So many loads as a range. They are low, so that cells are small: nearly all of their time is simulated idle."""
    return f"1%..10%/{9 / (cells - 1):.12f}%"


def worker_us() -> float:
    """The time of a worker for a cell, in us of CPU."""
    words = ["kpps", "grid", *(f"--{name}={value}" for name, value in SETTINGS.items()), f"--vary=load={loads(1000)}"]
    before = time.process_time()
    grids.measure(words, list(range(1000)))
    return 1e6 * (time.process_time() - before) / 1000


def engine(name: str, executor, cells: int, work_us: float) -> float:
    """Prints what the process that called spends on each cell. Returns the time by the clock, in s."""
    before, begun = cpu_s(resource.RUSAGE_SELF), time.perf_counter()
    grid = kpps.grid(**SETTINGS, vary={"load": loads(cells)}, executor=executor)
    mine, took = cpu_s(resource.RUSAGE_SELF) - before, time.perf_counter() - begun
    assert len(grid.cells) == cells
    each = 1e6 * mine / cells
    print(f"{name:11} {cells} cells in {took:.1f} s, {each:.0f} us of CPU here for each: {each / work_us:.1%} of the work",
          flush=True)
    return took


def main() -> None:
    cells = int(sys.argv[1]) if len(sys.argv) > 1 else 2_000
    calls()
    work_us = worker_us()
    print(f"work        {work_us:.0f} us of CPU for each cell, in a worker", flush=True)
    two = engine("processes", "processes", cells, work_us)
    from distributed import Client

    with Client(n_workers=2, threads_per_worker=1, dashboard_address=None) as client:
        engine("Dask", grids.Dask(client), cells, work_us)
    try:
        ray = grids.Ray()
    except ImportError:
        print("Ray         not installed: pip install ray", flush=True)
    else:
        engine("Ray", ray, cells, work_us)
        ray.shutdown()
    from concurrent.futures import ProcessPoolExecutor

    with ProcessPoolExecutor(1) as executor:
        one = engine("one process", executor, cells // 4, work_us) * 4
    print(f"speed-up    {one / two:.2f} with two workers in place of one")


if __name__ == "__main__":
    main()
