"""Features that know nothing of the response, and whether their mean scores are 0."""

import numpy as np

from support import simulated


def features(rng, n):
    """Draw the columns of Strobl et al.'s first simulation: N(0, 1), and whole numbers of 2, 4, 10 and 20 values."""
    return simulated.columns(n, ("normal", range(2), range(4), range(10), range(20)), rng)


def z_of_means(scores):
    """Return mean over standard error of each feature's score; scores have shape (n_repeats, n_features)."""
    scores = np.array(scores)
    return scores.mean(axis=0) / (scores.std(axis=0, ddof=1) / np.sqrt(len(scores)))
