"""Tests that ``pytest -m quick``, what developers run while they work, has a test of every room."""

from pathlib import Path

import pytest

TESTS = Path(__file__).parent
ROOMS = sorted(
    {path.parent.relative_to(TESTS).parts for path in TESTS.rglob("test_*.py") if "plugin_dist" not in path.parts}
    - {(), ("attack",), ("plugins",), ("results", "report")}
)
"""Folders of tests. Attacks take long, plugins have rooms of their own, and pages of a report are of results."""


@pytest.mark.quick
@pytest.mark.parametrize("room", ["/".join(room) for room in ROOMS])
def test_a_room_has_a_quick_test(room):
    sources = [path.read_text() for path in (TESTS / room).glob("test_*.py")]
    assert any("pytest.mark.quick" in source for source in sources), (
        f"no test of tests/{room} is quick: write @pytest.mark.quick above one that takes less than a second and says "
        "whether the room works"
    )
