"""What the specification exports: all objects that can be stepped through, from one place."""

from __future__ import annotations

from flowcontrol import protocol, spec


def test_it_has_what_protocol_exports_too() -> None:
    assert set(protocol.__all__) < set(spec.__all__)
    assert all(getattr(protocol, name) is getattr(spec, name) for name in protocol.__all__)


def test_each_name_is_there_once() -> None:
    for package in (protocol, spec):
        assert all(hasattr(package, name) for name in package.__all__)
        assert len(set(package.__all__)) == len(package.__all__)
