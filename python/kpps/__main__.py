"""The command `kpps`, from the package: `python -m kpps curve`. With `--on ENGINE` a grid is measured there."""

from __future__ import annotations

import sys

from . import _kpps
from .errors import Error, Interrupted, end


def main(words: list[str] | None = None) -> None:
    """Runs the command with the words of this process, and ends it with the command's exit code."""
    words = ["kpps", *(sys.argv[1:] if words is None else words)]
    name, rest = _without_engine(words)
    if name is None or words[1:2] != ["grid"]:
        sys.exit(_kpps.main(words))
    from .grids import Engine, engine_of

    try:
        engine = Engine(_of_workers(rest), engine_of(name))
    except Error as error:
        end(error)
    try:
        code = _kpps.main(rest, engine)
    except KeyboardInterrupt:
        # The command has said so.
        code = Interrupted.exit_code
    finally:
        engine.chunks.close()
    sys.exit(code)


def _without(words: list[str], flags: tuple[str, ...]) -> tuple[list[str], list[str]]:
    """The words without these flags and their values, and the values."""
    left, values, at = [], [], 0
    while at < len(words):
        flag, equals, value = words[at].partition("=")
        if flag in flags:
            at += 0 if equals else 1
            values += [value if equals else words[at] if at < len(words) else ""]
        else:
            left.append(words[at])
        at += 1
    return left, values


def _without_engine(words: list[str]) -> tuple[str | None, list[str]]:
    left, names = _without(words, ("--on",))
    return (names[-1] if names else None), left


def _of_workers(words: list[str]) -> list[str]:
    """The words that workers get."""
    from .grids import NOT_OF_WORKERS

    left, _ = _without(words, tuple(f"--{name}" for name in NOT_OF_WORKERS))
    return [word for word in left if word not in ("--json", "--live", "--no-live")]


if __name__ == "__main__":
    main()
