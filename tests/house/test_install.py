"""What tells to install something names what can be installed."""

from __future__ import annotations

import json
import re
from importlib.metadata import PackageNotFoundError
from pathlib import Path
from types import SimpleNamespace

from flowcontrol import version as install

ROOT = Path(__file__).resolve().parent.parent.parent


def said(monkeypatch, note):
    found = SimpleNamespace(read_text=lambda name: note if note is None else json.dumps(note))
    monkeypatch.setattr(install, "distribution", lambda name: found)
    return install.how_to_install("report")


def test_a_checkout_or_a_wheel_is_named_by_its_path(monkeypatch, tmp_path):
    wheel = tmp_path / "the wheels" / "flowcontrol-1-py3-none-any.whl"
    wheel.parent.mkdir()
    wheel.touch()
    assert said(monkeypatch, {"url": wheel.as_uri()}) == f'pip install "{wheel}[report]"'
    checkout = {"url": tmp_path.as_uri(), "dir_info": {"editable": True}}
    assert said(monkeypatch, checkout) == f'pip install -e "{tmp_path}[report]"'


def test_where_nothing_says_so_the_wheel_is_named_by_what_makes_it(monkeypatch, tmp_path):
    unknown = 'pip install "PATH_TO_WHEEL[report]" (the wheel that scripts/build.sh made)'
    assert said(monkeypatch, None) == unknown
    assert said(monkeypatch, {"url": (tmp_path / "gone.whl").as_uri()}) == unknown
    assert said(monkeypatch, {"url": "https://example.org/flowcontrol.git"}) == unknown

    def missing(name):
        raise PackageNotFoundError(name)

    monkeypatch.setattr(install, "distribution", missing)
    assert install.how_to_install("report") == unknown


def test_no_text_tells_to_install_what_no_index_has():
    """The package's own name after ``pip install`` finds nothing, or somebody else's."""
    wrong = re.compile(r"pip install (?:-\S+ )*['\"]?flowcontrol\b")
    shown = [
        *ROOT.glob("*.md"),
        *(ROOT / "docs").rglob("*.md"),
        *(ROOT / "conf").rglob("*.yaml"),
        *(path for path in (ROOT / "flowcontrol").rglob("*") if path.suffix not in {".pyc", ".gz"}),
    ]
    found = [
        f"{path.relative_to(ROOT)}: {line.strip()}"
        for path in shown
        if path.is_file() and path.name != "version.py"
        for line in path.read_text(encoding="utf-8").splitlines()
        if wrong.search(line)
    ]
    assert found == []
