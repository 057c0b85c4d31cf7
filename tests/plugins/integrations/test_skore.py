"""skore itself: the check in a report of an estimator."""

import re
import warnings
from pathlib import Path

import pytest
from sklearn.ensemble import RandomForestRegressor
from sklearn.linear_model import Ridge

import debias
from debias_bench.demo import UNIQUE, demo_data

pytestmark = [pytest.mark.integration, pytest.mark.filterwarnings("ignore")]  # skore's other checks warn


@pytest.fixture(scope="module", autouse=True)
def imported():
    """Import skore, which takes seconds, only where these tests are run."""
    global skore, DebiasCheck
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        skore = pytest.importorskip("skore")
        from debias_plugins.integrations.skore import DebiasCheck


@pytest.fixture(scope="module")
def data():
    X, y = demo_data()
    return {"X_train": X[:300], "y_train": y[:300], "X_test": X[300:], "y_test": y[300:]}


def found(model, data, **given):
    report = skore.EstimatorReport(model, **data)
    report.checks.add([DebiasCheck(random_state=0, **given)])
    others = [each.split(" ")[0] for each in report.checks.available() if not each.startswith("DEB")]
    frame = report.checks.summarize(ignore=others).frame().set_index("code")
    return frame.loc["DEB001"], report


def test_a_forest_is_audited_on_its_out_of_bag_rows(data):
    row, report = found(RandomForestRegressor(50, random_state=0), data)
    audit = debias.audit(report.estimator_, data["X_train"], data["y_train"], ["mdi_oob"], rows="oob", random_state=0)
    assert row["section"] == "tip"
    assert row["explanation"] == " ".join(audit.summary())
    assert UNIQUE in row["explanation"]
    assert "300 out-of-bag rows" in row["explanation"]


def test_a_booster_is_audited_on_the_test_rows(data, models):
    row, _ = found(models("xgboost", n_estimators=20), data)
    assert row["section"] == "tip"
    assert re.search("142 (assumed )?held-out rows", row["explanation"])  # as far as the leaves prove it


def test_it_passes_where_little_is_unsupported(data):
    assert found(RandomForestRegressor(50, random_state=0), data, max_unsupported_share=0.9)[0]["section"] == "passed"


def test_it_is_not_applicable_to_other_models(data):
    row, _ = found(Ridge(), data)
    assert row["section"] == "not_applicable"
    assert "no adapter recognises" in row["explanation"]


def test_the_page_runs(data):
    page = (Path(__file__).parents[3] / "docs/mlflow.md").read_text().partition("## skore")[2]
    (block,) = re.findall(r"^```python\n(.*?)^```", page, flags=re.M | re.S)
    forest = RandomForestRegressor(10, random_state=0).fit(data["X_train"], data["y_train"])
    named = {"forest": forest, "model": forest, "debias": debias, **data}  # what the page takes for given
    exec(block.rpartition("report.checks.summarize()")[0], named)  # noqa: S102 - our own page; all checks take a while
    assert any(each.startswith("DEB001") for each in named["report"].checks.available())


def test_a_fitted_forest_is_audited_on_the_test_rows(data):
    forest = RandomForestRegressor(50, random_state=0).fit(data["X_train"], data["y_train"])
    row, _ = found(forest, {name: data[name] for name in ("X_test", "y_test")})
    assert "142 assumed held-out rows" in row["explanation"]


def test_it_is_slow_so_fast_summaries_skip_it(data):
    report = skore.EstimatorReport(RandomForestRegressor(5), **data)
    report.checks.add([DebiasCheck()])
    assert report.checks.summarize(fast_mode=True).frame().set_index("code").loc["DEB001", "section"] == "skipped"
