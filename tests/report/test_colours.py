"""Lines can be told apart without colour, and labels can be read on their ground."""

from __future__ import annotations

import pytest

from flowcontrol.analysis import Pressure
from flowcontrol.report.figures import (
    DASHES,
    GOOD_TO_BAD,
    GOOD_TO_BAD_FILLS,
    MARKERS,
    PALETTE,
    PRESSURE_COLOURS,
    line_style,
)

DARK_TEXT = "#111111"


def luminance(colour: str) -> float:
    """Return the relative luminance of WCAG 2."""
    parts = [int(colour[start : start + 2], 16) / 255 for start in (1, 3, 5)]
    linear = [p / 12.92 if p <= 0.04045 else ((p + 0.055) / 1.055) ** 2.4 for p in parts]
    return sum(w * p for w, p in zip((0.2126, 0.7152, 0.0722), linear, strict=True))


def contrast(one: str, other: str) -> float:
    high, low = sorted((luminance(one), luminance(other)), reverse=True)
    return (high + 0.05) / (low + 0.05)


@pytest.mark.parametrize("pressure", list(Pressure))
def test_dark_text_can_be_read_on_every_status(pressure: Pressure) -> None:
    assert contrast(PRESSURE_COLOURS[pressure], DARK_TEXT) >= 4.5


@pytest.mark.parametrize("colour", PALETTE)
def test_lines_show_on_white_and_on_dark(colour: str) -> None:
    assert contrast(colour, "#ffffff") >= 2.0
    assert contrast(colour, "#15181c") >= 3.0


@pytest.mark.parametrize("fill", GOOD_TO_BAD_FILLS)
def test_a_number_can_be_read_in_every_cell(fill: str) -> None:
    """In dark or in white, whichever plotly takes."""
    assert max(contrast(fill, "#444444"), contrast(fill, "#ffffff")) >= 3.8


@pytest.mark.parametrize("scale", [GOOD_TO_BAD, GOOD_TO_BAD_FILLS])
def test_the_ends_of_a_scale_are_blue_and_vermillion(scale: tuple[str, ...]) -> None:
    assert (scale[0], scale[-1]) == ("#0072B2", "#D55E00")
    assert len(set(scale)) == len(scale) == 5


@pytest.mark.parametrize("colour", GOOD_TO_BAD)
def test_bands_show_on_white_and_on_dark(colour: str) -> None:
    assert contrast(colour, "#ffffff") >= 2.0
    assert contrast(colour, "#15181c") >= 3.0


def test_the_palette_is_that_of_okabe_and_ito_without_yellow() -> None:
    assert set(PALETTE) == {"#0072B2", "#D55E00", "#009E73", "#E69F00", "#CC79A7", "#56B4E9"}


def test_styles_differ_in_more_than_colour() -> None:
    styles = [line_style(index) for index in range(len(PALETTE) * len(DASHES) * len(MARKERS))]
    assert len(set(styles)) == len(styles)
    same_colour = [style for style in styles[:30] if style.colour == styles[0].colour]
    assert len({style.dash for style in same_colour}) == len(same_colour) == 5
