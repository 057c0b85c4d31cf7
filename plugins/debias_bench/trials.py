"""Trials of a design: one is drawn, fitted and scored here; a file keeps them, so that a stopped run can continue."""

from __future__ import annotations

import json
import warnings
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Any, BinaryIO, Literal, Self, cast, get_args
from zlib import crc32

import numpy as np

import debias
from debias import DebiasError
from debias.plugin import CompositionError
from debias_bench.rival_scorers import RIVALS

if TYPE_CHECKING:
    from debias_bench.study import Design, Draw

KindOfRows = Literal["oob", "held-out", "train"]
ROWS = get_args(KindOfRows)


@dataclass(frozen=True)
class Entrant:
    """A scorer that takes part in a study, and the kind of rows that it scores; or a rival, by its name."""

    expression: str
    rows: KindOfRows

    @classmethod
    def of(cls, text: str) -> Entrant:
        """Return the entrant for ``expression`` or ``expression@rows``; without rows, out-of-bag rows."""
        expression, at, rows = text.rpartition("@")
        if not at or rows not in ROWS:
            return cls(text, "oob")
        return cls(expression, cast("KindOfRows", rows))

    @property
    def is_rival(self) -> bool:
        """Whether this is not one of debias's scorers but a key of RIVALS."""
        return self.expression in RIVALS

    @property
    def scorer(self) -> debias.plugin.Scorer:
        """The scorer, with its options."""
        return debias.plugin.scorer(self.expression)

    @property
    def label(self) -> str:
        """Name of the entrant in tables."""
        if self.is_rival:
            return self.expression
        return self.scorer.name if self.rows == "oob" else f"{self.scorer.name} on {self.rows} rows"


def run_trial(design: Design, repeat: int, seed: int, entrants: tuple[Entrant, ...]) -> dict[str, Any]:
    """Draw data, fit the model, and score it with every entrant.

    Returns
    -------
    dict
        Plain values: design, repeat, features, expected rank, relevant, and for each entrant its scores or the reason
        why it refused.
    """
    data_seed, model_seed = (int(s) for s in np.random.SeedSequence([seed, crc32(design.stream.encode()), repeat])
                             .generate_state(2) >> 1)  # fmt: skip
    begin = perf_counter()
    draw = design.draw(data_seed)
    model = None if design.fit is None else design.fit(draw.train, model_seed)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", debias.DebiasWarning)  # the tables name the kind of rows
        scores = {entrant.label: _score(entrant, model, draw, model_seed) for entrant in entrants}
    return {
        "design": design.name,
        "repeat": repeat,
        "features": [str(name) for name in draw.train.X.columns],
        "rank": draw.train.expected_rank.tolist(),
        "relevant": draw.train.is_relevant.tolist(),
        "scores": scores,
        "seconds": round(perf_counter() - begin, 4),
    }


class TrialFile:
    """A file of trials, one JSON object per line; the first line is a header that names the run.

    The file is locked while it is open, so that two runs cannot write to it at the same time (except on Windows, which
    has no such locks). Close it, or use it in a ``with`` statement.

    Parameters
    ----------
    path : Path
    header : dict
        Study, seed and versions. Trials with another header are not mixed with these.
    restart : bool
        Whether to delete existing trials.

    Raises
    ------
    DebiasError
        The existing file has another header, or another run is writing to it.
    """

    def __init__(self, path: Path, header: dict[str, Any], restart: bool = False) -> None:
        self.path = path
        self.trials: list[dict[str, Any]] = []
        self._scored: dict[tuple[str, int], set[str]] = {}
        path.parent.mkdir(parents=True, exist_ok=True)
        self._file = path.open("ab+")
        try:
            _lock(self._file)
            if restart:
                self._file.truncate(0)
            self._read(header)
        except BaseException:
            self._file.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()

    def scored(self, design: str, repeat: int) -> set[str]:
        """Return the labels that already have a score in that trial."""
        return self._scored.get((design, repeat), set())

    def add(self, trial: dict[str, Any]) -> None:
        """Add a trial, and write it to the file at once."""
        self._write(trial)
        self._keep(trial)

    def _read(self, header: dict[str, Any]) -> None:
        self._file.seek(0)
        text = self._file.read()
        whole = text[: text.rfind(b"\n") + 1]
        self._file.truncate(len(whole))  # an incomplete last line is dropped, and its trial runs again
        lines = whole.splitlines()
        if not lines:
            self._write(header)
            return
        existing = _header_of(lines[0])
        if existing != header:
            changed = sorted(key for key in {*header, *existing} if existing.get(key) != header.get(key))
            raise DebiasError(
                f"{self.path} holds trials of another run ({', '.join(changed)} changed): remove it, pass --restart, "
                "or another --out"
            )
        for line in lines[1:]:
            self._keep(json.loads(line))

    def _write(self, record: dict[str, Any]) -> None:
        self._file.write(json.dumps(record).encode() + b"\n")
        self._file.flush()

    def _keep(self, trial: dict[str, Any]) -> None:
        """Keep a trial in memory, without scores that are already there."""
        labels = self._scored.setdefault((trial["design"], trial["repeat"]), set())
        fresh = {label: score for label, score in trial["scores"].items() if label not in labels}
        if fresh:
            self.trials.append({**trial, "scores": fresh})
            labels.update(fresh)


def _header_of(line: bytes) -> dict[str, Any]:
    """Return the header that the first line holds; empty if it holds none."""
    try:
        header = json.loads(line)
    except ValueError:
        return {}
    return header if isinstance(header, dict) else {}


def _lock(file: BinaryIO) -> None:
    """Lock a file for this run until it is closed, or the process ends."""
    try:
        import fcntl
    except ImportError:
        return
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise DebiasError(f"another run is writing to {file.name}: wait for it, or pass another --out") from None


def _score(entrant: Entrant, model: Any, draw: Draw, seed: int) -> dict[str, Any]:
    begin = perf_counter()
    try:
        if entrant.is_rival:
            values, selected = RIVALS[entrant.expression](model, draw.train, seed), None
        else:
            scores = _call(entrant, model, draw, seed)
            values, selected = scores.values, getattr(scores, "selected", None)
    except CompositionError:
        raise  # a mistake in the expression affects the whole run
    except DebiasError as error:
        return {"refused": str(error)}
    return {
        "values": values.tolist(),
        "selected": None if selected is None else np.asarray(selected).tolist(),
        "seconds": round(perf_counter() - begin, 4),
    }


def _call(entrant: Entrant, model: Any, draw: Draw, seed: int) -> debias.Scores:
    train = draw.train
    if isinstance(entrant.scorer, debias.plugin.DataScorer):
        return debias.score(None, train.X, train.y, entrant.scorer, random_state=seed)
    if model is None:
        raise DebiasError(f"{entrant.label} needs a model, and this design has none")
    if entrant.rows != "held-out":
        return debias.score(model, train.numeric, train.y, entrant.scorer, rows=entrant.rows, random_state=seed)
    if draw.held_out is None:
        raise DebiasError(f"{entrant.label} needs held-out rows, and this design has none")
    fresh = draw.held_out
    return debias.score(model, fresh.numeric, fresh.y, entrant.scorer, rows="held-out", random_state=seed)
