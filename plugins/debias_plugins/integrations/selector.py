"""A scikit-learn feature selector: it keeps features with evidence on rows that the trees have not seen."""

from __future__ import annotations

from numbers import Integral, Real
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from sklearn import __version__ as sklearn_version
from sklearn.base import BaseEstimator, clone, is_classifier
from sklearn.feature_selection import SelectorMixin
from sklearn.model_selection import train_test_split
from sklearn.utils import check_random_state
from sklearn.utils.fixes import parse_version
from sklearn.utils.validation import _num_samples, check_is_fitted

import debias
from debias import InBagUnavailableError
from debias.data.row_order import refuse_other_order
from debias.plugin import CompositionError
from debias.significance.procedure import Procedure
from debias_plugins.estimators import page, validate_data

if TYPE_CHECKING:
    from numpy.typing import NDArray

STRATEGIES = ("all-relevant", "droppable")
SEEDS = np.iinfo(np.int32).max


class DebiasedSelector(SelectorMixin, BaseEstimator):  # type: ignore[misc]  # scikit-learn has no types
    """Select features by a debiased score.

    Parameters
    ----------
    estimator : estimator or None
        A tree model; a clone of it is fitted. None for scorers that need only data (``guide``, ``gini_merit``, ...).
    scorer : str or Scorer
        As for :func:`debias.score`. Meta-methods refit `estimator`.
    threshold : {"informative"}, float or None
        A number: keep features with a larger score. None, the default: keep the features that the scorer itself selects
        (``guide``, ``threshold(...)``); if it does not select, keep those with a score above 0, the mean of ``mdi_oob``
        for noise. "informative": keep the features that the scorer itself selects, or that the test of
        :func:`debias.audit` finds informative, for ``mdi_oob`` and other scorers that an audit can test.
    strategy : {"all-relevant", "droppable"} or None
        What is kept, instead of what `scorer` and `threshold` say. "all-relevant": every feature with evidence, those
        that an audit calls informative and those that the response depends on, although the estimator may hardly use
        them. "droppable": all but the features of a set that :func:`debias.droppable` certifies, so that a model
        without them loses at most `tolerance` of the gain; it needs `validation_fraction`. None: `threshold`.
    tolerance : float
        For "droppable": largest share of the gain that may be lost.
    validation_fraction : float or None
        None: score on out-of-bag rows, for forests with bootstrap. Boosted models have no out-of-bag rows; for them
        pass the share of the rows that is held out from the fit and used for scoring.
    test : {"auto", "permutation", "conservative", "naive"} or debias.Permutation
        Test for "informative", as for :func:`debias.audit`.
    error_rate : float, or ({"fwer", "fdr", "fdr_by"}, float)
        Error rate of this test. A number, or "fwer", limits the probability to keep any noise feature; "fdr" and
        "fdr_by" limit the expected share of noise among the kept features.
    min_features_to_select, max_features : int, int or None
        Minimum and maximum number of features to keep; the features with the largest scores are kept.
    random_state : int, RandomState, Generator or None
        For the test, and for the choice of held-out rows.
    n_jobs : int or None
        Number of threads.

    Attributes
    ----------
    estimator_ : estimator
        The fitted clone; None if the scorer needs no model.
    scores_ : debias.Scores
        The scores on which the selection is based, with p-values if there are any, and warnings. Not for the strategy
        "droppable", which has `droppable_`.
    droppable_ : debias.Droppable
        Only for the strategy "droppable".
    support_ : array of bool of shape (n_features_in_,)
    n_features_in_ : int
    feature_names_in_ : array of shape (n_features_in_,)
        Only if X has feature names.

    Notes
    -----
    A threshold of 0 keeps the features that help the model, and about half of the noise features. "informative" keeps
    noise in at most one fit in twenty (for error_rate=0.05). It drops features that are not confirmed alone
    with these rows, which may cost accuracy: docs/selector.md shows how much on real data. A search can choose the
    threshold.

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> from sklearn.ensemble import RandomForestRegressor
    >>> from sklearn.pipeline import make_pipeline
    >>> from debias.selection import DebiasedSelector
    >>> X, y = load_diabetes(return_X_y=True, as_frame=True)
    >>> forest = RandomForestRegressor(random_state=0)
    >>> selector = DebiasedSelector(forest, threshold="informative", random_state=0).fit(X, y)
    >>> [str(name) for name in selector.get_feature_names_out()]
    ['bmi', 'bp', 's3', 's4', 's5', 's6']
    >>> pipeline = make_pipeline(DebiasedSelector(forest), forest).fit(X, y)
    """

    _doc_link_module = "debias_plugins"
    _doc_link_template = page("selector.html")

    estimator_: Any
    scores_: debias.Scores
    droppable_: debias.Droppable
    support_: NDArray[np.bool_]

    def __init__(
        self,
        estimator: Any = None,
        *,
        scorer: Any = "mdi_oob",
        threshold: Any = None,
        strategy: str | None = None,
        tolerance: float = 0.05,
        validation_fraction: float | None = None,
        test: Any = "auto",
        error_rate: Any = 0.05,
        min_features_to_select: int = 1,
        max_features: int | None = None,
        random_state: Any = None,
        n_jobs: int | None = None,
    ) -> None:
        self.estimator = estimator
        self.scorer = scorer
        self.threshold = threshold
        self.strategy = strategy
        self.tolerance = tolerance
        self.validation_fraction = validation_fraction
        self.test = test
        self.error_rate = error_rate
        self.min_features_to_select = min_features_to_select
        self.max_features = max_features
        self.random_state = random_state
        self.n_jobs = n_jobs

    def fit(self, X: Any, y: Any = None, **fit_params: Any) -> Self:
        """Fit the estimator, score its features, and select.

        Parameters
        ----------
        X : array, sparse matrix or data frame of shape (n_rows, n_features)
        y : array-like of shape (n_rows,)
        **fit_params
            Passed to ``estimator.fit``. Not allowed with `validation_fraction`. ``sample_weight`` also weights the rows
            that are scored.

        Returns
        -------
        self

        Raises
        ------
        DebiasError
            As for :func:`debias.score` and :func:`debias.audit`. Errors about parameters or data are ValueErrors.
        """
        least, most = self._limits()
        Procedure.of(self.test, self.error_rate)  # checks the parameters, also if nothing is tested
        if y is None:
            raise ValueError("DebiasedSelector requires y to be passed, but the target y is None")
        if _num_samples(X) < 2:
            raise ValueError("n_samples=1: a selection needs rows to fit to and rows to score on")
        refuse_other_order(X, y=y, sample_weight=fit_params.get("sample_weight"))  # before the rows are split
        validate_data(self, X, skip_check_array=True)  # scikit-learn's names and number of columns
        if getattr(self, "n_features_in_", None) == 0:
            raise ValueError(f"X has 0 feature(s) (shape={np.shape(X)}) while a minimum of 1 is required.")
        if self.strategy is not None:
            self.support_ = self._by_strategy(X, y, fit_params)
            return self
        scorer = debias.plugin.scorer(self.scorer)
        self.estimator_ = None
        if isinstance(scorer, debias.plugin.DataScorer):
            self.scores_ = debias.score(None, X, y, scorer, random_state=self._seed(), n_jobs=self.n_jobs, **fit_params)
        else:
            self.scores_ = self._of_model(X, y, scorer, fit_params)
        values, chosen = self.scores_.values, self._chosen()
        order = np.argsort(-values, kind="stable")
        kept = order[chosen[order]][:most]
        rest = order[~np.isin(order, kept)]
        self.support_ = np.zeros(values.size, dtype=bool)
        self.support_[kept] = True
        self.support_[rest[: max(0, least - kept.size)]] = True
        return self

    def __sklearn_tags__(self) -> Any:
        from sklearn.utils import get_tags

        tags = super().__sklearn_tags__()
        tags.target_tags.required = True
        if self.estimator is None:  # scorers of data take labels and missing values
            tags.input_tags.allow_nan = tags.input_tags.string = tags.input_tags.categorical = True
        else:
            inner = get_tags(self.estimator).input_tags
            # Before scikit-learn 1.8, debias refuses forests that were trained with missing values.
            tags.input_tags.allow_nan = inner.allow_nan and parse_version(sklearn_version) >= parse_version("1.8")
            tags.input_tags.sparse = inner.sparse
        return tags

    def _more_tags(self) -> dict[str, Any]:
        """Return the tags of scikit-learn 1.5."""
        from sklearn.utils._tags import _safe_tags

        if self.estimator is None:
            return {"requires_y": True, "allow_nan": True, "X_types": ["2darray", "string", "categorical"]}
        return {"requires_y": True, "X_types": _safe_tags(self.estimator, "X_types")}

    def _get_support_mask(self) -> NDArray[np.bool_]:
        check_is_fitted(self)
        return self.support_

    def _by_strategy(self, X: Any, y: Any, fit_params: dict[str, Any]) -> NDArray[np.bool_]:
        """Return which features a strategy keeps."""
        scored, response, options = self._fitted(X, y, fit_params)
        if self.strategy == "all-relevant":
            test: dict[str, Any] = {"test": self.test, "dependence": True, "error_rate": self.error_rate}
            audit = debias.audit(self.estimator_, scored, response, [], **test, **options)
            self.scores_ = audit.tested_scores
            if audit.untested_because is not None:
                raise CompositionError(f"no feature was tested: {audit.untested_because}")
            assert audit.dependence is not None
            dependent = np.array([each == "dependent" for each in audit.dependence])
            return audit.which("informative") | dependent
        self.droppable_ = debias.droppable(
            self.estimator_, scored, response, tolerance=self.tolerance, alpha=self.error_rate, **options
        )
        gone = set(self.droppable_.columns)
        return np.array([name not in gone for name in self.droppable_.feature_names])

    def _of_model(self, X: Any, y: Any, scorer: debias.plugin.Scorer, fit_params: dict[str, Any]) -> debias.Scores:
        if self.estimator is None:
            raise CompositionError(f"{scorer.name} scores a model: pass an estimator")
        scored, response, options = self._fitted(X, y, fit_params)
        decides = debias.plugin.Gives.DECISION in scorer.gives
        try:
            if self.threshold == "informative" and isinstance(scorer, debias.plugin.TreeScorer) and not decides:
                test: dict[str, Any] = {"test": self.test, "dependence": False, "error_rate": self.error_rate}
                return debias.audit(
                    self.estimator_, scored, response, [], tested=scorer, **test, **options
                ).tested_scores
            return debias.score(self.estimator_, scored, response, scorer, **options)
        except InBagUnavailableError as error:
            raise InBagUnavailableError(
                f"{error} A DebiasedSelector can hold rows out itself: validation_fraction=0.25"
            ) from None

    def _fitted(self, X: Any, y: Any, fit_params: dict[str, Any]) -> tuple[Any, Any, dict[str, Any]]:
        """Fit the estimator; return the rows to score it on, their response, and options of the call."""
        options: dict[str, Any] = {"random_state": self._seed(), "n_jobs": self.n_jobs}
        if self.validation_fraction is None:
            options |= {"rows": "oob", "sample_weight": fit_params.get("sample_weight")}
            scored, response = X, y
        else:
            if fit_params:
                raise ValueError(
                    f"validation_fraction cannot be used with {', '.join(fit_params)}: rows are split before the fit"
                )
            stratify = y if is_classifier(self.estimator) else None
            split = {
                "test_size": self.validation_fraction,
                "random_state": options["random_state"],
                "stratify": stratify,
            }
            X, scored, y, response = train_test_split(X, y, **split)
            options |= {"rows": "held-out", "train": (X, y)}
        self.estimator_ = clone(self.estimator).fit(X, y, **fit_params)
        return scored, response, options

    def _chosen(self) -> NDArray[np.bool_]:
        if self.threshold is None and self.scores_.selected is None:
            return np.asarray(self.scores_.values > 0)
        if self.threshold not in (None, "informative"):
            return np.asarray(self.scores_.values > self.threshold)
        if "untested_because" in self.scores_.details:
            raise CompositionError(f"no feature was tested: {self.scores_.details['untested_because']}")
        if self.scores_.selected is None:
            raise CompositionError(
                f"{self.scores_.scorer} does not say which features are informative: pass a number as threshold, or a "
                "scorer that does (mdi_oob, guide, 'threshold(response_permutation(mdi), alpha=0.05)')"
            )
        return self.scores_.selected

    def _limits(self) -> tuple[int, int | None]:
        """Return the minimum and the maximum number of features to keep."""
        threshold = self.threshold
        is_number = isinstance(threshold, Real) and not isinstance(threshold, bool) and not np.isnan(float(threshold))
        if not is_number and threshold is not None and str(threshold) != "informative":
            raise ValueError(f"threshold must be 'informative', a number or None, not {threshold!r}")
        least, most = self.min_features_to_select, self.max_features
        if self.strategy is not None:
            self._refuse_with_strategy()
        for name, number in (("min_features_to_select", least), ("max_features", most)):
            wrong = isinstance(number, bool) or not isinstance(number, Integral) or number < 0
            if wrong and not (name == "max_features" and number is None):
                raise ValueError(f"{name} must be a whole number, 0 or more, not {number!r}")
        if most is not None and most < least:
            raise ValueError(f"max_features={most} is less than min_features_to_select={least}")
        return least, most

    def _refuse_with_strategy(self) -> None:
        """Refuse an unknown strategy, and parameters that it does not use."""
        if self.strategy not in STRATEGIES:
            raise ValueError(
                f"strategy must be one of {', '.join(map(repr, STRATEGIES))} or None, not {self.strategy!r}"
            )
        unused = {"scorer": "mdi_oob", "threshold": None, "min_features_to_select": 1, "max_features": None}
        unused |= {"test": "auto"} if self.strategy == "droppable" else {}
        for name, default in unused.items():
            value = getattr(self, name)
            if not isinstance(value, type(default)) or value != default:
                raise ValueError(f"strategy={self.strategy!r} does not use {name}: leave it out")
        if self.estimator is None:
            raise ValueError(f"strategy={self.strategy!r} needs a model: pass an estimator")
        if self.strategy == "droppable" and self.validation_fraction is None:
            raise ValueError(
                "strategy='droppable' compares losses on rows that the estimator has not seen: pass the share of the "
                "rows that is held out, such as validation_fraction=0.3"
            )

    def _seed(self) -> int | None:
        if self.random_state is None or isinstance(self.random_state, Integral):
            return None if self.random_state is None else int(self.random_state)
        if isinstance(self.random_state, np.random.Generator):  # which scikit-learn does not take
            return int(self.random_state.integers(SEEDS))
        return int(check_random_state(self.random_state).randint(SEEDS))
