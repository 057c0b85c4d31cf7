"""Clusters of similar features: the tree, the tests, and every sentence, computed again."""

import io
import json
import re
from dataclasses import replace
from pathlib import Path

import jsonschema
import numpy as np
import pandas as pd
import pytest
import referencing
from click.testing import CliRunner
from rich.console import Console
from scipy.cluster.hierarchy import linkage
from scipy.spatial.distance import squareform
from scipy.stats import spearmanr
from sklearn.ensemble import RandomForestRegressor

import debias
from debias.cli import main
from debias.errors import DebiasError
from debias.results.clusters import Cluster, Clusters
from debias.results.console import print_clusters
from debias.results.sentences import scored_on
from debias.results.vocabulary import AS_ESTIMATED
from debias.rows.surrogates import associations
from results.test_sentences import PERCENT, named, shows, whole
from support.audits import made
from support.pages import is_safe
from support.prepared import held_out_rows

N_DRAWN = 99
SCHEMAS = Path(__file__).parents[2] / "docs/schema"


def twins(seed=0, n=160, effect=0.3):
    """Return columns of which the first four are nearly the same, and a response that depends on what they share."""
    rng = np.random.default_rng(seed)
    shared = rng.normal(size=n)
    like = {name: shared + 0.1 * rng.normal(size=n) for name in ("state", "area_code", "region", "zip")}
    X = pd.DataFrame(like | {f"x{k}": rng.normal(size=n) for k in range(4)})
    return X, effect * shared + 0.6 * X["x0"] + rng.normal(size=n)


@pytest.fixture(scope="module")
def case():
    X, y = twins()
    forest = RandomForestRegressor(30, min_samples_leaf=5, max_features=0.4, random_state=0, n_jobs=1).fit(X, y)
    return forest, X, y, debias.clusters(forest, X, y, n_permutations=N_DRAWN, random_state=0)


def test_the_tree_is_that_of_likeness(case):
    """The larger of the rank correlation and the associations of tests/rows/test_surrogates.py, in both directions."""
    forest, X, y, found = case
    replaced = associations(held_out_rows(forest, X, y), np.arange(8), [])
    likeness = np.maximum(np.abs(spearmanr(X.astype(np.float32)).statistic), np.maximum(replaced, replaced.T))
    distance = 1 - likeness
    np.fill_diagonal(distance, 0)
    np.testing.assert_allclose(found.linkage, linkage(squareform(distance, checks=False), "average"), atol=1e-12)
    assert [len(each.features) for each in found.clusters] == [2, 3, 4]
    assert set(found.clusters[-1].features) == {"state", "area_code", "region", "zip"}


def test_a_cluster_is_tested_as_a_group_and_adjusted_with_all_other_hypotheses(case):
    """The oracle: audits with each cluster as a group, and the step-down of their draws, hypothesis by hypothesis."""
    forest, X, y, found = case
    settings = {"test": debias.Permutation(N_DRAWN, adaptive=False), "dependence": False, "random_state": 0}
    alone = debias.audit(forest, X, y, **settings).tested_scores
    z, null = list(alone.z), list(alone.null.T)
    for each in found.clusters:
        grouped = debias.audit(forest, X, y, groups={"all": list(each.features)}, **settings).tested_scores
        k = grouped.feature_names.index("all")
        assert each.z == pytest.approx(grouped.z[k], abs=1e-9)
        assert each.score == pytest.approx(grouped.values[k], abs=1e-12)
        z.append(grouped.z[k])
        null.append(grouped.null[:, k])
    z, null = np.array(z), np.array(null).T
    order, expected, largest = np.argsort(-z), np.empty(z.size), 0.0
    for place, k in enumerate(order):
        of_rest = null[:, order[place:]].max(axis=1)
        largest = max(largest, (1 + (of_rest >= z[k] - 1e-9).sum()) / (1 + N_DRAWN))
        expected[k] = largest
    sets = [{name} for name in alone.feature_names] + [set(each.features) for each in found.clusters]
    expected = np.array([min(p for p, part in zip(expected, sets, strict=True) if part <= whole) for whole in sets])
    told = [*found.scores.p_adjusted, *(each.p_adjusted for each in found.clusters)]
    np.testing.assert_allclose(told, expected, atol=1e-12)
    np.testing.assert_array_equal([*found.scores.selected, *(c.selected for c in found.clusters)], expected <= 0.05)
    positive = np.maximum(alone.values, 0).sum()
    assert [each.share for each in found.clusters] == pytest.approx(
        [max(each.score, 0) / positive for each in found.clusters]
    )


