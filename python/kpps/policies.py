"""Service policies of one's own, in the simulator."""

from __future__ import annotations

import inspect
import sys
import textwrap
from collections.abc import Iterator
from types import CellType, CodeType

from . import _kpps
from .errors import InputError

# Python's own modules. Since 3.10 Python lists all of them.
_STANDARD = getattr(sys, "stdlib_module_names", sys.builtin_module_names)


def _texts(thing: object, seen: set[int]) -> Iterator[str]:
    """What a policy does, as far as it is written in Python: the source of the class and of its bases, of functions
    and modules that they use, and all values that these use, but for objects that show no more than an address. Kept
    results are those of another policy if any of it changes."""
    if id(thing) in seen or thing in (object, Policy):
        return
    seen.add(id(thing))
    if isinstance(thing, property):
        for part in (thing.fget, thing.fset, thing.fdel):
            yield from _texts(part, seen)
        return
    if not (inspect.isclass(thing) or inspect.isfunction(thing) or inspect.ismodule(thing)):
        # What shows an address would be another one in each run: its class must do.
        text = repr(thing)
        yield type(thing).__qualname__ if " at 0x" in text else text
        return
    module = thing.__name__ if inspect.ismodule(thing) else thing.__module__
    if (module or "").partition(".")[0] in (*_STANDARD, __package__):
        yield f"{module}.{thing.__name__}"
        return
    try:
        yield textwrap.dedent(inspect.getsource(thing))
    except (OSError, TypeError):
        # Typed into an interpreter, or compiled: only its name is known.
        yield thing.__name__
    used: dict[str, object] = {}
    if inspect.isclass(thing):
        used |= {f"base {base.__qualname__}": base for base in thing.__mro__[1:]}
        used |= {name: value for name, value in vars(thing).items() if name not in _OF_EACH_CLASS}
    elif inspect.isfunction(thing):
        cells = zip(thing.__code__.co_freevars, thing.__closure__ or ())
        used |= {name: cell.cell_contents for name, cell in cells if cell != CellType()}
        used |= {name: thing.__globals__[name] for name in _names(thing.__code__) if name in thing.__globals__}
        used |= {"defaults": thing.__defaults__, "named defaults": thing.__kwdefaults__}
    for name, value in sorted(used.items()):
        yield name
        yield from _texts(inspect.unwrap(getattr(value, "__func__", value)), seen)


# What Python writes into each class, and what a base of all has noted of its objects.
_OF_EACH_CLASS = {"__module__", "__dict__", "__weakref__", "__doc__", "__firstlineno__", "__static_attributes__"}


def _names(code: CodeType) -> set[str]:
    """The names that code uses, that of functions and comprehensions within it among it."""
    within = (_names(constant) for constant in code.co_consts if isinstance(constant, CodeType))
    return set(code.co_names).union(*within)


class Policy:
    """When a driver looks at its card. Derive a class, and give it as a driver: `kpps.curve(driver=[MyPolicy, "kpps"])`.

    The driver is the preset `base`; a thread of the simulated host polls it at most `budget` frames at a time. One
    object is made for each card and trial. What the methods cost is not charged to the simulated CPU: what they make
    the driver do is. The simulator waits for each answer, so a method cannot call kpps.
    """

    base = "kpps"
    budget = 64

    def on_interrupt(self, now_us: float) -> bool:
        """The card has interrupted, at this simulated time in us.

        Returns:
            True: its interrupts are masked, and it is polled; False: frames wait for the next interrupt
        """
        return True

    def on_poll(self, received: int, reclaimed: int, now_us: float) -> float | None:
        """A poll received `received` frames and reaped `reclaimed` sent frames.

        Returns:
            the time until the next poll in us, 0 for one at once; None for interrupts
        """
        return 0 if received == self.budget else None

    @classmethod
    def register(cls) -> str:
        """Makes the class known as a driver, and returns its name. Other processes do not know it."""
        if not isinstance(cls.budget, int) or not 1 <= cls.budget <= 4096:
            raise InputError(f"{cls.__name__}.budget is {cls.budget!r}: give a number of frames from 1 to 4096")
        if not isinstance(cls.base, str):
            raise InputError(f"{cls.__name__}.base is {cls.base!r}: give the name of a driver, as 'kpps'")
        text = "\n".join(_texts(cls, set()))
        about = (inspect.getdoc(cls) if "__doc__" in vars(cls) and cls.__doc__ else None) or "a policy in Python"
        if not _kpps.register_policy(cls.__name__, about.splitlines()[0], text, cls.base, cls.budget, cls):
            raise InputError(f"{cls.__name__} is the name of a driver preset: rename the class")
        return cls.__name__
