"""Kernels that are compiled twice give the same numbers on every processor."""

import subprocess
import sys

import numpy as np
import pytest

from debias.processor import suited

AUDIT = """
import sys
import numpy as np
features = np._core._multiarray_umath.__cpu_features__
features["AVX2"] = features["AVX2"] and sys.argv[1] == "avx2"
import debias
from debias.rows.period_sums import PeriodSums
from debias.trees.shapley import shapley_sums, shapley_values
from sklearn.ensemble import GradientBoostingClassifier, RandomForestRegressor
rng = np.random.default_rng(0)
X = rng.normal(size=(5_000, 4))
y = X[:, 0] + rng.normal(size=5_000)
forest = RandomForestRegressor(8, max_depth=5, random_state=0).fit(X, y)
boosted = GradientBoostingClassifier(n_estimators=20, max_depth=3, random_state=0).fit(X, y > 0)
print(debias.audit(forest, X, y, ["mdi_oob", "ufi"], n_jobs=1).to_frame().to_csv(float_format="%r"))
for scorer in ("mdi_oob", "oob_loss"):
    print(debias.score(boosted, X + 0.5, y > 0, scorer, rows="held-out").values.tolist())
sums = PeriodSums(boosted)
sums.update(X + 0.5, y > 0)
print(sums.variances()[0].tolist(), sums.residual.tobytes().hex())
X = X.astype(np.float32)
for model, n in ((forest, 1_000), (forest, 5_000), (boosted, 100)):  # by integrals, by tables, by integrals
    print(shapley_values(debias.plugin.extract(model), X[:n]).tobytes().hex())
    print(shapley_sums(debias.plugin.extract(model), X[:n], rng.normal(size=(2, n, 1))).tobytes().hex())
print(sorted(name for name in sys.modules if name.endswith("_avx2")))
"""


def has_avx2():
    return np._core._multiarray_umath.__cpu_features__.get("AVX2", False)


@pytest.mark.thorough
def test_both_builds_give_the_same_numbers():
    if not has_avx2():
        pytest.skip("this processor has no AVX2: there is one build")
    fast, plain = (
        subprocess.run([sys.executable, "-c", AUDIT, way], capture_output=True, text=True, check=True).stdout
        for way in ("avx2", "plain")
    )
    *numbers, loaded = fast.splitlines()
    *numbers_of_plain, loaded_by_plain = plain.splitlines()
    assert numbers == numbers_of_plain
    assert loaded_by_plain == "[]"
    rows = [f"rows.kernels.{kernel}" for kernel in ("running_loss", "lines", "one_response", "period_sums")]
    for kernel in ("trees.kernels.bins", *rows, "significance.kernels.steps", "feature_paths"):
        assert f"{kernel}_avx2" in loaded
    for kernel in ("patterns", "shapley", "shapley_sums"):
        assert f"trees.kernels.{kernel}_avx2" in loaded


def test_a_kernel_that_does_not_exist_is_no_attribute():
    with pytest.raises(AttributeError, match=r"debias\.trees\.kernels.*no_such"):
        suited("debias.trees.kernels", "no_such")