def test_a_cluster_is_informative_if_a_part_of_it_is():
    """Noise beside a strong feature can hide it in the score of the cluster; the cluster has its information."""
    rng = np.random.default_rng(3)
    base = rng.normal(size=200)
    X = pd.DataFrame({f"x{k}": base + 0.7 * rng.normal(size=200) for k in range(6)})
    y = X["x0"] - base + 0.8 * rng.normal(size=200)
    forest = RandomForestRegressor(30, max_features=1, min_samples_leaf=20, random_state=0, n_jobs=1).fit(X, y)
    found = debias.clusters(forest, X, y, rows="oob", n_permutations=N_DRAWN, least_likeness=0.3)
    p_of = dict(zip(found.scores.feature_names, found.scores.p_adjusted, strict=True))
    parts = {frozenset([name]): p for name, p in p_of.items()}
    for each in found.clusters:
        inside = [p for part, p in parts.items() if part < set(each.features)]
        assert each.p_adjusted <= min(inside)
        parts[frozenset(each.features)] = each.p_adjusted
    assert found.scores.selected.any()


def test_held_out_rows_are_tested_by_residuals_and_groups_alike():
    X, y = twins(n=240)
    forest = RandomForestRegressor(20, min_samples_leaf=5, random_state=0, n_jobs=1).fit(X[:120], y[:120])
    given = (forest, X[120:], y[120:])
    found = debias.clusters(*given, rows="held-out", n_permutations=N_DRAWN)
    each = found.clusters[0]
    grouped = debias.audit(
        *given,
        rows="held-out",
        groups={"all": list(each.features)},
        test=debias.Permutation(N_DRAWN, adaptive=False),
    ).tested_scores
    assert grouped.details["test"]["method"] == found.scores.details["test"]["method"] == "residuals"
    assert each.z == pytest.approx(grouped.z[grouped.feature_names.index("all")], abs=1e-9)


def test_the_same_seed_gives_the_same_clusters_and_nothing_is_changed(case):
    forest, X, y, found = case
    before, state = X.copy(), np.random.get_state()[1].copy()  # noqa: NPY002
    again = debias.clusters(forest, X, y, n_permutations=N_DRAWN, random_state=0, n_jobs=2)
    assert again.clusters == found.clusters
    pd.testing.assert_frame_equal(X, before)
    np.testing.assert_array_equal(np.random.get_state()[1], state)  # noqa: NPY002


@pytest.mark.parametrize(
    ("change", "error", "words"),
    [
        ({"least_likeness": 1.0}, debias.errors.CompositionError, "least_likeness must be between 0 and 1"),
        ({"n_permutations": 0}, debias.errors.CompositionError, "n_permutations must be a whole number"),
    ],
)
def test_wrong_use_is_refused(case, change, error, words):
    forest, X, y, _ = case
    with pytest.raises(error, match=words):
        debias.clusters(forest, X, y, **change)


def test_training_rows_are_refused(case):
    forest, X, y, _ = case
    with (
        pytest.warns(debias.DebiasWarning, match="scores on training rows"),
        pytest.raises(debias.RowsError, match="clusters cannot be tested: "),
    ):
        debias.clusters(forest, X, y, rows="train")


def test_one_feature_has_no_clusters():
    X, y = twins()
    forest = RandomForestRegressor(10, random_state=0, n_jobs=1).fit(X[["x0"]], y)
    found = debias.clusters(forest, X[["x0"]], y, n_permutations=19)
    assert found.clusters == ()
    assert found.summary() == [
        "No features have a likeness of 0.5 or more, so there are no clusters to test.",
        "Tested: 1 feature, family-wise error rate 5%.",
        scored_on(found.scores),
    ]
    assert "No features have a likeness" in found.to_html()
    assert len(found.plot()[0].patches) == 1


def drawn(seed):
    """Return clusters with random verdicts."""
    rng = np.random.default_rng(seed)
    n = int(rng.choice([3, 8, 24]))
    scores = made(
        [f"f{k}" for k in range(n)], seed=seed, informative=rng.random(n) < rng.choice([0.0, 0.3])
    ).tested_scores
    total, clusters = np.maximum(scores.values, 0).sum() or 1.0, []
    for k in range(0, n - 2, 3):
        for size in (2, 3):
            features = range(k, k + size)
            score = float(scores.values[list(features)].sum())
            p = float(rng.choice([0.0004, 0.01, 0.2]))
            name = tuple(f"f{j}" for j in features)
            clusters.append(Cluster(name, 1 - size / 10, score, max(score, 0.0) / total, 3.0, p, p <= 0.05))
    return Clusters(scores, tuple(clusters), np.empty((0, 4)), 0.5)


