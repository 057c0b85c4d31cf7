import numpy as np
import pytest

import debias
from debias.testing import check_meta_method, distance_of_means


@pytest.mark.parametrize("name", ["response_permutation", "feature_permutation", "shadow", "partial_permutation"])
def test_ours_keep_their_promises(name):
    check_meta_method(debias.plugin.meta_method(name, replicates=3))


def test_thresholds_keep_theirs():
    drawn = debias.plugin.meta_method("response_permutation", replicates=19)(distance_of_means)
    for rule in ("guide", "fwer", "fdr_by"):
        check_meta_method(debias.plugin.meta_method("threshold", rule=rule), drawn)


def broken(function, gives=debias.plugin.Gives.NOTHING):
    return debias.plugin.meta_method_plugin("broken", unit="{unit}", gives=gives)(function)


def changes_data(inner, problem):
    problem.y[:] = 0
    return problem.score(inner)[0], {}


def draws_globally(inner, problem):
    return problem.score(inner)[0] + np.random.rand(), {}  # noqa: NPY002 - it is what is checked


def not_repeatable(inner, problem):
    return problem.score(inner)[0] + np.random.default_rng().random(), {}


def without_p(inner, problem):
    return problem.score(inner)[0], {}


def p_of_zero(inner, problem):
    return problem.score(inner)[0], {"p_value": np.zeros(4)}


@pytest.mark.parametrize(
    ("function", "gives", "message"),
    [
        (changes_data, debias.plugin.Gives.NOTHING, "changes the data"),
        (draws_globally, debias.plugin.Gives.NOTHING, "draws from the global random state"),
        (not_repeatable, debias.plugin.Gives.NOTHING, "other numbers for the same seed"),
        (without_p, debias.plugin.Gives.P_VALUE, "details have no 'p_value'"),
        (p_of_zero, debias.plugin.Gives.P_VALUE, "not above 0"),
    ],
)
def test_what_breaks_a_promise_is_told(function, gives, message):
    with pytest.raises(AssertionError, match=message):
        check_meta_method(broken(function, gives))
