"""What a user does with an installed debias, in an empty folder: ``python as_a_user.py FOLDER_OF_A_PLUGIN``.

The demo, an audit of a model file on the command line, the selector in a pipeline, and the plugin of a third party. The
folder of the checkout must not be on the path; this file checks that.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import debias

COMMAND = str(Path(sys.executable).with_name("debias.exe" if sys.platform == "win32" else "debias"))


def run(*words: str) -> str:
    """Run a command, and return what it prints."""
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    print("$", " ".join(words), flush=True)
    if done.returncode:
        sys.exit(f"exit code {done.returncode}\n{done.stdout}\n{done.stderr}")
    return done.stdout


def main(plugin: str) -> None:
    """Do it all, and exit with what failed."""
    home = Path(debias.__file__).parent
    assert "site-packages" in home.parts, f"debias is imported from {home}, and not from an installed wheel"
    printed = run(COMMAND, "demo")
    assert "features are informative" in printed, printed
    print(run(COMMAND, "doctor"))
    _audit_a_file()
    _select_in_a_pipeline()
    run(sys.executable, "-m", "pip", "install", "--quiet", plugin)
    listed = run(COMMAND, "plugins", "--format", "csv")
    assert "debias-toy" in listed, listed


def _audit_a_file() -> None:
    from sklearn.datasets import load_diabetes
    from xgboost import XGBRegressor

    X, y = load_diabetes(return_X_y=True, as_frame=True)
    XGBRegressor(n_estimators=30, max_depth=3).fit(X[:300], y[:300]).save_model("model.ubj")
    X[300:].assign(outcome=y[300:]).to_csv("heldout.csv", index=False)
    printed = run(COMMAND, "audit", "model.ubj", "heldout.csv", "--target", "outcome", "--html", "report.html")
    assert "Scored on 142 assumed held-out rows" in printed, printed
    assert "<html" in Path("report.html").read_text(encoding="utf-8")


def _select_in_a_pipeline() -> None:
    from sklearn.datasets import load_diabetes
    from sklearn.ensemble import RandomForestRegressor
    from sklearn.pipeline import make_pipeline

    from debias.selection import DebiasedSelector

    X, y = load_diabetes(return_X_y=True, as_frame=True)
    forest = RandomForestRegressor(50, random_state=0)
    pipeline = make_pipeline(DebiasedSelector(forest, threshold="informative", random_state=0), forest).fit(X, y)
    kept = list(pipeline[0].get_feature_names_out())
    assert "bmi" in kept and "sex" not in kept, kept  # noqa: PT018
    print("the selector kept", ", ".join(kept))


if __name__ == "__main__":
    main(sys.argv[1])
