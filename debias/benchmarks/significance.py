"""Error rates, power and cost of the significance tests, by simulation with fixed seeds.

Every rate comes with its Monte-Carlo standard error. Models are trained with fixed seeds too, so a run repeats.
"""

from __future__ import annotations

import tracemalloc
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from time import perf_counter, process_time
from typing import TYPE_CHECKING, Any

import numpy as np

import debias
from debias.simulate import li, loh, strobl

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from rich.console import Console

    Drawn = tuple[NDArray[np.float64], NDArray[Any], NDArray[np.bool_]]

N_TREES = 100
N_PERMUTATIONS = 199
"""So that p-values of a true null are at most 0.05 and 0.01 with just these probabilities."""
LEVELS = (0.01, 0.05, 0.1, 0.25)


@dataclass(frozen=True)
class Setting:
    """One row of the table of error rates.

    Parameters
    ----------
    name : str
    draw : callable
        ``draw(rng)`` returns X, y and which features are relevant; p-values of the others are counted.
    model : callable
        ``model(seed)`` returns an unfitted model.
    held_out : bool
        Whether the model is tested on as many fresh rows; else on its out-of-bag rows.
    block : int
        Rows to a block; 0: no blocks.
    se : str
    """

    name: str
    draw: Callable[[np.random.Generator], Drawn]
    model: Callable[[int], Any]
    held_out: bool = False
    block: int = 0
    se: str = "permutation"


