"""A command: ``debias tree-sizes MODEL``."""

import click
import numpy as np

import debias


@click.command("tree-sizes")
@click.argument("model", type=click.Path(exists=True))
def tree_sizes(model):
    """Print the number of nodes of each tree in the file MODEL."""
    trees = debias.plugin.extract(debias.load_model(model))
    for number, size in enumerate(np.diff(trees.tree_start)):
        click.echo(f"tree {number}: {size} nodes")


@debias.plugin.hookimpl
def debias_commands():
    return [tree_sizes]
