"""Service policies of one's own, in the simulator."""

from __future__ import annotations

import inspect
import textwrap

from . import _kpps
from .errors import InputError


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
        try:
            text = textwrap.dedent(inspect.getsource(cls))
        except (OSError, TypeError):
            # Typed into an interpreter: only its name is known.
            text = cls.__qualname__
        about = (inspect.getdoc(cls) if "__doc__" in vars(cls) and cls.__doc__ else None) or "a policy in Python"
        if not _kpps.register_policy(cls.__name__, about.splitlines()[0], text, cls.base, cls.budget, cls):
            raise InputError(f"{cls.__name__} is the name of a driver preset: rename the class")
        return cls.__name__
