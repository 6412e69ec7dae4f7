"""The commands as functions, made of the command's own definitions.

A keyword is a flag: `rx_ring=64` is `--rx-ring 64`. A list is the flag several times where the command takes
it several times, otherwise a list with commas. A dict is PATH=VALUE pairs. True is a switch; False and None are
left out.
"""

from __future__ import annotations

import datetime
import difflib
import inspect
import json
import keyword
import math
import operator
import os
import re
import sys
import tempfile
from collections.abc import Iterable, Mapping

from . import _kpps
from .errors import InputError, NAMED, line_of, needed
from .policies import Policy
from .results import Result

# Options that print, or show something on a terminal: a caller gets the results themselves.
ONLY_IN_A_TERMINAL = {"json", "live", "no_live", "every", "on"}
# Commands that are for a shell.
ONLY_IN_A_SHELL = {"man", "completions", "schema"}
# Commands whose names say little in Python, or hide something of it.
RENAMED = {"list": "profiles"}


def python_name(name: str) -> str:
    """A flag's name as a keyword."""
    name = name.replace("-", "_")
    return name + "_" if keyword.iskeyword(name) else name


class Parameter:
    """An argument of a command."""

    def __init__(self, told: dict):
        self.flag = told["flag"]
        self.name = python_name(self.flag or told["id"])
        self.help = told["help"] or ""
        self.heading = told["heading"]
        self.is_required = told["required"]
        self.is_switch = told["switch"]
        self.value = told["value"]
        self.default = told["default"]
        self.choices = told["choices"]
        self.takes_commas = told["comma"]
        self.is_repeated = told["repeated"]

    def words(self, value) -> list[str]:
        """The words of the command line that give the argument this value."""
        if value is None or value is False and self.is_switch:
            return []
        if self.is_switch:
            if value is not True:
                raise InputError(f"{self.name}= is a switch: give True or False, not {value!r}")
            return [f"--{self.flag}"]
        values = self._values(value)
        if not self.is_repeated:
            values = [",".join(values)]
        if self.flag is None:
            return values
        # A value may begin with a dash.
        return [f"--{self.flag}={value}" for value in values]

    def _values(self, value) -> list[str]:
        if isinstance(value, Mapping):
            return [f"{path}={self._pair(path, inner)}" for path, inner in value.items()]
        if _is_list(value):
            return [self._text(inner) for inner in value]
        return [self._text(value)]

    def _pair(self, path, value) -> str:
        values = [self._text(inner) for inner in value] if _is_list(value) else [self._text(value)]
        if not values:
            raise InputError(f"{self.name}= has no value for {path}")
        return ",".join(values)

    def _text(self, value) -> str:
        try:
            text = self._plain(value)
            text.encode()
        except InputError:
            raise
        except (ArithmeticError, TypeError, ValueError) as error:
            raise InputError(f"{self.name}= cannot be read: {line_of(error)}") from error
        return text

    def _plain(self, value) -> str:
        if isinstance(value, bool):
            return "true" if value else "false"
        if isinstance(value, datetime.timedelta):
            return f"{round(value.total_seconds() * 1e6)}us"
        if isinstance(value, (str, os.PathLike)):
            return os.fsdecode(value)
        if isinstance(value, type) and issubclass(value, Policy):
            return value.register()
        # Numbers of numpy are among them.
        if hasattr(value, "__index__"):
            return str(operator.index(value))
        if hasattr(value, "__float__"):
            if not math.isfinite(value):
                raise InputError(f"{self.name}= is {value}: give a finite number")
            return str(int(value)) if float(value) == int(value) and abs(value) < 2**63 else repr(float(value))
        kind = type(value).__name__
        raise InputError(f"{self.name}= cannot be of type {kind}: {self.allowed()}")

    def allowed(self) -> str:
        """The values that it takes, in words."""
        if self.choices:
            return "it is one of " + ", ".join(self.choices)
        return f"it is {self.value}" if self.value else "it is True or False"

    def doc(self) -> str:
        """Its line of a docstring."""
        default = f" [default: {','.join(self.default)}]" if self.default and not self.is_switch else ""
        value = "True or False" if self.is_switch else self.value
        return f"{self.name} ({value}): {in_python(self.help)}{default}"


