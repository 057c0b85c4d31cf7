"""Error rates and power of verdicts over folds, and coverage of the intervals, by simulation with fixed seeds."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

import debias
from debias.p_values import holm
from debias.significance.fold_evidence import harmonic_mean, sum_of_z
from debias.significance.procedure import Procedure
from debias_bench.markdown import markdown_table
from debias_bench.measurement import Estimate, Measurement, lines_of_settings, rate, with_error
from debias_bench.runner import machine_line
from debias_bench.significance_settings import seed_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from numpy.typing import NDArray

    Found = dict["Setting", tuple[int, dict[str, Estimate]]]

ALPHA = 0.05
N_PERMUTATIONS = 199
PERMUTATION = debias.Permutation(N_PERMUTATIONS)
N_TREES = 30
N_VALUES = (0, 2, 10, 40, 0, 0, 0, 0)
"""Number of values of each feature, 0 for a continuous one. The last two are correlated with each other."""
SIGNALS = {0: 0.35, 1: 0.6, 2: 0.1}
"""Coefficients of the relevant features, beside noise of variance 1."""
METHODS = {
    "sum": "sum of z (default)",
    "harmonic": "harmonic mean",
    "one": "first fold alone",
    "best": "best fold",
    "stouffer": "sum of z, as if independent",
    "fisher": "Fisher, as if independent",
}
"""The methods in the tables. The last three do not have the level that they state."""
OTHER_ERRORS = {"nadeau_bengio": "Nadeau and Bengio", "naive_error": "as if independent"}
"""Standard errors that are compared with that of the audit."""
ERRORS = ("error", *OTHER_ERRORS)
SPLITTERS: dict[str, Callable[[int], Any]] = {
    "2 folds": lambda seed: _model_selection().KFold(2, shuffle=True, random_state=seed),
    "3 folds": lambda seed: _model_selection().KFold(3, shuffle=True, random_state=seed),
    "5 folds": lambda seed: _model_selection().KFold(5, shuffle=True, random_state=seed),
    "10 folds": lambda seed: _model_selection().KFold(10, shuffle=True, random_state=seed),
    "5 folds, 3 times": lambda seed: _model_selection().RepeatedKFold(n_splits=5, n_repeats=3, random_state=seed),
    "10 random fifths": lambda seed: _model_selection().ShuffleSplit(10, test_size=0.2, random_state=seed),
    "5 periods": lambda seed: _model_selection().TimeSeriesSplit(5),
}
UNEQUAL = "5 folds of 5 to 50 %"
SHARES = (0.05, 0.1, 0.15, 0.2, 0.5)


@dataclass(frozen=True)
class Setting:
    """One row of the tables.

    Parameters
    ----------
    model : {"forest", "deep forest", "XGBoost", "LightGBM"}
    folds : str
        A key of SPLITTERS, or UNEQUAL.
    n_rows : int
    signals : bool
        Whether there are relevant features.
    classes : float
        Share of class 1; 0 for regression.
    test : str
        Test of each fold.
    """

    model: str
    folds: str
    n_rows: int
    signals: bool = False
    classes: float = 0.0
    test: Literal["auto", "permutation", "naive", "none"] = "auto"

    @property
    def name(self) -> str:
        """Name of the setting in tables and in the file of trials."""
        parts = [self.model, self.folds, f"n = {self.n_rows}"]
        parts += [f"{self.classes:.0%} of class 1"] * bool(self.classes)
        parts += [f"{self.test} test"] * (self.test != "auto")
        return ", ".join([*parts, *["signals beside"] * self.signals])


def settings() -> list[Setting]:
    """Return the settings of the tables."""
    usual = ("2 folds", "5 folds", "10 folds", "5 folds, 3 times", "10 random fifths", "5 periods")
    return [
        *(Setting(model, folds, 200) for model in ("forest", "XGBoost") for folds in usual),
        Setting("LightGBM", "5 folds", 200),
        Setting("deep forest", "5 folds", 200),
        Setting("XGBoost", UNEQUAL, 400),
        Setting("forest", "5 folds", 400, classes=0.5),
        Setting("XGBoost", "5 folds", 400, classes=0.1),
        Setting("XGBoost", "5 folds", 1000, test="naive"),
        Setting("forest", "5 folds", 2000),
        *(Setting("XGBoost", folds, 200, signals=True) for folds in usual),
        Setting("XGBoost", "3 folds", 200, signals=True),
        Setting("forest", "5 folds", 200, signals=True),
        Setting("LightGBM", "5 folds", 200, signals=True),
        Setting("XGBoost", UNEQUAL, 400, signals=True),
        Setting("XGBoost", "5 folds", 1000, signals=True),
        Setting("XGBoost", "5 folds", 1000, signals=True, test="naive"),
    ]


def _tasks(repeats: int) -> Iterator[tuple[Any, ...]]:
    for repeat in range(repeats):
        yield from ((setting.name, repeat, _trial, setting, repeat) for setting in settings())


def _found(trials: list[dict[str, Any]]) -> Found:
    """Return the number of data sets and the estimates of each setting that has any."""
    of_setting = {
        setting: [trial["scores"]["folds"] for trial in trials if trial["design"] == setting.name]
        for setting in settings()
    }
    return {setting: (len(found), estimates_of(setting, found)) for setting, found in of_setting.items() if found}


def _parts(trials: list[dict[str, Any]], repeats: int) -> list[str]:
    found = _found(trials)
    return [
        "# How often is noise informative over folds, and what do the intervals cover?",
        "`debias bench folds`: cross-validations of simulated data whose truth is known, audited by "
        "`debias.audit_folds`; [what the verdict and the intervals are](../folds.md).",
        f"There are {len(N_VALUES)} features: continuous ones, and some with 2, 10 and 40 values. Forests and "
        f"boosted models have {N_TREES} trees; with *signals beside*, three features are relevant. Each fold is "
        f"tested with {N_PERMUTATIONS} permutations. Standard errors in ().",
        f"*Written by the runner; {machine_line()}.*",
        "## Family-wise error rate at 5 %",
        "Share of data sets in which any noise feature is informative. *Best fold* calls a feature informative if "
        "any fold does. *As if independent* ignores that folds share rows. *Variance of z* is that of the combined "
        "z of noise features: at most about 1 if the correlation between folds is not understated.",
        _levels(found),
        "## Power at a family-wise error rate of 5 %",
        "Share of the relevant features that are informative. Methods whose error rate is above 5 % are left out.",
        _powers(found),
        "## Coverage of the intervals at 95 %",
        "Share of data sets in which the interval of the mean score over folds covers its expectation (the mean "
        "over all data sets), over features. *Ratio* is the mean standard error divided by the standard deviation "
        "of the mean scores over data sets. The other columns are the coverage with other standard errors: "
        "sqrt(1 / K + n_test / n_train) S of Nadeau and Bengio (2003), and S / sqrt(K).",
        _coverages(found),
    ]


def one_data_set(setting: Setting, number: int) -> dict[str, Any]:
    """Simulate a data set, train the models of its folds, audit them, and combine the evidence by every method.

    Parameters
    ----------
    setting : Setting
    number : int

    Returns
    -------
    dict
        Plain values: ``adjusted``, the adjusted p-values of the features by method; ``z``, the combined z; ``mean``
        of the scores, its ``error``, and that by ``nadeau_bengio`` and ``naive_error``; ``freedom`` of the interval.
    """
    rng = np.random.default_rng([25, number])
    X, y = draw(setting, rng)
    seed = seed_of(rng)
    splits = list(SPLITTERS[setting.folds](seed).split(X)) if setting.folds in SPLITTERS else _unequal(len(X), rng)
    models = [_model(setting, seed).fit(X[train], y[train]) for train, _ in splits]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", debias.DebiasWarning)
        audit = debias.audit_folds(
            models,
            X,
            y,
            splits,
            ["mdi_oob"],
            test="naive" if setting.test == "naive" else PERMUTATION,
            random_state=seed,
        )
    scores = audit.scores.dropna().to_numpy()
    spread = scores.std(axis=0, ddof=1)
    test_to_train = np.mean([test.size for _, test in splits]) / np.mean([train.size for train, _ in splits])
    assert audit.z is not None
    return {
        "adjusted": {method: _rounded(p) for method, p in _adjusted(audit, seed).items()},
        "z": _rounded(audit.z),
        "mean": _rounded(audit.mean),
        "error": None if audit.standard_error is None else _rounded(audit.standard_error),
        "nadeau_bengio": _rounded(spread * np.sqrt(1 / len(scores) + test_to_train)),
        "naive_error": _rounded(spread / np.sqrt(len(scores))),
        "freedom": len(scores) - 1,
    }


def draw(setting: Setting, rng: np.random.Generator) -> tuple[NDArray[np.float32], NDArray[Any]]:
    """Draw X and y."""
    n = setting.n_rows
    X = rng.normal(size=(n, len(N_VALUES)))
    X[:, -1] = 0.8 * X[:, -2] + 0.6 * X[:, -1]
    for k, n_values in enumerate(N_VALUES):
        if n_values:
            X[:, k] = rng.integers(n_values, size=n)
    latent = rng.normal(size=n)
    if setting.signals:
        latent += sum(coefficient * X[:, k] for k, coefficient in SIGNALS.items())
    if setting.classes:
        return X.astype(np.float32), (latent > np.quantile(latent, 1 - setting.classes)).astype(int)
    return X.astype(np.float32), latent


def estimates_of(setting: Setting, trials: list[dict[str, Any]]) -> dict[str, Estimate]:
    """Return error rates, power, coverage and their standard errors, from the trials of a setting."""
    relevant = np.isin(np.arange(len(N_VALUES)), list(SIGNALS)) & setting.signals
    estimates: dict[str, Estimate] = {}
    for method in METHODS:
        found = np.array([trial["adjusted"][method] for trial in trials]) <= ALPHA
        estimates[f"FWER, {method}"] = rate(np.asarray(found[:, ~relevant].any(axis=1)))
        if setting.signals:
            estimates[f"power, {method}"] = rate(found[:, relevant].mean(axis=1))
    z = np.array([trial["z"] for trial in trials])[:, ~relevant]
    estimates["variance of z"] = rate((z**2).mean(axis=1))
    if trials[0]["error"] is None:
        return estimates
    mean = np.array([trial["mean"] for trial in trials])
    for kind, which in (("relevant", relevant), ("noise", ~relevant)):
        if which.any() and len(trials) > 1:
            for error in ERRORS:
                errors = np.array([trial[error] for trial in trials])
                of_error = _coverage(mean[:, which], errors[:, which], trials[0]["freedom"])
                estimates |= {f"{name}, {error}, {kind}": value for name, value in of_error.items()}
    return estimates


def _coverage(mean: NDArray[np.float64], error: NDArray[np.float64], freedom: int) -> dict[str, Estimate]:
    from scipy.special import stdtrit

    distance = np.abs(mean - mean.mean(axis=0))
    return {
        "coverage": rate((distance <= float(stdtrit(freedom, 0.975)) * error).mean(axis=1)),
        "ratio": (float((error.mean(axis=0) / mean.std(axis=0, ddof=1)).mean()), float("nan")),
    }


def _adjusted(audit: debias.FoldsAudit, seed: int) -> dict[str, NDArray[np.float64]]:
    """Return adjusted p-values by every method."""
    from scipy.special import gammaincc

    scores = [each.tested_scores for each in audit.audits.values() if each.tested]
    procedure = Procedure("permutation", ALPHA, "fwer", PERMUTATION)
    weight = np.sqrt([each.n_rows or 0 for each in scores])
    adjusted, single = (
        np.stack([getattr(each, name) for each in scores]).astype(np.float64) for name in ("p_adjusted", "p_value")
    )
    assert audit.p_adjusted is not None
    return {
        "sum": audit.p_adjusted,
        "harmonic": harmonic_mean(scores, procedure).p_adjusted,
        "one": adjusted[0],
        "best": adjusted.min(axis=0),
        "stouffer": sum_of_z(scores, np.eye(len(scores)), weight, procedure, seed).p_adjusted,
        "fisher": holm(gammaincc(len(scores), -np.log(single).sum(axis=0))),
    }


def _trial(setting: Setting, repeat: int) -> dict[str, Any]:
    return {"design": setting.name, "repeat": repeat, "scores": {"folds": one_data_set(setting, repeat)}}


def _model(setting: Setting, seed: int) -> Any:
    if setting.model in ("forest", "deep forest"):
        import sklearn.ensemble

        kind = sklearn.ensemble.RandomForestClassifier if setting.classes else sklearn.ensemble.RandomForestRegressor
        smallest = 1 if setting.model == "deep forest" else 5
        return kind(N_TREES, min_samples_leaf=smallest, max_features=1 / 3, random_state=seed)
    if setting.model == "XGBoost":
        import xgboost

        boosted = xgboost.XGBClassifier if setting.classes else xgboost.XGBRegressor
        return boosted(n_estimators=N_TREES, max_depth=3, learning_rate=0.2, n_jobs=1, random_state=seed)
    import lightgbm

    return lightgbm.LGBMRegressor(
        n_estimators=N_TREES, num_leaves=8, learning_rate=0.2, n_jobs=1, verbose=-1, random_state=seed
    )


def _unequal(n_rows: int, rng: np.random.Generator) -> list[tuple[NDArray[np.int64], NDArray[np.int64]]]:
    """Return folds of the sizes SHARES."""
    order = rng.permutation(n_rows)
    tests = np.split(order, np.round(np.cumsum(SHARES)[:-1] * n_rows).astype(int))
    return [(np.setdiff1d(order, test), test) for test in tests]


def _model_selection() -> Any:
    import sklearn.model_selection

    return sklearn.model_selection


def _rounded(values: NDArray[np.float64]) -> list[float]:
    return [float(f"{value:.6g}") for value in values]


def _levels(found: Found) -> str:
    columns = [*(f"FWER, {method}" for method in METHODS), "variance of z"]
    return _table(found, [*METHODS.values(), "variance of z"], columns)


def _powers(found: Found) -> str:
    methods = [method for method in METHODS if method not in ("best", "stouffer", "fisher")]
    with_signals = {setting: estimates for setting, estimates in found.items() if setting.signals}
    return _table(with_signals, [METHODS[method] for method in methods], [f"power, {method}" for method in methods])


def _coverages(found: Found) -> str:
    columns = [
        f"{name}, {error}, {kind}"
        for kind in ("relevant", "noise")
        for name, error in (("coverage", "error"), ("ratio", "error"), *(("coverage", each) for each in OTHER_ERRORS))
    ]
    headings = [
        f"{title}{of_kind}"
        for of_kind in (", relevant", ", noise")
        for title in ("coverage", "ratio", *OTHER_ERRORS.values())
    ]
    covered = {
        setting: (n, estimates) for setting, (n, estimates) in found.items() if "ratio, error, noise" in estimates
    }
    return _table(covered, headings, columns)


def _table(found: Found, headings: list[str], columns: list[str]) -> str:
    lines = [
        [setting.name, str(n), *(with_error(estimates.get(column)) for column in columns)]
        for setting, (n, estimates) in found.items()
    ]
    return markdown_table(["setting", "data sets", *headings], lines)


def _lines(trials: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return lines_of_settings({setting.name: found for setting, found in _found(trials).items()})


run = Measurement("folds", 200, _tasks, _parts, _lines).run
