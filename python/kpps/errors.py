"""Why a call failed. Each error carries what was measured before it, in `result`."""

from __future__ import annotations

import importlib
import operator
import sys
import typing

if typing.TYPE_CHECKING:
    from .results import Result


class Error(Exception):
    """A call of kpps failed; its message is one line. `result` is what was measured, or None. Of this class
    itself is what failed outside: an engine, a device, a disk."""

    result: Result | None = None
    exit_code = 1


class InputError(Error, ValueError):
    """An argument makes no sense, or names something that does not exist. The command's exit code is 2."""

    exit_code = 2


class MissingPackage(InputError, ImportError):
    """A package is not here that an extra of kpps installs."""


class CheckFailed(Error):
    """A check did not hold, as a bound that was asked for. The command's exit code is 1."""


class InvalidMeasurement(Error):
    """The result is no valid measurement of the device under test. The command's exit code is 3."""

    exit_code = 3


class Interrupted(Error, KeyboardInterrupt):
    """The user interrupted the call. The command's exit code is 130."""

    exit_code = 130


NAMED = {kind.__name__: kind for kind in (Error, InputError, CheckFailed, InvalidMeasurement, Interrupted)}


def needed(package: str, extra: str):
    """A package that an extra of kpps installs, imported."""
    try:
        return importlib.import_module(package)
    except ImportError as error:
        what = package.partition(".")[0]
        line = f"this takes the package {what}, which cannot be imported: pip install 'kpps[{extra}]' installs it"
        raise MissingPackage(line) from error


def whole(name: str, value, least: int, most: int) -> int:
    """A whole number within these bounds."""
    if isinstance(value, bool) or not hasattr(value, "__index__") or not least <= operator.index(value) <= most:
        raise InputError(f"{name}= is {value!r}: give a whole number from {least} to {most}")
    return operator.index(value)


def failed(error: BaseException) -> Error:
    """An error of another library, as an error of one line."""
    return error if isinstance(error, Error) else Error(line_of(error))


def end(error: Error) -> typing.NoReturn:
    """Ends this process as the command does: one line on standard error, and the error's exit code."""
    print(f"kpps: {error}", file=sys.stderr)
    sys.exit(error.exit_code)


def line_of(error: BaseException) -> str:
    """The message of an error of another library, in one line."""
    text = str(error).strip().splitlines()
    return f"{type(error).__name__}{': ' + text[0] if text else ''}"