def _is_list(value) -> bool:
    return isinstance(value, Iterable) and not isinstance(value, (str, bytes, os.PathLike)) and (
        not hasattr(value, "ndim") or value.ndim > 0
    )


class Command:
    """A command."""

    def __init__(self, told: dict):
        self.path = told["path"]
        name = "_".join(self.path)
        self.name = python_name(RENAMED.get(name, name))
        self.about = told["about"] or ""
        self.more = told["more"] or ""
        parameters = [Parameter(argument) for argument in told["arguments"]]
        self.parameters = {it.name: it for it in parameters if it.name not in ONLY_IN_A_TERMINAL}

    @property
    def positional(self) -> list[Parameter]:
        """Those without a flag, in their order."""
        return [it for it in self.parameters.values() if it.flag is None]

    def words(self, values: tuple, named: dict) -> list[str]:
        """The words of a command line with these arguments."""
        given = dict(named)
        for name in given:
            if name not in self.parameters:
                raise InputError(self._unknown(name))
        positional = self.positional
        for at, parameter in enumerate(positional):
            if parameter.is_repeated and len(values) > at:
                inner = values[at:] if len(values) > at + 1 or not _is_list(values[at]) else values[at]
                values = (*values[:at], [*inner])
        if len(values) > len(positional):
            names = ", ".join(it.name for it in positional) or "none"
            raise InputError(f"{self.name}() takes {names} by position, and got {len(values)} values")
        for parameter, value in zip(positional, values):
            if parameter.name in given:
                raise InputError(f"{self.name}() got {parameter.name}= twice")
            given[parameter.name] = value
        words = list(self.path)
        for name, value in given.items():
            if self.parameters[name].flag is not None:
                words += self.parameters[name].words(value)
        words.append("--")
        for parameter in positional:
            words += parameter.words(given.get(parameter.name))
        return ["kpps", *words]

    def _unknown(self, name: str) -> str:
        known = [*self.parameters, *(OF_ENGINES if self.name == "grid" else ())]
        near = difflib.get_close_matches(name, known, n=3, cutoff=0.6)
        hint = f"; near it are {', '.join(f'{it}=' for it in near)}" if near else ""
        return f"{self.name}() has no {name}={hint}; it takes {', '.join(known)}"

    def signature(self) -> inspect.Signature:
        """Its signature: positional arguments, then keywords."""
        kinds = inspect.Parameter
        parameters = [
            kinds(it.name, kinds.VAR_POSITIONAL if it.is_repeated else kinds.POSITIONAL_OR_KEYWORD,
                  **({} if it.is_repeated else {"default": None}))
            for it in self.positional
        ]
        named = [it.name for it in self.parameters.values() if it.flag is not None]
        named += ["progress"]
        return inspect.Signature(parameters + [kinds(it, kinds.KEYWORD_ONLY, default=None) for it in named])

    def doc(self) -> str:
        """Its docstring."""
        lines = [in_python(self.about) + ".", "", "Args:"]
        lines += [f"    {it.doc()}" for it in self.parameters.values()]
        lines.append("    progress: True for a bar by tqdm, or a function that is called with the number of trials "
                     "done, of how many (None if it is not known), and what is measured now")
        return "\n".join(lines)


def all_commands() -> dict[str, Command]:
    """The commands that this build has, by the names of their functions."""
    told = (Command(it) for it in json.loads(_kpps.table()))
    return {it.name: it for it in told if it.name not in ONLY_IN_A_SHELL}


