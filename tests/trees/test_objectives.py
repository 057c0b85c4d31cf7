import pickle

import pytest

import debias
from debias.trees.objectives import LOSSES, CustomObjective, Objective


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("sqared", "no loss 'sqared'. Did you mean 'squared_error'. There are: squared_error, logistic, .*, softmax"),
        ("log_loss", "no loss 'log_loss'.*There are: .*CustomObjective"),
        (None, "no loss None"),
    ],
)
def test_an_unknown_loss_is_refused_with_the_list(name, message):
    with pytest.raises(debias.plugin.CompositionError, match=message):
        Objective(name)


@pytest.mark.parametrize("name", [*LOSSES, "softmax"])
def test_known_losses_survive_a_pickle(name):
    objective = Objective(name, (0.5,))
    assert pickle.loads(pickle.dumps(objective)) == objective
    assert isinstance(objective.code, int)


def test_a_custom_objective_may_have_any_name():
    assert CustomObjective("of mine").name == "of mine"
