"""The type stubs, and the wheel that gets them when it is built."""

import ast
import base64
import hashlib
import importlib.util
import inspect
import pathlib
import sys
import types
import zipfile

import kpps
import pytest
from kpps import stubs
from kpps.commands import COMMANDS


def test_the_stubs_have_every_command_with_all_its_options():
    functions = {it.name: it for it in ast.parse(stubs.text()).body if isinstance(it, ast.FunctionDef)}
    assert set(functions) == {*COMMANDS, "schema", "sensitivity"}
    for name, function in functions.items():
        of = function.args
        named = {it.arg for it in [*of.posonlyargs, *of.args, of.vararg, *of.kwonlyargs] if it is not None}
        assert named == set(inspect.signature(getattr(kpps, name)).parameters), name


def test_the_stubs_export_what_the_package_does_and_their_types_exist():
    names = {"__name__": "kpps", "__package__": "kpps"}
    exec(compile(stubs.text(), "__init__.pyi", "exec"), names)
    assert set(kpps.__all__) - {"__version__"} <= set(names)


@pytest.fixture
def backend(monkeypatch):
    """What builds the package, with a maturin that packs the package as it is installed here."""

    def build_wheel(folder, config_settings, metadata_directory):
        package = pathlib.Path(kpps.__file__).parent
        with zipfile.ZipFile(pathlib.Path(folder, "kpps-0-py3-none-any.whl"), "w") as wheel:
            for path in sorted(package.rglob("*")):
                if path.is_file() and path.suffix != ".pyc":
                    wheel.write(path, path.relative_to(package.parent))
            wheel.writestr("kpps/__init__.pyi", "# of an earlier build\n")
            wheel.writestr("kpps-0.dist-info/RECORD", "kpps/__init__.pyi,sha256=old,22\nkpps-0.dist-info/RECORD,,\n")
        return "kpps-0-py3-none-any.whl"

    hooks = ["build_sdist"]
    hooks += [f"get_requires_for_build_{what}" for what in ("editable", "sdist", "wheel")]
    hooks += [f"prepare_metadata_for_build_{what}" for what in ("editable", "wheel")]
    maturin = types.SimpleNamespace(build_wheel=build_wheel, **dict.fromkeys(hooks))
    monkeypatch.setitem(sys.modules, "maturin", maturin)
    path = pathlib.Path(__file__).parents[1] / "backend.py"
    spec = importlib.util.spec_from_file_location("backend", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_a_wheel_has_the_stubs_of_its_module(backend, tmp_path):
    name = backend.build_wheel(str(tmp_path))
    assert [path.name for path in tmp_path.iterdir()] == [name]
    with zipfile.ZipFile(tmp_path / name) as wheel:
        content = wheel.read("kpps/__init__.pyi")
        assert content.decode() == stubs.text()
        assert len(wheel.namelist()) == len(set(wheel.namelist())) and wheel.testzip() is None
        digest = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).decode().rstrip("=")
        record = wheel.read("kpps-0.dist-info/RECORD").decode().splitlines()
        assert record == ["kpps-0.dist-info/RECORD,,", f"kpps/__init__.pyi,sha256={digest},{len(content)}"]
