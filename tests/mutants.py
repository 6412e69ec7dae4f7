#!/usr/bin/env python3
"""Changes one expression at a time, and asks tests whether they notice: a mutation check in one build.

cargo-mutants says which changes there are. It would compile the project once for each. Here all of them are
compiled together: each function that has changes gets one body for each of them, and the environment variable
KPPS_MUTANT chooses one when a test runs. A change in a `const fn` cannot be chosen there, so it is left out
and counted.

usage: tests/mutants.py [--worlds] [--tests] [--share K/N] [--only FILE] [OPTION OF cargo mutants --list, as -f FILE…]

With --worlds the simulation of faults decides (the test `no_world_fails`); with --tests the tests of the changed
package; with both, what survives the worlds is tried on the tests. --share 0/8 tries each eighth; --only those whose
names are lines of a file, such as the survivors of an earlier run. Prints what survives each step, and the shares that
were killed; the last survivors are in target/mutants-survived. Takes cargo-mutants from the PATH.
"""

import collections
import concurrent.futures
import json
import os
import pathlib
import re
import resource
import select
import shutil
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
TARGET = pathlib.Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target"))
TREE = TARGET / "mutants-tree"
BUILD = TARGET / "mutants-build"
# A mutant that never ends is killed after CPU_TIMES the processor time of all programs without a mutant, and
# CPU_MORE_S seconds, however busy the machine is. A mutant that waits for itself is killed when none of its threads
# has run or wanted to run for LONGEST_WAIT_S.
CPU_TIMES = 10
CPU_MORE_S = 5
LONGEST_WAIT_S = 30
# The output of a test program about a test that failed. The other tests need not end then.
FAILED = b"... FAILED\n"
# Comments and attributes above a function, which belong to it.
ABOVE = re.compile(r"(\s*(//|#).*\n)*")
ENVIRONMENT = dict(os.environ, CARGO_TARGET_DIR=str(BUILD), RUSTFLAGS="--cap-lints allow", RUST_BACKTRACE="0")

# Says which mutant is wanted. Put at the end of each changed crate.
CHOICE = """
#[doc(hidden)]
pub(crate) fn mutant() -> u32 {
    extern crate std;
    static WANTED: std::sync::OnceLock<u32> = std::sync::OnceLock::new();
    *WANTED.get_or_init(|| std::env::var("KPPS_MUTANT").ok().and_then(|n| n.parse().ok()).unwrap_or(0))
}
"""


def offset(lines, place):
    """The position in the text of a line and a column, both from 1."""
    return sum(len(line) for line in lines[: place["line"] - 1]) + place["column"] - 1


def functions(text, mutants):
    """The outermost functions of a file that have mutants: start, end, and the mutants' numbers."""
    lines = text.splitlines(keepends=True)
    spans = collections.defaultdict(list)
    for number, mutant in mutants.items():
        if mutant["function"] is None:
            continue
        span = mutant["function"]["span"]
        spans[offset(lines, span["start"]), offset(lines, span["end"])].append(number)
    found = []
    for (start, end), numbers in sorted(spans.items(), key=lambda item: (item[0][0], -item[0][1])):
        if found and start < found[-1][1]:
            found[-1][2].extend(numbers)
        else:
            found.append((start, end, list(numbers)))
    return found, lines


def write_file(path, mutants, left_out):
    """Writes a file with all its mutants; returns where each stands, in lines from 1."""
    text = (ROOT / path).read_text()
    found, lines = functions(text, mutants)
    result, done, places = [], 0, []
    left_out.update({number: "outside of functions" for number in mutants if mutants[number]["function"] is None})

    def line():
        return sum(part.count("\n") for part in result) + 1

    for start, end, numbers in found:
        body = text.index("{", ABOVE.match(text, start).end())
        if "const fn" in text[start:body]:
            left_out.update({number: "in a const fn" for number in numbers})
            continue
        numbers = [number for number in numbers if number not in left_out]
        result.append(text[done:body] + "{ match crate::mutant() {\n")
        for number in numbers:
            span = mutants[number]["span"]
            first, last = offset(lines, span["start"]), offset(lines, span["end"])
            begin = line()
            changed = text[body:first] + " " + mutants[number]["replacement"] + " " + text[last:end]
            result.append(f"{number} => {changed}\n")
            places.append((begin, line() - 1, number))
        result.append(f"_ => {text[body:end]}\n}} }}")
        done = end
    result.append(text[done:])
    (TREE / path).write_text("".join(result))
    return places


