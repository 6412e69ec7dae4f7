#!/usr/bin/env python3
"""Predicts a real kernel in the simulator, and measures it in the lab: the study lab2026.

  tests/lab2026.py predict --kpps target/release/kpps > lab/lab2026/predicted-2026-11-26.csv
  tests/lab2026.py measure --kpps target/release/kpps --modules FOLDER --keep FOLDER > lab/lab2026/measured-2026-11-26.csv
  tests/lab2026.py judge lab/lab2026/predicted-2026-11-26.csv lab/lab2026/measured-2026-11-26.csv
  tests/lab2026.py check lab/lab2026/predicted-2026-11-26.csv --kpps target/release/kpps

`check` predicts a twentieth of the curves again and compares them with the file. `predict` takes half a minute. `measure` boots a guest for each of 60 curves, which takes one to three minutes; --jobs 2
measures two at a time. --keep has the documents of curves that are done. --modules has e1000-w8.ko, e1000-w16.ko and
e1000-w32.ko, each made by tests/e1000-weight.sh. The machine was calibrated on the curves called `base` and `weight=8`
with frames of 64 bytes.
"""

import argparse
import concurrent.futures
import csv
import json
import pathlib
import subprocess
import sys

HERE = pathlib.Path(__file__).parent.parent / "lab" / "lab2026"
APPS = ["receive", "route", "bridge"]
CALIBRATED_ON = ["base", "weight=8"]
# Name, settings of the simulator, settings of the guest.
SETTINGS = [("base", [], [])]
SETTINGS += [(f"weight={w}", [f"driver.weight={w}"], [f"weight={w}"]) for w in (8, 16, 32)]
SETTINGS += [
    (f"ring={r}", [f"driver.rx_ring={r}"], [f"linux.RxDescriptors={r}"]) for r in (64, 128, 512, 1024, 2048)
]
SETTINGS += [
    (f"InterruptThrottleRate={value}", [f"driver.itr={itr}"], [f"linux.InterruptThrottleRate={value}"])
    for value, itr in (("0", "off"), ("1", "dynamic"))
]
SETTINGS += [("InterruptThrottleRate=8000", [], ["linux.InterruptThrottleRate=8000"])]
SETTINGS += [
    (f"RxIntDelay={value}", [f"driver.rdtr={value}"], [f"linux.RxIntDelay={value}"]) for value in (32, 128)
]
SETTINGS += [
    (
        "RxIntDelay=128 RxAbsIntDelay=512 InterruptThrottleRate=0",
        ["driver.rdtr=128", "driver.radv=512", "driver.itr=off"],
        ["linux.RxIntDelay=128", "linux.RxAbsIntDelay=512", "linux.InterruptThrottleRate=0"],
    )
]
# Sizes in bytes with FCS; ten loads, in steps of these kpps: all within a gigabit's line rate.
SIZES = {64: 50, 128: 50, 256: 45, 512: 23, 1024: 11, 1518: 8}
COLUMNS = ["app", "setting", "size", "offered_pps", "delivered_pps", "cpu_busy", "interrupts_per_s"]


def curves():
    for app in APPS:
        for size in SIZES:
            for name, simulated, guest in SETTINGS:
                if size == 64 or name == "base":
                    yield app, size, name, simulated, guest


def loads(app, size):
    step = SIZES[size]
    # A router or bridge takes half of what a receiver takes: its knee is in the middle, too.
    step = step / 2 if app != "receive" and size <= 256 else step
    return ",".join(f"{step * n:g}kpps" for n in range(1, 11))


def run(kpps, app, size, arguments):
    command = [kpps, "curve", "--json", "--load", loads(app, size), "--size", str(size), *arguments]
    done = subprocess.run(command, stdout=subprocess.PIPE, check=False)
    if done.returncode:
        raise SystemExit(f"{' '.join(command)}: ended with {done.returncode}")
    return json.loads(done.stdout)


def rows(document, app, size, name):
    for point in document["series"][0]["points"]:
        values = (point[column] for column in COLUMNS[3:])
        yield [app, name, size, *(round(v, 4) for v in values)]


