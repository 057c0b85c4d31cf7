"""MLflow: an evaluator for ``mlflow.models.evaluate``, and functions that log results to a run."""

from __future__ import annotations

import inspect
import json
import re
import time
from math import isnan
from typing import TYPE_CHECKING, Any

try:
    import mlflow
    from mlflow.models.evaluation.base import EvaluationResult, ModelEvaluator
except ImportError as error:
    raise ImportError("logging audits needs MLflow: pip install mlflow") from error

import debias
from debias import RowsError, UnsupportedModelError
from debias.errors import nearest

if TYPE_CHECKING:
    from debias.results.gate_outcome import Gate

MOST = 30
"""Largest number of features with metrics of their own. The JSON has all features."""
AT_ONCE = 1000
"""MLflow takes so many metrics in one call."""
AUDITED = tuple(name for name in inspect.signature(debias.audit).parameters if name not in ("model", "X", "y"))
"""Arguments of :func:`debias.audit` that the configuration may have."""
OF_GATE = ("policy", "baseline")
HELD = "prefix"
KNOWN = (*AUDITED, *OF_GATE, HELD)


class DebiasEvaluator(ModelEvaluator):  # type: ignore[misc]  # MLflow is not typed
    """The evaluator ``"debias"`` of ``mlflow.models.evaluate``: an audit, and a gate if there is a policy.

    Its ``evaluator_config`` must have ``rows``, and may have every other argument of :func:`debias.audit`. With
    "held-out", the rows are the evaluation data; ``train`` is then for scorers that need training rows. With "oob",
    they are the training rows in training order: pass them as ``train=(X, y)`` or as a :class:`debias.Dataset`, or as
    the evaluation data. ``policy`` and ``baseline`` are arguments of ``Audit.check``. ``prefix`` is the prefix of the
    names of metrics and artifacts.
    """

    @classmethod
    def can_evaluate(cls, *, model_type: str, evaluator_config: dict[str, Any], **kwargs: Any) -> bool:
        """Return whether the configuration is for this evaluator. MLflow asks all evaluators about every model."""
        return "rows" in evaluator_config

    def evaluate(
        self,
        *,
        model_type: str,
        dataset: Any,
        run_id: str,
        evaluator_config: dict[str, Any],
        model: Any = None,
        **kwargs: Any,
    ) -> EvaluationResult:
        """Audit the model inside the MLflow model, and log the audit to the run."""
        for name in evaluator_config:
            if name not in KNOWN:
                raise RowsError(f"evaluator_config has no {name!r}; it has {', '.join(KNOWN)}.{nearest(name, KNOWN)}")
        rows = debias.Dataset(dataset.features_data, dataset.labels_data)
        options = {name: evaluator_config[name] for name in AUDITED if name in evaluator_config}
        if options["rows"] == "oob" and "train" in options:
            train = options.pop("train")
            rows = train if isinstance(train, debias.Dataset) else debias.Dataset(*train)
        if rows.y is None:
            raise RowsError("the evaluation data have no response: pass targets= to mlflow.models.evaluate")
        audit = debias.audit(_inside(model), rows, **options)
        policy, baseline = (evaluator_config.get(name) for name in OF_GATE)
        gate = None if policy is None else audit.check(policy, baseline)
        prefix = evaluator_config.get(HELD, "debias")
        metrics = log_audit(audit, gate, prefix=prefix, run_id=run_id, model_id=kwargs.get("model_id"))
        return EvaluationResult(metrics=metrics, artifacts=_artifacts(audit, prefix, run_id))


