import pytest

import debias

NESTED = "threshold(response_permutation(mdi_oob(shrinkage=30), replicates=300, rule='ratio'), alpha=0.01)"


def test_text_and_calls_build_the_same_scorer_and_its_name_reads_back():
    inner = debias.plugin.meta_method("response_permutation", replicates=300, rule="ratio")(
        debias.plugin.scorer("mdi_oob", shrinkage=30)
    )
    built = debias.plugin.meta_method("threshold", alpha=0.01)(inner)
    assert built == debias.plugin.scorer(NESTED)
    assert built.name == NESTED
    assert debias.plugin.scorer(built.name) == built
    assert isinstance(built, debias.plugin.Scorer)
    assert (
        debias.plugin.scorer(" threshold(\n  response_permutation(mdi) )").name
        == "threshold(response_permutation(mdi))"
    )
    assert (
        debias.plugin.scorer("response_permutation(mdi)", replicates=7).name
        == "response_permutation(mdi, replicates=7)"
    )


def test_a_meta_method_around_a_scorer_of_data_is_one_too_and_else_refits():
    assert isinstance(debias.plugin.scorer("shadow(gini_merit(form='merit'))"), debias.plugin.DataScorer)
    wrapped = debias.plugin.scorer("response_permutation(shadow(mdi))")
    assert isinstance(wrapped, debias.plugin.RefitScorer)
    assert not isinstance(wrapped, debias.plugin.TreeScorer | debias.plugin.DataScorer)


@pytest.mark.parametrize(
    ("text", "character", "message"),
    [
        ("threshold(response_permutaton(mdi))", 11, "there is no meta-method 'response_permutaton'"),
        ("shadow(mdi_oobb)", 8, "no scorer 'mdi_oobb'. Did you mean 'mdi_oob'?"),
        ("shadow(mdi_oob(shrink=3))", 16, "no option 'shrink'"),
        ("shadow(mdi, replicate=3)", 13, "no option 'replicate'.*Did you mean 'replicates'"),
        ("shadow(mdi", 7, "never closed"),
        ("shadow(mdi, replicates=n)", 24, "value of replicates is not a plain number or text"),
        ("shadow(mdi, replicates=__import__('os').getpid())", 24, "not a plain number or text"),
        ("(lambda: 1)()", 1, "this is not a scorer"),
        ("mdi.score", 1, "this is not a scorer"),
        ("mdi(**{})", 5, "an option needs a name"),
        ("shadow", 1, r"wraps one scorer, not 0: write shadow\(mdi_oob\)"),
        ("shadow()", 1, "wraps one scorer, not 0"),
        ("shadow(mdi, mdi_oob)", 1, "wraps one scorer, not 2"),
        ("mdi(mdi_oob)", 1, "mdi is a scorer, and wraps no scorer"),
        ("shadow(mdi, rule='min')", 1, "rule='min' is not one of 'subtract', 'max'"),
        ("guide(\xe9\xe9=1, adjusted=no)", 22, "value of adjusted"),
        ("threshold(mdi)", 1, r"mdi has none: write threshold\(response_permutation\(mdi\)\)"),
        ("threshold(shadow(mdi, rule='max'))", 1, "compares scores with those of permuted responses"),
        ("threshold(shadow(mdi), rule='fdr')", 1, r"needs p-values, and shadow\(mdi\) has none"),
        ("threshold(feature_permutation(mdi), rule='fwer')", 1, "needs p-values"),
        ("shadow(threshold(response_permutation(mdi)))", 1, "makes a decision, and replicates"),
        ("response_permutation(mdi, replicates=1)", 1, "rule='z' and fitted tails need 2 or more replicates"),
        ("response_permutation(mdi, rule='rank')", 1, "rule='rank' is not one of"),
        ("partial_permutation(mdi, share=0)", 1, "share=0 must be above 0"),
        ("threshold(response_permutation(mdi), alpha=2)", 1, "alpha=2 must be between 0 and 1"),
    ],
)
def test_what_is_wrong_is_pointed_at(text, character, message):
    with pytest.raises(debias.plugin.CompositionError, match=message) as caught:
        debias.plugin.scorer(text)
    line, caret = str(caught.value).splitlines()[-2:]
    assert caret == " " * (2 + character - 1) + f"^ character {character}"
    assert line == f"  {text}"


@pytest.mark.parametrize("text", ["", "x" * 6000, "(" * 900 + "mdi" + ")" * 900, "shadow(" * 500 + "mdi" + ")" * 500])
def test_text_that_nobody_wrote_is_refused(text):
    with pytest.raises(debias.plugin.CompositionError):
        debias.plugin.scorer(text)


def test_meta_methods_are_listed_and_their_names_are_theirs_alone():
    listed = debias.plugin.plugins().query("kind == 'meta-method'")["name"].tolist()
    assert listed == ["feature_permutation", "partial_permutation", "response_permutation", "shadow", "threshold"]
    with pytest.raises(debias.plugin.CompositionError, match="no meta-method 'shadows'. Did you mean 'shadow'"):
        debias.plugin.meta_method("shadows")
    with pytest.raises(debias.plugin.CompositionError, match="wraps a scorer, not 'mdi'"):
        debias.plugin.meta_method("shadow")("mdi")

    @debias.plugin.meta_method_plugin("mdi", unit="{unit}")
    def clash(inner, problem):
        raise NotImplementedError

    with pytest.raises(debias.plugin.PluginError, match="a scorer and a meta-method are both called 'mdi'"):
        debias.plugin.register(clash)
    assert "mdi" not in debias.plugin.plugins().query("kind == 'meta-method'")["name"].tolist()
