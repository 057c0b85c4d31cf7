"""Survival data, and definitions of survival numbers, written as loops."""

from __future__ import annotations

import numpy as np


def fields(event, time):
    """Return events and times as scikit-survival takes them."""
    return np.array(list(zip(event, time, strict=True)), dtype=[("event", bool), ("time", float)])


def rows(n, seed, effect=1.0, censoring_by_noise=0.0):
    """Return features and a censored time of which only the first feature tells something.

    The others are noise: a number, a binary, and 50 levels. The rate of censoring is 0.6 exp(c z) for the number z.
    """
    rng = np.random.default_rng(seed)
    signal, number = rng.normal(size=(2, n))
    X = np.column_stack([signal, number, rng.integers(0, 2, n), rng.integers(0, 50, n)])
    time = rng.exponential(np.exp(-effect * signal))
    censored = rng.exponential(np.exp(-censoring_by_noise * number) / 0.6)
    return X, fields(time <= censored, np.minimum(time, censored))


def cumulative_hazard(event, time, weight, until):
    """Return the Nelson-Aalen estimate at the time `until`."""
    total = 0.0
    for t in np.unique(time[event]):
        if t <= until and (weight * (time >= t)).sum() > 0:
            total += (weight * (time == t) * event).sum() / (weight * (time >= t)).sum()
    return total


def residuals(y, weight=None):
    """Return the martingale residual of each row: 1 for an event, minus the cumulative hazard at its time."""
    event, time = y["event"], y["time"]
    weight = np.ones(len(y)) if weight is None else weight
    return np.array([e - cumulative_hazard(event, time, weight, t) for e, t in zip(event, time, strict=True)])


def concordance(event, time, risk, weight):
    """Return the share of comparable pairs in which the row with the earlier event has the higher risk."""
    right = total = 0.0
    for i in np.flatnonzero(event):
        for j in range(len(time)):
            if time[j] > time[i] or (time[j] == time[i] and not event[j]):
                pair = weight[i] * weight[j]
                total += pair
                right += pair * (0.5 if abs(risk[i] - risk[j]) <= 1e-8 else risk[i] > risk[j])
    return right / total
