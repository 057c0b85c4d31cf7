import json
from pathlib import Path

import jsonschema
import numpy as np
import pytest

import debias
from support.audits import made
from support.made_over_time import made_folds

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


@pytest.mark.thorough
def test_the_schema_refuses_what_is_none(real):
    plain = json.loads(real[0].to_json())
    for wrong in ({"schema_version": 2}, {"verdict": ["maybe"]}, {"spare": 1}, {"share": [1.5]}, {"n_values": [1.5]}):
        with pytest.raises(jsonschema.ValidationError):
            jsonschema.validate(plain | wrong, SCHEMA)


@pytest.mark.thorough
def test_nothing_is_lost_on_the_way_through_json_and_its_file_of_draws(real, tmp_path):
    for audit in real:
        text = audit.to_json(tmp_path / "audit.json", draws=tmp_path / "draws.npz")
        again = debias.Audit.from_json(tmp_path / "audit.json", draws=tmp_path / "draws.npz")
        assert again.to_dict() == audit.to_dict()
        without = debias.Audit.from_json(text)
        assert without.to_json() == text == audit.to_json()
        assert without.to_frame().equals(audit.to_frame())
        assert without.summary() == audit.summary()
        assert debias.Audit.from_json(json.dumps(audit.to_dict())).to_dict() == audit.to_dict(), (
            "files that have the draws, as older ones"
        )
        if audit is real[0]:  # the band of noise is stored, so the page is the same without the draws
            assert without.to_html() == audit.to_html()
        np.testing.assert_array_equal(again.n_values, audit.n_values)
        assert again.n_values.dtype == audit.n_values.dtype
        if audit.tested_scores.null is not None:
            np.testing.assert_array_equal(again.tested_scores.null, audit.tested_scores.null)


def test_json_of_an_audit_is_small_and_lists_have_one_line(real):
    for audit in real:
        assert len(audit.to_json()) < 20_000
        lines = audit.to_json().splitlines()
        assert f'  "share": [{",".join(map(repr, audit.share.tolist()))}],' in lines
        assert f'  "verdict": [{",".join(json.dumps(verdict) for verdict in audit.verdict)}],' in lines
        assert json.loads(audit.to_json()) == json.loads(audit.to_json(indent=None))


def test_draws_of_another_audit_are_refused(tmp_path):
    first, other, wide = made(["a", "b"]), made(["a", "b"], seed=1), made(["a", "b", "c"])
    for audit, name in ((first, "first"), (other, "other"), (wide, "wide")):
        audit.to_json(tmp_path / f"{name}.json", draws=tmp_path / f"{name}.npz")
    again = debias.Audit.from_json(tmp_path / "first.json", draws=tmp_path / "first.npz")
    np.testing.assert_array_equal(again.tested_scores.null, first.tested_scores.null)
    with pytest.raises(debias.DebiasError, match="those of another audit"):
        debias.Audit.from_json(tmp_path / "first.json", draws=tmp_path / "other.npz")
    with pytest.raises(debias.DebiasError, match=r"shape \(50, 3\) for 2 features"):
        debias.Audit.from_json(tmp_path / "first.json", draws=tmp_path / "wide.npz")
    with pytest.raises(debias.DebiasError, match="not a file of draws"):
        debias.Audit.from_json(tmp_path / "first.json", draws=tmp_path / "first.json")
    np.savez(tmp_path / "strange.npz", **{"scores.ufi": np.zeros((3, 2))})
    with pytest.raises(debias.DebiasError, match=r"has 'scores.ufi', which this result does not have"):
        debias.Audit.from_json(tmp_path / "first.json", draws=tmp_path / "strange.npz")


def test_draws_of_folds_are_apart_too(tmp_path):
    folds = made_folds(["a", "b", "c"], n_folds=2)
    text = folds.to_json(draws=tmp_path / "draws.npz")
    assert debias.FoldsAudit.from_json(text).to_json() == text
    again = debias.FoldsAudit.from_json(text, draws=tmp_path / "draws.npz")
    assert again.to_dict() == folds.to_dict()
    assert all(each["scores"]["mdi_oob"]["null"] is None for each in json.loads(text)["audits"].values())


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
