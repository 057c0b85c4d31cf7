import json
from pathlib import Path

import jsonschema
import numpy as np
import pytest

import debias
from support.audits import made

SCHEMA = json.loads((Path(__file__).parents[2] / "docs/schema/audit.schema.json").read_text())


@pytest.fixture(scope="module")
def real(diabetes, models):
    X, y = diabetes
    forest = models("sklearn").fit(X, y)
    return [
        debias.audit(forest, X, y, random_state=0),
        debias.audit(forest, X, y, test=None, scorers=["mdi", "ufi"]),
        debias.audit(models("xgboost").fit(X[:300], y[:300]), X[300:], y[300:], error_rate=("fdr", 0.05)),
        debias.audit(forest, X, y, groups={"serum": ["s1", "s2", "s3"]}, test="conservative", dependence=False),
    ]


@pytest.mark.thorough
def test_the_schema_is_one_and_audits_keep_it(real):
    jsonschema.Draft202012Validator.check_schema(SCHEMA)
    for audit in [*real, made(["a", "b"], tested=False, reported=False)]:
        jsonschema.validate(json.loads(audit.to_json()), SCHEMA)
        part = {"$ref": "#/$defs/scores", "$defs": SCHEMA["$defs"]}
        jsonschema.validate(json.loads(audit.tested_scores.to_json()), part)


def test_the_schema_refuses_what_is_none(real):
    plain = json.loads(real[0].to_json())
    for wrong in ({"schema_version": 2}, {"verdict": ["maybe"]}, {"spare": 1}, {"share": [1.5]}, {"n_values": [1.5]}):
        with pytest.raises(jsonschema.ValidationError):
            jsonschema.validate(plain | wrong, SCHEMA)


@pytest.mark.thorough
def test_nothing_is_lost_on_the_way_through_json(real):
    for audit in real:
        again = debias.Audit.from_json(audit.to_json())
        assert again.to_dict() == audit.to_dict()
        assert again.to_frame().equals(audit.to_frame())
        if audit is real[0]:  # pages are made of the fields that are compared above
            assert again.to_html() == audit.to_html()
        np.testing.assert_array_equal(again.n_values, audit.n_values)
        assert again.n_values.dtype == audit.n_values.dtype
        if audit.tested_scores.null is not None:
            np.testing.assert_array_equal(again.tested_scores.null, audit.tested_scores.null)


def test_numbers_of_values_are_counted_as_defined(diabetes, models):
    X, y = diabetes
    X = X.assign(gap=np.where(np.arange(len(X)) % 3 == 0, np.nan, np.arange(len(X)) % 5))
    audit = debias.audit(models("xgboost").fit(X[:300], y[:300]), X[300:], y[300:], groups={"both": ["sex", "gap"]})
    fresh, counts = X[300:].astype("float32"), dict(zip(audit.tested_scores.feature_names, audit.n_values, strict=True))
    assert counts["age"] == fresh["age"].nunique()
    assert counts["both"] == len(fresh[["sex", "gap"]].drop_duplicates())


def test_fingerprints_tell_models_and_rows_apart_but_not_containers(diabetes, models, tmp_path):
    X, y = diabetes
    train, fresh = (X[:300], y[:300]), (X[300:], y[300:])
    model = models("xgboost").fit(*train)
    prints = debias.audit(model, *fresh, test=None).fingerprints
    model.save_model(tmp_path / "model.ubj")
    loaded = debias.load_model(tmp_path / "model.ubj")
    with pytest.warns(debias.DebiasWarning, match="another order"):
        again = debias.audit(loaded, X[300:][X.columns[::-1]], y[300:].tolist(), test=None)
    assert again.fingerprints == prints
    other = debias.audit(models("xgboost", n_estimators=39).fit(*train), *fresh, test=None).fingerprints
    assert (other["model_blake3"] != prints["model_blake3"], other["data_blake3"]) == (True, prints["data_blake3"])
    with pytest.warns(debias.DebiasWarning, match="these rows differ from the training rows"):
        changed = debias.audit(model, fresh[0].assign(age=0.0), fresh[1], test=None).fingerprints
    assert (changed["model_blake3"], changed["data_blake3"] != prints["data_blake3"]) == (prints["model_blake3"], True)
    weighted = debias.audit(model, *fresh, sample_weight=np.arange(1.0, 143), test=None).fingerprints
    assert weighted["data_blake3"] != prints["data_blake3"]
