"""One self-contained page: the films, packed, and the script that draws them."""

from collections.abc import Sequence
from html import escape
from string import Template
from typing import Any, Final

from flowcontrol.report.markup import asset
from flowcontrol.stepview import names
from flowcontrol.stepview.film import Film
from flowcontrol.stepview.happenings import KINDS
from flowcontrol.stepview.moments import US, Moments
from flowcontrol.stepview.packed import changes, packed
from flowcontrol.version import __version__

MARK: Final = '<meta name="generator" content="flowcontrol step'
"""By this a page of steps is known."""

_SCRIPTS: Final = ("film.js", "cells.js", "panel.js", "wires.js", "details.js", "player.js")


def step_page(title: str, films: Sequence[Film], moments: Moments) -> str:
    """Return the page.

    Parameters
    ----------
    title : str
        Name of the scenario.
    films : sequence of Film
        The systems, in the order in which they stand on the page.
    moments : Moments
        The steps of all of them.
    """
    start, end = moments.first_us / US, moments.last_us / US
    return Template(asset(names.PACKAGE, "page.html")).substitute(
        title=escape(title),
        mark=f'{MARK} {escape(__version__)}">',
        about=escape(
            f"{moments.steps:,} {'round' if moments.steps == 1 else 'rounds'} of "
            f"{moments.step_us / 1000:g} ms, {start:g} to {end:g} s of "
            f"emulated time, under {', '.join(one.system for one in films)}."
        ),
        css=asset(names.PACKAGE, "page.css") + _colours(),
        legend=_legend(),
        film=packed(_data(films, moments)),
        script="\n".join(asset(names.PACKAGE, name) for name in _SCRIPTS),
    )


def _data(films: Sequence[Film], moments: Moments) -> dict[str, Any]:
    return {
        "step_us": moments.step_us,
        "first_us": moments.first_us,
        "steps": moments.steps,
        "lists": names.LISTS,
        "kinds": names.table("kinds.yaml"),
        "rules": names.table("rules.yaml"),
        "events": KINDS,
        "systems": [
            {
                **one.still(),
                "film": changes(one.states),
                "events": [[number, *found] for number, found in one.events],
            }
            for one in films
        ],
    }


def _colours() -> str:
    """Return the colour of each kind of cell, as a style sheet."""
    rows = names.table("kinds.yaml").items()
    return "".join(
        f'\n.cell[data-buffer="{kind}"], .token[data-buffer="{kind}"] {{ --own: {row["colour"]}; }}'
        for kind, row in rows
    )


def _legend() -> str:
    """Return the list of all kinds of cells, as markup."""
    return "".join(
        f'<li><span class="cell {row["pattern"]}" data-buffer="{kind}" style="--level:60%">'
        f"{escape(row['letter'])}</span><span><b>{escape(kind.replace('_', ' '))}</b>: "
        f"{escape(row['meaning'])}</span></li>"
        for kind, row in names.table("kinds.yaml").items()
    )
