"""Models with categories, as an encoder of categories followed by trees that split on its codes.

CatBoost itself answers every question about categories that the trees ask: is this category the one of the split, is
the statistic of this category or combination above the border? The *probe* is a model of its own with the same tables,
whose leaf numbers are the answers. Categories with the same answers to all questions about a feature have the same
code, and a split is a set of codes. A combination of features is a feature of its own.

The *numeric* model has the trees of the user's model, but splits on answers, as on columns of numbers. It is there to
compare with: its predictions are those of the user's model, and its leaves are those of the trees that are scored.

A statistic of categories (CTR) is a mean or a count of training rows, for each category or for each combination of
categories and answers to other splits. The model keeps tables of them by hashes. Two categories in the same bins of all
statistics go the same way at every split.

Over 500 lines, because questions, codes and tables of one file are read together.
"""

from __future__ import annotations

import itertools
import json
import warnings
from collections import defaultdict
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np

from debias.errors import DebiasWarning, ExtractionError, RowsError, UnsupportedModelError
from debias.text import listed
from debias.trees.routing import REPORT
from debias_adapters.catboost.reading import as_text, from_document, margins

if TYPE_CHECKING:
    import pandas as pd
    from numpy.typing import NDArray

PROBE_DEPTH = 8
"""Number of questions that one tree of a probe asks."""
ROWS_AT_ONCE = 2**16


@dataclass(frozen=True, eq=False)
class Question:
    """Questions about one statistic, or about one category.

    Parameters
    ----------
    about : str
        The categorical feature or the combination, as CatBoost's JSON describes it.
    sources : tuple of int
        Its columns.
    splits : list of dict
        The splits, by ascending border. The answer is the number of splits at which a row goes right.
    statistic : dict, or None
        None if the question is whether a row has one category.
    """

    about: str
    sources: tuple[int, ...]
    splits: list[dict[str, Any]]
    statistic: dict[str, Any] | None