def predict(kpps, app, size, name, simulated):
    top = [] if app == "receive" else ["--app", app, "--one-way"]
    driver = HERE / "itr-8000.toml" if name == "InterruptThrottleRate=8000" else "linux-6.1-e1000"
    machine = ["--machine", str(HERE / "machine.toml"), "--driver", str(driver), "--duration", "400ms"]
    return run(kpps, app, size, machine + top + [word for change in simulated for word in ("--set", change)])


def measure(kpps, app, size, name, guest, options):
    kept = options.keep / f"{app}-{size}-{name.replace(' ', '-')}.json"
    if kept.exists():
        return json.loads(kept.read_text())
    arguments = ["--testbed", f"lab:linux-6.1/e1000/linux/{app}", "--duration", "400ms"]
    for setting in guest:
        path, value = setting.split("=")
        if path == "weight":
            arguments += ["--driver-module", str(options.modules / f"e1000-w{value}.ko")]
        else:
            arguments += ["--set", setting]
    document = run(kpps, app, size, arguments)
    kept.write_text(json.dumps(document))
    print(kept.name, file=sys.stderr, flush=True)
    return document


def judge(predicted, measured):
    """Shares of points within 15 %, for each quantity: of those that the machine was not calibrated on."""

    def key(row):
        return tuple(row[column] for column in COLUMNS[:4])

    def table(file):
        with open(file) as lines:
            return list(csv.DictReader(line for line in lines if not line.startswith("#")))

    measured = {key(row): row for row in table(measured)}
    predicted = table(predicted)
    for column in COLUMNS[4:]:
        errors = []
        for row in predicted:
            calibrated = row["setting"] in CALIBRATED_ON and row["size"] == "64"
            if not calibrated and key(row) in measured:
                p, m = float(row[column]), float(measured[key(row)][column])
                errors.append((abs(p - m) / m if m else float(p > 0), key(row), p, m))
        if not errors:
            raise SystemExit("no point was both predicted and measured")
        errors.sort(reverse=True)
        within = sum(error <= 0.15 for error, *_ in errors)
        median = errors[len(errors) // 2][0]
        print(f"{column}: {within} of {len(errors)} within 15 % ({within / len(errors):.1%}), median error {median:.1%}")
        for error, at, p, m in errors[: len(errors) - within]:
            print(f"   {error:8.1%}  predicted {p:12.4f}  measured {m:12.4f}  {' '.join(at)}")


def check(kpps, file):
    """The model still predicts what the file says."""
    with open(file) as lines:
        recorded = list(csv.reader(line for line in lines if not line.startswith("#")))[1:]
    for app, size, name, simulated, _ in curves():
        if size == 64 and name == "base":
            expected = [row for row in recorded if row[:3] == [app, name, str(size)]]
            found = [[str(v) for v in row] for row in rows(predict(kpps, app, size, name, simulated), app, size, name)]
            if found != expected:
                raise SystemExit(f"{app}, {name}, {size} bytes: predicted {found}, recorded {expected}")
            print(f"{app}, {name}, {size} bytes: {len(found)} points as recorded")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["predict", "measure", "judge", "check"])
    parser.add_argument("files", nargs="*")
    parser.add_argument("--kpps", default="kpps")
    parser.add_argument("--modules", type=pathlib.Path)
    parser.add_argument("--keep", type=pathlib.Path, default=pathlib.Path("lab2026"))
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--only", default="", help="only these settings, with commas, and frames of 64 bytes")
    options = parser.parse_args()
    if options.what == "judge":
        return judge(*options.files)
    if options.what == "check":
        return check(options.kpps, *options.files)
    only = options.only.split(",") if options.only else None
    wanted = [curve for curve in curves() if only is None or (curve[2] in only and curve[1] == 64)]
    if options.what == "measure":
        options.keep.mkdir(parents=True, exist_ok=True)

    def one(curve):
        app, size, name, simulated, guest = curve
        if options.what == "predict":
            return predict(options.kpps, app, size, name, simulated)
        return measure(options.kpps, app, size, name, guest, options)

    out = csv.writer(sys.stdout, lineterminator="\n")
    out.writerow(COLUMNS)
    with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
        for curve, document in zip(wanted, pool.map(one, wanted)):
            app, size, name, *_ = curve
            out.writerows(rows(document, app, size, name))


if __name__ == "__main__":
    main()
