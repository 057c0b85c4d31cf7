"""Rows that are computed when they are read: the scores are those of the same rows in memory."""

import decimal
import re

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from xgboost import XGBRegressor

import debias
from debias.data import arrow_streams, batches, sources
from support.versions import needs

KINDS = [
    "lazy frame",
    "old lazy frame",
    "Arrow stream",
    *(pytest.param(name, marks=pytest.mark.integration) for name in ("DuckDB", "Ibis")),
]

NEEDS_LABELS = needs("xgboost", "3.1", "it keeps no labels of categories")
UNKNOWN_LEFT_OUT = pytest.mark.filterwarnings(
    "ignore:columns of the .* that the model does not know are left out:debias.DebiasWarning"
)


@pytest.fixture(scope="module")
def table():
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"age": rng.normal(size=600), "paid in": rng.integers(0, 50, 600) / 4})
    frame["kind"] = pd.Categorical(rng.choice(list("abc"), 600))
    frame["weight"] = rng.integers(0, 3, 600)
    return frame.assign(target=frame["age"] + (frame["kind"] == "a") + rng.normal(size=600), other=1)


@pytest.fixture(scope="module")
def model(table):
    rows = table[:300]
    return XGBRegressor(n_estimators=10, max_depth=3, n_jobs=1, enable_categorical=True).fit(
        rows[["age", "paid in", "kind"]], rows["target"]
    )


@pytest.fixture(params=KINDS)
def stream(request, table, monkeypatch):
    """Returns a function that makes the stream, in batches of 70 rows where the library lets us choose."""
    for module in (arrow_streams, batches, sources):
        monkeypatch.setattr(module, "ROWS_AT_ONCE", 70)
    rows = table[300:].assign(kind=table["kind"].astype(str))
    rows["paid in"] = [decimal.Decimal(value).quantize(decimal.Decimal("0.01")) for value in rows["paid in"]]
    arrow = pa.Table.from_pandas(rows, preserve_index=False)
    if request.param == "DuckDB":
        duckdb = pytest.importorskip("duckdb")
        connection = duckdb.connect()
        connection.register("held_out", arrow)
        yield lambda: connection.sql("select * from held_out")
        connection.close()
        return
    if request.param == "Ibis":
        ibis = pytest.importorskip("ibis")
        yield lambda: ibis.polars.connect({"held_out": pl.from_arrow(arrow)}).table("held_out")
        return
    if request.param == "old lazy frame":
        monkeypatch.delattr(pl.LazyFrame, "collect_batches", raising=False)
    if "frame" in request.param:
        yield pl.from_arrow(arrow).lazy
        return
    yield lambda: pa.RecordBatchReader.from_batches(arrow.schema, arrow.to_batches(max_chunksize=70))


@NEEDS_LABELS
@UNKNOWN_LEFT_OUT
def test_scores_are_those_of_rows_in_memory(stream, table, model):
    rows = table[300:]
    X, weight = rows[["age", "paid in", "kind"]], rows["weight"].to_numpy()
    scores = debias.score(model, stream(), "target", sample_weight="weight")
    expected = debias.score(model, X, rows["target"], sample_weight=weight)
    np.testing.assert_allclose(scores.values, expected.values, rtol=1e-9, atol=1e-12)
    assert scores.feature_names == expected.feature_names


@NEEDS_LABELS
@UNKNOWN_LEFT_OUT
def test_interactions_are_those_of_rows_in_memory(stream, table, model):
    rows = table[300:]
    found = debias.interactions(model, stream(), "target")
    expected = debias.interactions(model, rows[["age", "paid in", "kind"]], rows["target"])
    np.testing.assert_allclose(found.z, expected.z, rtol=1e-9)
    assert (found.n_rows, found.n_passed) == (300, 300)


@pytest.mark.thorough
@NEEDS_LABELS
@UNKNOWN_LEFT_OUT
def test_what_is_computed_anew_is_tested_in_a_second_pass(stream, table, model):
    made = stream()
    if isinstance(made, pa.RecordBatchReader):
        with pytest.raises(debias.errors.CompositionError, match="can be read only once"):
            debias.score(model, made, "target", test="naive")
        return
    rows = table[300:]
    scores = debias.score(model, made, "target", test="naive")
    expected = debias.score(model, rows[["age", "paid in", "kind"]], rows["target"], test="naive")
    np.testing.assert_allclose(scores.z, expected.z, rtol=1e-7)
    audit = debias.audit(model, made, "target")
    assert audit.tested_scores.feature_names == expected.feature_names


