"""Grids on engines: the same bytes as the command, and no cell lost whoever is killed."""

import os
import pathlib
import random
import signal
import subprocess
import sys
import time
from concurrent.futures import BrokenExecutor, Future, ThreadPoolExecutor

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
        # A client looks for a scheduler that has gone as long as it would wait for the first connection: half a
        # minute by default.
        with dask.config.set({"distributed.comm.timeouts.connect": "10s"}):
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
    from kpps import studies
    from kpps.campaigns import beyond

    def row(seed, ids):
        value = {} if seed == 3 else {"W1.held": float(seed)}
        return {"cell": beyond.name(sample, seed), "seed": seed, "problem": None, "missed": "", **value}

    sample = kpps.study("beyond", claim=["W1"], seeds="1..1")
    monkeypatch.setattr(beyond, "row", row)
    lost = Here(lambda seeds: BrokenExecutor("killed") if 2 in seeds else None)
    table = beyond.campaign(4, lost, tmp_path, first=1).to_pylist()
    assert [it["problem"] is not None for it in table] == [False, True, False, False]
    assert [it["W1.held"] for it in table] == [1.0, None, None, 4.0]
    again = Here()
    table = beyond.campaign(4, again, tmp_path, first=1).to_pylist()
    assert again.chunks == [[2]] and table[1]["W1.held"] == 2.0
    # With other profiles each machine is another one.
    sample._fields["profiles_hash"] = "0123456789abcdef"
    monkeypatch.setattr(studies, "study", lambda *values, **named: sample)
    anew = Here()
    assert len(beyond.campaign(4, anew, tmp_path, first=1)) == 4
    assert sorted(sum(anew.chunks, [])) == [1, 2, 3, 4]


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
        ({"executor": ThreadPoolExecutor}, "executor= takes"),
        ({"executor": lambda: {}["no cluster\nx"]}, "executor= is a function that failed: KeyError"),
        ({"executor": None, "workers": 2}, "workers= are for an executor"),
        ({"executor": "nosuch"}, "there is no engine called nosuch"),
        ({"store": 3}, "store=3 cannot be used"),
        ({"store": "nosuch://x"}, "store='nosuch://x' cannot be used"),
        ({"store": __file__}, "cannot be used"),
        ({"progress": 3}, "progress= is 3"),
        ({"stor": "x"}, "store="),
        ({"duration": 10**5000}, "duration= cannot be read"),
        ({"duration": 10**400}, "invalid value '1000"),
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


def test_chunks_are_of_about_a_second():
    executor, done = Here(), []
    # An item takes 10 ms.
    chunks = grids.Chunks(executor, lambda items: (items, 0.01 * len(items)), workers=1)
    chunks.run(list(range(1000)), take=lambda items, rows: done.extend(rows), give_up=None)
    assert sorted(done) == list(range(1000))
    sizes = [len(chunk) for chunk in executor.chunks]
    assert sizes[:3] == [1, 1, 100] and max(sizes) == 100, "of a second, once it is known how long an item takes"
    assert sizes[-1] == 1 and sizes[2:] == sorted(sizes[2:], reverse=True), "smaller at the end"


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
    assert type(raised.value) is kpps.Error, "no check failed, but an engine"
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
        return BrokenExecutor("killed") if first else None

    lost = Here(fails)
    assert kpps.grid(**small, executor=lost).to_json() == kpps.grid(**small).to_json()


def test_a_cell_that_kills_its_workers_is_a_row_with_that_error(small):
    grid = kpps.grid(**small, executor=Here(lambda cells: BrokenExecutor("killed") if 2 in cells else None))
    problems = [cell.problem for cell in grid.cells if cell.get("problem") and cell.at[0] != 1]
    assert problems == ["its worker was lost 3 times: BrokenExecutor: killed"] and grid.complete


