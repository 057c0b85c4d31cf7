import ast
import re
from pathlib import Path

import pytest

from debias.cli.output import in_options

HOME = Path(__file__).parents[2]
ARGUMENT = re.compile(
    r"\b(rows|train|test|tested|scorers|level|groups|blocks|qid|params|random_state|n_jobs|error_rate|dependence|refits)="
    r"|sample_weight|n_permutations|debias\.(Dataset|Permutation|Refits)"
)
NOT_OF_COMMANDS = (
    "test='word' is not one of",  # --test, --error-rate and --random-state are checked before
    "error_rate='word' is not an error rate",
    "random_state='word' must be",
    "dependence='word' must be",
    "the Dataset of --train has no response",  # a command makes it itself
    "train must be (X_train, y_train)",
    "refits='word' must be",
    "(random_state='word'), so these",  # of a splitter of scikit-learn
    "debias.Permutation",  # of the log, beside what a command prints: --permutations is what it has of this
    "debias.load_model(path, params=",  # which goes on: in the shell --params
    "one thing can be said: params=",
)


def texts():
    """The texts of the library with arguments in them; 'word' and 12 stand for what is filled in."""
    for folder in ("debias", "adapters", "plugins"):
        for path in sorted((HOME / folder).rglob("*.py")):
            if {"debias_bench", "testing", "cli"} & set(path.parts):
                continue
            tree = ast.parse(path.read_text(encoding="utf-8"))
            bare = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}  # docstrings
            filled = [node for node in ast.walk(tree) if isinstance(node, ast.JoinedStr)]
            parts = {id(part) for node in filled for part in node.values}
            for node in ast.walk(tree):
                if id(node) in bare | parts:
                    continue
                text = node.value if isinstance(node, ast.Constant) else None
                if isinstance(node, ast.JoinedStr):
                    text = "".join(
                        part.value if isinstance(part, ast.Constant) else "'word'" if part.conversion == 114 else "12"
                        for part in node.values
                    )
                if isinstance(text, str) and " " in text and ARGUMENT.search(text):
                    yield text


@pytest.mark.thorough
def test_no_message_speaks_of_arguments():
    found = list(texts())
    assert len(found) > 60
    left = [text for text in map(in_options, found) if ARGUMENT.search(text)]
    assert [text for text in left if not any(known in text for known in NOT_OF_COMMANDS)] == []


@pytest.mark.parametrize(
    ("message", "expected"),
    [
        (
            "tested='mdi' uses no rows. To show it, pass scorers=['mdi']",
            "--tested mdi uses no rows. To show it, pass --scorer mdi",
        ),
        ("pass scorers=['ufi(x=1)']", "pass --scorer 'ufi(x=1)'"),
        ("with rows='held-out' and train=(X_train, y_train)", "with --rows held-out and --train FILE"),
        (
            "error_rate=('fdr', 0.1) cannot: pass test=debias.Permutation(n_permutations=99), or error_rate=0.1",
            "--error-method fdr --error-rate 0.1 cannot: pass --permutations 99, or --error-rate 0.1",
        ),
        ("Pass dependence=True to test it", "Pass --dependence to test it"),
        (
            "test=None. Audit again with test='auto', the default",
            "--test none. Audit again with --test auto, the default",
        ),
        (
            "X has not the columns of this Pipeline (unknown to it: day). Pass X[model.feature_names_in_], the columns "
            "that it was trained on",
            "DATA has not the columns of this Pipeline (unknown to it: day). Pass a table with the columns that it was "
            "trained on, in their order; --drop leaves a column out",
        ),
        ("Instead, pass the seed as random_state.", "Instead, pass the seed as --random-state."),
        ("Instead, pass training rows as train=(X_train, y_train).", "Instead, pass training rows as --train FILE."),
        (
            "which has all of them. To name columns that have no names, pass debias.Dataset(X, y, feature_names=...).",
            "which has all of them.",
        ),
        ("leave blocks and base_margin out", "leave --blocks and --base-margin out"),
        ("blocks, qid and base_margin need all rows", "--blocks, --qid and --base-margin need all rows"),
        ("cannot use test, blocks or base_margin: leave", "cannot use --blocks or --base-margin: leave"),
        ("pass them as base_margin", "pass them as --base-margin"),
        (
            "train= cannot be used together with base_margin=: the",
            "--train cannot be used together with --base-margin: the",
        ),
        ("there is no column 'base_margin'", "there is no column 'base_margin'"),
        ("pass train=debias.Dataset(X_train, y_train, qid=...), with", "pass --train FILE, with"),
        ("qid is for rankers: leave qid out", "--qid is for rankers: leave --qid out"),
        ("pass debias.Dataset(X, y, blocks=...), with the", "pass --blocks COLUMN, with the"),
        ("sample_weight must be finite", "--weight must be finite"),
        ("X has 3 features", "DATA has 3 features"),
        ("column 'X' of X is infinite in row 2", "column 'X' of DATA is infinite in row 2"),
        ("y has one class only", "the response has one class only"),
        ("R2 -3.63. y rises with y", "R2 -3.63. The response rises with the response"),
        ("permutation: error='x' is not one of 'fwer'", "permutation: error='x' is not one of 'fwer'"),
        ("Pass replace=True, or part='...' if", "Pass --replace, or --part NAME if"),
        (
            "at='x' is of another kind: pass at= of the same kind",
            "--at x is of another kind: pass --at of the same kind",
        ),
        ("pass a longer timeout=", "pass a longer --timeout"),
        ("the model y=1 was trained on", "the model y=1 was trained on"),
    ],
)
def test_arguments_become_options(message, expected):
    assert in_options(message) == expected
