"""kpps: how many small packets a card, its driver and the machine around it can handle, and why the rest
are lost.

Each command is a function; `help(kpps.curve)` says what it takes. Results are objects of `kpps.Result`.
"""

from . import _kpps
from .commands import COMMANDS as _COMMANDS
from .commands import function as _function
from .commands import with_executor as _with_executor
from .commands import with_files as _with_files
from .errors import CheckFailed, Error, InputError, Interrupted, InvalidMeasurement, MissingPackage
from .policies import Policy
from .results import Record, Result
from .sensitivities import sensitivity
from .servers import with_server as _with_server

globals().update({name: _function(command) for name, command in _COMMANDS.items()})
compare = _with_files(globals()["compare"])
grid = _with_executor(_COMMANDS["grid"])
if "otg" in _COMMANDS:
    otg = _with_server(_COMMANDS["otg"])


def schema() -> dict:
    """The JSON Schema of all documents."""
    import json

    return json.loads(_kpps.schema())


__all__ = [
    *_COMMANDS,
    "CheckFailed",
    "Error",
    "InputError",
    "Interrupted",
    "InvalidMeasurement",
    "MissingPackage",
    "Policy",
    "Record",
    "Result",
    "schema",
    "sensitivity",
]
