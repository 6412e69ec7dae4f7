#!/usr/bin/env python3
"""Which branches of the driver do the worlds of faults take?

A branch is a block of a function: its body, each arm of an `if` or a `match`, the body of a loop or of a closure.
A copy of the sources says at the first time that it enters each; then the test `no_world_fails` runs
(KPPS_WORLDS worlds, 150 if it is not set). A `const fn` cannot say so, and is left out; an `if` without `else` has
one branch here.

usage: tests/branches.py [FILE…], sources from the root of the repository; without, all of crates/driver/driver/src
"""

import json
import os
import pathlib
import re
import shutil
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
TARGET = pathlib.Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target"))
TREE = TARGET / "branches-tree"
TAKEN = TARGET / "branches-taken"
ENVIRONMENT = dict(os.environ, CARGO_TARGET_DIR=str(TARGET / "branches-build"), RUSTFLAGS="--cap-lints allow",
                   KPPS_BRANCHES=str(TAKEN))

# Put at the end of the crate.
TELL = """
#[doc(hidden)]
pub(crate) fn branch(number: usize) {
    extern crate std;
    use std::io::Write;
    use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
    static TAKEN: [AtomicBool; BRANCH_COUNT] = [const { AtomicBool::new(false) }; BRANCH_COUNT];
    if !TAKEN[number].swap(true, Relaxed) {
        if let Ok(path) = std::env::var("KPPS_BRANCHES") {
            let file = std::fs::OpenOptions::new().create(true).append(true).open(path);
            let _ = file.and_then(|mut file| file.write_all(std::format!("{number}\\n").as_bytes()));
        }
    }
}
"""
# Text that is not code: comments, strings, characters.
NO_CODE = re.compile(r"""//[^\n]*|b?"(?:[^"\\]|\\.)*"|b?'(?:[^'\\\n]|\\[^\n][^'\n]*)'""", re.S)
CLOSING = {"(": ")", "[": "]", "{": "}"}


def code_of(text):
    """The text with spaces for everything that is not code, nor of a function that can be distinguished."""
    def blank(found):
        return re.sub(r"[^\n]", " ", found.group())

    code = NO_CODE.sub(blank, text)
    tests = re.search(r"#\[cfg\((test|all\(test)[^\n]*\nmod ", code)
    end = tests.start() if tests else len(code)
    return code[:end] + " " * (len(code) - end)


def closes(code, start):
    """Where the bracket that opens at `start` is closed."""
    open_brackets = []
    for at in range(start, len(code)):
        if code[at] in CLOSING:
            open_brackets.append(CLOSING[code[at]])
        elif open_brackets and code[at] == open_brackets[-1]:
            open_brackets.pop()
            if not open_brackets:
                return at
    sys.exit(f"a bracket is not closed: {code[start:start + 60]!r}")


def bodies(code):
    """Start and end of the outermost functions' bodies."""
    done = 0
    for found in re.finditer(r"\bfn\s+\w+", code):
        if found.start() < done:
            continue
        at = found.end()
        while code[at] not in "{;":
            at = closes(code, at) + 1 if code[at] in "([" else at + 1
        if code[at] == "{":
            done = closes(code, at)
            line = code[code.rfind("\n", 0, found.start()):found.start()]
            if not re.search(r"\bconst\b", line):
                yield at, done


def is_block(code, start, at):
    """Whether the brace at `at` in a function that starts at `start` opens a block."""
    before = code[start:at].rstrip()
    if at == start or before.endswith(("=>", "|", "else", "loop", "unsafe")):
        return True
    # The words since the last statement, with what is in brackets left out.
    head, depth = [], 0
    for char in reversed(before):
        if char in ")]}":
            depth += 1
            if char == "}" and depth == 1:
                # The end of a block, unless something that is no statement goes on here.
                depth -= 1
                break
        elif char in "([{":
            if depth == 0:
                break
            depth -= 1
        elif depth == 0:
            if char == ";":
                break
            head.append(char)
    head = "".join(reversed(head))
    words = re.findall(r"\b(if|while|for|match)\b", head)
    name = re.search(r"(\w+)$", before)
    is_type = name and re.match(r"[A-Z]\w*[a-z]", name.group(1))
    return bool(words) and words[-1] != "match" and not is_type