def nested_is_true(found, told):
    """Check the sentence about clusters inside of others, and return the number of such sentences."""
    sets = [set(each.features) for each in found.clusters]
    outermost = [each for each, own in zip(found.clusters, sets, strict=True) if not any(own < other for other in sets)]
    assert list(found.outermost) == outermost
    n_parts, n_found = len(sets) - len(outermost), sum(each.selected for each in outermost)
    if not n_parts:
        assert not any("larger one" in line for line in told)
        return 0
    are_parts = "is a part of a larger one" if n_parts == 1 else "are parts of larger ones"
    match = re.fullmatch(rf"{n_parts} of these clusters {are_parts}, so their shares overlap\. (.+)\.", told[0])
    if len(outermost) == 1:
        assert match[1] == f"The outermost cluster is {'informative' if n_found else 'not confirmed'}"
    else:
        are = "is" if n_found == 1 else "are"
        assert match[1] == f"{n_found} of the {len(outermost)} outermost clusters {are} informative"
    return 1


@pytest.mark.parametrize(
    ("given", "clause"),
    [
        ({"status": "proven held-out"}, "held-out rows."),
        ({"status": "cannot be told"}, "assumed held-out rows, if none of them is a training row."),
        *(
            (
                {
                    "status": "cannot be told",
                    "detail": f"about 42% of these rows {are} training rows, {AS_ESTIMATED}",
                    "training_share": 0.42,
                },
                f"assumed held-out rows, but about 42% of them {verb} training rows.",
            )
            for are, verb in (("are", "look like"), ("may be", "may be"))
        ),
        ({"status": "stated by the user"}, "assumed held-out rows, but they look like training rows."),
    ],
)
def test_rows_that_may_be_training_rows_are_a_condition_of_the_first_sentence(given, clause):
    found = drawn(1)
    given = {"kind": "held-out", "detail": "as the test says", "training_share": None} | given
    found = replace(found, scores=replace(found.scores, rows="held-out", provenance=given))
    count, *_, of_rows = found.summary()
    assert count.endswith(f" on 500 {clause}")
    kind = "held-out" if given["status"] == "proven held-out" else "assumed held-out"
    assert of_rows == f"Scored on 500 {kind} rows: {given['detail']}."
    shown = repr(found).replace("\n", " ")
    assert count in shown
    console = Console(width=500, record=True, file=io.StringIO())
    print_clusters(console, found)
    *_, last = console.export_text().strip().splitlines()
    assert last == of_rows


def test_every_sentence_is_true_of_the_table():
    seen = dict.fromkeys(("together", "more", "count", "none", "nested"), 0)
    for seed in range(60):
        found = drawn(seed)
        alone = {name for name, yes in zip(found.scores.feature_names, found.scores.selected, strict=True) if yes}
        of_interest = [each for each in found.clusters if each.selected and not alone & set(each.features)]
        smallest = [
            each for each in of_interest if not any(set(one.features) < set(each.features) for one in of_interest)
        ]
        assert list(found.only_together) == smallest
        count, *told, last, of_rows = found.summary()
        assert of_rows == "Scored on 500 out-of-bag rows: as the test says."
        told = told[nested_is_true(found, told) :]
        n_found = sum(each.selected for each in found.clusters)
        if n_found and not smallest:
            assert told == ["Each informative cluster has a feature that is informative alone."]
            assert all(alone & set(each.features) for each in found.clusters if each.selected)
            told = []
            seen["none"] += 1
        by_share = sorted(smallest, key=lambda each: -each.share)
        for line, each in zip(told[:5], by_share, strict=False):
            match = re.fullmatch(
                rf"(.+) have ({PERCENT}) of the debiased scores together and are informative together \(adjusted p "
                r"(.+)\)\. Alone, (neither|none of them) is\. Dropping all of them may cost accuracy\.",
                line,
            )
            named(match[1], list(each.features), most=5)
            assert shows(match[2], each.share)
            assert match[3] == ("< 0.001" if each.p_adjusted < 0.001 else f"{each.p_adjusted:.3f}")
            assert (match[4] == "neither") == (len(each.features) == 2)
            seen["together"] += 1
        assert len(told) == min(len(smallest), 6)
        if len(smallest) > 5:
            n_more = len(smallest) - 5
            assert told[5] == f"The same holds for {n_more} more cluster{'' if n_more == 1 else 's'}."
            seen["more"] += 1
        match = re.fullmatch(
            r"([\d,]+) of ([\d,]+) clusters? of similar features (is|are) informative on 500 out-of-bag rows\.",
            count,
        )
        assert whole(match[1]) == n_found
        assert match[3] == ("is" if 1 in (n_found, len(found.clusters)) else "are")
        assert whole(match[2]) == len(found.clusters)
        n_features = found.scores.values.size
        assert last == f"Tested together: {n_features} features and all clusters, family-wise error rate 5%."
        seen["count"] += 1
        seen["nested"] += len(found.outermost) > 1
    assert min(seen.values()) > 0, seen


