"""Colours, dashes and markers of every drawing, so that no two lines differ by colour alone.

The colours are the palette of Okabe and Ito, which people with any common colour blindness can
distinguish. Its yellow is left out: it is unreadable on white.
"""

from dataclasses import dataclass
from typing import Final

from flowcontrol.analysis.bottleneck import Pressure

BLUE: Final = "#0072B2"
VERMILLION: Final = "#D55E00"
GREEN: Final = "#009E73"
ORANGE: Final = "#E69F00"
PURPLE: Final = "#CC79A7"
SKY: Final = "#56B4E9"
GREY: Final = "#8a8f98"
"""Reference lines and typical values; readable on white and on dark."""

PALETTE: Final = (BLUE, VERMILLION, GREEN, ORANGE, PURPLE, SKY)
DASHES: Final = ("solid", "dash", "dot", "dashdot", "longdash")
MARKERS: Final = ("circle", "square", "diamond", "triangle-up", "x", "cross", "star")

PRESSURE_COLOURS: Final = {Pressure.OK: GREEN, Pressure.LOW: ORANGE, Pressure.HIGH: VERMILLION}
"""Fill of a stage in the job graph, for dark text; the status is written out too."""

GOOD_TO_BAD: Final = (BLUE, "#6ba3cc", "#9aa0a6", "#e0a060", VERMILLION)
"""From good to bad: blue, grey, vermillion, distinct for colour-blind people, readable on white and
on dark."""

GOOD_TO_BAD_FILLS: Final = (BLUE, "#7fb8db", "#eeeeee", "#eeb27a", VERMILLION)
"""The same for areas that carry numbers, with a light middle for dark text."""

BUSY: Final = BLUE
IDLE: Final = "#c3c8cf"
BLOCKED: Final = VERMILLION
LIMIT: Final = GREY


@dataclass(frozen=True)
class LineStyle:
    """How one series is drawn."""

    colour: str  # As ``#rrggbb``
    dash: str  # Plotly's name of a dash
    marker: str  # Plotly's name of a marker symbol


def line_style(index: int) -> LineStyle:
    """Return the style of a drawing's series number ``index``, from 0.

    Colour, dash and marker have different periods, so the first 210 series differ.
    """
    return LineStyle(
        PALETTE[index % len(PALETTE)], DASHES[index % len(DASHES)], MARKERS[index % len(MARKERS)]
    )
