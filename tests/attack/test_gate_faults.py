"""The table of faults in docs/gate.md says what the two gates say of each fault."""

import re
from pathlib import Path

import pytest

from attack.gate_faults import END, FAULTS, START, Service

pytestmark = pytest.mark.integration
PAGE = (Path(__file__).parents[2] / "docs" / "gate.md").read_text()
LINES = re.findall(r"^\| (.*?) \| (\d) \| (.*?) \| (\d) \| (.*?) \|$", PAGE.partition(START)[2].partition(END)[0], re.M)
CODES = {words: (int(release), int(history)) for words, release, _, history, _ in LINES}


@pytest.fixture(scope="module")
def service(tmp_path_factory):
    return Service(tmp_path_factory.mktemp("gates"))


def test_the_table_has_every_fault():
    assert list(CODES) == [fault.words for fault in FAULTS]
    assert CODES["none"] == (0, 0)


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.words)
def test_the_gates_end_as_the_page_says(fault, service):
    assert (service.release(fault)[0], service.history(fault)[0]) == CODES[fault.words]
