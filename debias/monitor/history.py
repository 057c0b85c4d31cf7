"""``debias.History``: the scores of a model over time.

The file is longer than others, because it is the public class with its documentation; what the methods do stands in the
other modules of this room.
"""

from __future__ import annotations

from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from debias.atomic_files import written
from debias.data.user_rows import dataset
from debias.errors import HistoryArgumentError, HistoryError
from debias.monitor.any_look import comparison_at_any_look
from debias.monitor.comparing import comparison_of
from debias.monitor.reading import OwnModel, named_pairs
from debias.monitor.records import About, Records, StoredTrees, merged, packed_trees
from debias.monitor.scores import frames_of
from debias.monitor.store import Store
from debias.monitor.times import Moment, Window, index_of, refuse_far_future, time_text
from debias.results.any_look import ANY
from debias.results.windows import ADD_RESPONSES
from debias.rows.passed_rows import PassedRows
from debias.rows.period_sums import KEPT_ROWS, LOSS_ROWS, MOST_KEPT
from debias.significance.change import LEAST
from debias.text import counted, escaped, spelled_alike
from debias.warning_log import WarningLog

if TYPE_CHECKING:
    import os
    from collections.abc import Iterable, Iterator

    import pandas as pd

    from debias.monitor.store import Period, Series
    from debias.results.changes import Changes
    from debias.results.data_or_model import DataOrModel
    from debias.results.fleet import Fleet
    from debias.results.gate_outcome import Gate

TIMEOUT = 60.0
"""Number of seconds to wait for another process that writes."""
LONGEST = 200
"""Largest number of characters of a label or the name of a part."""