def log_audit(
    audit: debias.Audit,
    gate: Gate | None = None,
    *,
    prefix: str = "debias",
    run_id: str | None = None,
    model_id: str | None = None,
) -> dict[str, float]:
    """Log an audit to an MLflow run: its numbers as metrics, its JSON, its HTML report and its plot as artifacts.

    Parameters
    ----------
    audit : Audit
    gate : Gate, optional
        The result of ``audit.check``, which is logged too.
    prefix : str
        Prefix of the names of metrics, and folder of the artifacts.
    run_id : str, optional
        The active run by default. If there is none, a run is started.
    model_id : str, optional
        The logged model to which the metrics are linked.

    Returns
    -------
    dict of str to float
        The metrics: ``unsupported_share``, ``n_informative``, ``n_indistinguishable``, ``min_detectable_z``,
        ``n_rows``, ``n_features``; ``failed_rules`` if there is a gate; ``share/NAME``, ``reported/NAME``,
        ``reported_unseen/NAME`` and ``z/NAME`` for the 30 features with the largest shares, debiased or reported.
        Numbers that the audit does not have are left out.

    Raises
    ------
    ImportError
        MLflow, or a package that reports need, is not installed.
    TypeError
        The first argument is another result; the message names the function for it.

    Examples
    --------
    >>> import debias, mlflow  # doctest: +SKIP
    >>> from debias_plugins.integrations.mlflow import log_audit  # doctest: +SKIP
    >>> with mlflow.start_run():  # doctest: +SKIP
    ...     log_audit(debias.audit(forest, X, y))
    """
    _require(debias.Audit, audit)
    page, picture = audit.to_html(), _picture(audit)  # before anything is logged, because packages may be missing
    run_id = _run(run_id)
    metrics = {f"{prefix}/{name}": value for name, value in _metrics(audit, gate).items()}
    mlflow.log_metrics(metrics, run_id=run_id, model_id=model_id)
    mlflow.log_text(audit.to_json(), f"{prefix}/audit.json", run_id=run_id)
    mlflow.log_text(page, f"{prefix}/report.html", run_id=run_id)
    mlflow.MlflowClient().log_figure(run_id, picture, f"{prefix}/audit.png")
    _log_gate(gate, prefix, run_id)
    return metrics


def log_folds(audit: debias.FoldsAudit, *, prefix: str = "debias", run_id: str | None = None) -> dict[str, float]:
    """Log the audit of a cross-validation to an MLflow run: metrics, its JSON and its HTML report.

    Parameters
    ----------
    audit : FoldsAudit
    prefix : str
        Prefix of the names of metrics, and folder of the artifacts ``folds.json`` and ``folds.html``.
    run_id : str, optional
        The active run by default. If there is none, a run is started.

    Returns
    -------
    dict of str to float
        The metrics without steps: ``n_folds``, ``n_features``, ``n_informative``, ``rank_stability``; and
        ``share/NAME``, ``mean/NAME``, ``standard_error/NAME`` and ``informative_folds/NAME`` for the 30 features with
        the largest shares. Their scores in the folds are ``fold_score/NAME``, with the number of the fold as step, from
        0. Numbers that are not known are left out.

    Raises
    ------
    ImportError
        MLflow, or a package that reports need, is not installed.
    TypeError
        The first argument is another result; the message names the function for it.
    """
    _require(debias.FoldsAudit, audit)
    page = audit.to_html()
    run_id = _run(run_id)
    table = audit.to_frame().iloc[:MOST]
    spelled = _distinct_names(table.index)
    single: dict[str, float | None] = {
        "n_folds": len(audit.audits),
        "n_features": len(audit.feature_names),
        "n_informative": int(audit.which("informative").sum()) if audit.tested else None,
        "rank_stability": audit.rank_stability,
    }
    for column in ("share", "mean", "standard_error", "informative_folds"):
        if column != "informative_folds" or audit.tested:
            single |= {f"{column}/{spelled[str(name)]}": value for name, value in table[column].items()}
    metrics = {f"{prefix}/{name}": float(value) for name, value in single.items() if value is not None}
    metrics = {name: value for name, value in metrics.items() if value == value}  # noqa: PLR0124  # without NaN
    mlflow.log_metrics(metrics, run_id=run_id)
    scores = audit.scores
    _log_steps(run_id, {f"{prefix}/fold_score/{spelled[name]}": scores[name].to_numpy() for name in table.index})
    mlflow.log_text(audit.to_json(), f"{prefix}/folds.json", run_id=run_id)
    mlflow.log_text(page, f"{prefix}/folds.html", run_id=run_id)
    return metrics


