"""How much the verdicts of a study depend on the constants of its simulation: Morris or Sobol indices by SALib."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterable

from . import studies
from .errors import InputError, needed, whole

# A run of a study takes seconds.
MOST_SAMPLES = 1 << 20


@dataclasses.dataclass
class Sensitivity:
    """Indices of every value and every verdict of a study on every constant.

    `indices[name]` has a list for each index, in the order of `constants`: for Sobol `S1` and `ST` (first order and
    total; nan of what nothing moves), for Morris `mu_star` and `sigma`. A name is that of a claim's value, as `M14.ratio`, or of a claim, whose
    verdict is 1 if it holds. `runs` is how often the study was measured.
    """

    constants: list[str]
    indices: dict[str, dict[str, list[float]]]
    runs: int

    def to_pandas(self):
        """A pandas.DataFrame with a row for each name and constant."""
        pandas = needed("pandas", "notebook")

        rows = [
            {"of": name, "constant": constant, **{index: values[at] for index, values in found.items()}}
            for name, found in self.indices.items()
            for at, constant in enumerate(self.constants)
        ]
        return pandas.DataFrame(rows)

    def plot(self, ax=None):
        """Bars of the strongest index of each constant, with matplotlib. Returns the axes."""
        pyplot, numpy = needed("matplotlib.pyplot", "notebook"), needed("numpy", "notebook")
        from .plots import SERIES

        ax = ax if ax is not None else pyplot.subplots(figsize=(7.2, 4))[1]
        first = next(iter(next(iter(self.indices.values()))), None)
        most = numpy.fmax.reduce([found[first] for found in self.indices.values()])
        ax.barh(self.constants, most, color=SERIES[0])
        ax.set_xlabel(f"highest {first} of any value")
        return ax


def sensitivity(study: str, *, constants=None, share: float = 0.1, method: str = "morris", samples: int = 4, seed: int = 1,
                claim=None, progress=None):
    """Measures a study again and again with constants moved, and reports how much each matters.

    Args:
        study: its name
        constants: paths of constants, as host.cache_miss_ps; each is multiplied by 1 - share to 1 + share. By
            default all that were fitted
        share: how far they are moved
        method: morris (samples x (constants + 1) runs) or sobol (samples x (constants + 2) runs)
        samples: how many trajectories, or how many base samples (for Sobol a power of two)
        claim: only these claims
        progress: a function that is called with the number of runs done and of all

    Returns:
        a Sensitivity
    """
    numpy = needed("numpy", "sensitivity")
    morris_indices, sobol_indices = (needed(f"SALib.analyze.{name}", "sensitivity") for name in ("morris", "sobol"))
    morris_samples, sobol_samples = (needed(f"SALib.sample.{name}", "sensitivity") for name in ("morris", "sobol"))

    if method not in ("morris", "sobol"):
        raise InputError(f"method= is morris or sobol, not {method!r}")
    if not isinstance(share, (int, float)) or not 0 < share < 1:
        raise InputError(f"share= is between 0 and 1, not {share!r}")
    # Morris compares trajectories, and Sobol's sequence is balanced at powers of two.
    samples = whole("samples", samples, 2, MOST_SAMPLES)
    if method == "sobol" and samples & (samples - 1):
        raise InputError(f"samples= is {samples}: method=\"sobol\" takes a power of two")
    seed = whole("seed", seed, 0, 2**32 - 1)
    if progress is not None and not callable(progress):
        raise InputError(f"progress= is {progress!r}: give a function")
    if constants is None:
        constants = fitted(study, claim)
    constants = [constants] if isinstance(constants, str) else constants
    if not isinstance(constants, Iterable) or not (constants := [*constants]):
        raise InputError("constants= are paths of constants, as host.cache_miss_ps")
    problem = {"num_vars": len(constants), "names": constants, "bounds": [[1 - share, 1 + share]] * len(constants)}
    if method == "morris":
        points = morris_samples.sample(problem, samples, seed=seed)
    else:
        points = sobol_samples.sample(problem, samples, calc_second_order=False, seed=seed)
    found: list[dict[str, float | None]] = []
    for at, point in enumerate(points):
        moved = {path: f"*{factor!r}" for path, factor in zip(constants, map(float, point))}
        result = studies.study(study, claim=claim, set=moved)
        found.append(_values(result))
        if all(it.verdict == "failed" for it in result.claims):
            raise InputError(f"no claim can be measured with {moved}: {result.claims[0].why}")
        if progress is not None:
            progress(at + 1, len(points))
    names = [name for name in found[0] if all(name in it and it[name] is not None for it in found)]
    indices = {}
    for name in names:
        measured = numpy.array([it[name] for it in found], dtype=float)
        if numpy.ptp(measured) == 0:
            # No constant changes it: the effects are 0, and indices would be shares of a variance of 0.
            keys, index = (("mu_star", "sigma"), 0.0) if method == "morris" else (("S1", "ST"), math.nan)
            indices[name] = {key: [index] * len(constants) for key in keys}
        elif method == "morris":
            indices_of = morris_indices.analyze(problem, points, measured, seed=seed)
            indices[name] = {key: [float(it) for it in indices_of[key]] for key in ("mu_star", "sigma")}
        else:
            indices_of = sobol_indices.analyze(problem, measured, calc_second_order=False, seed=seed)
            indices[name] = {key: [float(it) for it in indices_of[key]] for key in ("S1", "ST")}
    return Sensitivity(constants, indices, len(points))


def fitted(study: str, claim=None) -> list[str]:
    """The paths of the fitted constants that a study has, as chip.rx_engine_ps: that of any of its chips."""
    # A perturbation names all fitted constants, whatever its study; this one takes a moment.
    rows = studies.study("morris2000", claim=["M1"], perturb="1%")["rows"]
    names = (row.constant.split(".") for row in rows)
    failed = _failed(studies.study(study, claim=claim))
    found = []
    for path in sorted({f"{kind}.{path[-1]}" for kind, *path in names}):
        try:
            moved = studies.study(study, claim=claim, set={path: "*1.0"})
        except InputError:
            continue
        if _failed(moved) == failed:
            found.append(path)
    return found


def _failed(study) -> list[str]:
    return [claim.id for claim in study.claims if claim.verdict == "failed"]


def _values(study) -> dict[str, float | None]:
    """The values of all claims, and their verdicts; None of what could not be measured."""
    values: dict[str, float | None] = {}
    for claim in study.claims:
        values[claim.id] = None if claim.verdict == "failed" else float(claim.verdict == "pass")
        values.update(studies.values(claim))
    return values
