"""The note of a model whose leaves have lines, which comes before its scores."""

LINES = (
    "the leaves of these trees have lines. Scores and tests take the value of each leaf without its line: they see the "
    "splits on a feature, and not what its slopes inside the leaves add"
)
