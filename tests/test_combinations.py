"""Every combination of docs/combinations.md still does what the page says."""

import pytest

from support.versions import at_least

if not at_least("scikit-learn", "1.7"):
    pytest.skip("some of its pipelines need scikit-learn 1.7", allow_module_level=True)

from support import combinations  # it imports what older versions do not have

VERSIONS, PAGE = combinations.read()


def lines():
    """Yield every line of the table; the default tests run every model, every container and every response once."""
    met = set()
    for each in combinations.combinations():
        of = {"Models": each.model, "Tables": each.container, "Responses": each.target}[each.title]
        yield pytest.param(each, id=str(each), marks=[pytest.mark.integration] * ((each.title, of) in met))
        met.add((each.title, of))


@pytest.mark.thorough
@pytest.mark.parametrize("combination", list(lines()))
def test_the_table_of_combinations_holds(combination):
    result = combinations.run(combination)
    assert combinations.FAILED not in result
    if combinations.installed() == VERSIONS:  # other versions of the libraries may refuse other things
        assert result == PAGE[combination.cells], "run python tests/support/combinations.py if this is meant"


def test_the_page_has_120_combinations_or_more():
    assert len(PAGE) >= 120
    assert sum("refused" not in result and "not trained" not in result for result in PAGE.values()) >= 120