COMMANDS = all_commands()
_FLAG = re.compile(r"--([a-z][a-z0-9-]*)(?:[ =]<[^>]*>(?:\.\.\.)?)?")


def in_python(text: str) -> str:
    """A text of the command with `load=` for `--load <LOAD>`."""
    return _FLAG.sub(lambda found: f"{python_name(found[1])}=", text)


def bar():
    """A function that shows progress by tqdm."""
    shown = needed("tqdm.auto", "notebook").tqdm(unit="trial")

    def show(done: int, of: int | None, doing: str) -> None:
        shown.total = of
        shown.set_postfix_str(doing, refresh=False)
        shown.update(done - shown.n)

    return show


def run(words: list[str], progress=None, engine=None):
    """Runs the command with these words. The first is its name. Returns its result, or the text that
    it prints if it has none. `engine` measures the cells of a grid.

    Raises:
        Error: it failed; the error has what was measured
    """
    if progress not in (None, True, False) and not callable(progress):
        raise InputError(f"progress= is {progress!r}: give True or a function")
    called = _kpps.call(words, bar() if progress is True else progress or None, engine)
    for line in called.messages:
        print(f"kpps: {in_python(line)}", file=sys.stderr)
    result = Result(called) if called.json is not None else None
    if called.failure is not None:
        kind, line = called.failure
        error = NAMED[kind](in_python(line))
        error.result = result
        raise error
    return result if result is not None else called.text


def function(command: Command):
    """The function that runs a command."""

    def call(*values, progress=None, **named):
        return run(command.words(values, named), progress)

    call.__name__ = call.__qualname__ = command.name
    call.__module__ = "kpps"
    call.__doc__ = command.doc()
    call.__signature__ = command.signature()
    return call


# What `grid` takes beside the command's own options.
OF_ENGINES = {
    "executor": "Where cells are measured: a concurrent.futures.Executor, a function that makes one, or processes, "
    "dask, dask://HOST:PORT, ray, slurm [default: all cores of this process]",
    "store": "A folder or a URL of fsspec for partitions in Parquet, one row for each cell; what is there is not "
    "measured again",
    "chunk_s": "How long a chunk of cells takes a worker, in s [default: 1]",
    "workers": "How many chunks are worked on at a time [default: as many as the executor has workers]",
}


def grid_doc(command: Command) -> str:
    """The docstring of `grid`."""
    return "\n".join([command.doc(), *(f"    {name}: {text}" for name, text in OF_ENGINES.items())])


def with_executor(command: Command):
    """The function `grid`, whose cells may be measured by an executor."""

    def grid(*values, **named):
        from .grids import grid

        if values:
            raise InputError("grid() takes no values by position")
        return grid(run, command, **named)

    grid.__qualname__ = "grid"
    grid.__doc__ = grid_doc(command)
    signature = command.signature()
    more = [inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=None) for name in OF_ENGINES]
    grid.__signature__ = signature.replace(parameters=[*signature.parameters.values(), *more])
    grid.__module__ = "kpps"
    return grid


def with_files(call):
    """The function `compare`, whose sides may be results as well as files."""

    def compare(*sides, **named):
        with tempfile.TemporaryDirectory() as folder:
            return call(*(_file(side, f"{folder}/{at + 1}.json") for at, side in enumerate(sides)), **named)

    compare.__doc__ = call.__doc__.replace(
        "Args:\n", "Args:\n    Each side is a result, a list of results of repetitions, or what the command takes:\n", 1
    )
    compare.__signature__ = call.__signature__
    compare.__module__, compare.__qualname__ = call.__module__, call.__qualname__
    return compare


def _file(side, path: str):
    results = [side] if isinstance(side, Result) else side
    if not _is_list(results) or not all(isinstance(it, Result) for it in results):
        return side
    if not results:
        raise InputError("compare() got a side without results: give a result, or results of repetitions")
    with open(path, "w", encoding="utf-8") as file:
        file.writelines(it.to_json() for it in results)
    return path
