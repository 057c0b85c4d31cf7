"""Preparation of rows: from a request to encoded and proven rows, ready for the first score."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from debias.data.blocks import blocks_of_queries, encode_blocks, encode_queries, refuse_no_block_out
from debias.data.dataset import Data, as_frame
from debias.data.response import as_predicted, encode
from debias.data.row_order import refuse_other_order
from debias.data.table import Table
from debias.early_stopping import NOTES_OF_STOPPING
from debias.errors import ProvenanceError, RowsError
from debias.hooks.contracts import DataScorer, TreeScorer
from debias.models.extraction import verify_prediction
from debias.models.wrappers import extract, unwrap, warn_of_version
from debias.results.vocabulary import RowsKind
from debias.rows.claims import KNOWN, EncodedRows, claim_of
from debias.rows.loss_parts import metric_of
from debias.rows.provenance import Provenance, known_bags, prove_training
from debias.rows.response_check import warn_of_another_response, warn_of_shifted_response
from debias.rows.rows import Rows
from debias.rows.shared_pass import SharedPass
from debias.rows.unseen_categories import note_unseen
from debias.text import counted, percent
from debias.trees.ensemble import PLAIN_MEANS
from debias.trees.routing import Router, row_blocks
from debias.warning_log import WarningLog

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from numpy.typing import NDArray

    from debias.data.response import Response
    from debias.hooks.contracts import Scorer
    from debias.models.wrappers import Member
    from debias.parallel import Engine
    from debias.rows.claims import Claim
    from debias.rows.request import Request
    from debias.trees.ensemble import TreeEnsemble
    from debias.trees.in_bag import InBag

_BATCH = Provenance(RowsKind.HELD_OUT, "cannot be told", "one batch of several")
LEAST_WEIGHT, LARGEST_WEIGHT = 1e-100, 1e100
"""Range of the largest weight of a row: within it, sums of squares neither overflow nor vanish."""
ENOUGH_ROWS = 30
"""Weights by which rows count as fewer than this, and than half of their number, are warned of."""
NEARLY_ALL = 0.9
"""If one of several responses has more than this share of their variance, it decides nearly alone."""
TRAIN_WARNING = (
    "these are scores on training rows: they are as biased towards features with many values as the reported "
    "importance. Do not base decisions on them"
)


def prepare(
    request: Request,
    member: Member,
    scorers: Sequence[Scorer],
    known: bool = False,
    train_weight: NDArray[np.float64] | None = None,
) -> tuple[Rows | None, WarningLog]:
    """Encode the rows of one model of trees, compare the trees with its library, and prove the kind of the rows.

    Parameters
    ----------
    request : Request
    member : Member
        One of ``request.members``.
    scorers : sequence of Scorer
        Scorers that will use the rows.
    known : bool
        Whether debias itself has fitted the model on these rows: then there is nothing to prove.
    train_weight : array of shape (n_rows,), optional
        Weights that a known model was fitted with, if the rows are its training rows.

    Returns
    -------
    (Rows or None, WarningLog)
        The rows, or None if the request has none, and the warnings. The trees of the rows have the names of the columns
        of X if the model stores none.
    """
    ensemble, model, X = member.ensemble, member.model, member.X
    weighed = ensemble.averaging_weight is None and member.train is not None and member.resampled is None
    untold = (*NOTES_OF_STOPPING, PLAIN_MEANS) if weighed else NOTES_OF_STOPPING
    log = WarningLog((*member.told, *(note for note in ensemble.notes if note not in untold)), quiet=known)
    warn_of_version(member, request.members, log)
    if X is None:
        for scorer in scorers:
            if isinstance(scorer, TreeScorer) and scorer.needs_rows:
                raise RowsError(f"{scorer.name} needs evaluation rows: pass X and y")
        return None, log
    table, ensemble = _aligned(X, ensemble, log)
    if weighed:
        assert member.train is not None
        ensemble = _weighed(ensemble, member.train, log)
    ensemble = member.with_sources(ensemble)
    sample_weight, base_margin, blocks, qid = (
        values if values is None or member.positions is None else np.asarray(values)[member.positions]
        for values in (request.sample_weight, request.base_margin, request.blocks, request.qid)
    )
    if sample_weight is None and member.reweights and ensemble.averaged:
        sample_weight = np.ones(table.n_rows)
    weight = _weights(sample_weight, table.n_rows)
    query = encode_queries(qid, ensemble, table.n_rows)
    response = encode(member.y, ensemble, table.n_rows, log, base_margin, weight, query)
    if base_margin is not None and member.train is not None:
        raise RowsError(
            "train= cannot be used together with base_margin=: the margins of the training rows are not known"
        )
    weight_or_none = None if sample_weight is None else weight
    train = None
    if member.train is not None and member.resampled is None:
        train = training_rows(ensemble, model, member.train, request.n_jobs, log, known, member.training_order)
    claim = claim_of(request, member, known, train_weight)
    encoded = EncodedRows(ensemble, model, table, response, weight_or_none, train)
    is_kept = _rows_that_count(claim, encoded, query)
    if is_kept is not None:
        used = np.flatnonzero(is_kept)
        table, response, weight = table.part(ensemble, used), response.part(used), weight[used]
        blocks, qid = (None if labels is None else np.asarray(labels)[used] for labels in (blocks, qid))
        query = encode_queries(qid, ensemble, table.n_rows)
    note_unseen(member, ensemble, table, log, None if is_kept is None else used)
    _tell_of_responses(ensemble, response, weight, log)
    _tell_of_weights(weight, log)
    needs_sums, routed = _node_sums_needed(scorers, ensemble), None
    if not ensemble.averaged:
        routed = SharedPass(ensemble, table, response, weight, needs_sums)
    encoded = replace(
        encoded, table=table, response=response, weight=None if weight_or_none is None else weight, routed=routed
    )
    kind, in_bag, provenance = claim.prove(encoded, log)
    tell_of_stopping(ensemble, log, may_be_these_rows=provenance.kind == RowsKind.HELD_OUT and request.fold is None)
    if kind == RowsKind.TRAIN:
        log.warn(TRAIN_WARNING)
    if provenance.kind == RowsKind.OOB and member.tuned_on_unseen is not None:
        _refuse_or_warn_of_tuning(member, request, log)
    block = encode_blocks(blocks, table.n_rows)
    if query is not None:
        block = blocks_of_queries(block, query)
    if in_bag is not None and block is not None:
        in_bag = in_bag.by_block(block)
        refuse_no_block_out(in_bag.n_distinct(), block)
    data = None
    if any(isinstance(scorer, DataScorer) for scorer in scorers):
        data = _data(request, member, ensemble, weight_or_none)
    rows = Rows(
        ensemble=ensemble,
        model=model,
        table=table,
        response=response,
        weight=weight,
        kind=kind,
        in_bag=in_bag,
        train=train,
        provenance=provenance,
        seed=request.seed,
        n_jobs=request.n_jobs,
        data=data,
        blocks=block,
        query=query,
        needs_sums=needs_sums,
        needs_loss=not ensemble.averaged and running_loss_needed(scorers),
        shared=routed if in_bag is None else None,
        is_kept=is_kept,
    )
    if claim.checks_response:
        _check_response(rows, log, member.predicts)
    return rows, log


def _tell_of_responses(
    ensemble: TreeEnsemble, response: Response, weight: NDArray[np.float64], log: WarningLog
) -> None:
    """Note that scores and losses are sums over several responses; warn if one has nearly all of their variance."""
    n_responses = ensemble.n_responses
    if n_responses == 1 or ensemble.objective.n_response_columns is not None:
        return
    text, share = f"the model has {n_responses} responses: scores and losses are sums over them", 0.0
    values = response.values
    if ensemble.class_sets is None and values is not None and values.shape[1] == n_responses and weight.any():
        variance = weight @ (values - np.average(values, axis=0, weights=weight)) ** 2
        largest = int(variance.argmax())
        if variance[largest] > 0:
            share = variance[largest] / variance.sum()
            text += ", so one on a larger scale weighs more. "
            text += f"Column {largest + 1} of y has {percent(share)} of the variance"
    (log.warn if share > NEARLY_ALL else log.add)(text)


def _tell_of_weights(weight: NDArray[np.float64], log: WarningLog) -> None:
    """Warn if few of many rows have nearly all of the weight: the square of its sum over its sum of squares (Kish)."""
    largest = weight.max(initial=0.0)
    if largest == 0 or weight.size < ENOUGH_ROWS:
        return
    share = weight / largest
    count = share.sum() ** 2 / (share**2).sum()
    if count < min(ENOUGH_ROWS, weight.size / 2):
        log.warn(
            f"few rows have nearly all of the weight, so these {weight.size:,} rows tell as much as about "
            f"{counted(round(count), 'row')} of equal weight: tests find little, and figures on them are rough. Check "
            "sample_weight"
        )


def tell_of_stopping(ensemble: TreeEnsemble, log: WarningLog, *, may_be_these_rows: bool) -> None:
    """Warn that other rows chose the number of trees if they may be the rows that are scored; else keep it as a note.

    An audit of folds says it once for all folds.
    """
    for text in NOTES_OF_STOPPING:
        if text in ensemble.notes:
            (log.warn if may_be_these_rows else log.add)(text)


def batch_rows(
    model: Any,
    ensemble: TreeEnsemble,
    X: Any,
    y: Any,
    sample_weight: Any,
    log: WarningLog,
    n_jobs: int,
    verify: bool,
    in_bag: InBag | None = None,
    compared: set[tuple[int, Any]] | None = None,
    base_margin: Any = None,
) -> Rows:
    """Encode one batch of rows; the kind of the rows is decided once all batches are known.

    If `verify` is False, the predictions of the trees and of the library are compared only for rows with labels that
    are not yet in `compared`.
    """
    refuse_other_order(X, y=y, sample_weight=sample_weight, base_margin=base_margin)
    (member,) = unwrap(model, X, y)
    table, ensemble = _aligned(member.X, ensemble, log)
    note_unseen(member, ensemble, table, log)
    response = encode(member.y, ensemble, table.n_rows, base_margin=base_margin)
    row_of_new_label = (
        {} if compared is None else {label: row for label, row in table.special_labels.items() if label not in compared}
    )
    if verify:
        verify_prediction(ensemble, member.model, table)
    elif row_of_new_label:
        verify_prediction(ensemble, member.model, table, np.unique(list(row_of_new_label.values())))
    if compared is not None:
        compared |= row_of_new_label.keys()
    return Rows(
        ensemble=ensemble,
        model=member.model,
        table=table,
        response=response,
        weight=_weights(sample_weight, table.n_rows, may_be_zero=True),
        kind=RowsKind.HELD_OUT if in_bag is None else RowsKind.OOB,
        provenance=_BATCH,
        in_bag=in_bag,
        n_jobs=n_jobs,
    )


def rows_as_predicted(
    model: Any,
    ensemble: TreeEnsemble,
    X: Any,
    sample_weight: Any,
    log: WarningLog,
    n_jobs: int,
    base_margin: Any = None,
) -> Rows:
    """Encode rows whose response is not known yet: it is taken to be what the model predicts.

    What does not depend on the response is then that of the rows: their leaves, and what features would save if the
    model were right.

    Raises
    ------
    CompositionError
        The loss of a row is not known.
    DebiasError
        As for :func:`batch_rows`.
    """
    refuse_other_order(X, sample_weight=sample_weight, base_margin=base_margin)
    metric_of(ensemble)
    (member,) = unwrap(model, X)
    table, ensemble = _aligned(member.X, ensemble, log)
    note_unseen(member, ensemble, table, log)
    verify_prediction(ensemble, member.model, table)
    output = np.zeros((table.n_rows, ensemble.n_outputs))
    for block in row_blocks(table.n_rows, ensemble.n_features, ensemble.n_trees):
        router = Router(ensemble, table.matrix(ensemble, block), None, n_jobs)
        router.add_outputs(np.arange(ensemble.n_trees), output[block])
    if ensemble.averaged:
        output /= ensemble.n_trees
    return Rows(
        ensemble=ensemble,
        model=member.model,
        table=table,
        response=as_predicted(ensemble, output, base_margin),
        weight=_weights(sample_weight, table.n_rows, may_be_zero=True),
        kind=RowsKind.HELD_OUT,
        provenance=_BATCH,
        n_jobs=n_jobs,
    )


def _rows_that_count(claim: Claim, rows: EncodedRows, query: NDArray[np.int64] | None) -> NDArray[np.bool_] | None:
    """Return which of some held-out rows have a weight above 0; None if all have, or for training rows.

    Rows of weight 0 are left out before anything is proven, counted, drawn or compared. Bags know training rows by
    their place, so whether rows are training rows of a model with bags is asked first. Other rows of a query are
    ranked against its rows of weight 0, which stay.
    """
    if rows.weight is None or rows.weight.all() or not rows.response.is_scored:
        return None
    is_kept: NDArray[np.bool_] = rows.weight > 0
    if query is not None and np.isin(query[is_kept], query[~is_kept]).any():
        return None
    stated = claim.request.rows
    if claim.member.positions is None and stated != RowsKind.HELD_OUT:
        if stated != "auto":
            return None
        if rows.ensemble.averaged and claim.prove(rows, WarningLog(quiet=True)).kind != RowsKind.HELD_OUT:
            return None
    return is_kept


def prepare_data(request: Request, model: Any, scorer: Scorer, engine: Engine) -> tuple[TreeEnsemble | None, Data]:
    """Return the data for a scorer of data, as passed. A model, if there is one, only orders and names the columns."""
    if request.X is None:
        raise RowsError(f"{scorer.name} scores data: pass X and y")
    ensemble = None if model is None else extract(model)
    weights = request.sample_weight
    weight = None if weights is None else _weights(weights, np.shape(weights)[0])
    settings: dict[str, Any] = {"seed": request.seed, "n_jobs": request.n_jobs, "engine": engine}
    X = request.X
    if request.feature_names is not None:
        X = as_frame(X)
        if X.shape[1] != len(request.feature_names):
            raise RowsError(f"feature_names has {len(request.feature_names)} names, but X has {X.shape[1]} columns")
        X = X.set_axis(list(request.feature_names), axis=1)
    return ensemble, Data.of(X, request.y, ensemble=ensemble, weight=weight, **settings)


def running_loss_needed(scorers: Iterable[Scorer]) -> bool:
    """Whether one of the scorers reads the running loss."""
    return any(isinstance(scorer, TreeScorer) and scorer.needs_running_loss for scorer in scorers)


def _node_sums_needed(scorers: Iterable[Scorer], ensemble: TreeEnsemble) -> bool:
    """Whether one of the scorers may read node sums. Those of the running loss do, if the trees are averaged."""
    return any(isinstance(each, TreeScorer) and (ensemble.averaged or not each.needs_running_loss) for each in scorers)


def _data(request: Request, member: Member, ensemble: TreeEnsemble, weight: NDArray[np.float64] | None) -> Data:
    settings: dict[str, Any] = {"seed": request.seed, "n_jobs": request.n_jobs}
    return Data.of(member.X, member.y, ensemble=ensemble, weight=weight, **settings)


def _aligned(X: Any, ensemble: TreeEnsemble, log: WarningLog) -> tuple[Table, TreeEnsemble]:
    """Return X in the column order of the model, and the ensemble with the names of X if the model stores none.

    Names of the model stand in X's spelling, where the library replaces blanks.
    """
    given = Table(X)
    table = given.aligned_to(ensemble, log)
    if ensemble.named:
        return table, ensemble.named_as_in(given.names or ())
    if table.names is None:
        return table, ensemble
    return table, ensemble if table.names == ensemble.feature_names else ensemble.renamed(table.names)


def _weighed(ensemble: TreeEnsemble, train: tuple[Any, ...], log: WarningLog) -> TreeEnsemble:
    """Return trees whose format stores no weights of leaves with those of the training rows that the user passed."""
    X, weight = train[0], train[2] if len(train) > 2 else None
    table = Table(X).aligned_to(ensemble, log)
    of_rows = _weights(weight, table.n_rows)
    router = Router(ensemble, table.matrix(ensemble))
    of_leaves = [
        np.bincount(router.leaves(np.array([tree]))[:, 0], of_rows, minlength=nodes)
        for tree, nodes in enumerate(np.diff(ensemble.tree_start).tolist())
    ]
    log.add(
        "leaves have no training weights in this format: values of inner nodes are means over the rows passed as train="
    )
    return ensemble.with_leaf_weights(np.concatenate(of_leaves))


def training_rows(
    ensemble: TreeEnsemble,
    model: Any,
    train: tuple[Any, ...],
    n_jobs: int,
    log: WarningLog,
    known: bool,
    training_order: Callable[[Any], NDArray[np.int64]] | None = None,
) -> Rows:
    """Encode training rows, passed as (X, y), (X, y, weight) or (X, y, weight, qid); prove them unless `known`."""
    X, y, given_weight, qid = (*train, None, None)[:4]
    table = Table(X).aligned_to(ensemble, log)
    if ensemble.objective.by_query and qid is None:
        raise RowsError(
            "this is a ranker: pass train=debias.Dataset(X_train, y_train, qid=...), with the query of each row"
        )
    query = encode_queries(qid, ensemble, table.n_rows, "the qid of train")
    weight = _weights(given_weight, table.n_rows)
    response = encode(y, ensemble, table.n_rows, log, weight=weight, query=query)
    weight_or_none = None if given_weight is None else weight
    if known:
        in_bag, provenance = known_bags(ensemble, model, response, weight_or_none), KNOWN
    else:
        verify_prediction(ensemble, model, table)
        order = None if training_order is None else training_order(y)
        in_bag, provenance = prove_training(ensemble, model, table, response, weight_or_none, log, order)
    return Rows(
        ensemble=ensemble,
        model=model,
        table=table,
        response=response,
        weight=weight,
        kind=RowsKind.TRAIN,
        in_bag=in_bag,
        provenance=provenance,
        query=query,
        n_jobs=n_jobs,
    )


def _check_response(rows: Rows, log: WarningLog, predicts: Callable[[Any], NDArray[np.float64]] | None) -> None:
    """Warn if the response of rows does not look like that of training, unless it is proven."""
    if not rows.response.is_scored:
        return
    if rows.kind == RowsKind.HELD_OUT or rows.provenance.status == "rows proven, y unproven":
        warn_of_another_response(rows, log, predicts)
    if rows.kind == RowsKind.HELD_OUT:
        warn_of_shifted_response(rows.ensemble, rows.response, log)


def _refuse_or_warn_of_tuning(member: Member, request: Request, log: WarningLog) -> None:
    """Refuse rows that something of the model was chosen on, unless the user asked for them; then warn once."""
    bias = f"{member.tuned_on_unseen}, so scores on these rows are too high on average, also those of noise"
    if request.rows == "auto":
        raise ProvenanceError(
            f"these are the training rows, and {bias}. Pass rows the model has not seen, with rows='held-out'; "
            "rows='oob' scores each model on the training rows that it has not seen, with this bias"
        )
    first = next(each for each in request.members if each.tuned_on_unseen == member.tuned_on_unseen)
    (log.warn if member is first else log.add)(f"{bias}. Rows that no model has seen, with rows='held-out', have none")


def _weights(sample_weight: Any, n_rows: int, may_be_zero: bool = False) -> NDArray[np.float64]:
    if sample_weight is None:
        return np.ones(n_rows)
    try:
        weight = np.array(sample_weight, dtype=np.float64)
    except (TypeError, ValueError):
        raise RowsError("sample_weight must have one number for each row") from None
    if weight.shape != (n_rows,):
        raise RowsError(f"sample_weight has shape {weight.shape} for {n_rows} rows")
    largest = weight.max(initial=0.0)
    all_zero = largest == 0 and not may_be_zero
    if not np.isfinite(largest) or np.isnan(weight).any() or (weight < 0).any() or all_zero:
        raise RowsError("sample_weight must be finite, not negative, and not all zero")
    if largest and not LEAST_WEIGHT <= largest <= LARGEST_WEIGHT:
        raise RowsError(
            f"the largest sample_weight is {largest:.3g}, and a float64 cannot hold its squares and sums. Divide all "
            "weights by it; the scores stay the same"
        )
    return weight