def test_twins_are_found_together_and_the_picture_has_them(case):
    from matplotlib import pyplot as plt

    found = case[3]
    frame = found.to_frame()
    assert list(frame["share"]) == sorted(frame["share"], reverse=True)
    assert frame["informative_alone"].max() <= frame["n_features"].max()
    bars, tree = found.plot()
    assert sorted(label.get_text() for label in bars.get_yticklabels()) == sorted(found.scores.feature_names)
    thick = [line for line in tree.lines if line.get_linewidth() > 2]
    assert len(thick) == sum(each.selected for each in found.clusters)
    widths = sorted(bar.get_width() for bar in bars.patches)
    share = np.maximum(found.scores.values, 0) / np.maximum(found.scores.values, 0).sum()
    np.testing.assert_allclose(widths, np.sort(share))
    plt.close("all")
    page = found.to_html()
    is_safe(page)
    assert all(f"<p>{line}</p>" in page for line in found.summary()[1:])
    assert found.summary()[0] in page


@pytest.mark.thorough
def test_nothing_is_lost_through_json_which_keeps_the_schema(case, tmp_path):
    found = case[3]
    text = found.to_json(tmp_path / "clusters.json", draws=tmp_path / "draws.npz")
    again = Clusters.from_json(tmp_path / "clusters.json", draws=tmp_path / "draws.npz")
    assert again.to_dict() == found.to_dict()
    without = Clusters.from_json(text)
    assert without.to_json() == text
    assert without.summary() == found.summary()
    assert without.to_frame().equals(found.to_frame())
    assert without.to_html() == found.to_html()
    schema, of_audit = (json.loads((SCHEMAS / f"{name}.schema.json").read_text()) for name in ("clusters", "audit"))
    registry = referencing.Registry().with_resource("audit.schema.json", referencing.Resource.from_contents(of_audit))
    jsonschema.Draft202012Validator(schema, registry=registry).validate(json.loads(text))


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda plain: plain.update(kind="audit"), "it has another kind"),
        (lambda plain: plain.update(clusters=plain["clusters"][1:]), "clusters are not those of linkage"),
        (lambda plain: plain["clusters"][0].update(share=0.9), "likeness, score or share of"),
        (lambda plain: plain["clusters"][0].update(selected=None), "not a list of true and false"),
        (lambda plain: plain["clusters"][0].update(p_adjusted=0.9), "contradict alpha"),
        (lambda plain: plain["linkage"][0].__setitem__(0, 20), "linkage is not a tree of its features"),
        (lambda plain: plain["linkage"].pop(), "linkage is not a tree of its features"),
        (lambda plain: plain.update(least_likeness=2), "not between 0 and 1"),
        (lambda plain: plain.update(spare=1), "spare is not a field"),
    ],
)
def test_json_that_contradicts_itself_is_refused(case, change, words):
    plain = json.loads(case[3].to_json())
    change(plain)
    with pytest.raises(DebiasError, match=f"not clusters written by debias.*{words}"):
        Clusters.from_dict(plain)