def branches(code):
    """Where branches begin, and where they end if they need braces of their own."""
    for start, end in bodies(code):
        for at in range(start, end):
            if code[at] == "{" and is_block(code, start, at):
                yield at + 1, None
            elif code.startswith("=>", at) and not code[at + 2:].lstrip().startswith("{"):
                first = at + 2
                last = first
                while code[last] not in ",}":
                    last = closes(code, last) + 1 if code[last] in CLOSING else last + 1
                yield first, last


def write_tree(files, left_out):
    """Writes the files with all branches but these; returns them by number: file and line."""
    known, places = {}, {}
    for path in files:
        text = (ROOT / path).read_text()
        inserted = []
        for begin, end in branches(code_of(text)):
            number = len(known) + 1
            known[number] = (path, text.count("\n", 0, begin) + 1)
            if number not in left_out:
                inserted.append((begin, ("{" if end else "") + f" crate::branch({number});"))
                if end:
                    inserted.append((end, "}"))
        result, done = [], 0
        for at, more in sorted(inserted, key=lambda item: item[0]):
            result += [text[done:at], more]
            done = at
        (TREE / path).write_text("".join(result) + text[done:])
    for library in {pathlib.Path(*pathlib.Path(path).parts[:3]) / "src/lib.rs" for path in files}:
        text = (TREE / library if str(library) in files else ROOT / library).read_text()
        (TREE / library).write_text(text + TELL.replace("BRANCH_COUNT", str(len(known) + 1)))
    return known


def cargo(*arguments):
    return subprocess.run(["cargo", *arguments], cwd=TREE, env=ENVIRONMENT, capture_output=True, text=True)


def compiles(files):
    """Writes the tree without the branches that do not compile there; returns all, and those left out."""
    left_out = set()
    while True:
        known = write_tree(files, left_out)
        output = cargo("check", "--quiet", "--message-format=json", "--package", "kpps-faults")
        wrong = set()
        for line in output.stdout.splitlines():
            message = json.loads(line)
            if message["reason"] == "compiler-message" and message["message"]["level"] == "error":
                spans = {(span["file_name"], span["line_start"]) for span in message["message"]["spans"]}
                wrong |= {number for number, place in known.items() if place in spans}
        wrong -= left_out
        if output.returncode == 0:
            return known, left_out
        if not wrong:
            sys.exit("the tree with branches does not compile:\n" + output.stderr + output.stdout[-3000:])
        left_out |= wrong


def main():
    files = sys.argv[1:]
    if any(argument.startswith("-") for argument in files):
        sys.exit(__doc__)
    shutil.rmtree(TREE, ignore_errors=True)
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, check=True, capture_output=True, text=True).stdout
    for path in filter(None, listed.split("\0")):
        (TREE / path).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(ROOT / path, TREE / path)
    files = files or [path for path in listed.split("\0")
                      if re.fullmatch(r"crates/driver/driver/src/.*\.rs", path)
                      and not path.endswith(("tests.rs", "fake.rs"))]
    known, left_out = compiles(files)
    TAKEN.unlink(missing_ok=True)
    test = ["test", "--quiet", "--release", "--package", "kpps-faults", "--test", "worlds", "--"]
    run = cargo(*test, "--ignored", "--exact", "no_world_fails")
    if run.returncode != 0:
        sys.exit("the worlds fail:\n" + run.stdout + run.stderr)
    taken = set(map(int, TAKEN.read_text().split()))
    print(f"{'branches':>8} {'taken':>6}")
    for path in files:
        mine = [number for number, (file, _) in known.items() if file == path and number not in left_out]
        if mine:
            print(f"{len(mine):8} {len(taken & set(mine)):6}  {path}")
    counted = set(known) - left_out
    print(f"{len(counted):8} {len(taken):6}  {100 * len(taken) / max(1, len(counted)):.1f} %; "
          f"{len(left_out)} left out, which do not compile with a mark")
    print("\nnot taken:")
    for number in sorted(counted - taken):
        path, line = known[number]
        print(f"{path}:{line}: {(ROOT / path).read_text().splitlines()[line - 1].strip()}")


if __name__ == "__main__":
    main()
