"""Every name and every text that goes into a drawing is escaped."""

from __future__ import annotations

from typing import Any
from xml.etree import ElementTree

from hypothesis import given
from hypothesis import strategies as st

TEXT = st.text(st.characters(codec="utf-8", exclude_categories=["Cc", "Cs"]))


@given(TEXT, TEXT)
def test_any_text_comes_back_as_it_was(drawing: Any, content: str, attribute: str) -> None:
    parsed = ElementTree.fromstring(
        drawing.element("g", drawing.text(content), data_name=attribute)
    )
    assert (parsed.text or "") == content
    assert parsed.attrib == {"data-name": attribute}


def test_attribute_names(drawing: Any) -> None:
    assert drawing.element("rect", class_="node", stroke_width=2, rx=None) == (
        '<rect class="node" stroke-width="2"/>'
    )


def test_children_stand_inside(drawing: Any) -> None:
    element = drawing.element
    assert element("g", element("a"), element("b")) == "<g><a/><b/></g>"


def test_coordinates_are_short(drawing: Any) -> None:
    assert [drawing.coordinate(value) for value in (0, 10, 1.5, 1.239, -0.5)] == [
        "0", "10", "1.5", "1.24", "-0.5"
    ]  # fmt: skip