def log_history(
    history: debias.History, *, window: Any = None, prefix: str = "debias", run_id: str | None = None
) -> dict[str, float]:
    """Log a history to an MLflow run: its scores as metrics with steps, its JSON and its HTML report.

    Parameters
    ----------
    history : History
    window : int, str or timedelta, optional
        As for ``History.scores``.
    prefix : str
        Prefix of the names of metrics, and folder of the artifacts ``history.json`` and ``history.html``.
    run_id : str, optional
        The active run by default. If there is none, a run is started.

    Returns
    -------
    dict of str to float
        The last values of the metrics: ``score/NAME`` for the 30 features with the largest mean score. The step is the
        number of the period, from 0, and the time of a metric is the date of its period, if periods are dates (without
        a time zone: UTC). Where two models scored one period, the newer one is logged.

    Raises
    ------
    ImportError
        MLflow, or a package that reports need, is not installed.
    TypeError
        The first argument is another result; the message names the function for it.
    """
    import pandas as pd

    _require(debias.History, history)
    page = history.to_html(window=window)
    run_id = _run(run_id)
    scores = history.scores(window)
    scores = scores[~scores.index.duplicated(keep="last")]  # of one period the newest model is the last
    dates = scores.index
    at = dates.to_numpy().astype("M8[ms]").astype(int).tolist() if isinstance(dates, pd.DatetimeIndex) else None
    drawn = scores[scores.mean().sort_values(ascending=False, kind="stable").index[:MOST]]
    spelled = _distinct_names(drawn.columns)
    columns = {f"{prefix}/score/{spelled[name]}": drawn[name].to_numpy() for name in drawn.columns}
    _log_steps(run_id, columns, at)
    mlflow.log_text(history.to_json(window=window), f"{prefix}/history.json", run_id=run_id)
    mlflow.log_text(page, f"{prefix}/history.html", run_id=run_id)
    known = {name: values[values == values] for name, values in columns.items()}
    return {name: float(values[-1]) for name, values in known.items() if values.size}


def log_changes(
    changes: debias.Changes,
    gate: Gate | None = None,
    *,
    step: int | None = None,
    prefix: str = "debias",
    run_id: str | None = None,
) -> dict[str, float]:
    """Log the comparison of two windows to an MLflow run: metrics, its JSON, its HTML report, a picture of the loss.

    Parameters
    ----------
    changes : Changes
    gate : Gate, optional
        The result of ``changes.check``, which is logged too.
    step : int, optional
        Number of the comparison, if one run gets many of them: 0, 1, 2, ...
    prefix : str
        Prefix of the names of metrics, and folder of the artifacts ``changes.json``, ``changes.html``, ``loss.png``,
        ``gate.json`` and ``gate.md``. With a step, these are in a folder ``STEP`` of it.
    run_id : str, optional
        The active run by default. If there is none, a run is started.

    Returns
    -------
    dict of str to float
        The metrics: ``n_changed`` (features with a response that changed), ``n_shifted``, ``n_not_compared``;
        ``loss/reference``, ``loss/recent``, ``loss/change``, ``loss/error``, ``loss/base_change`` and ``n_cost_more``
        if the loss is known; ``failed_rules`` if there is a gate; ``slope/NAME`` (in the recent window), ``shift/NAME``
        for the 30 features with the strongest evidence of a change, and ``cost/NAME`` for the 30 that cost most.
        Numbers that are not known are left out; all but ``failed_rules`` are if nothing was compared.

    Raises
    ------
    ImportError
        MLflow, or a package that reports need, is not installed.
    TypeError
        The first argument is another result; the message names the function for it.

    Examples
    --------
    >>> import debias, mlflow  # doctest: +SKIP
    >>> from debias_plugins.integrations.mlflow import log_changes  # doctest: +SKIP
    >>> changes = debias.History.open("model.history").changes("7d")  # doctest: +SKIP
    >>> with mlflow.start_run():  # doctest: +SKIP
    ...     log_changes(changes, changes.check("history.toml"))
    """
    _require(debias.Changes, changes)
    page = changes.to_html()  # before anything is logged, because packages may be missing
    picture = None if changes.loss is None else _picture(changes, kind="loss")
    run_id = _run(run_id)
    metrics = {f"{prefix}/{name}": value for name, value in _metrics_of_changes(changes, gate).items()}
    mlflow.log_metrics(metrics, step=step, run_id=run_id)
    folder = prefix if step is None else f"{prefix}/{step}"
    mlflow.log_text(changes.to_json(), f"{folder}/changes.json", run_id=run_id)
    mlflow.log_text(page, f"{folder}/changes.html", run_id=run_id)
    if picture is not None:
        mlflow.MlflowClient().log_figure(run_id, picture, f"{folder}/loss.png")
    _log_gate(gate, folder, run_id)
    return metrics


