#!/usr/bin/env python3
"""Do the lab's instruction counts repeat beside other load, and how far is our driver ahead?

Runs `kpps lab --clock instructions` several times while busy loops keep every processor of this host occupied, and
prints for each row and each ratio how far the runs are from their median. Then DPDK's driver alone with each ring
size, and our driver against the best of them, row by row. What is asked for and not held ends with exit code 1.

usage: tests/lab.py [--kpps target/release/kpps] [--runs 3] [--within 0.02] [--rings 256,512,1024,2048]
           [--least dpdk/transmit=2.0]… [--keep FOLDER] [-- ARGUMENTS OF kpps lab]
"""

import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
TARGET = pathlib.Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target"))


def lab(kpps: pathlib.Path, arguments: list[str], to: pathlib.Path) -> dict:
    """The document of a run. One that is there is not made again."""
    if not to.is_file():
        part = to.with_suffix(".part")
        part.unlink(missing_ok=True)
        command = [kpps, "lab", "--clock", "instructions", *arguments, "--results", part]
        ended = subprocess.run(command, stdout=subprocess.DEVNULL)
        if ended.returncode != 0:
            sys.exit(f"tests/lab.py: {' '.join(map(str, command))} ended with {ended.returncode}")
        part.rename(to)
    return json.loads(to.read_text())


def counts(document: dict) -> dict[tuple, float]:
    """Instructions per frame by card, workload, driver and backend."""
    rows = document["rows"]
    return {
        (row["device"], row["workload"], row["driver"], row["backend"]): statistics.median(row["instructions_per_frame"])
        for row in rows
        if not row["iommu"] or row["backend"] == "vfio"
    }


def ratios(document: dict) -> dict[tuple, float]:
    """How many times as many instructions each other driver takes."""
    return {(it["device"], it["workload"], "over " + it["over"], it["backend"]): it["ratio"] for it in document["ratios"]}


def repeat(options: argparse.Namespace, folder: pathlib.Path) -> tuple[dict[tuple, float], bool]:
    """The medians of all runs, and whether each run is near them."""
    loops = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in os.sched_getaffinity(0)]
    try:
        documents = [lab(options.kpps, options.arguments, folder / f"run{run}.json") for run in range(options.runs)]
    finally:
        for loop in loops:
            loop.kill()
            loop.wait()
    holds = True
    medians = {}
    for name, of in (("instructions per frame", counts), ("ratio", ratios)):
        print(f"\n{name}: median of {options.runs} runs beside {len(loops)} busy loops, and the farthest run from it")
        runs = [of(document) for document in documents]
        for key in runs[0]:
            values = [run[key] for run in runs if key in run]
            median = statistics.median(values)
            far = max(abs(value / median - 1) for value in values)
            is_near = far <= options.within and len(values) == len(runs)
            holds &= is_near
            print(f"{' '.join(key):<36} {median:>9.2f}  {far:>7.3%}{'' if is_near else '  NOT WITHIN'}")
            medians[key] = median
    return medians, holds


def ahead(options: argparse.Namespace, folder: pathlib.Path, medians: dict[tuple, float]) -> bool:
    """Prints our driver against the others', DPDK with the ring that is best for it; whether it is far enough ahead."""
    rings = {}
    for ring in options.rings:
        arguments = [*options.arguments, "--driver", "dpdk", "--set", f"dpdk.ring={ring}"]
        for key, value in counts(lab(options.kpps, arguments, folder / f"ring{ring}.json")).items():
            rings.setdefault(key, {})[ring] = value
    holds = True
    print("\nothers against ours, DPDK with the best of its rings " + ", ".join(map(str, options.rings)))
    for (device, workload, driver, backend), ours in medians.items():
        if driver != "kpps":
            continue
        print(f"{device:<7} {workload:<8} {backend:<4} ours {ours:>6.1f}", end="")
        for other, key in (("dpdk", backend), ("linux", "kernel")):
            key = (device, workload, other, key)
            best = min(rings.get(key, {}).items(), key=lambda it: it[1], default=(None, medians.get(key)))
            if best[1] is None:  # no such row
                continue
            ratio = best[1] / ours
            least = options.least.get(f"{other}/{workload}", options.least.get(other, 0.0))
            holds &= ratio >= least
            ring = f" (ring {best[0]})" if best[0] else ""
            print(f"  {other} {best[1]:>7.1f} = {ratio:.2f}{ring}{'' if ratio >= least else f' BELOW {least}'}", end="")
        print()
    return holds


def least(text: str) -> tuple[str, float]:
    name, value = text.split("=")
    return name, float(value)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kpps", type=pathlib.Path, default=TARGET / "release/kpps")
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--within", type=float, default=0.02, help="how far a run may be from the median")
    parser.add_argument("--rings", type=lambda text: [int(it) for it in text.split(",") if it],
                        default=[256, 512, 1024, 2048], help="ring sizes of DPDK; none with ''")
    parser.add_argument("--least", type=least, action="append", default=[], help="dpdk/transmit=2.0, linux=4")
    parser.add_argument("--keep", type=pathlib.Path, help="a folder for the documents; those in it are not made again")
    parser.add_argument("arguments", nargs="*", default=["--device", "e1000", "--backend", "uio"])
    options = parser.parse_args()
    options.least = dict(options.least)
    with tempfile.TemporaryDirectory() as temporary:
        folder = options.keep or pathlib.Path(temporary)
        folder.mkdir(parents=True, exist_ok=True)
        medians, near = repeat(options, folder)
        far_ahead = ahead(options, folder, medians) if options.rings else True
    sys.exit(0 if near and far_ahead else 1)


if __name__ == "__main__":
    main()
