"""The parts of a study that campaigns and sensitivities use."""

from __future__ import annotations

from .commands import COMMANDS, function
from .errors import CheckFailed


def study(name: str, **named):
    """The result of a study, also if it misses a claim."""
    try:
        return function(COMMANDS["study"])(name, **named)
    except CheckFailed as error:
        return error.result


def values(claim) -> dict:
    """The values of a claim, by names like W1.held; empty if it could not be measured."""
    measured = claim.get("values")
    return {f"{claim.id}.{name}": measured[name] for name in measured} if measured is not None else {}