def test_a_column_that_is_not_there_is_refused_by_name(stream, model):
    with pytest.raises(debias.RowsError, match="has no column 'outcome' for y; it has age, paid in, kind"):
        debias.score(model, stream(), "outcome")
    with pytest.raises(debias.RowsError, match="pass the name of the column with the response"):
        debias.score(model, stream(), np.zeros(300))


@UNKNOWN_LEFT_OUT
def test_what_needs_all_rows_at_once_says_how_to_pass_them(stream, model):
    made = stream()
    how = r" \(X\.collect\(\) has them\)" if isinstance(made, pl.LazyFrame) else ""
    with pytest.raises(
        debias.errors.CompositionError, match=f"debias.contributions needs all rows at once: pass .* memory{how}"
    ):
        debias.contributions(model, made, "target")


def test_missing_truth_values_and_decimals_become_numbers():
    mixed = pa.table(
        {"flag": [True, None, False], "full": [True, False, True], "paid": [decimal.Decimal("1.50"), None, 2]}
    )
    plain = arrow_streams.with_plain_numbers(mixed).to_pandas()
    np.testing.assert_array_equal(plain["flag"], [1, np.nan, 0])
    np.testing.assert_array_equal(plain["paid"], [1.5, np.nan, 2])
    assert plain["full"].dtype == bool


def test_a_lazy_frame_that_cannot_be_computed_is_refused_by_what_it_says(model):
    lazy = pl.DataFrame({"age": [1.0]}).lazy().select("price")
    with pytest.raises(debias.RowsError, match="the LazyFrame cannot be read: .*price"):
        debias.score(model, lazy, "target")


def test_tables_in_memory_are_no_streams(table):
    held = table[["age", "target"]]
    for in_memory in (held, pl.from_pandas(held), pa.Table.from_pandas(held), held["age"], [1, 2], np.eye(2)):
        assert not arrow_streams.is_stream(in_memory)


@NEEDS_LABELS
@pytest.mark.integration
def test_a_query_in_the_shell_is_the_table(table, model, tmp_path):
    from click.testing import CliRunner

    from debias.cli import main
    from debias.cli.tables import TableFile

    duckdb = pytest.importorskip("duckdb")
    path, rows = tmp_path / "sales.db", table[300:].drop(columns=["weight", "other"])
    model.save_model(tmp_path / "model.ubj")
    rows.to_parquet(tmp_path / "rows.parquet")
    with duckdb.connect(str(path)) as connection:
        connection.register("held_out", rows)
        connection.execute(
            'create table sales as select * replace ("paid in"::decimal(9,2) as "paid in") from held_out'
        )
    query = f"duckdb:///{path}?sql=select * from sales where age > -9"
    outputs = []
    for data in (query, f"duckdb://?sql=from '{tmp_path / 'rows.parquet'}'", str(tmp_path / "rows.parquet")):
        done = CliRunner().invoke(
            main,
            ["score", str(tmp_path / "model.ubj"), data, "--target", "target", "--rows", "held-out", "--format", "csv"],
        )
        assert done.exit_code == 0, done.output
        outputs.append(done.stdout)
    assert outputs[0] == outputs[1] == outputs[2]
    taken = (
        f"duckdb://?sql=select *, target + 0 as \"a+b\" from '{tmp_path / 'rows.parquet'}' where kind not like '%da%'"
    )
    assert TableFile(taken).read().columns[-1] == "a+b"
    for wrong, said in (
        (f"duckdb:///{path}?sql=select * from nothing", "the query cannot be run: .*nothing"),
        (f"duckdb:///{path}", "is no query: write 'duckdb:///FILE"),
        (f"duckdb:///{tmp_path}/none.db?sql=select 1", "the query cannot be run"),
        (f"duckdb:///{path}?sql=drop table sales", "the query cannot be run"),
        (f"duckdb:///{path}?sql= ", "is no query: write"),
    ):
        done = CliRunner().invoke(main, ["score", str(tmp_path / "model.ubj"), wrong, "--target", "target"])
        assert done.exit_code == 2, done.output
        assert re.search(said, done.output), done.output
