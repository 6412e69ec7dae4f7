"""Documents as drawings of matplotlib, in the colours of their pages."""

from __future__ import annotations

from .errors import InputError, needed

# The series of crates/shared/rendering/assets/page.css, on white.
SERIES = ["#0072b2", "#d55e00", "#00875f", "#b3478a", "#a87600", "#2f8fc9", "#a32638", "#5d6269"]
GRID, SOFT = "#eceef0", "#5d6269"
MARKS = "osD^vPX*"


def plot(result, ax=None):
    """Draws a document."""
    draw = _DRAWN.get(result.kind)
    if draw is None:
        kinds = ", ".join(sorted(_DRAWN))
        raise InputError(f"a document of kind {result.kind} is not drawn, only {kinds}: use its rows")
    if ax is None:
        ax = needed("matplotlib.pyplot", "notebook").subplots(figsize=(7.2, 4))[1]
    draw(result, ax)
    ax.grid(color=GRID)
    ax.set_axisbelow(True)
    ax.tick_params(colors=SOFT)
    for name, spine in ax.spines.items():
        spine.set_visible(name in ("left", "bottom"))
        spine.set_color(GRID)
    if ax.get_legend_handles_labels()[0]:
        ax.legend(frameon=False)
    return ax


def _line(ax, at, points, name):
    ax.plot(*zip(*points), color=SERIES[at % len(SERIES)], marker=MARKS[at % len(MARKS)], markersize=4, label=name)


def _kpps(rate):
    return rate / 1e3


def _system(result):
    """The machine by name, or else the testbed."""
    on = result.environment
    return on.get("machine") or " and ".join(on.get("testbed") or [])


def _curve(result, ax):
    for at, series in enumerate(result.series):
        if series.points:
            points = [(_kpps(it.offered_pps), _kpps(it.delivered_pps)) for it in series.points]
            _line(ax, at, points, series.name)
    ax.set(xlabel="offered, kpps", ylabel="delivered, kpps", title=_system(result))
    ax.set_xlim(left=0)
    ax.set_ylim(bottom=0)


def _grid(result, ax):
    *others, last = result.axes
    lines: dict[str, list] = {}
    for cell in result.cells:
        values = [axis.values[at] for axis, at in zip(result.axes, cell.at)]
        name = ", ".join(f"{axis.parameter}={value}" for axis, value in zip(others, values))
        if cell.get("point") is not None:
            x = cell.point.offered_pps / 1e3 if last.parameter == "load" else values[-1]
            lines.setdefault(name, []).append((x, _kpps(cell.point.delivered_pps)))
    for at, (name, points) in enumerate(lines.items()):
        _line(ax, at, points, name or None)
    label = "offered, kpps" if last.parameter == "load" else last.parameter
    ax.set(xlabel=label, ylabel="delivered, kpps", title=_system(result))


def _ndr(result, ax):
    points = sorted((_kpps(it.offered_pps), 100 * it.loss_ratio) for it in result.trials)
    _line(ax, 0, points, "trials")
    for at, goal in enumerate(result.goals):
        if goal.get("lower_pps") is not None:
            ax.axvline(_kpps(goal.lower_pps), color=SERIES[(at + 1) % len(SERIES)], label=goal.name)
    ax.set(xlabel="offered, kpps", ylabel="loss, %")
    ax.set_ylim(bottom=0)


def _study(result, ax):
    """Each value that the document states too: the model's as a multiple of the document's."""
    names, series = [], {}
    for claim in result.claims:
        now, stated = claim.get("values") or {}, claim.get("value_document") or {}
        for name in stated:
            if name in now and stated[name]:
                series.setdefault(claim.kind, []).append((now[name] / stated[name], len(names)))
                names.append(f"{claim.id} {name}")
    for at, (kind, points) in enumerate(series.items()):
        color, mark = SERIES[at % len(SERIES)], MARKS[at % len(MARKS)]
        ax.plot(*zip(*points), color=color, marker=mark, linestyle="", label=kind)
    ax.axvline(1, color=SOFT, linewidth=1)
    ax.set_yticks(range(len(names)), names, fontsize=7)
    ax.set_ylim(len(names) - 0.5, -0.5)
    ax.set(xlabel="model / document", title=", ".join(dict.fromkeys(claim.study for claim in result.claims)))


def _trial(result, ax):
    """Where the frames that were sent are."""
    ledger = result.ledger
    places = {"delivered": ledger.delivered, **{f"dropped: {it}": ledger.dropped[it] for it in ledger.dropped}}
    places |= {"in flight": ledger.in_flight, "unexplained": ledger.unexplained}
    there = {place: frames for place, frames in places.items() if frames or place == "delivered"}
    ax.barh(list(there), list(there.values()), color=SERIES[0], height=0.6)
    ax.invert_yaxis()
    ax.set(xlabel=f"frames, of {ledger.sent} sent", title=_system(result))


_DRAWN = {"curve": _curve, "grid": _grid, "ndr": _ndr, "study": _study, "trial": _trial}
