"""Models that debias writes are those that it reads: the same predictions, in the format of each library."""

import numpy as np
import pytest
from sklearn.ensemble import RandomForestRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import debias
from debias.models.saving import refuse_unsaveable, save_model

KINDS = (
    ("skops", "skops"), ("skops", "joblib"), ("xgboost", "ubj"), ("xgboost", "json"), ("lightgbm", "txt"),
    ("catboost", "cbm"),
)  # fmt: skip


@pytest.mark.parametrize(("library", "suffix"), KINDS)
def test_what_is_written_is_read_again(library, suffix, diabetes, tmp_path):
    module = pytest.importorskip(library)
    X, y = (np.asarray(each) for each in diabetes)
    made = {
        "skops": lambda: make_pipeline(StandardScaler(), RandomForestRegressor(5, random_state=0)),
        "xgboost": lambda: module.XGBRegressor(n_estimators=5, n_jobs=1),
        "lightgbm": lambda: module.LGBMRegressor(n_estimators=5, n_jobs=1, verbose=-1),
        "catboost": lambda: module.CatBoostRegressor(iterations=5, verbose=False, thread_count=1),
    }
    model = made[library]().fit(X, y)
    path = tmp_path / f"model.{suffix}"
    path.write_bytes(b"an older file")
    save_model(model, path)
    again = debias.load_model(path, allow_pickle=suffix == "joblib")
    rows = module.DMatrix(X) if library == "xgboost" else X
    np.testing.assert_allclose(again.predict(rows), model.predict(X), rtol=1e-6)


def test_a_file_that_cannot_be_written_stays_as_it_was(diabetes, tmp_path):
    model = RandomForestRegressor(2, random_state=0).fit(*diabetes)
    path = tmp_path / "model"
    path.write_bytes(b"an older file")
    for write in (save_model, refuse_unsaveable):
        with pytest.raises(debias.UnsupportedModelError, match="cannot be written to a file without a suffix"):
            write(model, path)
    assert path.read_bytes() == b"an older file"
    assert [each.name for each in tmp_path.iterdir()] == ["model"]
