"""kpps' driver on many machines drawn at random, and the worst of them for each claim of study beyond.

    python -m kpps.campaigns.beyond --machines 100000 --on dask://scheduler:8786 --store beyond

A machine is named by a hash of its seed, the version and the profiles. Its row has the values of every claim, as `W1.held`, and the claims that it misses.
What the store has is not measured again.
"""

from __future__ import annotations

import argparse
import functools
import hashlib
import sys
import time

import kpps

from .. import studies
from ..errors import end, failed, whole
from ..executors import executor_of
from ..grids import Chunks, Store, table_of

# Seeds of a study have 32 bits.
MOST_SEEDS = 2**32 - 1


def measure(seeds: list[int], ids: list[str]):
    """Measures these machines. Workers run this. Returns rows and how long it took, in s."""
    begun = time.perf_counter()
    return [row(seed, ids) for seed in seeds], time.perf_counter() - begun


def name(study, seed: int) -> str:
    """The name of a machine: a hash of all that its row depends on."""
    told = f"{study.kpps_version} {study.profiles_hash} {seed}"
    return hashlib.sha256(told.encode()).hexdigest()[:16]


def row(seed: int, ids: list[str]) -> dict:
    """One machine."""
    study = studies.study("beyond", claim=ids, seeds=f"{seed}..{seed}")
    fields: dict = {"cell": name(study, seed), "seed": seed, "problem": None, "missed": ""}
    for claim in study.claims:
        if claim.verdict == "failed":
            fields["problem"] = f"{claim.id}: {claim.why}"
        elif claim.verdict != "pass":
            fields["missed"] = f"{fields['missed']} {claim.id}".strip()
        values = studies.values(claim)
        fields.update({name: values[name] for name in values if not name.endswith(("_seed", "_misses"))})
    return fields


def worst(table) -> str:
    """The extreme machines for each value of each claim, as text."""
    from pyarrow import compute

    seeds = table.column("seed").to_pylist()
    lines = [f"{'value':<30} {'least':>12} {'seed':>8} {'most':>12} {'seed':>8}"]
    for name in table.column_names:
        if "." in name:
            column = table.column(name).to_pylist()
            there = [(value, seed) for value, seed in zip(column, seeds) if value is not None]
            if there:
                (least, first), (most, last) = min(there), max(there)
                lines.append(f"{name:<30} {least:>12.5g} {first:>8} {most:>12.5g} {last:>8}")
    missed = table.filter(compute.not_equal(table.column("missed"), "")).sort_by("seed").to_pylist()
    lines += [f"seed {row['seed']} misses {row['missed']}: kpps study beyond --drawn {row['seed']}" for row in missed]
    problems = [row for row in table.to_pylist() if row["problem"] is not None]
    lines += [f"seed {row['seed']} could not be measured: {row['problem']}" for row in problems]
    count = f"{len(seeds)} machines, {len(missed)} of them miss a claim"
    return "\n".join([*lines, count + (f", {len(problems)} could not be measured" if problems else "")])


def campaign(machines: int, executor="processes", store=None, first: int = 1, progress=None):
    """Measures machines with the seeds from `first` on. Returns a pyarrow.Table with a row for each. After an
    interruption those that were measured are the `result` of the error."""
    first = whole("first", first, 1, MOST_SEEDS)
    machines = whole("machines", machines, 1, MOST_SEEDS - first + 1)
    executor = executor_of(executor)
    store = Store(store) if store is not None else None
    # One machine shows which claims there are, without the study's figures.
    sample = studies.study("beyond", seeds="1..1")
    ids = [claim.id for claim in sample.claims]
    names = {name(sample, seed): seed for seed in range(first, first + machines)}
    # Rows of other versions and profiles are left alone.
    kept = store.kept.to_pylist() if store is not None and store.kept is not None else []
    rows = [row for row in kept if row["cell"] in names]
    known = {row["seed"] for row in rows}
    seeds = [seed for seed in names.values() if seed not in known]

    def take(_, brought):
        rows.extend(brought)
        if store is not None:
            store.add(table_of(brought))
        if progress is not None:
            progress(len(rows), machines, f"seed {brought[-1]['seed']}")

    def give_up(seed, why):
        # The store does not get it: the next run tries it again.
        rows.append({"cell": name(sample, seed), "seed": seed, "problem": why, "missed": ""})

    chunks = Chunks(executor, functools.partial(measure, ids=ids))
    try:
        chunks.run(seeds, take, give_up)
    except KeyboardInterrupt as interrupt:
        where = f", {store.path} has them" if store is not None else ""
        error = kpps.Interrupted(f"interrupted: {len(rows)} of {machines} machines measured{where}")
        error.result = table_of(rows)
        raise error from interrupt
    except Exception as error:
        raise failed(error) from error
    finally:
        chunks.close()
        if store is not None:
            store.flush()
    return table_of(sorted(rows, key=lambda row: row["seed"]))


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(prog="python -m kpps.campaigns.beyond", description=__doc__.splitlines()[0])
    parser.add_argument("--machines", type=int, default=1000, help="how many machines")
    parser.add_argument("--first", type=int, default=101, help="the seed of the first; the study has 1 to 100")
    parser.add_argument("--on", default="processes", help="processes, dask, dask://HOST:PORT, ray, slurm")
    parser.add_argument("--store", help="a folder or URL for the rows, in Parquet; a run continues with what is there")
    given = parser.parse_args()
    shown = sys.stderr.isatty()
    try:
        table = campaign(
            given.machines, given.on, given.store, given.first,
            progress=(lambda done, of, doing: print(f"\r{done} of {of}", end="", file=sys.stderr)) if shown else None,
        )
    except kpps.Error as error:
        end(error)
    print(worst(table))


if __name__ == "__main__":
    main()
