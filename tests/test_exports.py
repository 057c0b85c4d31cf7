import inspect

import debias


def test_all_is_sorted_and_what_is_public():
    public = [name for name in vars(debias) if not name.startswith("_") and not inspect.ismodule(getattr(debias, name))]
    assert debias.__all__ == sorted(debias.__all__)
    assert sorted(public) == debias.__all__


def test_public_names_are_documented():
    for name in debias.__all__:
        assert inspect.getdoc(getattr(debias, name)), name