class Encoding:
    """The encoder of a model with categories, and the trees that split on its codes.

    Parameters
    ----------
    text : str
        The model as JSON.
    names : tuple of str
        Names of the model's columns.

    Attributes
    ----------
    names : tuple of str
        Names of the columns of codes and numbers: those of the model, then combinations. No name is there twice.
    sources : list of tuple of int
        The columns of the model that each of these columns is made of.
    answers : dict of int to array of int64 of shape (n_codes, n_questions)
        For each column of codes, the answers for each code.
    asked : dict of int to list of int
        For each column of codes, its questions.
    has_statistics : bool
        Whether a split is on a statistic of the response.
    numeric : CatBoost
    """

    def __init__(self, text: str, names: tuple[str, ...]) -> None:
        self._stored = stored = json.loads(text)
        features = stored["features_info"]
        self.floats = [feature["flat_feature_index"] for feature in features.get("float_features", [])]
        self.categorical = [feature["flat_feature_index"] for feature in features.get("categorical_features", [])]
        self.questions = _questions(stored, self.floats, self.categorical)
        self.has_statistics = any(question.statistic is not None for question in self.questions)
        column_of = {_own(number): flat for number, flat in enumerate(self.categorical)}
        combinations = {question.about: question.sources for question in self.questions}
        combinations = {about: columns for about, columns in combinations.items() if about not in column_of}
        self.sources = [*((column,) for column in range(len(names))), *combinations.values()]
        self.names = _named(names, list(combinations.values()))
        column_of |= {about: len(names) + number for number, about in enumerate(combinations)}
        self.asked: dict[int, list[int]] = defaultdict(list)
        for number, question in enumerate(self.questions):
            self.asked[column_of[question.about]].append(number)
        self.answers = {column: self._possible_answers(numbers) for column, numbers in self.asked.items()}
        self.numeric = from_document(self._numeric_document())

    @cached_property
    def probe(self) -> Any:
        """A model whose leaf numbers answer the questions."""
        splits = [split for question in self.questions for split in question.splits]
        width = np.size(self._stored["scale_and_bias"][1])
        document = {key: value for key, value in self._stored.items() if key != "trees"}
        document["oblivious_trees"] = [
            {
                "splits": part,
                "leaf_values": [0.0] * (width * 2 ** len(part)),
                "leaf_weights": [0.0] * 2 ** len(part),
            }
            for part in (splits[k : k + PROBE_DEPTH] for k in range(0, len(splits), PROBE_DEPTH))
        ]
        return from_document(document)

    def encode(self, model: Any, X: Any) -> pd.DataFrame:
        """Return rows as columns of codes and numbers, called `names`.

        Parameters
        ----------
        model : CatBoost
            The user's model.
        X : array or data frame of shape (n_rows, n_features)
            Rows that the model predicts for.

        Raises
        ------
        RowsError
            Columns are missing or unknown, or a category is missing.
        ExtractionError
            A row has answers that no category in the tables has, or the numeric model predicts otherwise.
        """
        import pandas as pd

        names = tuple(model.feature_names_)
        frame = _framed(X, names, named=names != tuple(str(k) for k in range(len(names))))
        columns = np.empty((len(frame), len(self.names)))
        for column in self.floats:
            columns[:, column] = frame.iloc[:, column].to_numpy(dtype=np.float64, na_value=np.nan)
        for column in self.categorical:
            missing = np.flatnonzero(frame.iloc[:, column].isna())
            if missing.size:
                raise RowsError(
                    f"column {names[column]!r} of X has a missing value (row {missing[0]}), and CatBoost takes no "
                    "missing categories. Pass the text or the number that stood for them in training"
                )
            if column not in self.asked:  # no split is on it
                columns[:, column] = pd.factorize(frame.iloc[:, column])[0]
        for begin in range(0, len(frame), ROWS_AT_ONCE):
            part = slice(begin, begin + ROWS_AT_ONCE)
            if self.questions:
                columns[part] = self._with_codes(columns[part], self._answers(frame.iloc[part]))
            self._compare(model, frame.iloc[part], columns[part])
        return pd.DataFrame(columns, columns=list(self.names))

    def numbers(self, columns: NDArray[np.floating[Any]]) -> NDArray[np.floating[Any]]:
        """Return rows for the numeric model: numbers, then the answers to all questions."""
        answers = np.empty((len(columns), len(self.questions)), dtype=columns.dtype)
        for column, numbers in self.asked.items():
            answers[:, numbers] = self.answers[column][columns[:, column].astype(np.int64)]
        return np.hstack([columns[:, self.floats], answers])

    def sets_of_codes(self, feature: NDArray[np.int64], threshold: NDArray[np.float64]) -> dict[str, Any]:
        """Return the splits of the numeric model as splits on `names`: arrays of TreeEnsemble."""
        n_floats = len(self.floats)
        place = {number: (column, k) for column, asked in self.asked.items() for k, number in enumerate(asked)}
        splits = [
            (at - n_floats, border) if at >= n_floats else None
            for at, border in zip(feature.tolist(), threshold.tolist(), strict=True)
        ]
        sets = sorted({split for split in splits if split is not None})
        if not sets:
            return {"feature": np.array([-1, *self.floats])[feature + 1]}
        number_of = {split: number for number, split in enumerate(sets)}
        codes = []
        for question, border in sets:
            column, k = place[question]
            codes.append(np.flatnonzero(self.answers[column][:, k] > border))
        return {
            "feature": np.array([-1, *self.floats, *(place[k][0] for k in range(len(self.questions)))])[feature + 1],
            "category_set": [-1 if split is None else number_of[split] for split in splits],
            "category_start": np.cumsum([0, *map(len, codes)]),
            "category_codes": np.concatenate(codes),
            "listed_left": np.zeros(len(sets), dtype=bool),
        }

    def summed(self, of_numeric: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return values of the columns of the numeric model, summed by the columns in `names`."""
        total = np.zeros(len(self.names))
        total[self.floats] = of_numeric[: len(self.floats)]
        for column, numbers in self.asked.items():
            total[column] = of_numeric[len(self.floats) :][numbers].sum()
        return total

    def _answers(self, frame: pd.DataFrame) -> NDArray[np.int64]:
        """Return what CatBoost answers, shape (n_rows, n_questions)."""
        leaf = np.asarray(self.probe.calc_leaf_indexes(frame)).reshape(len(frame), -1)
        bit = np.arange(sum(len(question.splits) for question in self.questions))
        goes_right = leaf[:, bit // PROBE_DEPTH] >> (bit % PROBE_DEPTH) & 1
        first = np.cumsum([0, *(len(question.splits) for question in self.questions)])[:-1]
        return np.add.reduceat(goes_right, first, axis=1).astype(np.int64)

    def _with_codes(self, columns: NDArray[np.float64], answers: NDArray[np.int64]) -> NDArray[np.float64]:
        for column, numbers in self.asked.items():
            code, is_known = _position(answers[:, numbers], self.answers[column])
            if not is_known.all():
                raise ExtractionError(
                    f"CatBoost's tables of {self.names[column]!r} have no category with the statistics of row "
                    f"{np.flatnonzero(~is_known)[0]}. {REPORT}"
                )
            columns[:, column] = code
        return columns

    def _compare(self, model: Any, frame: pd.DataFrame, columns: NDArray[np.float64]) -> None:
        """Raise an ExtractionError if the numeric model predicts otherwise than the user's model does."""
        with np.errstate(over="ignore"):  # CatBoost reads values that are too large as infinite, too
            numbers = self.numbers(columns.astype(np.float32))
        ours = margins(self.numeric, numbers)
        theirs = margins(model, frame)
        if not np.allclose(ours, theirs, rtol=1e-9, atol=1e-9 * (1 + np.abs(theirs).max())):
            raise ExtractionError(
                f"the model predicts otherwise than its splits on categories do (largest gap "
                f"{np.abs(ours - theirs).max():.3g}). {REPORT}"
            )

    def _possible_answers(self, numbers: list[int]) -> NDArray[np.int64]:
        """Return the answers that a category or combination may have, sorted."""
        asked = [self.questions[number] for number in numbers]
        statistics = [
            {**question.statistic, "used": [split["border"] for split in question.splits]}
            for question in asked
            if question.statistic is not None
        ]
        of_statistics = (
            bins_of_keys(statistics, self._stored.get("ctr_data", {})) if statistics else np.zeros((1, 0), int)
        )
        is_category = np.array([question.statistic is None for question in asked])
        n_categories = int(is_category.sum())
        of_categories = np.vstack([np.zeros((1, n_categories), int), np.eye(n_categories, dtype=int)])
        possible = np.empty((len(of_statistics) * len(of_categories), len(asked)), dtype=np.int64)
        possible[:, ~is_category] = np.repeat(of_statistics, len(of_categories), axis=0)
        possible[:, is_category] = np.tile(of_categories, (len(of_statistics), 1))
        return np.unique(possible, axis=0)

    def _numeric_document(self) -> dict[str, Any]:
        """Return the document of the numeric model."""
        kept = ("model_info", "scale_and_bias")
        document = {key: self._stored[key] for key in kept}
        floats = self._stored["features_info"].get("float_features", [])
        n_borders = [len(feature["borders"]) for feature in floats] + [len(q.splits) for q in self.questions]
        start = np.cumsum([0, *n_borders]).tolist()
        answers = [
            {
                "borders": [k + 0.5 for k in range(len(question.splits))],
                "feature_id": "",
                "feature_index": len(floats) + number,
                "flat_feature_index": len(floats) + number,
                "has_nans": False,
                "nan_value_treatment": "AsIs",
            }
            for number, question in enumerate(self.questions)
        ]
        own = [{**feature, "feature_id": "", "flat_feature_index": k} for k, feature in enumerate(floats)]
        document["features_info"] = {"float_features": own + answers}
        replaced = {
            split["split_index"]: {
                "split_type": "FloatFeature",
                "float_feature_index": len(floats) + number,
                "border": k + 0.5,
                "split_index": start[len(floats) + number] + k,
            }
            for number, question in enumerate(self.questions)
            for k, split in enumerate(question.splits)
        }

        def replace(split: dict[str, Any]) -> dict[str, Any]:
            return replaced.get(split["split_index"], split)

        if "oblivious_trees" in self._stored:
            document["oblivious_trees"] = [
                {**tree, "splits": [replace(split) for split in tree["splits"] or []]}
                for tree in self._stored["oblivious_trees"]
            ]
        else:
            document["trees"] = [_replaced(tree, replace) for tree in self._stored["trees"]]
        return document


@dataclass(frozen=True, eq=False)
class Encoded:
    """The model behind an encoding: what ``debias_unwrap`` returns for a model with categories."""

    model: Any
    encoding: Encoding


def encoding_of(model: Any) -> Encoding:
    """Return the encoding of a model; the last one is kept."""
    return _encoding(as_text(model), tuple(model.feature_names_))


@lru_cache(maxsize=1)
def _encoding(text: str, names: tuple[str, ...]) -> Encoding:
    return Encoding(text, names)


def _own(number: int) -> str:
    """Return how CatBoost's JSON describes a categorical feature by itself."""
    return json.dumps([{"cat_feature_index": number, "combination_element": "cat_feature_value"}])


def _questions(stored: dict[str, Any], floats: list[int], categorical: list[int]) -> list[Question]:
    """Return what the trees ask about categories. Splits are numbered: of numbers, of categories, of statistics."""
    by_number = {split["split_index"]: split for split in _all_splits(stored) if split["split_type"] != "FloatFeature"}
    features = stored["features_info"]
    number = sum(len(feature["borders"]) for feature in features.get("float_features", []))
    number += sum(len(feature.get("values", [])) for feature in features.get("categorical_features", []))
    questions = []
    for split in by_number.values():
        if split["split_type"] == "OneHotFeature":
            feature = split["cat_feature_index"]
            questions.append(Question(_own(feature), (categorical[feature],), [split], None))
    for statistic in features.get("ctrs", []):
        asked = [
            (border, by_number[number + k]) for k, border in enumerate(statistic["borders"]) if number + k in by_number
        ]
        if any(split.get("border") != border for border, split in asked):
            raise ExtractionError(f"the numbers of splits on statistics of categories are not as expected. {REPORT}")
        number += len(statistic["borders"])
        if asked:
            elements = statistic["elements"]
            columns = {
                floats[element["float_feature_index"]]
                if "float_feature_index" in element
                else categorical[element["cat_feature_index"]]
                for element in elements
            }
            about = json.dumps([dict(sorted(element.items())) for element in elements])
            questions.append(Question(about, tuple(sorted(columns)), [split for _, split in asked], statistic))
    if sum(len(question.splits) for question in questions) != len(by_number):
        kinds = sorted({split["split_type"] for split in by_number.values()})
        raise ExtractionError(f"some splits of the kinds {', '.join(kinds)} cannot be read. {REPORT}")
    return questions


def _all_splits(stored: dict[str, Any]) -> list[dict[str, Any]]:
    if "oblivious_trees" in stored:
        return [split for tree in stored["oblivious_trees"] for split in tree["splits"] or []]
    splits, nodes = [], list(stored["trees"])
    while nodes:
        node = nodes.pop()
        if "split" in node:
            splits.append(node["split"])
            nodes += [node["left"], node["right"]]
    return splits


def _replaced(node: dict[str, Any], replace: Any) -> dict[str, Any]:
    """Return a nested tree with other splits."""
    if "split" not in node:
        return node
    children = {side: _replaced(node[side], replace) for side in ("left", "right")}
    return {**node, **children, "split": replace(node["split"])}


def _named(names: tuple[str, ...], combinations: list[tuple[int, ...]]) -> tuple[str, ...]:
    """Return the names of all columns; of combinations with the same sources the second and later have a number."""
    taken = list(names)
    for columns in combinations:
        name = " + ".join(names[column] for column in columns)
        numbered = (f"{name} #{number}" for number in itertools.count(2))
        taken.append(next(free for free in itertools.chain([name], numbered) if free not in taken))
    return tuple(taken)


def _framed(X: Any, names: tuple[str, ...], named: bool) -> pd.DataFrame:
    """Return rows as a pandas frame with the columns of the model, matched by name if both have names.

    Raises
    ------
    RowsError
        Columns are missing.
    """
    import narwhals.stable.v2 as nw
    import pandas as pd

    frame = nw.from_native(X.toarray() if hasattr(X, "tocsr") else X, pass_through=True)
    if not isinstance(frame, nw.DataFrame):
        array = np.asarray(frame)
        if array.ndim != 2:
            raise RowsError(f"X must be two-dimensional (n_rows, n_features); it has shape {array.shape}")
        _require_columns(array.shape[1], len(names))
        return pd.DataFrame({name: array[:, k] for k, name in enumerate(names)})
    have = [str(name) for name in frame.columns]
    unknown = [name for name in have if name not in names]
    if named and unknown and set(names) <= set(have):
        frame = frame[:, [k for k, name in enumerate(have) if name in names]]
        have = [name for name in have if name in names]
        warnings.warn(
            f"columns of X that the model does not know are left out: {listed(unknown)}", DebiasWarning, stacklevel=2
        )
    wanted = list(names) if named or sorted(have) == sorted(names) else have
    if have != wanted:
        missing, extra = sorted(set(wanted) - set(have)), sorted(set(have) - set(wanted))
        if missing or extra:
            raise RowsError(
                "X does not have the columns the model was trained on"
                + (f"; missing: {', '.join(missing)}" if missing else "")
                + (f"; unknown to the model: {', '.join(extra)}" if extra else "")
                + ". Pass the training columns with their training names"
            )
        warnings.warn(
            "the columns of X are in another order than the model was trained on; they are matched by name",
            DebiasWarning,
            stacklevel=2,
        )
        frame = frame[:, [have.index(name) for name in wanted]]
    _require_columns(frame.shape[1], len(names))
    native = frame.to_native()
    columns = (
        (native.iloc[:, k] for k in range(len(names)))
        if isinstance(native, pd.DataFrame)
        else (_column(frame[name]) for name in frame.columns)
    )
    return pd.DataFrame(dict(zip(names, columns, strict=True)))


def _column(series: Any) -> Any:
    """Return a column of polars or Arrow as CatBoost takes it: whole numbers stay whole."""
    if series.dtype.is_numeric():
        return series.to_numpy()
    return np.array([*series.to_list(), None], dtype=object)[:-1]


def _require_columns(n_columns: int, n_wanted: int) -> None:
    if n_columns != n_wanted:
        raise RowsError(f"X has {n_columns} features, but the model was trained on {n_wanted}")


def _position(rows: NDArray[np.int64], possible: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """Return where each row is among the sorted possible ones, and whether it is there."""
    at, among = np.zeros(len(rows), dtype=np.int64), np.zeros(len(possible), dtype=np.int64)
    is_known = np.ones(len(rows), dtype=bool)
    for column in range(possible.shape[1]):  # the position among the distinct beginnings of rows
        n_values = max(rows[:, column].max(), possible[:, column].max()) + 1
        wanted = at * n_values + rows[:, column]
        beginnings, among = np.unique(among * n_values + possible[:, column], return_inverse=True)
        at = np.searchsorted(beginnings, wanted).clip(max=beginnings.size - 1)
        is_known &= beginnings[at] == wanted
    return at, is_known


NEVER_SEEN = "never seen"
"""Stands for the hashes that are in no table."""


def bins_of_keys(statistics: list[dict[str, Any]], tables: dict[str, Any]) -> NDArray[np.int64]:
    """Return the bins that some category has, of several statistics of the same categories or combinations.

    Parameters
    ----------
    statistics : list of dict
        Entries of ``features_info.ctrs``; ``used`` lists the borders that the model splits at, ascending.
    tables : dict
        ``ctr_data`` of the model.

    Returns
    -------
    array of int64 of shape (n_distinct, n_statistics)
        Distinct rows. A category in no table is among them.

    Raises
    ------
    UnsupportedModelError
        CatBoost cannot read the tables from JSON, or the model has none.
    """
    if any(statistic["identifier"] not in tables for statistic in statistics):
        raise UnsupportedModelError(
            "this CatBoost model has no tables of its statistics of categories, so it cannot predict for new rows. "
            "Train it without final_ctr_computation_mode='Skip'"
        )
    by_key = [_bins(statistic, tables[statistic["identifier"]]) for statistic in statistics]
    keys = set().union(*by_key)
    return np.unique([[bins.get(key, bins[NEVER_SEEN]) for bins in by_key] for key in keys], axis=0)


def _bins(statistic: dict[str, Any], table: dict[str, Any]) -> dict[Any, int]:
    """Return the bin of each hash."""
    stride = table["hash_stride"]
    hashes = table["hash_map"][::stride]
    stored = np.array([table["hash_map"][at::stride] for at in range(1, stride)], dtype=np.float64).reshape(
        stride - 1, len(hashes)
    )
    stored = np.column_stack([stored, np.zeros(stride - 1)])  # a category that was never seen has no rows
    kind, target = statistic["ctr_type"], statistic["target_border_idx"]
    if kind in ("Counter", "FeatureFreq"):
        good, total = stored[0], np.full(stored.shape[1], table["counter_denominator"], dtype=np.float64)
    elif kind in ("BinarizedTargetMeanValue", "FloatTargetMeanValue"):
        good, total = stored
        if (good != np.round(good)).any():
            raise UnsupportedModelError(
                f"this CatBoost model has statistics of categories of the kind {kind} with broken sums, which CatBoost "
                "does not read from its own JSON. Train it with simple_ctr and combinations_ctr of the kinds Borders "
                "(the default) or Buckets"
            )
    else:  # numbers of rows by class of the target
        good = stored[target] if kind == "Buckets" else stored[target + 1 :].sum(axis=0)
        total = stored.sum(axis=0)
    # CatBoost computes in float32. Its JSON spells "denominator" so.
    single = np.float32
    value = (good.astype(single) + single(statistic["prior_numerator"])) / (
        total.astype(single) + single(statistic["prior_denomerator"])
    )
    value = (value + single(statistic["shift"])) * single(statistic["scale"])
    bins = np.searchsorted(np.array(statistic["used"], dtype=single), value, side="left")
    return dict(zip([*hashes, NEVER_SEEN], bins.tolist(), strict=True))
