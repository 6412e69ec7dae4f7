"""Results: the command's documents as objects."""

from __future__ import annotations

import functools
import html
import json
from . import _kpps
from .errors import needed


class Record:
    """An object of a document: its fields are attributes and keys. The names have the units, as
    `delivered_pps`; `describe` says what a field is."""

    # Not a Mapping: its methods would hide fields, as `values`.

    def __init__(self, fields: dict):
        self._fields = fields

    def __getitem__(self, name):
        return _wrapped(self._fields[name])

    def __iter__(self):
        return iter(self._fields)

    def __len__(self):
        return len(self._fields)

    def __contains__(self, name):
        return name in self._fields

    def __eq__(self, other):
        return isinstance(other, Record) and self._fields == other._fields

    __hash__ = None

    def keys(self):
        """The names of the fields."""
        return self._fields.keys()

    def get(self, name, default=None):
        """A field, or the default if there is none."""
        return self[name] if name in self._fields else default

    def __reduce__(self):
        return Record, (self._fields,)

    def __getattr__(self, name):
        # Private names are never fields: those that copying and pickling look for are among them.
        if name.startswith("_"):
            raise AttributeError(name)
        if name in self._fields:
            return self[name]
        raise AttributeError(f"there is no {name} here, but {', '.join(self._fields)}")

    def __dir__(self):
        return [*super().__dir__(), *self._fields]

    def __repr__(self):
        inner = ", ".join(f"{name}={_short(value)}" for name, value in self._fields.items())
        return f"{type(self).__name__}({inner})"

    def describe(self, name: str) -> str:
        """The description of a field, with its unit: from the schema of the documents."""
        found = [
            definition["properties"][name]["description"]
            for definition in _definitions()
            if "description" in definition.get("properties", {}).get(name, {})
            and set(self._fields) <= set(definition["properties"])
        ]
        if not found:
            raise KeyError(f"the schema does not describe {name}")
        return found[0]


def _wrapped(value):
    if isinstance(value, dict):
        return Record(value)
    return [_wrapped(inner) for inner in value] if isinstance(value, list) else value


def _short(value) -> str:
    if isinstance(value, dict):
        return "{…}"
    return f"[{len(value)} …]" if isinstance(value, list) else repr(value)


@functools.lru_cache(maxsize=1)
def _definitions() -> list[dict]:
    return list(json.loads(_kpps.schema())["$defs"].values())


class Result(Record):
    """A document: what a command measured.

    Its fields are attributes, named as in the JSON: `result.environment.line_rate_pps`.
    """

    def __init__(self, called: _kpps.Called):
        self._called = called

    @functools.cached_property
    def _fields(self) -> dict:
        return json.loads(self._called.json)

    def to_json(self) -> str:
        """The document as JSON of the published schema, as the command's --json prints it."""
        return self._called.json

    @property
    def rows(self) -> _kpps.Batch:
        """The rows of the document, as the command's --csv has them. Whatever reads Arrow's C streams takes
        them without a copy: `pyarrow.table(result.rows)`."""
        return self._called.rows

    def to_arrow(self):
        """The rows as a pyarrow.Table, without a copy."""
        return needed("pyarrow", "grid").table(self.rows)

    def to_pandas(self):
        """The rows as a pandas.DataFrame. Absent quantities are NaN, never 0."""
        table = self.to_arrow()
        needed("pandas", "notebook")
        return table.to_pandas()

    def to_polars(self):
        """The rows as a polars.DataFrame, without a copy."""
        import polars

        return polars.DataFrame(self.rows)

    def plot(self, ax=None):
        """Draws the document with matplotlib, in the colours of its page. Returns the axes."""
        from .plots import plot

        return plot(self, ax)

    def page(self) -> str | None:
        """The document as an HTML page, as the command's --report writes it; None if it has too many rows."""
        return self._called.page

    def __str__(self):
        return self._called.screen

    def __repr__(self):
        return f"<kpps {self._fields.get('kind', 'document')}: {len(self.rows)} rows>"

    def _repr_html_(self) -> str:
        if self._called.page is None:
            return f"<pre>{html.escape(str(self))}</pre>"
        # The page has a style sheet and scripts of its own.
        return (
            f'<iframe srcdoc="{html.escape(self._called.page)}" width="100%" height="640" '
            'style="border:0" sandbox="allow-scripts allow-downloads"></iframe>'
        )

    def __reduce__(self):
        return _thawed, (_frozen(self._called),)


class _Frozen:
    """The result of a call, after its way through a pickle."""

    def __init__(self, rows, **fields):
        self.rows = _Rows(rows)
        self.__dict__.update(fields)


class _Rows:
    """Rows after their way through a pickle: as a Batch, of a pyarrow.Table."""

    def __init__(self, table):
        self._table = table
        self.columns = table.column_names

    def __len__(self):
        return len(self._table)

    def __arrow_c_stream__(self, requested_schema=None):
        return self._table.__arrow_c_stream__(requested_schema)


def _frozen(called) -> dict:
    pyarrow = needed("pyarrow", "grid")

    names = ("json", "screen", "page", "text", "messages")
    return {**{name: getattr(called, name) for name in names}, "rows": pyarrow.table(called.rows)}


def _thawed(fields: dict) -> Result:
    return Result(_Frozen(**fields))
