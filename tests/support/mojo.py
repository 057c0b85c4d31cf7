"""A writer of MOJOs: the trees of any model as the file that H2O-3 writes of a GBM or a DRF."""

from __future__ import annotations

import io
import struct
import zipfile

import numpy as np

RIGHT, LEFT = 3, 2
"""Ways of missing values."""
SIZE_BYTES = 4


def mojo(ensemble, response="y", **values):
    """Return the bytes of a MOJO with the trees of an ensemble: a GBM if its trees are added, else a DRF.

    Trees must have one output. Thresholds and values are rounded to 32 bits. `values` replace those of ``model.ini``;
    None leaves one out.
    """
    labels = ensemble.category_labels or {}
    kind = "Distributed Random Forest" if ensemble.averaged else "Gradient Boosting Machine"
    stated = {
        "h2o_version": "3.46.0.7",
        "mojo_version": "1.40",
        "algorithm": kind,
        "endianness": "LITTLE_ENDIAN",
        "supervised": "true",
        "n_features": ensemble.n_features,
        "n_classes": 1,
        "n_columns": ensemble.n_features + 1,
        "balance_classes": "false",
        "escape_domain_values": "true",
        "n_trees": ensemble.n_trees,
        "n_trees_per_class": 1,
        "_genmodel_encoding": "AUTO",
        "distribution": "gaussian",
        "link_function": "identity",
        "init_f": float(ensemble.base[0]),
        **values,
    }
    lines = ["[info]", *(f"{name} = {value}" for name, value in stated.items() if value is not None), "[columns]"]
    lines += [*ensemble.feature_names, response, "[domains]"]
    lines += [f"{k}: {len(labels[k])} d{number:03d}.txt" for number, k in enumerate(labels)]
    members = {"model.ini": "\n".join(lines).encode()}
    for number, k in enumerate(labels):
        text = "".join(str(label).replace("\\", "\\\\").replace("\n", "\\n") + "\n" for label in labels[k])
        members[f"domains/d{number:03d}.txt"] = text.encode()
    for tree in range(ensemble.n_trees):
        records = []
        members[f"trees/t00_{tree:03d}.bin"] = written(ensemble, tree, records)
        members[f"trees/t00_{tree:03d}_aux.bin"] = b"".join(records)
    return packed(members)


def packed(members):
    """Return a zip file."""
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    return file.getvalue()


def unpacked(content):
    """Return the members of a zip file."""
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def written(ensemble, tree, records):
    """Return the bytes of a tree, and add the records of its splits."""
    begin = int(ensemble.tree_start[tree])
    weight = summed(ensemble, tree)
    if ensemble.left[begin] < 0:
        return struct.pack("<BHf", 0, 65_535, ensemble.value[begin, 0])

    def part(node):
        at = begin + node
        if ensemble.left[at] < 0:
            return struct.pack("<f", ensemble.value[at, 0])
        left, right = int(ensemble.left[at]), int(ensemble.right[at])
        place = len(records)
        records.append(None)
        rule, kind = rule_of(ensemble, at)
        inside, after = part(left), part(right)
        left_is_leaf, right_is_leaf = (ensemble.left[begin + child] < 0 for child in (left, right))
        flags = kind | (48 if left_is_leaf else SIZE_BYTES - 1) | (0xC0 if right_is_leaf else 0)
        numbers = [weight[left], weight[right], *(ensemble.value[begin + child, 0] for child in (left, right)), 0, 0]
        records[place] = struct.pack("<ii6fii", node, 0, *numbers, left, right)
        size = b"" if left_is_leaf else len(inside).to_bytes(SIZE_BYTES, "little")
        way = LEFT if ensemble.missing_left[at] else RIGHT
        return struct.pack("<BHB", flags, ensemble.feature[at], way) + rule + size + inside + after

    return part(0)


def rule_of(ensemble, at):
    """Return the bytes of the test of a split, and the flags of its kind."""
    if ensemble.category_set is None or ensemble.category_set[at] < 0:
        above = np.float32(ensemble.threshold[at])
        if above <= ensemble.threshold[at]:
            above = np.nextafter(above, np.float32(np.inf))
        return struct.pack("<f", above), 0
    which = ensemble.category_set[at]
    codes = ensemble.category_codes[slice(*ensemble.category_start[which : which + 2])]
    n_labels = len(ensemble.category_labels[int(ensemble.feature[at])])
    right = np.full(n_labels, bool(ensemble.listed_left[which]))
    right[codes[codes < n_labels]] = not ensemble.listed_left[which]
    return struct.pack("<HI", 0, n_labels) + np.packbits(right, bitorder="little").tobytes(), 12


def summed(ensemble, tree):
    """Return the training weight of each node of a tree, from those of the leaves."""
    view = ensemble.tree(tree)
    begin, end = ensemble.tree_start[tree : tree + 2]
    weight = np.where(view.left < 0, np.ones(end - begin) if ensemble.averaging_weight is None
                      else ensemble.averaging_weight[begin:end], 0.0)  # fmt: skip
    for node in range(len(weight) - 1, 0, -1):
        weight[view.parent[node]] += weight[node]
    return weight
