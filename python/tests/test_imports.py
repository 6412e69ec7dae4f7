"""No module of the package imports a module that imports it, directly or through others."""

import ast
import graphlib
import pathlib

import pytest

PACKAGE = pathlib.Path(__file__).parents[1] / "kpps"


def imports(text: str, name: str, modules: set[str]) -> set[str]:
    """The modules of the package that the module `name` with this text imports, also within functions.

    The package itself is the module `__init__`. Imports for type checkers alone do not count.
    """
    tree = ast.parse(text)
    for node in ast.walk(tree):
        if isinstance(node, ast.If) and ast.unparse(node.test).endswith("TYPE_CHECKING"):
            node.body = []
    folder = name.split(".")[:-1]
    found = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom):
            at = folder[: len(folder) - node.level + 1] if node.level else []
            base = [*at, *(node.module or "").split(".")] if node.module else at
            if node.level == 0:
                if base[:1] != ["kpps"]:
                    continue
                base = base[1:]
            named = {".".join([*base, alias.name]) for alias in node.names}
            found |= named & modules or ({".".join(base)} if base else set())
        elif isinstance(node, ast.Import):
            for alias in node.names:
                if alias.name.split(".")[0] == "kpps":
                    found.add(alias.name.removeprefix("kpps").lstrip(".") or "__init__")
    return found - {name, "_kpps"}


def order(texts: dict[str, str]) -> list[str]:
    """The modules, each after those that it imports."""
    modules = set(texts)
    return [*graphlib.TopologicalSorter({name: imports(text, name, modules) for name, text in texts.items()}).static_order()]


def test_no_modules_import_each_other():
    texts = {
        ".".join(path.relative_to(PACKAGE).with_suffix("").parts): path.read_text(encoding="utf-8")
        for path in PACKAGE.rglob("*.py")
    }
    ordered = order(texts)
    assert len(texts) > 10 and ordered.index("errors") < ordered.index("results") < ordered.index("__init__")


@pytest.mark.parametrize(
    "texts",
    [
        {"a": "from .b import x", "b": "from . import a"},
        {"a": "from .b import x", "b": "def f():\n    from .a import y"},
        {"__init__": "from .a import x", "a": "import kpps"},
        {"a": "from .b.c import x", "b.c": "from ..a import y"},
    ],
)
def test_a_circle_is_found(texts):
    with pytest.raises(graphlib.CycleError):
        order(texts)


def test_an_import_for_type_checkers_is_no_arrow():
    texts = {"a": "import typing\nif typing.TYPE_CHECKING:\n    from .b import B", "b": "from .a import x"}
    assert order(texts) == ["a", "b"]
