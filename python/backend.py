"""Builds the package: maturin does, and the type stubs are made of the commands of the module that it built."""

from __future__ import annotations

import base64
import hashlib
import os
import pathlib
import subprocess
import sys
import tempfile
import zipfile

import maturin
from maturin import build_sdist as build_sdist
from maturin import get_requires_for_build_editable as get_requires_for_build_editable
from maturin import get_requires_for_build_sdist as get_requires_for_build_sdist
from maturin import get_requires_for_build_wheel as get_requires_for_build_wheel
from maturin import prepare_metadata_for_build_editable as prepare_metadata_for_build_editable
from maturin import prepare_metadata_for_build_wheel as prepare_metadata_for_build_wheel

STUBS = "kpps/__init__.pyi"


def stubs(site: str | pathlib.Path) -> bytes:
    """The stubs of the package in this folder, which has the built module in it."""
    variables = dict(os.environ, PYTHONPATH=str(site), PYTHONDONTWRITEBYTECODE="1", PYTHONIOENCODING="utf-8")
    command = [sys.executable, "-m", "kpps.stubs"]
    # Python looks for modules in its working directory first.
    return subprocess.run(command, cwd=site, env=variables, stdout=subprocess.PIPE, check=True).stdout


def with_file(wheel: pathlib.Path, name: str, content: bytes) -> None:
    """Adds a file to a wheel and to its list of files."""
    digest = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()
    line = f"{name},sha256={digest},{len(content)}\n".encode()
    changed = wheel.with_suffix(".new")
    with zipfile.ZipFile(wheel) as old, zipfile.ZipFile(changed, "w", zipfile.ZIP_DEFLATED) as new:
        for entry in old.infolist():
            # An editable installation has left an older one beside the sources.
            if entry.filename == name:
                continue
            had = old.read(entry)
            if entry.filename.endswith(".dist-info/RECORD"):
                added = zipfile.ZipInfo(name, entry.date_time)
                added.compress_type, added.external_attr = zipfile.ZIP_DEFLATED, 0o644 << 16
                new.writestr(added, content)
                lines = had.splitlines(keepends=True)
                had = b"".join(it for it in lines if not it.startswith(f"{name},".encode())) + line
            new.writestr(entry, had)
    changed.replace(wheel)


def build_wheel(wheel_directory, config_settings=None, metadata_directory=None):
    name = maturin.build_wheel(wheel_directory, config_settings, metadata_directory)
    wheel = pathlib.Path(wheel_directory, name)
    with tempfile.TemporaryDirectory() as site:
        with zipfile.ZipFile(wheel) as built:
            built.extractall(site)
        with_file(wheel, STUBS, stubs(site))
    return name


def build_editable(wheel_directory, config_settings=None, metadata_directory=None):
    # maturin leaves the module beside the sources, and the stubs belong there, too.
    name = maturin.build_editable(wheel_directory, config_settings, metadata_directory)
    here = pathlib.Path(__file__).parent
    (here / STUBS).write_bytes(stubs(here))
    return name