def run(console: Console, repeats: int = 500, parts: tuple[str, ...] = ("level", "power", "cost")) -> None:
    """Print the tables.

    Parameters
    ----------
    console : rich.console.Console
    repeats : int
        Simulated data sets of each setting; a tenth of them for the comparison of power, which refits a hundred times.
    parts : tuple of {"level", "power", "cost"}
        What to print.
    """
    if "level" in parts:
        _print_levels(console, repeats)
    if "power" in parts:
        _print_power(console, max(2, repeats // 10))
    if "cost" in parts:
        _print_cost(console)


def p_values(setting: Setting, repeats: int, n_permutations: int = N_PERMUTATIONS, seed: int = 0) -> list[Any]:
    """Return marginal and adjusted p-values and the truth of `repeats` simulated data sets.

    Parameters
    ----------
    setting : Setting
    repeats, n_permutations, seed : int

    Returns
    -------
    list of (array, array, array)
        p-values, adjusted p-values and relevance of the features of each data set.
    """
    return [_one(setting, n_permutations, seed, each) for each in range(repeats)]


def settings() -> list[Setting]:
    """Return the settings of the table of error rates."""
    deep = partial(forest, min_samples_leaf=1)
    return [
        Setting("E0, min leaf 1", partial(loh_rows, "E0"), deep),
        Setting("E0, min leaf 5", partial(loh_rows, "E0"), partial(forest, min_samples_leaf=5)),
        Setting("E0, min leaf 20", partial(loh_rows, "E0"), partial(forest, min_samples_leaf=20)),
        Setting("E0, mtry all", partial(loh_rows, "E0"), partial(forest, min_samples_leaf=5, max_features=1.0)),
        Setting("E0, n = 200", partial(loh_rows, "E0", n_rows=200), deep),
        Setting("E0, n = 2000", partial(loh_rows, "E0", n_rows=2000), deep),
        Setting("5 features, 2 classes", strobl_rows, partial(classifier)),
        Setting("5 features, 3 classes", partial(strobl_rows, n_classes=3), partial(classifier)),
        Setting("5 features, 5 % of class 1", partial(strobl_rows, share=0.05), partial(classifier)),
        Setting(
            "5 features, 10 %, balanced subsample",
            partial(strobl_rows, share=0.1),
            partial(classifier, class_weight="balanced_subsample"),
        ),
        Setting(
            "5 features, 10 %, balanced", partial(strobl_rows, share=0.1), partial(classifier, class_weight="balanced")
        ),
        Setting("heteroscedastic noise", heteroscedastic, deep),
        Setting("strong signals beside, R2 = 0.9", strong_signal, partial(forest, min_samples_leaf=5)),
        Setting("rows in pairs, blocks", partial(clusters, size=2), deep, block=2),
        Setting("clusters of 5 with a shared effect, blocks", partial(clusters, size=5, shared=0.5), deep, block=5),
        Setting("rows in pairs, no blocks", partial(clusters, size=2), deep),
        Setting("E0, conservative", partial(loh_rows, "E0"), deep, se="conservative"),
        Setting("E0, held out", partial(loh_rows, "E0"), deep, held_out=True),
        Setting("E0, held out, naive", partial(loh_rows, "E0"), deep, held_out=True, se="naive"),
        Setting("E0, XGBoost, held out", partial(loh_rows, "E0"), xgboost_model, held_out=True),
        Setting("E0, XGBoost, held out, naive", partial(loh_rows, "E0"), xgboost_model, held_out=True, se="naive"),
        Setting("E0, LightGBM, held out", partial(loh_rows, "E0"), lightgbm_model, held_out=True),
        Setting("E0, LightGBM, held out, naive", partial(loh_rows, "E0"), lightgbm_model, held_out=True, se="naive"),
        Setting("50 features, 5 relevant", partial(li_rows, mirror=False), classifier),
        Setting("50 features, 5 relevant, mirror", partial(li_rows, mirror=True), classifier),
    ]


def forest(seed: int, **given: Any) -> Any:
    """Return a regression forest, a third of the features tried at each split."""
    from sklearn.ensemble import RandomForestRegressor

    return RandomForestRegressor(N_TREES, **{"max_features": 1 / 3, "random_state": seed, **given})


def classifier(seed: int, **given: Any) -> Any:
    """Return a classification forest."""
    from sklearn.ensemble import RandomForestClassifier

    return RandomForestClassifier(N_TREES, random_state=seed, **given)


def xgboost_model(seed: int) -> Any:
    """Return a boosted regression of XGBoost."""
    from xgboost import XGBRegressor

    return XGBRegressor(n_estimators=50, max_depth=4, learning_rate=0.1, random_state=seed, n_jobs=1)


def lightgbm_model(seed: int) -> Any:
    """Return a boosted regression of LightGBM."""
    from lightgbm import LGBMRegressor

    return LGBMRegressor(n_estimators=50, learning_rate=0.1, random_state=seed, n_jobs=1, verbose=-1)


def loh_rows(model: str, rng: np.random.Generator, n_rows: int = 400) -> Drawn:
    """Draw one of the designs E0 to E5 of Loh and Zhou (2020)."""
    drawn = loh(model, n_rows, seed=_seed(rng))
    return drawn.numeric.to_numpy(), drawn.y, drawn.is_relevant


def strobl_rows(rng: np.random.Generator, n_classes: int = 2, share: float | None = None) -> Drawn:
    """Draw the five features of the first simulation of Li et al. (2019), and classes that know nothing of them."""
    X = strobl(seed=_seed(rng), null=True).numeric.to_numpy()
    weights = None if share is None else [1 - share, share]
    y = rng.choice(n_classes, len(X), p=weights)
    y[:n_classes] = range(n_classes)
    return X, y, np.zeros(X.shape[1], dtype=bool)


def li_rows(rng: np.random.Generator, mirror: bool) -> Drawn:
    """Draw 1,000 rows of 50 features, of which 5 matter (Li et al. 2019, second simulation)."""
    drawn = li(mirror=mirror, seed=_seed(rng))
    return drawn.numeric.to_numpy(), drawn.y, drawn.is_relevant


def heteroscedastic(rng: np.random.Generator) -> Drawn:
    """Draw noise whose standard deviation depends on the first feature, by which no mean is moved."""
    X, _, none = loh_rows("E0", rng)
    return X, rng.normal(size=len(X)) * np.exp(X[:, 4]), none


def strong_signal(rng: np.random.Generator) -> Drawn:
    """Draw a response that two of the features explain to 90 %; those correlated with them are counted as relevant."""
    X, noise, _ = loh_rows("E0", rng)
    mean = 3 * X[:, 0] + 1.5 * X[:, 4] * np.sqrt(2)
    y = mean + noise * np.sqrt(mean.var() / 9)
    relevant = np.zeros(X.shape[1], dtype=bool)
    relevant[[0, 4]] = True
    return X, y, relevant


def clusters(rng: np.random.Generator, size: int, shared: float = 1.0) -> Drawn:
    """Draw rows of equal features in clusters whose responses share an effect; `shared` is its part of the variance."""
    X, _, none = loh_rows("E0", rng, n_rows=400 // size)
    X = np.repeat(X, size, axis=0)
    effect = np.repeat(rng.normal(size=len(X) // size), size)
    return X, np.sqrt(shared) * effect + np.sqrt(1 - shared) * rng.normal(size=len(X)), none


def _seed(rng: np.random.Generator) -> int:
    return int(rng.integers(2**31))


def _one(setting: Setting, n_permutations: int, seed: int, number: int) -> tuple[Any, Any, Any]:
    rng = np.random.default_rng([seed, number])
    X, y, relevant = setting.draw(rng)
    model = setting.model(_seed(rng)).fit(X, y)
    if setting.held_out:
        X, y, relevant = setting.draw(rng)
    blocks = np.arange(len(y)) // setting.block if setting.block else None
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of naive tests, repeated rows and fresh rows that look like training rows
        found = debias.audit(
            model,
            X,
            y,
            ["mdi_oob"],
            rows="held-out" if setting.held_out else "oob",
            blocks=blocks,
            se=setting.se,
            error="fwer",
            n_permutations=n_permutations,
            adaptive=False,
            seed=_seed(rng),
        ).main
    return found.p_value, found.p_adjusted, relevant


def _print_levels(console: Console, repeats: int) -> None:
    from rich.table import Table

    table = Table(title=f"P(p <= u) of noise; family-wise error at 5 %; {repeats} data sets each, SE in brackets")
    for heading in ("setting", *(f"u = {u}" for u in LEVELS), "highest feature at 0.05", "FWER", "power"):
        table.add_column(heading, justify="left" if heading == "setting" else "right")
    for setting in settings():
        table.add_row(setting.name, *level_figures(p_values(setting, repeats)))
    console.print(table)


def level_figures(found: list[Any]) -> list[str]:
    """Return the cells of a row: rates over noise features, the highest of one feature, FWER and power."""
    p, adjusted, relevant = (np.array(part) for part in zip(*found, strict=True))
    cells = []
    for u in LEVELS:
        by_data_set = np.array([(p[i][~relevant[i]] <= u).mean() for i in range(len(p))])
        cells.append(_rate(by_data_set))
    always = ~relevant.any(axis=0)
    cells.append(f"{(p[:, always] <= 0.05).mean(axis=0).max():.3f}" if always.any() else "")
    cells.append(_rate(np.array([(adjusted[i][~relevant[i]] <= 0.05).any() for i in range(len(p))])))
    power = [(adjusted[i][relevant[i]] <= 0.05).mean() for i in range(len(p)) if relevant[i].any()]
    cells.append(_rate(np.array(power)) if power else "")
    return cells


def _rate(values: NDArray[Any]) -> str:
    return f"{values.mean():.3f} ({values.std(ddof=1) / np.sqrt(values.size):.3f})"


def _print_power(console: Console, repeats: int) -> None:
    """Compare with PIMP (Altmann et al. 2010): impurity importance of refits on permuted responses."""
    from rich.table import Table

    table = Table(title=f"Power at 5 %, one by one, of relevant features; {repeats} data sets; SE of the difference")
    for heading in ("design", "frozen forest", "PIMP, 100 refits", "difference", "time PIMP : frozen"):
        table.add_column(heading, justify="left" if heading == "design" else "right")
    for model in ("E1", "E3", "E4", "E5"):
        frozen, pimp, ratio = power(model, repeats)
        table.add_row(model, _rate(frozen), _rate(pimp), _rate(frozen - pimp), f"{ratio:.0f}")
    console.print(table)


def power(model: str, repeats: int, n_refits: int = 100) -> tuple[NDArray[np.float64], NDArray[np.float64], float]:
    """Return by data set the share of relevant features found by the frozen forest and by PIMP, and the time ratio.

    Parameters
    ----------
    model : str
        E1, E3, E4 or E5 of Loh and Zhou (2020).
    repeats, n_refits : int
    """
    frozen, pimp, seconds = [], [], np.zeros(2)
    for each in range(repeats):
        rng = np.random.default_rng([7, each])
        X, y, relevant = loh_rows(model, rng)
        fitted = forest(_seed(rng), min_samples_leaf=5).fit(X, y)
        begin = process_time()
        # All permutations: p-values of single features rest on too few where drawing stops at the family's verdicts.
        given: Any = {"rows": "oob", "n_permutations": N_PERMUTATIONS, "adaptive": False, "seed": each}
        scores = debias.audit(fitted, X, y, ["mdi_oob"], **given).main
        seconds[0] += process_time() - begin
        assert scores.p_value is not None
        frozen.append((scores.p_value[relevant] <= 0.05).mean())
        begin = process_time()
        count = np.zeros(X.shape[1])
        for _ in range(n_refits):
            refit = forest(_seed(rng), min_samples_leaf=5).fit(X, rng.permutation(y))
            count += refit.feature_importances_ >= fitted.feature_importances_
        seconds[1] += process_time() - begin
        pimp.append(((1 + count[relevant]) / (1 + n_refits) <= 0.05).mean())
    return np.array(frozen), np.array(pimp), seconds[1] / seconds[0]


def _print_cost(console: Console, n_rows: int = 20_000, n_features: int = 50, threads: int = 2) -> None:
    """Time 200 permutations beside one fit of the forest, with the same threads."""
    from sklearn.ensemble import RandomForestClassifier, RandomForestRegressor

    rng = np.random.default_rng(0)
    X = rng.normal(size=(n_rows, n_features)).astype(np.float32)
    latent = X[:, :5].sum(axis=1) + rng.normal(scale=2, size=n_rows)
    console.print(f"n = {n_rows:,}, p = {n_features}, {N_TREES} grown-out trees, {threads} threads", highlight=False)
    for name, model, y in (
        ("classification, sqrt(p) features tried", RandomForestClassifier(N_TREES), (latent > 0).astype(int)),
        ("regression, p / 3 features tried", RandomForestRegressor(N_TREES, max_features=1 / 3), latent),
    ):
        model.set_params(random_state=0, n_jobs=threads)
        fit = _time(partial(model.fit, X, y))
        audit = partial(debias.audit, model, X, y, ["mdi_oob"], rows="oob", n_jobs=threads, seed=0, adaptive=False)
        audit(se=None)  # compile, warm the caches
        plain = _time(partial(audit, se=None))
        tracemalloc.start()
        audit(n_permutations=31)
        memory = tracemalloc.get_traced_memory()[1] / 2**20
        tracemalloc.stop()
        test = _time(partial(audit, n_permutations=200)) - plain
        clock, processor = test / fit
        console.print(
            f"{name}: fit {fit[0]:.1f} s, score {plain[0]:.1f} s, 200 permutations {test[0]:.1f} s = {clock:.2f} fits "
            f"by the clock, {processor:.2f} by processor time, {memory:.0f} MB; PIMP with 200 refits would take "
            f"{200 / processor:.0f} times as long",
            highlight=False,
        )


def _time(call: Callable[[], Any]) -> NDArray[np.float64]:
    """Return seconds of the clock and of the processor; the latter do not depend on what else the machine does."""
    clock, processor = perf_counter(), process_time()
    call()
    return np.array([perf_counter() - clock, process_time() - processor])