def _require(kind: type, given: Any) -> None:
    """Refuse what another function logs, before MLflow starts a run."""
    logged_by = {
        debias.Audit: log_audit,
        debias.FoldsAudit: log_folds,
        debias.History: log_history,
        debias.Changes: log_changes,
    }
    if isinstance(given, kind):
        return
    fitting = next((function.__name__ for each, function in logged_by.items() if isinstance(given, each)), None)
    instead = "" if fitting is None else f": use {fitting} for it"
    raise TypeError(
        f"{logged_by[kind].__name__} logs a debias.{kind.__name__}, but this is of type {type(given).__name__}{instead}"
    )


def _run(run_id: str | None) -> str:
    """Return the run, or else the active one, or else a new one."""
    return str(run_id or (mlflow.active_run() or mlflow.start_run()).info.run_id)


def _log_gate(gate: Gate | None, folder: str, run_id: str) -> None:
    if gate is not None:
        mlflow.log_text(gate.to_json(), f"{folder}/gate.json", run_id=run_id)
        mlflow.log_text(gate.to_markdown(), f"{folder}/gate.md", run_id=run_id)


def _log_steps(run_id: str, columns: dict[str, Any], at: list[int] | None = None) -> None:
    """Log the values of each metric with their positions as steps; NaN is left out.

    Parameters
    ----------
    run_id : str
    columns : dict of str to array
    at : list of int, optional
        Milliseconds since 1970 of each position; the present by default.
    """
    now = int(1000 * time.time())
    metrics = [
        mlflow.entities.Metric(name, float(value), now if at is None else at[step], step)
        for name, values in columns.items()
        for step, value in enumerate(values)
        if value == value  # noqa: PLR0124  # not NaN
    ]
    client = mlflow.MlflowClient()
    for begin in range(0, len(metrics), AT_ONCE):
        client.log_batch(run_id, metrics=metrics[begin : begin + AT_ONCE])


def _distinct_names(names: Any) -> dict[str, str]:
    """Return for each name the name of its metric. Two of them differ if two names differ."""
    spelled: dict[str, str] = {}
    for name in names:
        distinct = _spelled(str(name))
        while distinct in spelled.values():  # two names differ only in characters that MLflow does not allow
            distinct += "_"
        spelled[name] = distinct
    return spelled


def _inside(model: Any) -> Any:
    """Return the tree model inside an MLflow model."""
    try:
        return model.get_raw_model()
    except (AttributeError, NotImplementedError):
        raise UnsupportedModelError(
            "debias audits tree models: evaluate a model of the flavours sklearn, xgboost or lightgbm, not a function, "
            "an endpoint or a table of predictions"
        ) from None


