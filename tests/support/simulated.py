"""Simulated rows with a known response, and weights of rows."""

import numpy as np
import pandas as pd


def rows(n, columns=3, signal=(1.0,), *, noise=1.0, cuts=None, missing=0.0, missing_in=None, names=None, seed=0):
    """Draw rows and a response: a sum of columns plus normal noise, or classes cut from that sum.

    Columns are drawn first, then the noise, then which values are missing, so that equal arguments give equal rows,
    and more options after them leave the earlier draws as they are. The response is of the values before some of
    them go missing.

    Parameters
    ----------
    n : int
        Number of rows.
    columns : int or sequence, default=3
        A number of standard normal columns, drawn together; or the kind of each column, drawn one after another:
        ``"normal"``, ``"float32"`` (normal, rounded to float32), ``"rounded"`` (normal, to one decimal, so that
        values are tied), ``"ones"`` (constant), or a ``range``, of which whole numbers are drawn.
    signal : sequence of float or callable, default=(1.0,)
        Coefficients of the first columns, or a function of X that returns the response without noise. An empty
        sequence makes the response noise alone.
    noise : float, default=1.0
        Standard deviation of the noise.
    cuts : sequence of float or None, default=None
        With cuts, y is the class 0, 1, ... of the response between them.
    missing : float, default=0.0
        Share of values that are missing.
    missing_in : sequence of int or None, default=None
        Positions of the columns with missing values, drawn one after another; None for all columns at once.
    names : sequence of str or None, default=None
        Column names: X is a data frame then, and y a series.
    seed : int or numpy.random.Generator, default=0
        Seed, or the generator to draw from.

    Returns
    -------
    X : ndarray or DataFrame of shape (n, n_columns)
    y : ndarray or Series of shape (n,)
    """
    rng = np.random.default_rng(seed)
    X = _columns(rng, n, columns)
    latent = (signal(X) if callable(signal) else _weighted_sum(X, signal)) + noise * rng.normal(size=n)
    if missing:
        if missing_in is None:
            X[rng.random(X.shape) < missing] = np.nan
        for position in missing_in or ():
            X[rng.random(n) < missing, position] = np.nan
    y = latent if cuts is None else np.digitize(latent, cuts)
    return (X, y) if names is None else (pd.DataFrame(X, columns=list(names)), pd.Series(y))


def columns(n, kinds, seed=0):
    """Draw columns alone; `kinds` are what `rows` takes for its columns."""
    return _columns(np.random.default_rng(seed), n, kinds)


def autoregressive(rng, shape, coefficient):
    """Return AR(1) columns of mean 0 and variance 1, in the order of time."""
    noise, values = rng.normal(size=shape), np.empty(shape)
    values[0] = noise[0]
    for at in range(1, len(values)):
        values[at] = coefficient * values[at - 1] + np.sqrt(1 - coefficient**2) * noise[at]
    return values


def interacting(X):
    """Return the first column plus the product of the next two: a signal for `rows`."""
    return X[:, 0] + X[:, 1] * X[:, 2]


def weights(n, seed=0):
    """Draw n weights of rows; about a quarter of them is 0, so that a row that should not count shows."""
    rng = np.random.default_rng(seed)
    return rng.integers(0, 4, n) * rng.uniform(0.5, 2.0, n)


def _columns(rng, n, kinds):
    """Draw all columns, together where only their number is given."""
    if isinstance(kinds, int):
        return rng.normal(size=(n, kinds))
    return np.column_stack([_column(rng, n, kind) for kind in kinds])


def _column(rng, n, kind):
    """Draw one column of a kind that `rows` describes."""
    if isinstance(kind, range):
        return rng.integers(kind.start, kind.stop, n)
    match kind:
        case "normal":
            return rng.normal(size=n)
        case "float32":
            return rng.normal(size=n).astype(np.float32)
        case "rounded":
            return np.round(rng.normal(size=n), 1)
        case "ones":
            return np.ones(n)
    raise ValueError(f"unknown kind of column: {kind!r}")


def _weighted_sum(X, coefficients):
    """Return the sum of the first columns times their coefficients; columns with coefficient 0 are left out."""
    total = np.zeros(len(X))
    for position, coefficient in enumerate(coefficients):
        if coefficient:
            total = total + coefficient * X[:, position]
    return total
