"""The type stubs of the package, made of the table of commands. `python -m kpps.stubs` prints them; builds of
the package put them into it."""

from __future__ import annotations

import textwrap

from .commands import COMMANDS, Command, Parameter, grid_doc
from .servers import otg_doc

HEAD = '''# Made by `python -m kpps.stubs` of the command's own table of options: not to be edited.

import concurrent.futures
import datetime
import os
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Union

from .errors import CheckFailed as CheckFailed
from .errors import Error as Error
from .errors import InputError as InputError
from .errors import Interrupted as Interrupted
from .errors import InvalidMeasurement as InvalidMeasurement
from .errors import MissingPackage as MissingPackage
from .policies import Policy as Policy
from .results import Record as Record
from .results import Result as Result
from .sensitivities import Sensitivity as Sensitivity
from .servers import OtgServer as OtgServer

_Value = Union[str, float, os.PathLike[str], datetime.timedelta, type[Policy]]
_Values = Union[_Value, Iterable[_Value]]
_Pairs = Union[str, Iterable[str], Mapping[str, Union[bool, _Values]]]
_Side = Union[str, os.PathLike[str], Result, Iterable[Result]]
_Progress = Union[bool, Callable[[int, "int | None", str], Any], None]
_Executor = Union[str, concurrent.futures.Executor, Callable[[], concurrent.futures.Executor], None]

__all__: list[str]

def schema() -> dict[str, Any]: ...
def sensitivity(
    study: str, *, constants: Iterable[str] | None = None, share: float = 0.1, method: str = "morris", samples: int = 4,
    seed: int = 1, claim: Iterable[str] | None = None, progress: Callable[[int, int], Any] | None = None,
) -> Sensitivity: ...
'''


def kind(parameter: Parameter) -> str:
    """The type of an argument."""
    if parameter.is_switch:
        return "bool"
    if "=" in parameter.value and parameter.is_repeated:
        return "_Pairs"
    is_list = parameter.takes_commas or parameter.is_repeated or "…" in parameter.value or parameter.value == "COUNTS"
    return "_Values" if is_list else "_Value"


def stub(command: Command) -> str:
    """The stub of a command."""
    side = "_Side" if command.name == "compare" else "_Value"
    arguments = [
        f"*{it.name}: {side}" if it.is_repeated else f"{it.name}: {kind(it)} | None = None" for it in command.positional
    ]
    if not any(it.is_repeated for it in command.positional):
        arguments.append("*")
    named = [it for it in command.parameters.values() if it.flag is not None]
    arguments += [f"{it.name}: {kind(it)} | None = None" for it in named]
    if command.name != "otg":
        arguments.append("progress: _Progress = None")
    doc = otg_doc(command) if command.name == "otg" else command.doc()
    if command.name == "grid":
        arguments += ["executor: _Executor = None", "store: _Value | None = None", "chunk_s: float | None = None",
                      "workers: int | None = None"]
        doc = grid_doc(command)
    result = "Result" if "results" in command.parameters else "OtgServer" if command.name == "otg" else "str"
    lines = [f"def {command.name}(", *(f"    {it}," for it in arguments), f") -> {result}:"]
    body = f'"""{doc}\n"""'.replace("\\", "\\\\")
    return "\n".join([*lines, textwrap.indent(body, "    ", lambda line: line.strip() != "")])


def text() -> str:
    """The stubs of all commands."""
    return "\n\n".join([HEAD.rstrip(), *(stub(it) for it in COMMANDS.values())]) + "\n"


if __name__ == "__main__":
    print(text(), end="")
