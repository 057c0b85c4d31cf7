"""Messages of the library in the words of the command line: options instead of Python arguments.

The core speaks of ``rows='held-out'`` and ``train=``; a user of the commands has ``--rows held-out`` and ``--train``.
"""

from __future__ import annotations

import re

RULES = (
    # Calls, and arguments that the commands always fill in.
    (r"debias\.score\(None, X, y, '([^']*)'\)", r"debias score --no-model DATA --scorer '\1'"),
    (r"debias\.audit_folds\b", r"debias audit --folds"),
    (r"debias\.(score|audit)\b(?!\()", r"debias \1"),
    (r"\bblocks, qid and base_margin\b", "--blocks and --qid"),
    (r"\bblocks (?:and|or) base_margin\b", "--blocks"),
    (r"\btest, --blocks\b", "--blocks"),
    (r"base_margin=", "margins"),
    (r"np\.ones\(len\(X\)\)", "a column of ones"),
    # Arguments with a value. A scorer's own options of the same name are told from those by what follows.
    (r"\btrain=debias\.Dataset\([^)]*\)", "--train FILE"),
    (r"\btrain=\(X_train, y_train\)", "--train FILE"),
    (r"\bdebias\.Dataset\(X, y, (blocks|qid)=\.\.\.\)", r"--\1 COLUMN"),
    (r"\bdebias\.Dataset\(X, y, blocks=X\['([^']*)'\]\)", r"--blocks '\1'"),
    (r"\bdebias\.Dataset\(X, y, blocks=(.+?)\)(?=, on (?:rows|cells) )", r"--blocks COLUMN, with \1 in it"),
    (
        r"\brefits=debias\.Refits\(params=\{\.\.\.\}\)(?: \(params=\{\} if it was trained with the defaults\))?"
        r"(?:, or as params= of debias\.refit)?",
        "--params FILE",
    ),
    (r"\btest=debias\.Permutation\((?:n_permutations=)?(\d+)\)", r"--permutations \1"),
    (r"\berror_rate=\('(\w+)', ([0-9.e-]+)\)", r"--error-method \1 --error-rate \2"),
    (r"\berror_rate=([0-9][0-9.e-]*[0-9])", r"--error-rate \1"),
    (r"\bdependence=True\b", "--dependence"),
    (r", or a debias\.Permutation\b", ""),
    (r"\brefits are for\b", "--params is for"),
    (r"\bleave refits out\b", "leave --params out"),
    (r"\bparams=\{\}", "--params FILE"),
    (r"\bscorers=\['([^']*)'\]", r"--scorer '\1'"),
    (r"\b(tested|rows|level)='([^']*)'", r"--\1 '\2'"),
    (r"\btest='([^']*)'(?! is not one of)", r"--test \1"),
    (r"\btest=None\b", "--test none"),
    (r"\bn_permutations\b", "--permutations"),
    (r"\bn_jobs=(?=-?[0-9])", "--jobs "),
    (r"\brandom_state=(?=-?[0-9])", "--random-state "),
    # The folds of a cross-validation.
    (
        r"Likely causes: cv= has another random_state or shuffle than in training, the models",
        "Likely causes: --folds has other folds than in training, the models",
    ),
    (r"\. With labels as cv=, all other", ". All other"),
    (r"\bpass cv= as \(train, test\) positions", "audit them in Python, with (train, test) positions"),
    (r"\bcv=(?!\w)", "--folds"),
    (r"\breplace=True\b", "--replace"),
    (r"\bpart='\.\.\.'", "--part NAME"),
    (r"\b(at|label)=(?=')", r"--\1 "),
    # Arguments without a value.
    (r"\b(train|tested|test|groups|blocks|qid|params|level|rows)=(?![\w'\"({\[-])", r"--\1"),
    (r"\b(at|label|looks|series|timeout)=(?![\w'\"({\[-])", r"--\1"),
    (r"\bn_jobs=(?![\w-])", "--jobs"),
    (r"\bscorers=(?!\w)", "--scorer"),
    (r"\bsample_weight=?(?!\w)", "--weight"),
    (r"`(rows|train|blocks|qid|groups|params|level)`", r"--\1"),
    (r"\bleave (params|blocks|qid|groups|test|tested|level) out\b", r"leave --\1 out"),
    (r"\bleave out (params|blocks|qid|groups|test|tested|level)\b", r"leave out --\1"),
    (r"\b(params) (is|are|have|must)\b", r"--\1 \2"),
    (r"\b(blocks|qid|groups) (has|is|must)\b", r"--\1 \2"),
    # The table and the response.
    (r"\bX and y\b", "DATA"),
    (r"(?<![\w'\".\[(])X(?![\w'\"\[()]|\.\w)", "DATA"),
    (r"(?<=\. )y(?= \w)", "The response"),
    (r"(?<![\w'\".\[(])y(?![\w'\"\[(,)=]|\.\w)", "the response"),
    # Plain words need no quotes.
    (r"(--\w+) '([\w-]+)'", r"\1 \2"),
)
"""Patterns and what replaces them, applied one after the other."""


def in_options(text: str) -> str:
    """Return a message with options in place of arguments.

    Parameters
    ----------
    text : str

    Returns
    -------
    str

    Examples
    --------
    >>> from debias.cli.wording import in_options
    >>> in_options("Pass rows='held-out' and train=(X_train, y_train)")
    'Pass --rows held-out and --train FILE'
    """
    for pattern, option in RULES:
        text = re.sub(pattern, option, text)
    return text
