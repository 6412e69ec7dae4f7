#!/usr/bin/env python3
"""The tests that run in real time: those that sleep, wait with a limit or read a clock, themselves or through
functions of their file. Load must not make them fail.

    tests/real-time.py [WORD…]              lists them, or those with one of these words in their name
    tests/real-time.py --times 20 [WORD…]   runs each 20 times beside two busy loops, and names those that failed

A test that is listed waits for an event, repeats what was disturbed, or measures only itself. A new one that
compares a time with a clock's belongs into a benchmark. The list is read from the sources.
"""

import argparse
import pathlib
import re
import subprocess
import sys
import tomllib

ROOT = pathlib.Path(__file__).resolve().parents[1]
# The calls by which Rust's tests wait or read a clock.
CLOCK = re.compile(r"\bsleep\(|Instant::now|\.elapsed\(\)|SystemTime::now|recv_timeout\(|wait_timeout\(|set_read_timeout\(")
FUNCTION = re.compile(r"^( *)(?:pub(?:\([a-z]+\))? )?(?:async )?(?:unsafe )?fn (\w+)", re.M)


# A module within a file.
MODULE = re.compile(r"^( *)(?:pub(?:\([a-z]+\))? )?mod (\w+) \{", re.M)


def modules(text: str, position: int) -> list[str]:
    """The modules of a file that a position is in, outermost first."""
    return [it[2] for it in MODULE.finditer(text, 0, position) if text.find(f"\n{it[1]}}}", it.end()) > position]


def functions(text: str, begin: int):
    """The functions of a file from a position on: path within the file, name, body, whether it is a test, whether
    it is ignored."""
    for found in FUNCTION.finditer(text, begin):
        indent, name = found.groups()
        end = text.find(f"\n{indent}}}", found.end())
        above = text[: found.start()].rstrip().split("\n")
        marks = []
        while above and above[-1].strip().startswith(("#[", "///", "//")):
            marks.append(above.pop().strip())
        is_test = any(mark.startswith("#[test]") for mark in marks)
        path = "::".join([*modules(text, found.start()), name])
        yield path, name, text[found.end() : end], is_test, any(mark.startswith("#[ignore") for mark in marks)


def module(path: pathlib.Path, source: pathlib.Path) -> str:
    """The path of a file's module within its crate or its test program."""
    parts = list(path.relative_to(source).with_suffix("").parts)
    if parts[-1] in ("mod", "main", "lib"):
        parts.pop()
    return "::".join(parts)


def programs():
    """The test programs: package, the arguments of cargo, folder of sources, whether all of it is tests."""
    for manifest in sorted([*ROOT.glob("crates/*/*/Cargo.toml"), ROOT / "fuzz/Cargo.toml"]):
        package, folder = tomllib.loads(manifest.read_text())["package"]["name"], manifest.parent
        if (folder / "src/lib.rs").exists():
            yield package, "--lib", folder / "src", [*folder.glob("src/**/*.rs")], False
        for program in sorted(folder.glob("tests/*")):
            if program.is_dir() and (program / "main.rs").exists():
                yield package, f"--test={program.name}", program, [*program.glob("**/*.rs")], True
            elif program.suffix == ".rs":
                yield package, f"--test={program.stem}", folder / "tests", [program], True


# A module of tests: in this file, or in a file of its own.
TESTS = re.compile(r"#\[cfg\((?:test|all\(.*?test.*?\))\)\]\n(?:#.*\n)*mod (\w+)( \{|;)")


def beginning(text: str):
    """Where the tests of a file begin; None without any."""
    within = [found for found in TESTS.finditer(text) if found[2] == " {"]
    return within[0].start() if within else None


def modules_of_tests(files: list[pathlib.Path]) -> set[pathlib.Path]:
    """The files that are all tests, because another one declares them so."""
    found = set()
    for path in files:
        names = [it[1] for it in TESTS.finditer(path.read_text()) if it[2] == ";"]
        folder = path.parent if path.stem in ("lib", "mod", "main") else path.with_suffix("")
        found |= {it for name in names for it in (folder / f"{name}.rs", folder / name / "mod.rs")}
    return found


def real_time():
    """Each test in real time: package, cargo's argument, name."""
    for package, argument, source, files, is_all_tests in programs():
        of_tests = modules_of_tests(files)
        for path in files:
            text = path.read_text()
            begin = 0 if is_all_tests or path in of_tests else beginning(text)
            if begin is None:
                continue
            at = "" if argument == f"--test={path.stem}" else module(path, source)
            found = list(functions(text, begin))
            slow = {name for _, name, body, *_ in found if CLOCK.search(body)}
            while True:
                calls = re.compile(rf"\b(?:{'|'.join(sorted(slow))})\(") if slow else re.compile("$^")
                more = {name for _, name, body, *_ in found if calls.search(body)} - slow
                slow |= more
                if not more:
                    break
            for path, name, _, is_test, is_ignored in found:
                if is_test and not is_ignored and name in slow:
                    yield package, argument, "::".join(part for part in [at, path] if part)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--times", type=int, metavar="N", help="run each N times beside two busy loops")
    parser.add_argument("words", nargs="*", metavar="WORD")
    arguments = parser.parse_args()
    chosen = [it for it in real_time() if not arguments.words or any(word in " ".join(it) for word in arguments.words)]
    if not arguments.times:
        for package, argument, name in chosen:
            print(package, argument, name)
        print(f"{len(chosen)} tests run in real time")
        return 0
    loops = [subprocess.Popen(["sh", "-c", "while :; do :; done"]) for _ in range(2)]
    failed = 0
    try:
        for package, argument, name in chosen:
            command = ["cargo", "test", "--quiet", "--package", package, argument, "--", "--exact", name]
            # A run that has no such test, or that skips it, is none.
            runs = [subprocess.run(command, cwd=ROOT, capture_output=True, text=True) for _ in range(arguments.times)]
            bad = sum(run.returncode != 0 or "1 passed" not in run.stdout or "skipped" in run.stderr for run in runs)
            print(f"{arguments.times - bad} of {arguments.times}: {package} {name}", flush=True)
            failed += bad > 0
    finally:
        for loop in loops:
            loop.kill()
    print(f"{failed} of {len(chosen)} tests failed at least once")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
