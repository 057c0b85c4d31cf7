import inspect

import debias


def test_all_is_sorted_and_what_is_public():
    public = [name for name in vars(debias) if not name.startswith("_") and not inspect.ismodule(getattr(debias, name))]
    assert debias.__all__ == sorted(debias.__all__)
    assert sorted(public) == debias.__all__


def test_the_top_has_at_most_thirty_names():
    assert len(debias.__all__) <= 30


def test_authors_and_pictures_have_modules_of_their_own_that_are_there_without_an_import():
    for module in (debias.plugin, debias.plot):
        assert module.__all__ == sorted(name for name in vars(module) if not name.startswith("__"))
        assert not set(module.__all__) & set(debias.__all__)


def test_public_names_are_documented():
    for name in debias.__all__:
        assert inspect.getdoc(getattr(debias, name)), name
