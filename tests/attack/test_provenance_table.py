"""The attack on rows: wrong ones never give a verdict without a word, and right ones are never refused."""

import pytest

from attack.attacked_models import FAMILIES, GROUPS
from attack.outcomes import RAW
from attack.provenance_cases import CASES
from attack.provenance_table import RECODED, SELECTED, UNSEEN, cells, signs

pytestmark = pytest.mark.integration
SEED = 0
CASES_AT_LEAST = 43


@pytest.fixture(scope="module")
def found():
    """Every case on every family, once; the table is printed."""
    found = list(cells(FAMILIES, CASES, [SEED]))
    print(f"\n{signs(found)}")
    return found


def listed(wrong):
    return "\n".join(f"{cell.family}, {cell.case}: {cell.found}: {cell.words}" for cell in wrong)


def test_the_table_is_as_large_as_promised(found):
    assert sum(not case.right for case in CASES.values()) >= CASES_AT_LEAST
    families = {cell.family for cell in found}
    assert families == set(FAMILIES)
    assert any(family.startswith("CatBoost") for family in families)


def test_no_error_is_foreign(found):
    wrong = [cell for cell in found if cell.found == RAW]
    assert not wrong, listed(wrong)


def test_right_rows_are_not_refused(found):
    wrong = [cell for cell in found if cell.falsely_refused]
    assert not wrong, listed(wrong)


def test_wrong_rows_are_silent_only_where_nothing_can_be_seen(found):
    wrong = [cell for cell in found if cell.silent and not cell.unseen]
    assert not wrong, listed(wrong)


def test_of_models_with_bags_only_fresh_rows_and_shuffled_codes_can_be_unseen():
    for each in UNSEEN:
        assert set(each.cases) <= set(CASES)
        assert set(each.groups) <= set(GROUPS)
        assert not any(CASES[case].right for case in each.cases)
        assert each.cases in ((SELECTED,), (RECODED,)) or GROUPS[0] not in each.groups