def write_tree(mutants, left_out):
    """Writes all files with mutants; returns the places of the mutants by file."""
    by_file = collections.defaultdict(dict)
    for number, mutant in mutants.items():
        by_file[mutant["file"]][number] = mutant
    places = {path: write_file(path, those, left_out) for path, those in by_file.items()}
    for path in {pathlib.Path(*pathlib.Path(path).parts[:3]) / "src/lib.rs" for path in by_file}:
        with open(TREE / path, "a") as file:
            file.write(CHOICE)
        if str(path) not in places:
            text = (ROOT / path).read_text()
            (TREE / path).write_text(text + CHOICE)
    return places


def compiles(mutants, packages):
    """Writes the tree without the mutants that do not compile; returns why mutants are left out."""
    left_out = {}
    while True:
        places = write_tree(mutants, left_out)
        command = ["cargo", "check", "--quiet", "--tests", "--message-format=json"]
        command += [word for package in packages for word in ("--package", package)]
        output = subprocess.run(command, cwd=TREE, env=ENVIRONMENT, capture_output=True, text=True)
        wrong = set()
        for line in output.stdout.splitlines():
            message = json.loads(line)
            if message["reason"] != "compiler-message" or message["message"]["level"] != "error":
                continue
            for span in message["message"]["spans"]:
                for first, last, number in places.get(span["file_name"], []):
                    if first <= span["line_start"] and span["line_end"] <= last:
                        wrong.add(number)
        if not wrong and output.returncode != 0:
            sys.exit("the tree with mutants does not compile, and not because of one of them:\n" + output.stderr
                     + output.stdout[-2000:])
        if not wrong:
            return left_out
        left_out.update({number: "does not compile" for number in wrong})


def build(arguments):
    """Builds tests; returns the programs."""
    command = ["cargo", "test", "--quiet", "--profile", "mutants", "--no-run", "--message-format=json", *arguments]
    output = subprocess.run(command, cwd=TREE, env=ENVIRONMENT, capture_output=True, text=True)
    if output.returncode != 0:
        sys.exit("tests do not compile:\n" + output.stderr)
    messages = [json.loads(line) for line in output.stdout.splitlines()]
    return [(message["executable"], pathlib.Path(message["manifest_path"]).parent) for message in messages
            if message.get("executable") and message["profile"]["test"]]


def passes(number, programs, arguments, longest_cpu_s=600):
    """Whether all programs pass with this mutant, each within this much processor time."""

    def limit():
        resource.setrlimit(resource.RLIMIT_CPU, (longest_cpu_s, longest_cpu_s))
        resource.setrlimit(resource.RLIMIT_AS, (8 << 30, 8 << 30))

    for program, folder in programs:
        run = subprocess.Popen([program, *arguments], cwd=folder, env=dict(ENVIRONMENT, KPPS_MUTANT=str(number)),
                               stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, preexec_fn=limit)
        before, said = None, b""
        while FAILED not in said:
            if select.select([run.stdout], [], [], LONGEST_WAIT_S)[0]:
                more = os.read(run.stdout.fileno(), 1 << 16)
                if not more:
                    break
                said = said[-len(FAILED):] + more
            else:
                now = threads(run.pid)
                if now == before and not any(state == "R" for state, _ in now):
                    run.kill()
                    break
                before = now
        if FAILED in said:
            run.kill()
        run.stdout.close()
        if run.wait() != 0:
            return False
    return True


def threads(process):
    """The state of each thread of a process, and the processor time that it has used."""
    found = []
    for stat in pathlib.Path("/proc", str(process), "task").glob("*/stat"):
        try:
            words = stat.read_text().rsplit(")", 1)[1].split()
        except OSError:
            continue
        found.append((words[0], int(words[11]) + int(words[12])))
    return found


