"""Evaluation rows of a model, as the core prepares them."""

from debias.models.wrappers import unwrap
from debias.rows.preparation import prepare
from debias.rows.request import Request


def held_out_rows(model, X, y, weight=None, qid=None):
    """Return rows that the model is known not to have seen."""
    request = Request(model=model, X=X, y=y, rows="held-out", sample_weight=weight, qid=qid)
    (member,) = unwrap(model, X, y, None, "held-out")
    return prepare(request, member, [], known=True)[0]
