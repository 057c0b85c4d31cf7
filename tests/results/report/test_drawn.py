"""Which features a picture shows, from the definition, over random audits."""

import numpy as np
import pytest

from debias.results.report.figures import drawn_features
from support.audits import made
from support.drawn_audits import drawn


@pytest.mark.thorough
@pytest.mark.parametrize("most", [1, 2, 9, 30])
def test_drawn_features_are_the_highest_reported_and_the_strongest_informative(most):
    for seed in range(200):
        audit = drawn(seed)
        n, share, score = audit.share.size, audit.share, audit.tested_scores.values
        features, n_left = drawn_features(audit, most)
        assert len(set(features.tolist())) == len(features) <= most
        assert len(features) + n_left == n
        names, unused = audit.tested_scores.feature_names, audit.unused_features
        order = [(-share[k], names[k] in unused, -score[k]) for k in features]
        assert order == sorted(order)
        reported = audit.reported if audit.reported is not None and audit.reported.any() else score
        n_highest = min(10, int(np.ceil(most / 2)), n)
        assert (np.sort(reported[features])[::-1][:n_highest] == np.sort(reported)[::-1][:n_highest]).all()
        left = sorted(set(range(n)) - set(features.tolist()))
        of_interest = share > 0 if audit.tested_scores.selected is None else audit.tested_scores.selected
        if len(features) < most:
            assert not of_interest[left].any()
            assert n_left not in (1, 2) or len(features) + n_left > most
            assert n_left == 0 or n > min(16, most)
        highest = set(np.argsort(-reported, kind="stable")[:n_highest].tolist())
        by_verdict = [k for k in features if k not in highest]
        if n_left:
            assert of_interest[by_verdict].all()
        if by_verdict and of_interest[left].any():
            assert share[by_verdict].min() >= share[[k for k in left if of_interest[k]]].max()


def test_noise_does_not_pad_a_picture():
    audit = made([f"f{k}" for k in range(1000)], informative=np.arange(1000) < 4)
    features, n_left = drawn_features(audit)
    assert set(range(4)) <= set(features.tolist())
    assert 10 <= len(features) <= 14
    assert n_left == 1000 - len(features)


@pytest.mark.parametrize(("n", "n_left"), [(11, 0), (16, 0), (17, 7)])
def test_one_or_two_features_are_not_left_out(n, n_left):
    audit = made([f"f{k}" for k in range(n)], informative=np.zeros(n))
    assert drawn_features(audit)[1] == n_left


def test_a_picture_needs_room_for_a_feature():
    with pytest.raises(ValueError, match="max_features must be a whole number and at least 1, not 0"):
        drawn_features(made(["a", "b"]), 0)
