"""Names of the columns that scikit-learn's transformers make."""

from __future__ import annotations

from typing import Any


def names_out(transformer: Any, names: tuple[str, ...]) -> tuple[str, ...] | None:
    """Return the names that a transformer gives to its columns; None if it gives none, or one twice.

    A part of a ColumnTransformer that gives no names, as a function, has those of its input columns if it makes as many
    columns as it takes, and otherwise numbers.

    Parameters
    ----------
    transformer : fitted transformer, or "passthrough" or None
    names : tuple of str
        Names of its input columns.
    """
    found = _names(transformer, names)
    return found if found is not None and len(set(found)) == len(found) else None


def _names(transformer: Any, names: tuple[str, ...]) -> tuple[str, ...] | None:
    from sklearn.compose import ColumnTransformer
    from sklearn.pipeline import Pipeline

    if transformer is None or (isinstance(transformer, str) and transformer == "passthrough"):
        return names
    for arguments in ((), (names,)):
        try:
            return tuple(str(name) for name in transformer.get_feature_names_out(*arguments))
        except (AttributeError, ValueError, TypeError):  # it has no names, or takes others, or a part of it has none
            continue
    if isinstance(transformer, Pipeline):
        found: tuple[str, ...] | None = names
        for _, step in transformer.steps:
            found = None if found is None else _names(step, found)
        return found
    return _of_parts(transformer, names) if isinstance(transformer, ColumnTransformer) else None


def _of_parts(transformer: Any, names: tuple[str, ...]) -> tuple[str, ...]:
    slices = transformer.output_indices_
    found = [""] * max(output_slice.stop for output_slice in slices.values())
    for name, part, _ in transformer.transformers_:
        n_columns = slices[name].stop - slices[name].start
        if n_columns == 0:
            continue
        inputs = tuple(names[k] for k in transformer._transformer_to_input_indices[name])
        of_part = _names(part, inputs)
        if of_part is None:
            of_part = inputs if len(inputs) == n_columns else tuple(f"{name}{k}" for k in range(n_columns))
        prefix = f"{name}__" if transformer.verbose_feature_names_out is True else ""
        found[slices[name]] = [prefix + column for column in of_part]
    return tuple(found)
