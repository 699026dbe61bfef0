"""All jobs with planted causes: importing the files beside this one fills the list."""

from __future__ import annotations

from modules import load

BUILD = load("tests/analysis/causes/planting.py")
for _name in ("stages", "times", "pairs"):
    load(f"tests/analysis/causes/planted_{_name}.py")

PLANTED, HOT, WHICHEVER = BUILD.PLANTED, BUILD.HOT, BUILD.WHICHEVER