def test_a_worker_that_cannot_work_ends_the_call_and_makes_no_rows(small, tmp_path):
    lacks = Here(lambda cells: ModuleNotFoundError("No module named 'kpps'") if 3 in cells else None)
    with pytest.raises(kpps.Error, match="a worker cannot work: ModuleNotFoundError: No module named 'kpps'") as raised:
        kpps.grid(**small, executor=lacks, resume=tmp_path / "kept.jsonl")
    kept = raised.value.result.cells
    assert len(kept) < 12 and not any("worker" in (cell.get("problem") or "") for cell in kept)
    assert kpps.grid(**small, executor=Here(), resume=tmp_path / "kept.jsonl").complete


def test_workers_that_come_later_get_work(small):
    class Growing(Here):
        """Has as many workers as it has got chunks."""

        @property
        def _max_workers(self):
            return max(1, len(self.chunks))

    chunks = grids.Chunks(Growing(), None)
    assert chunks.workers == 1
    chunks.executor.chunks += [[0]] * 7
    assert chunks.workers == 1, "it is not asked all the time"
    chunks.asked -= 2
    assert chunks.workers == 7


def test_a_named_engine_is_closed_after_the_call(small):
    distributed = pytest.importorskip("distributed")
    few = {**small, "vary": {"load": ["50%"]}}
    assert kpps.grid(**few, executor="dask").to_json() == kpps.grid(**few).to_json()
    with pytest.raises(ValueError):
        distributed.get_client()


def test_cells_that_fail_have_names_of_their_own_in_each_grid(small, tmp_path):
    few = {**small, "vary": {"driver.rx_ring": [12, 64]}}
    for driver in ("intel-5.7.6", "kpps"):
        for _ in range(2):
            kpps.grid(**{**few, "driver": driver}, load="50%", executor=Here(), store=tmp_path)
    rows = grids.Store(tmp_path).read().to_pylist()
    assert len(rows) == len({row["cell"] for row in rows}) == 4
    assert len({row["problem"] for row in rows if row["problem"] is not None}) == 2


def test_a_killed_process_is_replaced(small):
    """SIGKILL of a worker in the middle of a campaign."""
    import concurrent.futures
    import multiprocessing

    class Killing(concurrent.futures.ProcessPoolExecutor):
        """Kills one of its processes when it gets its third chunk, if it is the first executor."""

        def submit(self, *values):
            future = super().submit(*values)
            self.count = getattr(self, "count", 0) + 1
            if self.count == 3 and made == [self]:
                os.kill(next(iter(self._processes)), signal.SIGKILL)
            return future

    made = []

    def make():
        made.append(Killing(2, multiprocessing.get_context("forkserver")))
        return made[-1]

    grid = kpps.grid(**small, executor=make, workers=2, chunk_s=0.001)
    assert grid.to_json() == kpps.grid(**small).to_json()
    assert len(made) > 1, "one was killed"


# The start of a program whose executor has a thread, and does something when it gets a chunk after two cells
# were kept.
PROGRAM = """
import os, signal, subprocess, sys, time
from concurrent.futures import ThreadPoolExecutor
import kpps

# A background job of a shell ignores Ctrl-C.
signal.signal(signal.SIGINT, signal.default_int_handler)
small, kept, store = {small!r}, {kept!r}, {store!r}

class Executor(ThreadPoolExecutor):
    at = 0
    def submit(self, *values):
        self.at += 1
        if self.at == 5:
            while open(kept).read().count(chr(10)) < 2:
                time.sleep(0.01)
            {does}
        return super().submit(*values)

"""


def program(small, folder, does, end, under=()):
    """Runs such a program; `end` follows its start. Returns the process when it has ended."""
    kept, store = str(folder / "kept.jsonl"), str(folder / "rows")
    text = PROGRAM.format(small=small, kept=kept, store=store, does=does) + end
    return subprocess.run([*under, sys.executable, "-c", text], capture_output=True, text=True)


RESUMABLE = "kpps.grid(**small, executor=Executor(1), chunk_s=0.001, resume=kept, store=store)"