def _metrics(audit: debias.Audit, gate: Gate | None) -> dict[str, float]:
    metrics: dict[str, float | None] = {
        "unsupported_share": audit.unsupported_share,
        "n_informative": int(audit.which("informative").sum()) if audit.tested else None,
        "n_indistinguishable": int(audit.which("indistinguishable").sum()) if audit.tested else None,
        "min_detectable_z": audit.tested_scores.threshold,
        "n_rows": audit.tested_scores.n_rows,
        "n_features": audit.share.size,
        "failed_rules": None if gate is None else len(gate.failures),
    }
    largest = audit.share if audit.reported is None else audit.share.clip(audit.reported)
    first = (-largest).argsort(kind="stable")[:MOST]
    spelled = _distinct_names([audit.tested_scores.feature_names[k] for k in first])
    for k in first:
        name = spelled[audit.tested_scores.feature_names[k]]
        metrics[f"share/{name}"] = audit.share[k]
        metrics[f"reported/{name}"] = None if audit.reported is None else audit.reported[k]
        unseen = audit.reported_unseen
        metrics[f"reported_unseen/{name}"] = (
            None if unseen is None or isnan(audit.where_tested(unseen)[k]) else unseen[k]
        )
        metrics[f"z/{name}"] = None if audit.tested_scores.z is None else audit.tested_scores.z[k]
    return {name: float(value) for name, value in metrics.items() if value is not None}


def _metrics_of_changes(changes: debias.Changes, gate: Gate | None) -> dict[str, float]:
    metrics: dict[str, float] = {} if gate is None else {"failed_rules": len(gate.failures)}
    table = changes.to_frame()
    spelled = _distinct_names(table.index)
    if changes.compared:
        metrics["n_not_compared"] = sum(verdict == "not compared" for verdict in changes.verdict)
        if changes.tested.any():  # otherwise none was tested, which is not 0 that changed
            metrics["n_changed"] = sum(verdict.startswith(("faded", "changed")) for verdict in changes.verdict)
        if table["shift"].notna().any():
            metrics["n_shifted"] = int(changes.statistics["shifted"].sum())
        for name, row in table.iloc[:MOST].iterrows():
            metrics[f"slope/{spelled[str(name)]}"] = row["slope_after"]
            metrics[f"shift/{spelled[str(name)]}"] = row["shift"]
    if changes.loss is not None:
        loss = changes.loss.loss
        metrics |= {"loss/reference": loss.before, "loss/recent": loss.after, "loss/change": loss.change}
        metrics |= {"loss/error": loss.error, "loss/base_change": changes.loss.base.change}
        costs = changes.loss.to_frame()
        if costs["p_adjusted"].notna().any():
            metrics["n_cost_more"] = len(changes.loss.costs_more)
        metrics |= {f"cost/{spelled[str(name)]}": cost for name, cost in costs["cost"].iloc[:MOST].items()}
    return {name: float(value) for name, value in metrics.items() if not isnan(value)}


def _picture(result: debias.Audit | debias.Changes, **of_plot: Any) -> Any:
    """Return the plot of a result, in a figure that no list of open figures keeps."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(8, 6), layout="constrained")
    result.plot(ax=figure.subplots(), **of_plot)
    return figure


def _spelled(name: str) -> str:
    """Return a name with the characters that MLflow allows for metrics."""
    spelled = re.sub(r"[^\w.\- ]", "_", name)[:200].strip()
    return (
        spelled if spelled.strip(".") else "_" * max(1, len(spelled))
    )  # a metric may be a file, and ".." is not a file name


def _artifacts(audit: debias.Audit, prefix: str, run_id: str) -> dict[str, Any]:
    from mlflow.models.evaluation.artifacts import JsonEvaluationArtifact

    uri = mlflow.get_run(run_id).info.artifact_uri
    of_file = json.loads(audit.to_json())
    return {f"{prefix}/audit.json": JsonEvaluationArtifact(f"{uri}/{prefix}/audit.json", of_file)}
