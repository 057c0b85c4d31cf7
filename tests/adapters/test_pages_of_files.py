"""The recipes on the pages of model files, run as they are written: the Python block and the command."""

import re
import shlex
from pathlib import Path

import pandas as pd
import pytest
from sklearn.tree import DecisionTreeRegressor

import debias
from debias.cli import main

HERE = Path(__file__).parents[2]
OLD_FILES = HERE / "tests" / "old_files"
N_TRAIN = 150


def of_h2o(folder):
    """Return a model of H2O 3.46.0.7 with the rows it was made for."""
    (folder / "model.zip").write_bytes((OLD_FILES / "h2o" / "3.46" / "gbm_gaussian.zip").read_bytes())
    return pd.read_csv(OLD_FILES / "h2o" / "rows.csv"), "y"


def of_pmml(folder):
    """Return a model that sklearn2pmml wrote."""
    (folder / "model.pmml").write_bytes((OLD_FILES / "pmml" / "light.pmml").read_bytes())
    return pd.read_csv(OLD_FILES / "pmml" / "rows.csv"), "y"


def of_onnx(folder):
    """Return a tree that skl2onnx writes now. Of several trees the page says what else must be told."""
    pytest.importorskip("onnxruntime")
    skl2onnx = pytest.importorskip("skl2onnx")
    rows = pd.read_csv(OLD_FILES / "pmml" / "rows.csv").select_dtypes("number").dropna().astype("float32")
    X, y = rows.drop(columns="y"), rows["y"]
    tree = DecisionTreeRegressor(max_depth=4).fit(X[:N_TRAIN].to_numpy(), y[:N_TRAIN])
    (folder / "model.onnx").write_bytes(skl2onnx.to_onnx(tree, X[:1].to_numpy()).SerializeToString())
    return rows, "y"


PAGES = {"h2o": of_h2o, "pmml": of_pmml, "onnx": of_onnx}


@pytest.mark.filterwarnings("ignore::debias.DebiasWarning")
@pytest.mark.parametrize(
    "page", [pytest.param(page, marks=[pytest.mark.thorough] * (page != "pmml")) for page in PAGES]
)
def test_the_recipe_of_the_page_runs_as_it_is_written(page, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    text = (HERE / "docs" / "libraries" / f"{page}.md").read_text()
    rows, response = PAGES[page](tmp_path)
    file = next(tmp_path.glob("model.*"))
    of_model = getattr(debias.load_model(str(file)), "names", None)
    names = [name for name in rows if name != response] if of_model is None else list(of_model)
    rows = rows[[*names, response]]
    block = re.search(r"^```(?:python)?\n(model = .*?)^```", text, flags=re.M | re.S)[1]
    assert f'debias.load_model("{file.name}")' in block
    inside = {"debias": debias}
    for part, these in (("train", rows[:N_TRAIN]), ("test", rows[N_TRAIN:])):
        inside |= {f"X_{part}": these[names], f"y_{part}": these[response]}
    *before, last = block.strip().splitlines()
    exec("\n".join(before), inside)  # noqa: S102 - it is our own page
    audit = eval(last, inside)  # noqa: S307
    assert audit.tested

    (command,) = re.findall(rf"`(debias audit {re.escape(file.name)} test\.csv [^`]*)`", text)
    rows[N_TRAIN:].rename(columns={response: "target" if "--target target" in command else "y"}).to_csv(
        "test.csv", index=False
    )
    with pytest.raises(SystemExit) as ended:
        main(shlex.split(command)[1:])
    assert ended.value.code in (0, None)
    assert "informative" in capsys.readouterr().out