def resumes(small, folder):
    """The same call resumes, and ends with what an uninterrupted one has."""
    again, whole = Here(), Here()
    resumed = kpps.grid(**small, executor=again, resume=folder / "kept.jsonl", store=folder / "rows")
    assert resumed.to_json() == kpps.grid(**small, executor=whole, store=folder / "whole").to_json()
    assert len(sum(again.chunks, [])) <= 10 < len(sum(whole.chunks, [])), "what is kept is not measured again"
    assert rows_of(folder / "rows") == rows_of(folder / "whole")


def test_a_killed_driver_resumes(small, tmp_path):
    killed = program(small, tmp_path, "os.kill(os.getpid(), signal.SIGKILL)", RESUMABLE)
    assert killed.returncode == -signal.SIGKILL, killed.stderr
    resumes(small, tmp_path)


def test_ctrl_c_keeps_what_was_measured(small, tmp_path):
    end = f"""
try:
    {RESUMABLE}
except kpps.Interrupted as error:
    print(len(error.result.cells), "of 12:", error)
"""
    done = program(small, tmp_path, "os.kill(os.getpid(), signal.SIGINT)", end)
    cells, _, said = done.stdout.partition(" of 12: ")
    assert 2 <= int(cells) < 12 and said.startswith("interrupted"), done.stdout + done.stderr
    resumes(small, tmp_path)


def test_a_bar_shows_the_progress(small, capfd):
    pytest.importorskip("tqdm")
    kpps.grid(**small, executor=Here(), progress=True)
    assert "/12" in capfd.readouterr().err


def test_a_disk_that_is_full_is_told_and_loses_no_result(small, tmp_path):
    """A file system of 4 kB, in a mount namespace of its own."""
    if os.geteuid() != 0:
        pytest.skip("a small file system takes root")
    (tmp_path / "rows").mkdir()
    end = f"""
def mount(*how):
    subprocess.run(["mount", *how], check=True)
mount("--make-rprivate", "/")
mount("-t", "tmpfs", "-o", "size=4k", "none", store)
try:
    {RESUMABLE}
    sys.exit("it was not full")
except kpps.Error as error:
    assert "No space left" in str(error) and len(error.result.cells) == 12, error
assert not os.listdir(store), "half a partition is left"
mount("-o", "remount,size=1m", store)
{RESUMABLE}
assert len(kpps.grids.Store(store).read()) == 12
# Arrow's threads may still end when Python does, and then abort the process.
os._exit(0)
"""
    done = program(small, tmp_path, "pass", end, under=["unshare", "--mount"])
    assert done.returncode == 0, done.stderr


def test_half_a_partition_of_a_killed_driver_goes(small, tmp_path):
    long_ago, now = (tmp_path / f".half-{int(time.time()) - age}-0123.parquet" for age in (100_000, 10))
    for path in (long_ago, now):
        path.write_bytes(b"PAR1")
    kpps.grid(**small, executor=Here(), store=tmp_path)
    assert not long_ago.exists() and now.exists()
    assert len(grids.Store(tmp_path).read()) == 12


