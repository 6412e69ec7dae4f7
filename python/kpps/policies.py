"""Service policies of one's own, in the simulator."""

from __future__ import annotations

import inspect
import sys
import textwrap
from collections.abc import Iterator

from . import _kpps
from .errors import InputError

# Python's own modules, all of which it tells since 3.10.
_STANDARD = getattr(sys, "stdlib_module_names", sys.builtin_module_names)


def _texts(thing: object, seen: set[int]) -> Iterator[str]:
    """What a policy does, as far as it is written in Python: the source of the class, of its bases, and of functions
    that they use; and the values that these use. Kept results are those of another policy if any of it changes."""
    if id(thing) in seen or thing in (object, Policy):
        return
    seen.add(id(thing))
    if not (inspect.isclass(thing) or inspect.isfunction(thing)):
        # Of a module, its name. What shows only its address is another one in each run, and measured again.
        yield repr(thing)
        return
    if (thing.__module__ or "").partition(".")[0] in _STANDARD:
        yield f"{thing.__module__}.{thing.__qualname__}"
        return
    try:
        yield textwrap.dedent(inspect.getsource(thing))
    except (OSError, TypeError):
        # Typed into an interpreter: only its name is known.
        yield thing.__qualname__
    used: dict[str, object] = {}
    if inspect.isclass(thing):
        used |= {f"base {base.__qualname__}": base for base in thing.__mro__[1:]}
        used |= {name: value for name, value in vars(thing).items() if inspect.isroutine(value)}
    else:
        names = inspect.getclosurevars(thing)
        used |= {**names.nonlocals, **names.globals}
    for name, value in sorted(used.items()):
        yield name
        yield from _texts(inspect.unwrap(getattr(value, "__func__", value)), seen)


class Policy:
    """When a driver looks at its card. Derive a class, and give it as a driver: `kpps.curve(driver=[MyPolicy, "kpps"])`.

    The driver is the preset `base`; a thread of the simulated host polls it at most `budget` frames at a time. One
    object is made for each card and trial. What the methods cost is not charged to the simulated CPU: what they make
    the driver do is.
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
        """A poll received so many frames and gave back so many sent ones.

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