def cpu_s():
    """The processor time of the programs that have ended."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def survivors(numbers, mutants, programs, arguments, what):
    """The mutants that these programs do not notice. Prints each."""
    before = cpu_s()
    if not passes(0, programs, arguments):
        sys.exit(f"{what} fail without a mutant")
    longest_cpu_s = CPU_MORE_S + round(CPU_TIMES * (cpu_s() - before))
    left = []
    # Each eighth after the other: a run that is interrupted has tried a fair sample.
    numbers = sorted(numbers, key=lambda number: (number % 8, number))
    with concurrent.futures.ThreadPoolExecutor(len(os.sched_getaffinity(0))) as pool:
        for done, (number, alive) in enumerate(
                zip(numbers, pool.map(lambda number: passes(number, programs, arguments, longest_cpu_s), numbers)), 1):
            if alive:
                left.append(number)
                print(f"{what} do not notice {number}: {mutants[number]['name']}", flush=True)
            if sys.stderr.isatty() or done % 50 == 0:
                print(f"{what}: {done} of {len(numbers)}, {len(left)} survived", file=sys.stderr, flush=True)
    return left


def main():
    arguments = sys.argv[1:]
    worlds, tests = "--worlds" in arguments, "--tests" in arguments
    if not worlds and not tests:
        sys.exit(__doc__)
    arguments = [argument for argument in arguments if argument not in ("--worlds", "--tests")]
    part, parts = 0, 1
    if "--share" in arguments:
        at = arguments.index("--share")
        part, parts = map(int, arguments[at + 1].split("/"))
        del arguments[at:at + 2]
    only = None
    if "--only" in arguments:
        at = arguments.index("--only")
        only = set(pathlib.Path(arguments[at + 1]).read_text().splitlines())
        del arguments[at:at + 2]
    listed = subprocess.run(["cargo", "mutants", "--list", "--json", *arguments], cwd=ROOT, check=True,
                            capture_output=True, text=True).stdout
    mutants = {number: mutant for number, mutant in enumerate(json.loads(listed), 1)
               if number % parts == part and (only is None or mutant["name"] in only)}
    packages = sorted({mutant["package"] for mutant in mutants.values()})
    print(f"{len(mutants)} mutants in {', '.join(packages)}", flush=True)

    shutil.rmtree(TREE, ignore_errors=True)
    files = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, check=True, capture_output=True, text=True).stdout
    for path in filter(None, files.split("\0")):
        (TREE / path).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(ROOT / path, TREE / path)
    left_out = compiles(mutants, packages + ["kpps-faults"] * worlds)
    why = collections.Counter(left_out.values())
    tried = [number for number in mutants if number not in left_out]
    print(f"{len(tried)} tried" + "".join(f", {count} {reason}" for reason, count in why.items()), flush=True)

    left = tried
    if worlds:
        programs = build(["--package", "kpps-faults", "--test", "worlds"])
        left = survivors(tried, mutants, programs, ["--ignored", "--exact", "no_world_fails"], "worlds")
        by_file = collections.Counter(mutants[number]["file"] for number in tried)
        missed = collections.Counter(mutants[number]["file"] for number in left)
        for file, count in sorted(by_file.items()):
            print(f"{count - missed[file]:5} of {count:4} killed by worlds: {file}")
        print(f"killed by worlds: {len(tried) - len(left)} of {len(tried)}, "
              f"{100 * (len(tried) - len(left)) / len(tried):.1f} %", flush=True)
    for package in packages * tests:
        mine = [number for number in left if mutants[number]["package"] == package]
        programs = build(["--package", package, "--lib", "--tests"])
        noticed = set(mine) - set(survivors(mine, mutants, programs, [], f"tests of {package}"))
        left = [number for number in left if number not in noticed]
    (TARGET / "mutants-survived").write_text("".join(mutants[number]["name"] + "\n" for number in left))
    killed = len(tried) - len(left)
    print(f"killed in all: {killed} of {len(tried)}, {100 * killed / max(1, len(tried)):.1f} %")


if __name__ == "__main__":
    main()
