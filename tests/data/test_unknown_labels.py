"""Tests of labels that a model never saw: they are missing values, or have a code of their own."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from debias.data.table import Table
from debias.errors import DebiasWarning
from debias.testing.scorers import TASKS, toy_rows
from debias.warning_log import WarningLog


@pytest.mark.parametrize(("code", "said"), [(np.nan, "as missing"), (0.0, "as one category, that of unknown values")])
def test_the_ensemble_says_what_unknown_labels_are(code, said):
    labels = np.array(["(rest)", "a", "b"], dtype=object)
    ensemble = replace(toy_rows(TASKS[0]).ensemble, category_labels={4: labels}, unknown_label=code)
    X = pd.DataFrame(np.zeros((4, 4)), columns=ensemble.feature_names[:4]).assign(last=["b", "new", None, "a"])
    with pytest.warns(DebiasWarning, match=said):
        table = Table(X).aligned_to(ensemble, WarningLog())
    np.testing.assert_array_equal(table.matrix(ensemble)[:, 4], [2.0, code, np.nan, 1.0])
