import pytest

import debias
from debias.results.policy import RULES, Feature, HistoryPolicy, Policy


def test_a_policy_is_read_from_its_own_file_and_from_pyproject(tmp_path):
    own, shared = tmp_path / "debias.toml", tmp_path / "pyproject.toml"
    own.write_text('max_unsupported_share = 0.2\nmust_not_matter = ["id"]\n')
    shared.write_text('[project]\nname = "x"\n[tool.debias]\nmax_unsupported_share = 0.2\nmust_not_matter = ["id"]\n')
    expected = Policy(max_unsupported_share=0.2, must_not_matter=("id",))
    assert Policy.of(own) == Policy.of(str(shared)) == Policy.of(expected) == expected


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("max_unsuported_share = 0.2", "no rule 'max_unsuported_share'.*Did you mean 'max_unsupported_share'"),
        ("", "without rules would pass everything"),
        ("min_rows = 1.5", "min_rows must be a whole number"),
        ("min_rows = true", "min_rows must be a whole number"),
        ("max_inflation = 20", "share from 0 to 1, not 20"),
        ("max_inflation = nan", "share from 0 to 1, not nan"),
        ('must_not_matter = "id"', "a list of feature names"),
        ("must_not_matter = []", "a list of feature names"),
        ('must_not_matter = ["a", "a"]', "a feature name twice"),
        ('min_provenance = "provn"', "Did you mean 'proven'"),
        ("= 3", "cannot be read"),
        ("[tool]\ndebias = 3", "not a table of rules"),
    ],
)
def test_a_wrong_policy_is_refused_by_name(tmp_path, text, message):
    (tmp_path / "policy.toml").write_text(text)
    with pytest.raises(debias.errors.PolicyError, match=message) as refused:
        Policy.of(tmp_path / "policy.toml")
    assert "policy.toml" in str(refused.value)


def test_a_pyproject_without_our_table_is_refused(tmp_path):
    (tmp_path / "pyproject.toml").write_text("[project]\n")
    with pytest.raises(debias.errors.PolicyError, match=r"no table \[tool.debias\]"):
        Policy.of(tmp_path / "pyproject.toml")
    with pytest.raises(debias.errors.PolicyError, match="cannot be read"):
        Policy.of(tmp_path / "absent.toml")


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"min_rows": None, "min_informative": 1}, "min_rows is None"),
        ({1: 2}, "no rule 1"),
        ({"max_shift": float("nan")}, "max_shift must be an effect size"),
        ({"max_shift": True}, "max_shift must be an effect size"),
        ({"must_not_matter": {"name": "a"}}, "a list of feature names"),
        ({"must_not_matter": [["a"]]}, "must list feature names"),
        ({"must_not_matter": [{"name": 3}]}, "name must be text"),
        (3, "a policy must be a Policy, a mapping"),
        (None, "a policy must be a Policy, a mapping"),
        ("absent\x00.toml", "cannot be read"),
    ],
)
def test_what_is_no_policy_is_refused(given, message):
    with pytest.raises(debias.errors.PolicyError, match=message):
        Policy.of(given)


def test_an_optional_feature_is_written_as_a_table_or_a_mapping(tmp_path):
    (tmp_path / "debias.toml").write_text('must_not_matter = ["id", {name = "row", optional = true}, {name = "day"}]')
    expected = Policy(must_not_matter=("id", Feature("row", optional=True), Feature("day")))
    assert Policy.of(tmp_path / "debias.toml") == expected
    assert Policy.of({"must_not_matter": ["id", {"name": "row", "optional": True}, {"name": "day"}]}) == expected
    assert expected.must_not_matter == (Feature("id"), Feature("row", optional=True), Feature("day"))


def test_every_rule_is_documented():
    from pathlib import Path

    page = (Path(__file__).parents[2] / "docs/gate.md").read_text()
    assert [rule for rule in RULES if f"`{rule}" not in page] == []


@pytest.mark.parametrize("value", [10**400, -(10**400)], ids=["large", "negative"])
def test_a_number_of_hundreds_of_digits_is_no_limit(value):
    """max_age_days raised an OverflowError when the history was checked."""
    wrong = [(Policy, name) for name in ("min_rows", "max_rank_change", "min_informative", "max_verdict_changes")]
    wrong += [(HistoryPolicy, name) for name in ("min_rows", "max_age_days", "min_periods", "min_reference_periods")]
    for rules, name in wrong:
        with pytest.raises(
            debias.errors.PolicyError, match=rf"{name} must be a .* 1,000,000,000, not a number of 1,329 bits"
        ):
            rules(**{name: value})
