"""The words of results: verdicts, dependence, the status of a gate and kinds of rows.

A value is stored in tables, CSV and JSON, and compared by users: it never changes. How it is displayed stands in the
tables below, and nowhere else: to change a word, a colour or a mark, change its line.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable

BLUE, VERMILION, GREY = "#0072b2", "#d55e00", "#707070"
"""Of the palette of Okabe and Ito. A mark goes with every colour, so no meaning depends on colour alone."""

BEFORE_CALIBRATION = "scores are of the trees before their probabilities are calibrated"
"""In `warnings`: the note about the models inside a calibrated classifier. How well the trees predict by themselves is
then not how well the model does."""
OF_TREES = " before calibration"
"""Ends the name of a loss of such trees."""
DEPENDENCE = "honest_effects"
"""The scorer whose combined test answers whether the response depends on a feature."""
EXPLAINED_ALONE = "explained_alone"
"""In `details` of the tested scores: share of the variation of y that a feature explains alone, if at least half."""
GROUPS_OF_ROWS = 20
"""The jackknife of the reported importance on unseen rows leaves out so many groups of rows, one at a time."""
ERROR_RATE_OF_INFLATION = 0.05
"""The false discovery rate of features that are reported too high."""
TWINS = "unconfirmed_twins"
"""There: sets of features that are not confirmed alone and whose columns are nearly the same."""
UNUSED = "unused_features"
"""There: features that no tree splits on, and that no line in a leaf has."""
PAIRS = "pairs_that_work_together"
"""There: pairs of features that some of the rows confirm (``debias.interactions``), and how many rows; missing if there
are none, or if no pair was tested."""
UNSEEN = "unseen_categories"
UNCOUNTED = "uncounted_categories"
"""There: share of the rows with a category that the model never saw, by column that has any."""
REPEATED = "repeated_rows"
"""There: share of the rows that repeat another row in all features, the response and the weight."""
RESPONSE_VARIANCE = "response_variance"
"""There: what the scores are shares of, the variance of y on the rows; missing if they are not shares of a variance."""
RANKS = "ranks"
"""In `details` of scores that were tested on held-out rows: simultaneous intervals of the ranks of the features."""
NO_INTERVAL = "no_interval_because"
"""There: why the standard errors, which are those of a test, make no intervals."""
LIKE_TRAINING = "stated by the user"
"""Status of rows that look like training rows although the user says that they are held out."""
PROVEN_HELD_OUT = "proven held-out"
"""Status of the test rows of a fold if their model was trained on other rows, and this is proven."""
AS_ESTIMATED = "as estimated from the leaf counts"
"""In `detail` of rows of which a part looks like training rows: ``training_share`` is that part."""
UNPROVEN = ("cannot be told", LIKE_TRAINING)
"""Statuses of held-out rows that may contain training rows."""


def loss_in_words(metric: str, warnings: Iterable[str]) -> str:
    """Return the name of a loss: "log loss before calibration" if the warnings have the note about such trees."""
    return metric + OF_TREES if any(BEFORE_CALIBRATION in text for text in warnings) else metric


@dataclass(frozen=True)
class Display:
    """How a value is displayed.

    Parameters
    ----------
    text : str
        In tables, and before a noun.
    phrase : str
        After "is" and in legends; `text` by default.
    colour : str
    mark : str
        One character, in tables of pages.
    marker, hatch, dashes
        The same in figures: marker of points, pattern of bars, and line style of matplotlib.
    """

    text: str
    phrase: str = ""
    colour: str = GREY
    mark: str = ""
    marker: str = "o"
    hatch: str = ""
    dashes: Any = "-"


class Word(StrEnum):
    """A value that is stored as it is, and displayed as its table says."""

    def __repr__(self) -> str:
        return repr(self.value)

    @property
    def display(self) -> Display:
        """How the value is displayed."""
        return DISPLAYS[type(self)][self]

    @property
    def text(self) -> str:
        """The word in tables, and before a noun."""
        return self.display.text

    @property
    def phrase(self) -> str:
        """The word after "is", and in legends."""
        return self.display.phrase or self.display.text


class Verdict(Word):
    """What the test says about a feature: whether the model uses it in a way that holds on unseen rows."""

    INFORMATIVE = "informative"
    INDISTINGUISHABLE = "indistinguishable"
    UNTESTED = "untested"


class Dependence(Word):
    """What the combined test says about a feature: whether the response depends on it, within the nodes."""

    DEPENDENT = "dependent"
    NOT_DETECTED = "not detected"
    UNTESTED = "untested"


class Finding(Word):
    """What both tests together say about a feature: whether the model uses it, and whether the response depends on it.

    The first test found nothing alone in those in the middle: trees split on the feature, or none does. The
    test of dependence found that the response is related to the feature; or it found nothing either, or was not made,
    which its own column tells.
    """

    CONFIRMED = "used and confirmed"
    RELATED = "related, use unconfirmed"
    RELATED_UNUSED = "related, no splits"
    UNCONFIRMED = "unconfirmed alone"
    UNUSED = "no splits"
    UNTESTED = "untested"


class ChangeVerdict(Word):
    """What the comparison of two windows of a history says about a feature."""

    FADED = "faded"
    WEAKER = "changed (weaker)"
    STRONGER = "changed (stronger)"
    UNDETECTED = "no longer distinguishable"
    UNCHANGED = "no change detected"
    NOT_COMPARED = "not compared"
    UNUSED = "no splits"


class LossVerdict(Word):
    """What the comparison of the losses of two windows says about a feature."""

    MORE = "costs more"
    NO_MORE = "no increase detected"
    UNTESTED = "not tested"


class ModelVerdict(Word):
    """What the comparison of the losses of two models on the same rows says about a feature."""

    MORE = "saves more"
    LESS = "saves less"
    ALIKE = "no difference detected"
    UNTESTED = "not tested"


class ScoreCause(Word):
    """What changed the score of a feature after retraining."""

    DATA = "data"
    MODEL = "model"
    BOTH = "data and model"
    DATA_MODEL_UNTESTED = "data, model untested"
    MODEL_DATA_UNTESTED = "model, data untested"
    UNCHANGED = "no change detected"
    UNTESTED = "untested"


class LossKind(Word):
    """What explains that a feature costs more."""

    VALUES = "values"
    EFFECT = "effect"
    EITHER = "values or effect"
    ROWS = "rows"
    ROWS_OR_VALUES = "rows or values"
    UNKNOWN = "rows, values or effect"
    NEITHER = "neither alone"


class DropStatus(Word):
    """What the tests say about a set of features that a refit was trained without."""

    CERTIFIED = "certified"
    UNDECIDED = "undecided"
    HARMFUL = "do not drop together"


class DropDecision(Word):
    """What to do with a feature, by the first set of a sequence that has it."""

    DROP = "drop"
    OPEN = "not settled"
    KEEP = "keep"
    NOT_TRIED = "not tried"


class Confirmation(Word):
    """What the test of interactions says about a pair: whether unseen rows confirm what the model does with both.

    SIMILAR: they confirm it, but it may stand in for another pair with correlated features.
    """

    CONFIRMED = "confirmed"
    SIMILAR = "confirmed, or a similar pair"
    NO_EVIDENCE = "no evidence"
    UNTESTED = "untested"


class GateStatus(Word):
    """The outcome of a gate, or of one of its rules."""

    FAILED = "failed"
    NOT_JUDGED = "not judged"
    PASSED = "passed"


class FleetVerdict(Word):
    """What is said of a model among others: whether a person should look at it."""

    LOOK = "needs a look"
    NOT_JUDGED = "not judged"
    NOTHING = "nothing found"


class RowsKind(Word):
    """What the evaluation rows are to the trees."""

    OOB = "oob"
    HELD_OUT = "held-out"
    TRAIN = "train"


DISPLAYS: dict[type[Word], dict[Any, Display]] = {
    Verdict: {
        Verdict.INFORMATIVE: Display("informative", colour=BLUE, mark="●", marker="o"),
        Verdict.INDISTINGUISHABLE: Display(
            "unconfirmed alone", "not confirmed alone", VERMILION, "✕", "x", "////", (0, (4, 2))
        ),
        Verdict.UNTESTED: Display("untested", "not tested", GREY, "■", "s", "....", (0, (1, 1.5))),
    },
    Dependence: {
        Dependence.DEPENDENT: Display("dependent"),
        Dependence.NOT_DETECTED: Display("not detected"),
        Dependence.UNTESTED: Display("untested", "not tested"),
    },
    Finding: {
        Finding.CONFIRMED: Display("used and confirmed", colour=BLUE, mark="●"),
        Finding.RELATED: Display("related, use unconfirmed", colour=BLUE, mark="◐"),
        Finding.RELATED_UNUSED: Display("related, no splits", colour=BLUE, mark="◔"),
        Finding.UNCONFIRMED: Display("unconfirmed alone", colour=VERMILION, mark="✕"),
        Finding.UNUSED: Display("no splits", colour=GREY, mark="○"),
        Finding.UNTESTED: Display("untested", colour=GREY, mark="■"),
    },
    Confirmation: {
        Confirmation.CONFIRMED: Display("confirmed", colour=BLUE, mark="●", marker="o"),
        Confirmation.SIMILAR: Display("confirmed, or a similar pair", colour=BLUE, mark="◐", marker="D"),
        Confirmation.NO_EVIDENCE: Display("no evidence", "without evidence", VERMILION, "✕", "x", "////", (0, (4, 2))),
        Confirmation.UNTESTED: Display("untested", "not tested", GREY, "■", "s", "....", (0, (1, 1.5))),
    },
    ChangeVerdict: {
        ChangeVerdict.FADED: Display("faded", colour=VERMILION, mark="\N{HEAVY MULTIPLICATION X}", marker="X"),
        ChangeVerdict.WEAKER: Display(
            "changed (weaker)", colour=VERMILION, mark="\N{BLACK DOWN-POINTING TRIANGLE}", marker="v"
        ),
        ChangeVerdict.STRONGER: Display(
            "changed (stronger)", colour=BLUE, mark="\N{BLACK UP-POINTING TRIANGLE}", marker="^"
        ),
        ChangeVerdict.UNDETECTED: Display(
            "no longer distinguishable",
            "no longer distinguishable from noise",
            mark="\N{MULTIPLICATION SIGN}",
            marker="x",
        ),
        ChangeVerdict.UNCHANGED: Display("no change detected", mark="\N{BLACK CIRCLE}", marker="o"),
        ChangeVerdict.NOT_COMPARED: Display("not compared", mark="\N{BLACK SQUARE}", marker="s"),
        ChangeVerdict.UNUSED: Display("no splits", mark="\N{WHITE CIRCLE}", marker="."),
    },
    LossVerdict: {
        LossVerdict.MORE: Display("costs more", colour=VERMILION, mark="\N{BLACK UP-POINTING TRIANGLE}", marker="^"),
        LossVerdict.NO_MORE: Display("no increase detected", mark="\N{BLACK CIRCLE}", marker="o"),
        LossVerdict.UNTESTED: Display("not tested", mark="\N{BLACK SQUARE}", marker="s"),
    },
    ModelVerdict: {
        ModelVerdict.MORE: Display("saves more", colour=BLUE, mark="\N{BLACK DOWN-POINTING TRIANGLE}", marker="v"),
        ModelVerdict.LESS: Display("saves less", colour=VERMILION, mark="\N{BLACK UP-POINTING TRIANGLE}", marker="^"),
        ModelVerdict.ALIKE: Display("no difference detected", mark="\N{BLACK CIRCLE}", marker="o"),
        ModelVerdict.UNTESTED: Display("not tested", mark="\N{BLACK SQUARE}", marker="s"),
    },
    ScoreCause: {
        ScoreCause.DATA: Display("data", colour=BLUE, mark="\N{BLACK CIRCLE}", marker="o"),
        ScoreCause.MODEL: Display("model", colour=VERMILION, mark="\N{BLACK SQUARE}", marker="s"),
        ScoreCause.BOTH: Display("data and model", colour=VERMILION, mark="\N{BLACK DIAMOND}", marker="D"),
        ScoreCause.DATA_MODEL_UNTESTED: Display(
            "data, model untested", colour=BLUE, mark="\N{BLACK CIRCLE}", marker="o"
        ),
        ScoreCause.MODEL_DATA_UNTESTED: Display(
            "model, data untested", colour=VERMILION, mark="\N{BLACK SQUARE}", marker="s"
        ),
        ScoreCause.UNCHANGED: Display("no change detected", mark="\N{BLACK CIRCLE}", marker="o"),
        ScoreCause.UNTESTED: Display("untested", "not tested", GREY, "\N{BLACK SQUARE}", "s"),
    },
    LossKind: {
        LossKind.VALUES: Display("its values changed or are broken"),
        LossKind.EFFECT: Display("the response to it changed"),
        LossKind.EITHER: Display("its values or the response to it changed"),
        LossKind.ROWS: Display(
            "other rows came, and nothing shows that its values are broken or that the response to it changed"
        ),
        LossKind.ROWS_OR_VALUES: Display("other rows came, or its values are broken: the data do not tell"),
        LossKind.UNKNOWN: Display("other rows came, or its values or the response to it changed: the data do not tell"),
        LossKind.NEITHER: Display(
            "it alone does not explain this, as after two faults, or with rows on which the model errs more"
        ),
    },
    DropStatus: {
        DropStatus.CERTIFIED: Display("certified", "certified", BLUE, "●", "o"),
        DropStatus.UNDECIDED: Display("undecided", "undecided", GREY, "■", "s"),
        DropStatus.HARMFUL: Display("do not drop together", "do not drop together", VERMILION, "✕", "X"),
    },
    DropDecision: {each: Display(each.value) for each in DropDecision},
    GateStatus: {
        GateStatus.FAILED: Display("failed", mark="❌"),
        GateStatus.NOT_JUDGED: Display("not judged", mark="⚠️"),
        GateStatus.PASSED: Display("passed", mark="✅"),
    },
    FleetVerdict: {
        FleetVerdict.LOOK: Display("needs a look", colour=VERMILION, mark="\N{BLACK UP-POINTING TRIANGLE}"),
        FleetVerdict.NOT_JUDGED: Display("not judged", mark="\N{BLACK SQUARE}"),
        FleetVerdict.NOTHING: Display("nothing found", mark="\N{BLACK CIRCLE}"),
    },
    RowsKind: {
        RowsKind.OOB: Display("out-of-bag"),
        RowsKind.HELD_OUT: Display("held-out"),
        RowsKind.TRAIN: Display("training"),
    },
}


ERROR_RATES: dict[str | None, tuple[str, str]] = {
    "fwer": ("family-wise error rate", ""),
    "fdr": ("false discovery rate", ""),
    "fdr_by": ("false discovery rate", " under any dependence"),
    None: ("error rate", " per feature, not adjusted for multiple testing"),
}
"""What a kind of error rate is called, and what is said after its size."""


def error_rate_in_words(error: str | None, alpha: float) -> str:
    """Return an error rate in words: "false discovery rate 5% under any dependence"."""
    name, after = ERROR_RATES[error]
    return f"{name} {100 * alpha:g}%{after}"


def displayed(value: object) -> str:
    """Return a value as a reader sees it: a word by its table, anything else as text."""
    return value.text if isinstance(value, Word) else str(value)


def displayed_verdict(stored: str) -> str:
    """Return the displayed word of a verdict that a table has stored, of an audit or of a comparison of windows."""
    for kind in (Verdict, ChangeVerdict, LossVerdict, ModelVerdict, FleetVerdict, ScoreCause):
        if stored in set(kind):
            return kind(stored).text
    return stored