@pytest.mark.thorough
def test_the_command_prints_what_the_function_returns(tmp_path, monkeypatch):
    xgboost = pytest.importorskip("xgboost")
    monkeypatch.setattr("debias.models.sandbox.check", lambda *_: None)
    X, y = twins(n=200)
    model = xgboost.XGBRegressor(n_estimators=15, max_depth=3, n_jobs=1).fit(X[:100], y[:100])
    model.save_model(tmp_path / "model.ubj")
    X.assign(outcome=y)[100:].to_csv(tmp_path / "heldout.csv", index=False)
    given = ["clusters", tmp_path / "model.ubj", tmp_path / "heldout.csv", "--target", "outcome"]
    settings = ["--rows", "held-out", "--permutations", "39", "--random-state", "0"]

    def run(*more):
        return CliRunner().invoke(main, [*map(str, given), *settings, *map(str, more)])

    done = run("--html", tmp_path / "clusters.html")
    assert done.exit_code == 0, done.output
    found = debias.clusters(model, X[100:], y[100:], rows="held-out", n_permutations=39, random_state=0)
    shown = re.sub(r"\s+", " ", done.stdout)
    assert all(sentence in shown for sentence in found.summary())
    assert found.summary()[0] in re.sub(r"\s+", " ", (tmp_path / "clusters.html").read_text())
    assert [set(each.features) for each in Clusters.from_json(run("--format", "json").stdout).clusters] == [
        set(each.features) for each in found.clusters
    ]
    assert run("--format", "csv").stdout.count("\n") == 1 + len(found.clusters)
    assert run("--least-likeness", "1.5").exit_code == 2


def made_at_random(seed, of, effect):
    """The design of docs/clusters.md: four sets of three columns; the response may depend on what the first shares."""
    rng = np.random.default_rng([seed, 7])
    n = 80 if of == "oob" else 160
    shared = rng.normal(size=(n, 4))
    X = np.column_stack([shared[:, k // 3] + 0.3 * rng.normal(size=n) for k in range(12)])
    y = rng.normal(size=n) + effect * shared[:, 0]
    forest = RandomForestRegressor(25, min_samples_leaf=3, max_features=0.5, random_state=seed, n_jobs=1)
    given = (forest.fit(X, y), X, y) if of == "oob" else (forest.fit(X[:80], y[:80]), X[80:], y[80:])
    return given, {"rows": "auto" if of == "oob" else "held-out", "random_state": seed}


def informative(found):
    """Return the informative features and clusters, each as a set of names."""
    names = found.scores.feature_names
    alone = [{name} for name, yes in zip(names, found.scores.selected, strict=True) if yes]
    return [*alone, *(set(each.features) for each in found.clusters if each.selected)]


@pytest.mark.slow
@pytest.mark.parametrize("of", ["oob", "held-out"])
@pytest.mark.parametrize("effect", [0.0, 1.0])
def test_the_family_wise_error_rate_holds_for_clusters_of_noise(of, effect):
    wrong, n_sets = 0, 300
    for seed in range(n_sets):
        given, settings = made_at_random(seed, of, effect)
        found = debias.clusters(*given, n_permutations=N_DRAWN, **settings)
        names = found.scores.feature_names
        noise = set(names[3:] if effect else names)
        wrong += any(each <= noise for each in informative(found))
    assert wrong / n_sets <= 0.05 + 3 * np.sqrt(0.05 * 0.95 / n_sets)


def parts_at_random(seed, effect):
    """The second design of docs/clusters.md: two sets of six columns; the response depends on the mean of the first."""
    rng = np.random.default_rng([seed, 11])
    shared = rng.normal(size=(80, 2))
    X = np.column_stack([shared[:, k // 6] + 0.8 * rng.normal(size=80) for k in range(12)])
    y = rng.normal(size=80) + effect * X[:, :6].mean(axis=1)
    forest = RandomForestRegressor(25, min_samples_leaf=3, max_features=0.3, random_state=seed, n_jobs=1)
    return forest.fit(X, y), X, y


@pytest.mark.slow
def test_columns_that_each_have_a_part_are_found_together_more_often_than_any_alone():
    """The audit tests fewer hypotheses, and nevertheless finds less."""
    n_sets = 200
    together, alone = np.zeros(n_sets), np.zeros(n_sets)
    for seed in range(n_sets):
        given = parts_at_random(seed, 0.5)
        found = debias.clusters(*given, n_permutations=N_DRAWN, random_state=seed)
        test = debias.Permutation(N_DRAWN, adaptive=False)
        audit = debias.audit(*given, [], test=test, dependence=False, random_state=seed)
        first = set(found.scores.feature_names[:6])
        together[seed] = any(each <= first for each in informative(found))
        alone[seed] = audit.which("informative")[:6].any()
    gained = together - alone
    assert gained.mean() > 2 * gained.std() / np.sqrt(n_sets)
