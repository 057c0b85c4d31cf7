"""What rows in batches cannot give is refused in words, also if a method of testing asks for it."""

import numpy as np
import pytest

import debias
from debias.significance.streamed import EvidenceInBatches


@pytest.mark.parametrize(
    ("ask", "message"),
    [
        (lambda evidence: evidence.drawings(np.ones(3)), "cannot be permuted: pass X and y in memory"),
        (lambda evidence: evidence.effect_moments(), "need all rows at once.*pass X and y in memory"),
    ],
)
def test_what_batches_cannot_give_is_refused(ask, message):
    evidence = EvidenceInBatches(None, np.ones(3), None)
    assert not any((evidence.can_permute, evidence.should_permute, evidence.has_blocks))
    with pytest.raises(debias.plugin.CompositionError, match=message):
        ask(evidence)