def test_a_flipped_bit_of_a_store_is_found_and_its_part_is_named(small, tmp_path):
    """Bits of the pages, of their headers and of the footer, which has the columns' names."""
    kpps.grid(**small, executor=Here(), store=tmp_path)
    (part,) = tmp_path.glob("part-*.parquet")
    whole = part.read_bytes()
    for bit in random.Random(20).sample(range(8 * len(whole)), 400):
        flipped = bytearray(whole)
        flipped[bit // 8] ^= 1 << bit % 8
        part.write_bytes(flipped)
        with pytest.raises(kpps.InputError, match=f"{part.name} is damaged"):
            grids.Store(tmp_path)
    for other in (b"", whole[:-1], whole + b"\0", whole[: len(whole) // 2]):
        part.write_bytes(other)
        with pytest.raises(kpps.InputError, match=f"{part.name} is damaged"):
            kpps.grid(**small, executor=Here(), store=tmp_path)
    # Without it its cells are measured again.
    part.unlink()
    assert kpps.grid(**small, executor=Here(), store=tmp_path).complete
    assert len(grids.Store(tmp_path).read()) == 12


def test_other_readers_of_a_store_can_verify_its_pages(small, tmp_path):
    from pyarrow import parquet

    kpps.grid(**small, executor=Here(), store=tmp_path)
    (part,) = tmp_path.glob("part-*.parquet")
    whole, column = part.read_bytes(), parquet.ParquetFile(part).metadata.row_group(0).column(0)
    # The last byte of the first column's pages.
    end = column.dictionary_page_offset + column.total_compressed_size - 1
    part.write_bytes(whole[:end] + bytes([whole[end] ^ 1]) + whole[end + 1 :])
    with pytest.raises(OSError, match="(?i)crc"):
        parquet.read_table(part, page_checksum_verification=True)
    part.write_bytes(whole)
    assert len(parquet.read_table(part, page_checksum_verification=True)) == 12


def test_ray_has_the_same_bytes(small):
    ray = pytest.importorskip("ray")
    executor = grids.Ray(num_cpus=2, include_dashboard=False)
    try:
        assert kpps.grid(**small, executor=executor).to_json() == kpps.grid(**small).to_json()
    finally:
        ray.shutdown()


def test_mpi_has_the_same_bytes(small, tmp_path):
    pytest.importorskip("mpi4py")
    mpiexec = os.path.join(os.path.dirname(sys.executable), "mpiexec")
    script = tmp_path / "script.py"
    script.write_text(f"""
import kpps
from mpi4py.futures import MPIPoolExecutor

if __name__ == "__main__":
    with MPIPoolExecutor() as executor:
        print(kpps.grid(**{small!r}, executor=executor, workers=2).to_json(), end="")
""")
    words = [mpiexec, "-n", "3", sys.executable, "-m", "mpi4py.futures", str(script)]
    done = subprocess.run(words, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stdout == kpps.grid(**small).to_json()


def test_the_array_of_slurm_measures_all_cells(command, tmp_path):
    """The script as Slurm runs it, a process for each job; one of them twice, as after a requeue."""
    from conftest import COMMAND

    script = pathlib.Path(__file__).parents[2] / "packaging" / "cluster" / "grid.sbatch"
    words = ["--driver", "intel-5.7.6", "--duration", "2ms", "--size", "64"]
    words += ["--vary", "driver.rx_ring=64,12,256", "--vary", "load=10%..100%/30%"]
    for job in (1, 2, 2, 3):
        env = {**os.environ, "KPPS": COMMAND, "SLURM_ARRAY_TASK_ID": str(job), "SLURM_ARRAY_TASK_COUNT": "3"}
        subprocess.run(["sh", script, *words], cwd=tmp_path, env=env, check=True, capture_output=True)
    shares = sorted(tmp_path.glob("share-*.jsonl"))
    assert len(shares) == 3 and "8 results, 8 added" in command("merge", tmp_path / "all.jsonl", *shares)
    whole = command("grid", *words, "--json")
    assert command("grid", *words, "--resume", tmp_path / "all.jsonl", "--json") == whole


def test_a_write_that_fails_is_told_and_loses_no_result(small, tmp_path, monkeypatch):
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


def test_the_job_of_kubernetes_has_each_share_once():
    yaml = pytest.importorskip("yaml")
    path = pathlib.Path(__file__).parents[2] / "packaging" / "cluster" / "grid.yaml"
    spec = yaml.safe_load(path.read_text())["spec"]
    container = spec["template"]["spec"]["containers"][0]
    words = [*container["command"], *container["args"]]
    # In place of the command, `echo` prints its words.
    words[-1] = words[-1].replace("exec kpps", "exec echo")
    shares = []
    for pod in range(spec["completions"]):
        env = {**os.environ, "JOB_COMPLETION_INDEX": str(pod)}
        told = subprocess.run(words, env=env, check=True, capture_output=True, text=True).stdout.split()
        shares.append((told[told.index("--shard") + 1], told[told.index("--resume") + 1]))
    assert shares == [(f"{pod + 1}/8", f"/journals/share-{pod}.jsonl") for pod in range(8)]


def test_ctrl_c_does_not_reach_workers_that_start():
    text = """
import os, signal
from kpps import executors
if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.default_int_handler)
    executor = executors.Processes()
    future = executor.submit(pow, 2, 3)
    try:
        os.killpg(0, signal.SIGINT)
        signal.pause()
    except KeyboardInterrupt:
        print(future.result())
"""
    words = [sys.executable, "-c", text]
    done = subprocess.run(words, capture_output=True, text=True, start_new_session=True)
    assert (done.returncode, done.stdout, done.stderr) == (0, "8\n", "")


def test_ctrl_c_ends_what_uses_engines_with_one_line(tmp_path):
    """As a terminal sends it: to the workers, too."""
    kept = tmp_path / "kept.jsonl"
    words = ["kpps", "grid", "--vary", "load=1%..100%/0.01%", "--duration", "20ms", "--on", "processes"]
    words += ["--resume", str(kept), "--csv", str(tmp_path / "cells.csv")]
    grid = f"""
import sys
sys.argv = {words}
from kpps.__main__ import main
"""
    beyond = f"""
import kpps
from kpps.campaigns import beyond
from kpps.errors import end
def main():
    try:
        beyond.campaign(100_000, progress=lambda *_: open({str(tmp_path / "ready")!r}, "w").write("1\\n2\\n3"))
    except kpps.Error as error:
        assert len(error.result) >= 1
        end(error)
"""
    for text, shows in ((grid, kept), (beyond, tmp_path / "ready")):
        # A background job of a shell ignores Ctrl-C.
        text = "import signal\nsignal.signal(signal.SIGINT, signal.default_int_handler)\n" + text
        (tmp_path / "script.py").write_text(text + "if __name__ == '__main__':\n    main()\n")
        process = subprocess.Popen(
            [sys.executable, tmp_path / "script.py"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
            start_new_session=True,
        )
        while process.poll() is None and not (shows.exists() and shows.read_text().count("\n") >= 2):
            time.sleep(0.05)
        os.killpg(process.pid, signal.SIGINT)
        _, said = process.communicate()
        assert process.returncode == 130, said
        assert said.strip().splitlines()[-1].startswith("kpps: interrupted") and "Traceback" not in said, said


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ({"machines": "3"}, "machines= is '3': give a whole number"),
        ({"machines": float("nan")}, "machines= is nan"),
        ({"machines": 1, "first": 2**64}, "first= is 18446744073709551616"),
        ({"machines": 1, "first": -3}, "first= is -3"),
        ({"machines": 1, "executor": 3}, "executor= takes"),
        ({"machines": 1, "executor": None}, "executor= takes"),
    ],
)
def test_what_is_wrong_with_a_campaign_is_said(arguments, says):
    from kpps import studies
    from kpps.campaigns import beyond

    with pytest.raises(kpps.InputError) as raised:
        beyond.campaign(**arguments)
    assert says in str(raised.value)


def test_names_hold_version_profiles_settings_and_seed(small):
    def names(**more):
        more = {"duration": "2ms", **more}
        words = ["kpps", "grid", "--vary=load=50%", *(f"--{name}={value}" for name, value in more.items())]
        return pyarrow.table(kpps._kpps.cells(words, [0])).to_pylist()[0]["cell"]

    all_names = [names(), names(seed=2), names(set="driver.rx_ring=80"), names(machine="rdr2007"), names(duration="3ms")]
    assert len(set(all_names)) == 5 and names() == all_names[0]