class History:
    """The scores of a model over time, in one file.

    Rows are added period by period: a day, a batch, a release. For each period the file keeps sums at the leaves of the
    trees, and a few rows. From these sums come the scores (``mdi_oob``) of each period and of windows of periods, and
    tests of what changed. A retrained model begins a new series in the same file.

    Parameters
    ----------
    model : estimator or Booster
        A fitted model, or a wrapper around one. It is never changed.
    path : str or Path
        An SQLite file on a local disk: network drives often lack the locks it needs. The first :meth:`add` makes it.
    label : str, optional
        Name of the series of this model, such as its version. By default "model 1", "model 2", ..., in the order in
        which models came.
    timeout : float
        Number of seconds to wait while another process writes to the file.
    n_jobs : int, optional
        Number of threads that add rows; 1 by default.
    loss_rows : int or None
        The loss of so many rows at most of each table or batch, drawn at random, is divided into what each feature
        saves, for ``changes().loss``. None: of all rows, which takes several times as long for large tables. 0: of
        none. Where the trees of a forest have more than 256 leaves on average, a row goes through some of the trees
        only, unless this is None: what single features save is then estimated, and the sum of all is exact.
    kept_rows : int
        So many of these rows at most are kept in the file as they are, features and response, so that
        ``changes().loss`` can tell which features are the cause and which only go together with it. 0 where rows may
        not be kept.
    interactions : iterable of tuples of two str, optional
        Pairs of features, such as ``[("age", "income")]``, for models of numbers with squared errors.
        ``changes().pairs`` tells whether the response to what the model does with both together changed. Sums for them
        are kept of the periods that are added from now on, over at most 1,000 rows of each table or batch.

    Raises
    ------
    HistoryError
        The folder does not exist, or the file is not a history, is damaged, or was written by a newer version; or
        `loss_rows` or `kept_rows` is not a number of rows; or `interactions` does not name pairs.
    UnsupportedModelError
        The model is not fitted, no adapter supports it, or it holds several models.
    CompositionError
        The loss of the model compares rows with each other (rankers, Cox); or `interactions` are named, and the model
        is one of classes, or has another loss than squared errors.

    Notes
    -----
    A change is on disk completely or not at all, also if the process is killed. The file keeps the splits and values of
    the trees, so that :meth:`open` needs no model. It holds no pickles, and no rows if
    ``kept_rows=0``.

    Examples
    --------
    >>> import debias, tempfile
    >>> from sklearn.datasets import load_diabetes
    >>> from sklearn.ensemble import RandomForestRegressor
    >>> X, y = load_diabetes(return_X_y=True, as_frame=True)
    >>> forest = RandomForestRegressor(random_state=0).fit(X[:200], y[:200])
    >>> history = debias.History(forest, tempfile.mkdtemp() + "/forest.history")
    >>> history.add(X[200:320], y[200:320], at="2026-11-23")
    True
    >>> history.add(X[320:], y[320:], at="2026-11-24")
    True
    >>> history.add(X[320:], y[320:], at="2026-11-24")  # the same rows once more
    False
    >>> history.scores().shape
    (2, 10)
    """

    def __init__(
        self,
        model: Any,
        path: str | os.PathLike[str],
        *,
        label: str | None = None,
        timeout: float = TIMEOUT,
        n_jobs: int | None = None,
        loss_rows: int | None = LOSS_ROWS,
        kept_rows: int = KEPT_ROWS,
        interactions: Iterable[tuple[str, str]] | None = None,
    ) -> None:
        if (
            isinstance(kept_rows, bool)
            or not isinstance(kept_rows, (int, np.integer))
            or not 0 <= kept_rows <= MOST_KEPT
        ):
            raise HistoryArgumentError(f"kept_rows={kept_rows!r} is not a number of rows from 0 to {MOST_KEPT:,}")
        if loss_rows is not None and (
            isinstance(loss_rows, bool) or not isinstance(loss_rows, (int, np.integer)) or loss_rows < 0
        ):
            raise HistoryArgumentError(
                f"loss_rows={loss_rows!r} is not a number of rows: pass 0 or more, or None for all rows"
            )
        self._store = Store.of(path, timeout)
        self._models: dict[str, StoredTrees] = {}
        self._label = None if label is None else _name("label", label)
        self._own: OwnModel | None = OwnModel(model, n_jobs, loss_rows, kept_rows, named_pairs(interactions))
        if self._store.exists:
            with self._reading() as records:
                self._refuse_other_label(records.series_of(self._own.digest))

    @classmethod
    def open(cls, path: str | os.PathLike[str], *, timeout: float = TIMEOUT, must_exist: bool = True) -> History:
        """Open a history without its model, to look at it: everything works but :meth:`add`.

        Parameters
        ----------
        path, timeout
            As for the class.
        must_exist : bool
            Whether a file that does not exist is an error; otherwise :meth:`merge` makes it.

        Returns
        -------
        History

        Raises
        ------
        HistoryError
            There is no such file, or as for the class.
        """
        history = cls.__new__(cls)
        history._store, history._models = Store.of(path, timeout), {}
        history._label = history._own = None
        if must_exist or history._store.exists:
            with history._reading():
                pass
        return history

    @staticmethod
    def fleet(
        paths: Any,
        recent: Any = "30d",
        reference: Any = None,
        *,
        error_rate: float = 0.05,
        looks: int | str = 1,
        max_age_days: float | None = None,
        html: Any = None,
        timeout: float = TIMEOUT,
    ) -> Fleet:
        """Look at many histories at once: a line for each model, those first that a person should look at.

        A line is of the model with the latest period of a file, also if its rows wait for their responses. If it has no
        period with responses, it is not judged, and the latest other model has a line too. A few numbers a period are
        read: the loss and what each feature costs, the mean residual, new categories and repeated rows are judged from
        them, with the tests of :meth:`changes`. With `html`, each model is compared in full.

        Parameters
        ----------
        paths : str, Path, or list of these
            Files, or patterns of them such as "models/*.history"; "**" stands for any folders.
        recent, reference
            As for :meth:`changes`. By default the reference ends before a week that differs in what is judged.
        error_rate : float
            Family-wise error rate of each test, over all models and all `looks` together.
        looks : int or "any"
            Number of looks that are planned, such as 365 for one a day in a year; "any" as for :meth:`changes`.
        max_age_days : float, optional
            A person should look at models whose last period, also one that waits for its responses, is older.
        html : str or Path, optional
            A page is written there. It links to a page of each model, in a folder beside it (`fleet_models` for
            `fleet.html`). This takes a few seconds for each model. Causes of a higher loss need the model itself, and
            are not told.
        timeout : float
            Number of seconds to wait for a file that another process writes to.

        Returns
        -------
        Fleet
            ``lines``, ``to_frame()``, ``summary()``, ``to_json()``, ``to_csv()``, ``to_html()``, and ``exit_code``. A
            file that cannot be read is a line that says so.

        Raises
        ------
        HistoryError
            A pattern fits no file, or these are no windows.
        CompositionError
            `error_rate` or `looks` is out of range.
        OSError
            A page cannot be written.

        Examples
        --------
        >>> import debias, tempfile
        >>> from sklearn.datasets import load_diabetes
        >>> from sklearn.ensemble import RandomForestRegressor
        >>> X, y = load_diabetes(return_X_y=True, as_frame=True)
        >>> folder = tempfile.mkdtemp()
        >>> for name, seed in (("a", 0), ("b", 1)):
        ...     forest = RandomForestRegressor(20, random_state=seed).fit(X[:200], y[:200])
        ...     history = debias.History(forest, f"{folder}/{name}.history")
        ...     for day in range(10):
        ...         rows = slice(200 + 24 * day, 224 + 24 * day)
        ...         added = history.add(X[rows], y[rows], at=day)
        >>> fleet = debias.History.fleet(f"{folder}/*.history", recent=1)
        >>> len(fleet), fleet.exit_code
        (2, 0)
        """
        from debias.monitor.fleet import fleet_of

        settings: dict[str, Any] = {"error_rate": error_rate, "looks": looks, "max_age_days": max_age_days}
        return fleet_of(paths, recent, reference, html=html, timeout=timeout, **settings)

    def __repr__(self) -> str:
        if not self._store.exists:
            return f"History {self.path}: nothing was added"
        with self._reading() as records:
            lines = [f"History {self.path}"]
            for series in records.content.series():
                periods = records.content.periods(series.id)
                of = f"{escaped(series.label)} ({escaped(records.trees(series).ensemble.source)})"
                span = f" from {escaped(_at(periods[0]))} to {escaped(_at(periods[-1]))}" if periods else ""
                at = {each.at for each in records.content.waiting(series.id)}
                waits = f"; {counted(len(at), 'period')} without responses" if at else ""
                lines.append(f"{of}: {counted(len(periods), 'period')}{span}{waits}")
        return "\n".join(lines)

    @property
    def path(self) -> Path:
        """Path of the file."""
        return self._store.path

    def add(
        self,
        X: Any,
        y: Any = None,
        *,
        at: Any,
        part: str | None = None,
        sample_weight: Any = None,
        base_margin: Any = None,
        rows: Literal["auto", "held-out"] = "auto",
        replace: bool = False,
    ) -> bool:
        """Add the rows of a period, which the model has not seen.

        Without `y`, the rows wait for their responses: they are in :attr:`waiting` and in the provisional part of
        :meth:`changes`, and nowhere else, until all of them are added with `y`. They may come back in parts. If fewer
        come back, :attr:`waiting` has both numbers.

        The same rows may be added again: nothing changes. So a job that failed can be run once more. (Rows that were
        added without the parts of their loss, by an earlier version of debias, or without sums for the pairs in
        `interactions`, are completed.)

        Parameters
        ----------
        X, y, sample_weight
            Rows in memory, or a source of rows with the name of the column of y, as for :func:`debias.score`: a file, a
            dataset, batches, or a data frame of Dask or Spark. Rows without `y` must be in memory.
        at : date, datetime, numpy datetime64, number or str
            The period. A text such as "2026-11-23" is a date, any other text a label (a date in another form, such as
            "2026-1-1", is an error). A time with a zone is converted to UTC, so choose plain dates for days. All
            periods of a history have times of one kind: dates and times without a zone, times with a zone, numbers, or
            labels, which are in the order in which they were first added.
        part : str, optional
            Name of a part of the period, such as a machine. The parts of a period add up.
        base_margin : array-like of shape (n_rows,) or (n_rows, n_outputs), optional
            Start margin of each row, for boosted models that were trained with one, as for :func:`debias.score`. The
            rows must be in memory.
        rows : {"auto", "held-out"}
            As for :func:`debias.score`: "auto" refuses rows that look like training rows. Rows without `y` are not
            examined before it comes.
        replace : bool
            Whether to replace other rows of the same period and part. Rows without `part` replace all parts of a
            period whose parts have names.

        Returns
        -------
        bool
            True if the rows are on disk now; False if they were there before, and nothing changed.

        Raises
        ------
        HistoryError
            The period and part have other rows, or other rows wait there; or the period has parts with names, `part` is
            missing and these are other rows; `at` is of another kind than the other periods; there are no rows; the
            columns have other names than before; the last period has `base_margin` and these rows have none, or the
            other way round, and `replace` is False; or the file cannot be written.
        ProvenanceError
            The rows look like training rows.
        DebiasError
            As for :func:`debias.score`. After any error the file is as it was.
        """
        if self._own is None:
            raise HistoryError("this history was opened without a model: open it with debias.History(model, path)")
        moment, part = Moment.of(at), "" if part is None else _name("part", part)
        refuse_far_future(moment)
        passed = dataset(X, y, sample_weight, base_margin)
        waits = PassedRows.of(passed.X, passed.y).lacks_response
        if waits:
            sums, notes = self._own.read_unlabelled(passed.X, passed.sample_weight, passed.base_margin)
        else:
            sums, notes = self._own.read(X, y, sample_weight, rows, base_margin)
        state, digest = sums.state(), self._own.digest
        with self._writing() as records:
            series = records.series_of(digest)
            if series is None:
                others = records.content.series()
                names = records.trees(others[-1]).ensemble.feature_names if others else ()
                ensemble = sums.ensemble.named_as_in(names)  # one spelling in one file
                trees = packed_trees(digest, ensemble, self._own.grouping(ensemble, X))
                series = records.add_series(digest, self._label, trees)
            self._refuse_other_label(series)
            _refuse_other_names(records.trees(series).ensemble.feature_names, sums.ensemble.feature_names)
            put, about = records.wait if waits else records.put, About.of(sums, notes)
            if not replace:
                records.refuse_other_margins(series, about)
            added = put(series, moment, part, state, about, replace)
            repeated = records.repeated(series, moment, part, state, waits) if added else None
            texts = records.doubts + ([] if repeated is None else [repeated])
        for text in texts:
            WarningLog().warn(text)
        return added

    def backfill(
        self,
        periods: Iterable[Any],
        *,
        trained_until: Any,
        like: str | None = None,
        rows: Literal["auto", "held-out"] = "auto",
    ) -> int:
        """Add past periods, which the file has of an older model, to the series of this new model.

        Periods that the older model does not have are left out with a warning.

        Parameters
        ----------
        periods : iterable of (at, X, y) or (at, X, y, further)
            Period and all of its rows, as for :meth:`add`; `further` is a dict of `sample_weight`, `base_margin` and
            `part`. With a part, the rows are those of this part of the older model.
        trained_until
            The last period whose rows the new model was trained on, as `at` of :meth:`add`: periods up to it are left
            out with a warning, and all hours of that day if it is a date. None if it was trained on none of them. It
            must be said, because a single day of a long training is rarely recognised by its rows.
        like : str, optional
            Label of the older model; the only other one by default.
        rows : {"auto", "held-out"}
            As for :meth:`add`: "auto" refuses rows that look like training rows of the new model.

        Returns
        -------
        int
            Number of periods that were added; those that were there before are not counted.

        Raises
        ------
        HistoryError
            The older model has another number of rows or weight in a period; no period is after `trained_until` and
            one of the older model; or as for :meth:`add`.
        ProvenanceError
            The rows look like training rows.
        DebiasError
            As for :meth:`add`. After any error the periods before it stay, so the call can be run again.

        Examples
        --------
        >>> import debias, tempfile
        >>> from sklearn.datasets import load_diabetes
        >>> from sklearn.ensemble import RandomForestRegressor
        >>> X, y = load_diabetes(return_X_y=True, as_frame=True)
        >>> path = tempfile.mkdtemp() + "/forest.history"
        >>> days = [(k, X[200 + 12 * k : 212 + 12 * k], y[200 + 12 * k : 212 + 12 * k]) for k in range(20)]
        >>> old = debias.History(RandomForestRegressor(20, random_state=0).fit(X[:100], y[:100]), path)
        >>> for at, rows, response in days:
        ...     added = old.add(rows, response, at=at)
        >>> new = debias.History(RandomForestRegressor(20, random_state=0).fit(X[:200], y[:200]), path)
        >>> new.backfill(days, trained_until=None)
        20
        >>> new.data_or_model(recent=10).to_frame().shape
        (10, 8)
        """
        from debias.monitor.backfilling import backfilled

        return backfilled(self, periods, trained_until, like, rows)[0]

    def data_or_model(
        self,
        recent: Any = "30d",
        reference: Any = None,
        *,
        old: str | None = None,
        new: str | None = None,
        error_rate: float = 0.05,
    ) -> DataOrModel:
        """Divide the change of each score after retraining into a part of the data and one of the model.

        Data: the old model on the recent days against the days before. Model: the new model against the old one on
        the same recent days. See :meth:`backfill` for an example.

        Parameters
        ----------
        recent, reference
            As for :meth:`changes`, of periods of the old model; all periods before the recent ones by default.
        old, new : str, optional
            Labels of the models: by default this model, and the only other one.
        error_rate : float
            Family-wise error rate over both questions of all features.

        Returns
        -------
        DataOrModel
            ``data``, ``model``, their errors and p-values, ``verdict``, ``to_frame()`` and ``summary()``; and
            ``to_json()``, ``to_csv()``, ``to_html()`` and ``plot()``.

        Raises
        ------
        HistoryError
            There are no two models, windows, or recent periods with the same rows; or the losses differ.
        """
        from debias.monitor.backfilling import data_or_model

        with self._reading() as records:
            return data_or_model(records, self._chosen(records, new), recent, reference, old, error_rate)

    def remove(self, *, at: Any, part: str | None = None, series: str | None = None) -> int:
        """Remove a period that was added by mistake, or a part of it.

        Parameters
        ----------
        at
            The period, as for :meth:`add`.
        part : str, optional
            Name of the part; all parts by default.
        series : str, optional
            Label of the model, as for :meth:`changes`.

        Returns
        -------
        int
            Number of parts that were removed.

        Raises
        ------
        HistoryError
            There is no such period, part or series, or the file cannot be written.
        """
        moment = Moment.of(at)
        with self._reading():
            pass  # it refuses a file that does not exist, which writing would make
        with self._writing() as records:
            chosen = self._chosen(records, series)
            number = records.remove(chosen, moment, part)
            if not number:
                of_part = "" if part is None else f", part {part!r}"
                raise HistoryError(f"{chosen.label!r} has no period {time_text(moment)}{of_part}: nothing was removed")
            return number

    def merge(self, path: str | os.PathLike[str], *, replace: bool = False) -> int:
        """Add the periods and parts of another history, such as that of another machine.

        Parameters
        ----------
        path : str or Path
            The other file, which is not changed.
        replace : bool
            Whether parts of the other history replace those of this one that have other rows, as in :meth:`add`.

        Returns
        -------
        int
            Number of parts that were added or replaced. Those with the same rows are left as they are.

        Raises
        ------
        HistoryError
            A part has other rows in the two histories, or a name in this one only; the times are of another kind, or a
            file cannot be read or written. Nothing was changed then.
        """
        other = Store.of(path, self._store.timeout)
        if other.path.exists() and self.path.exists() and other.path.samefile(self.path):
            raise HistoryError(f"{path} is this history itself: pass the path of another one")
        with other.reading() as content, self._writing() as records:
            number, repeated = merged(Records(content, {}), records, replace)
        if repeated:
            others = len(repeated) - 1
            WarningLog().warn(repeated[0] + (f". So it is with {counted(others, 'other part')}" if others else ""))
        return number

    @property
    def models(self) -> pd.DataFrame:
        """The models, one per series: index ``series``; ``model``, ``version`` (of the library), ``trees_digest``."""
        import pandas as pd

        with self._reading() as records:
            found = records.content.series()
            ensembles = [records.trees(series).ensemble for series in found]
            columns = {
                "model": [ensemble.source for ensemble in ensembles],
                "version": [ensemble.version for ensemble in ensembles],
                "trees_digest": [series.digest for series in found],
            }
            return pd.DataFrame(columns, index=pd.Index([series.label for series in found], name="series"))

    @property
    def periods(self) -> pd.DataFrame:
        """The periods, in the order of :meth:`scores`.

        Index ``at``; ``series`` (the model), ``parts`` (number of them), ``n_rows``, and ``added`` (UTC, of the last
        part).
        """
        import pandas as pd

        with self._reading() as records:
            labels = {series.id: series.label for series in records.content.series()}
            found = records.content.periods()
            parts: dict[int, list[Any]] = {period.id: [] for period in found}
            for part in records.content.parts():
                parts[part.period].append(part)
            if not all(parts.values()):
                raise records.content.damage("one of its periods has no part")
        columns = {
            "series": [labels[period.series] for period in found],
            "parts": [len(parts[period.id]) for period in found],
            "n_rows": [sum(part.n_rows for part in parts[period.id]) for period in found],
            "added": [max(part.added for part in parts[period.id]) for period in found],
        }
        return pd.DataFrame(columns, index=index_of([period.moment for period in found]))

    @property
    def waiting(self) -> pd.DataFrame:
        """The periods whose rows wait for their responses, in the order of time.

        Index ``at``; ``series`` (the model), ``parts`` (number of them), ``n_rows``, ``n_answered`` (how many of
        these rows have come with responses), and ``added`` (UTC, of the last part).
        """
        import pandas as pd

        with self._reading() as records:
            known = {series.id: series for series in records.content.series()}
            periods: dict[tuple[int, str], list[Any]] = {}
            for part in records.content.waiting():
                periods.setdefault((part.series, part.at), []).append(part)
            found = [
                {
                    "series": known[series].label,
                    "parts": len(parts),
                    "n_rows": sum(part.n_rows for part in parts),
                    "n_answered": records.n_answered(known[series], parts),
                    "added": max(part.added for part in parts),
                }
                for (series, _), parts in periods.items()
            ]
        moments = [parts[0].moment for parts in periods.values()]
        columns = ["series", "parts", "n_rows", "n_answered", "added"]
        return pd.DataFrame(found, index=index_of(moments), columns=columns)

    def scores(self, window: Any = None) -> pd.DataFrame:
        """Return the scores of each period, or of the window of periods that ends with it.

        Parameters
        ----------
        window : int, str or timedelta, optional
            A number of periods, such as 7, or a length of time, such as "30d", "12h" or "4w". The window that ends at
            time t has the periods after t minus this length, up to t. It never mixes two series.

        Returns
        -------
        DataFrame of shape (n_periods, n_features)
            Index ``at``, the last period of the window: sorted, and of all series, as in :attr:`periods`. Scores have
            the unit of ``mdi_oob``. They are NaN for features that the model of the period does not have.

        Raises
        ------
        HistoryError
            Nothing was added yet, the file is damaged, this is no window, or it is a length of time and the periods are
            numbers or labels.
        """
        return self._frames(window)[0]

    def standard_errors(self, window: Any = None) -> pd.DataFrame:
        """Return the standard errors of :meth:`scores`, in the same form.

        They are estimated within periods, by a jackknife over groups of random rows. They do not cover what makes whole
        days different from each other. NaN for sums over several columns, for periods of one row, for periods whose
        rows came in batches that are not alike, and for features that are the same for all rows of a period if their
        score is not 0.
        """
        return self._frames(window)[1]

    def changes(
        self,
        recent: Any = "30d",
        reference: Any = None,
        *,
        error_rate: float = 0.05,
        looks: int | str = 1,
        least: float = LEAST,
        series: str | None = None,
    ) -> Changes:
        """Compare the recent periods with earlier ones: which scores changed, which columns shifted, what faded.

        Parameters
        ----------
        recent : int, str, timedelta, or (first, last)
            The last periods: a window as for :meth:`scores`. Or the first and last period of a window, also as text:
            "2026-03-02..2026-03-08". A date is its midnight: of hourly periods, ("2026-03-02", "2026-03-03") has only
            the first one of March 3.
        reference : int, str, timedelta, or (first, last), optional
            The periods to compare with. "first 30d" are the first ones of the model. A window such as "30d" ends with
            the last period before the recent one, also if there is a gap between them, so it moves along: a lasting
            fault comes into it and is not found any more. By default the first 60 days of the model before the recent
            window, or 60 periods if they have no dates. Of these, a week after day 30 is used when the week after it
            does not differ from the first 30 days either.
        error_rate : float
            Family-wise error rate of each test, of all `looks` comparisons together.
        looks : int or "any"
            Number of comparisons that are planned, such as 365 for one a day in a year. Each then has the error rate
            error_rate / looks. "any": `error_rate` is that of any number of looks, whenever they are. Then the loss,
            what each feature costs, and the means are judged, from all periods after the reference, and nothing else.
            The reference must stay: by default it is the first 60 days (or periods), as they are.
        least : float
            A change counts if the slope of the response changed by more than this. The slope is 1 if the response
            follows the splits on the feature as the model believes, and 0 if it does not follow them.
        series : str, optional
            Label of the model; by default the model of this object, or the one with the latest period.

        Returns
        -------
        Changes
            ``loss`` has what made the loss rise; its causes only if this object has the model and rows were kept. If
            there is nothing to compare, such as too few periods, it says so, and no feature has a verdict. If the
            last periods are too few to judge a feature, ``longer`` has up to three comparisons with windows of twice,
            four and eight times as many.

        Raises
        ------
        HistoryError
            Nothing was added yet, there is no such series, or these are no windows.
        CompositionError
            `error_rate`, `looks` or `least` is out of range.
        """
        with self._reading() as records:
            chosen = self._chosen(records, series)
            if not records.content.periods(chosen.id):
                raise HistoryError(
                    f"there is no period with responses of {chosen.label!r} in {self.path}. {ADD_RESPONSES}"
                )
            settings: dict[str, Any] = {"alpha": error_rate, "least": least, "looks": looks}
            own = None if self._own is None or self._own.digest != chosen.digest else self._own.ensemble
            if isinstance(looks, str) and looks == ANY:
                return comparison_at_any_look(
                    records, chosen, recent, reference, alpha=error_rate, least=least, ensemble=own
                )
            return comparison_of(records, chosen, recent, reference, ensemble=own, **settings)

    def check(
        self,
        policy: Any,
        recent: Any = "30d",
        reference: Any = None,
        *,
        error_rate: float = 0.05,
        looks: int | str = 1,
        least: float = LEAST,
        series: str | None = None,
    ) -> Gate:
        """Check what changed against the rules of a policy (docs/gate.md).

        Parameters
        ----------
        policy : HistoryPolicy, mapping of rules, or path of a TOML file
            The rules are the parameters of :class:`debias.results.policy.HistoryPolicy`, such as
            ``{"must_not_fade": ["income"]}``.
        recent, reference, error_rate, looks, least, series
            As for :meth:`changes`. The reference of the policy is used if none is passed here.

        Returns
        -------
        Gate

        Raises
        ------
        PolicyError
            The policy is wrong, or has rules for an audit.
        HistoryError
            As for :meth:`changes`.
        """
        from debias.results.policy import HistoryPolicy

        rules = HistoryPolicy.of(policy)  # before the periods are read, which takes longer
        settings: dict[str, Any] = {"error_rate": error_rate, "looks": looks, "least": least, "series": series}
        return self.changes(recent, rules.reference_or(reference), **settings).check(rules)

    def plot(
        self,
        window: Any = None,
        *,
        kind: Literal["lines", "strip"] = "lines",
        max_features: int | None = None,
        changes: Changes | None = None,
    ) -> Any:
        """Draw the scores over time, on a new pyplot figure. All models are in one picture, with marks.

        Parameters
        ----------
        window
            As for :meth:`scores`.
        kind : {"lines", "strip"}
            "lines": a small picture for each of the most important features, with 95% intervals (splits fixed).
            "strip": colours, one row for each feature.
        max_features : int, optional
            Draw at most this many features, those with the largest mean score: 12 for lines, and 1,000 for a strip.
        changes : Changes, optional
            What :meth:`changes` returned: lines show its verdicts and its recent periods.

        Returns
        -------
        matplotlib Figure

        Raises
        ------
        HistoryError
            As for :meth:`scores`.
        ValueError
            There is no such kind, or `max_features` is not a whole number above 0.
        ImportError
            matplotlib is not installed.
        """
        from debias.monitor.showing import drawn

        return drawn(self, window, kind, max_features, changes)

    def to_html(
        self, path: Any = None, title: str | None = None, *, window: Any = None, changes: Changes | None = None
    ) -> str:
        """Return one self-contained HTML page, and write it to `path` if that is not None.

        Parameters
        ----------
        path : str or Path, optional
        title : str, optional
        window
            As for :meth:`scores`.
        changes : Changes, optional
            What :meth:`changes` returned, to be shown too.

        Returns
        -------
        str

        Raises
        ------
        HistoryError
            As for :meth:`scores`.
        ImportError
            matplotlib or Jinja2 is not installed (``pip install matplotlib jinja2``).
        """
        from debias.monitor.showing import page

        return written(path, page(self, window, changes, title))

    def to_json(self, path: Any = None, *, window: Any = None) -> str:
        """Return models, periods, scores and standard errors as JSON, and write it to `path` if that is not None.

        Parameters
        ----------
        path : str or Path, optional
        window
            As for :meth:`scores`.

        Returns
        -------
        str
            Numbers that are not known are null.

        Raises
        ------
        HistoryError
            As for :meth:`scores`.
        """
        from debias.monitor.showing import as_json

        return written(path, as_json(self, window), end="\n")

    def to_csv(self, path: Any = None, *, window: Any = None) -> str:
        """Return periods and scores as CSV, and write it to `path` if that is not None.

        The file is safe to open in a spreadsheet, as that of :meth:`debias.Audit.to_csv`. Parameters and errors are
        those of :meth:`to_json`.
        """
        from debias.monitor.showing import as_csv

        return written(path, as_csv(self, window))

    def _frames(self, window: Any) -> tuple[pd.DataFrame, pd.DataFrame]:
        """Return the scores and their standard errors."""
        size = None if window is None else Window.of(window)
        with self._reading() as records:
            return frames_of(records, size)

    @contextmanager
    def _reading(self) -> Iterator[Records]:
        if not self._store.exists:
            raise HistoryError(f"there is no history in {self.path}: nothing was added to it")
        with self._store.reading() as content:
            yield Records(content, self._models)

    @contextmanager
    def _writing(self) -> Iterator[Records]:
        with self._store.writing() as content:
            yield Records(content, self._models)

    def _refuse_other_label(self, series: Series | None) -> None:
        if self._label is not None and series is not None and series.label != self._label:
            raise HistoryArgumentError(
                f"label={self._label!r}, but this model is in {self.path} already, as {series.label!r}: leave label "
                "out. If this is another model, it has the same trees"
            )

    def _chosen(self, records: Records, label: str | None) -> Series:
        """Return the series with a label; by default that of the model, or the one with the latest period."""
        found = records.content.series()
        if label is not None:
            for series in found:
                if series.label == label:
                    return series
            raise HistoryArgumentError(f"there is no series {label!r}; there are {', '.join(s.label for s in found)}")
        own = None if self._own is None else records.series_of(self._own.digest)
        if self._own is not None and own is None:
            raise HistoryError(
                "nothing was added for this model yet. For the changes of an earlier model pass its series=, one of "
                f"{', '.join(repr(series.label) for series in found)}"
            )
        return own or records.latest()


def _refuse_other_names(before: tuple[str, ...], names: tuple[str, ...]) -> None:
    if not spelled_alike(names, before):
        raise HistoryError(
            f"these rows have the columns {', '.join(names)}, and the rows added before have {', '.join(before)}. The "
            "model stores no feature names, so columns are identified by position: pass the same names in the same "
            "order"
        )


def _name(what: str, name: Any) -> str:
    """Return a label or the name of a part; refuse anything but a short text."""
    try:
        fits = isinstance(name, str) and bool(name.strip()) and len(name) <= LONGEST and b"\0" not in name.encode()
    except UnicodeEncodeError:
        fits = False
    if not fits:
        raise HistoryArgumentError(f"{what}={name!r} is not a name: pass a text of 1 to {LONGEST} characters")
    return str(name)


def _at(period: Period) -> str:
    return time_text(period.moment)
