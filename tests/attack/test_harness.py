"""The harness itself: each outcome is told, and the mutant that did it; else a table of zeros proves nothing."""

import ctypes
import json
import os
import time

import numpy as np
import pytest

from debias import DebiasError
from support import mutants

ORIGINAL = b"0"


def target(data):
    word = data.decode()
    if word == "clear":
        raise DebiasError("no")
    if word == "raw":
        raise KeyError("x")
    if word == "crash":
        ctypes.string_at(0)
    if word == "hang":
        time.sleep(60)
    if word == "code":
        os.system("true")
    if word == "memory":
        bytearray(1 << 40)
    return word


@pytest.mark.thorough
def test_every_outcome_is_told_of_the_mutant_that_did_it():
    words = ["clear", "0", "1", "raw", "crash", "0", "crash", "hang", "0", "code", "memory", "clear", "crash"]
    table = mutants.run([word.encode() for word in words], target, original=ORIGINAL)
    told = [case.outcome for case in table.cases]
    expected = {"0": "same", "1": "changed", "memory": "raw"}
    assert told == [expected.get(word, word) for word in words]
    assert [case.number for case in table.cases] == list(range(len(words)))
    assert "SIGSEGV" in table.cases[4].detail
    assert len(table.bad) == 7
    with pytest.raises(AssertionError, match="mutant 3: raw: KeyError"):
        table.require()


@pytest.mark.thorough
def test_memory_that_is_out_of_proportion_is_told_even_if_it_is_given_back():
    def target(data):
        np.ones(int(data) * 10**6 // 8)  # freed at once
        return 0

    table = mutants.run([b"250", b"350", b"100"], target, original=b"1")
    assert [case.outcome for case in table.cases] == ["same", "memory", "same"]
    for case, used in zip(table.cases, (250, 350, 100), strict=True):
        assert used - 20 < case.megabytes < used + 40
    with pytest.raises(AssertionError, match="mutant 1: memory: 3[0-9]{2} MB for 3 bytes"):
        table.require()


@pytest.mark.thorough
def test_what_ends_in_the_guard_does_not_reach_the_target():
    words = [b"crash", b"hang", b"clear", b"0"]
    table = mutants.run(words, lambda data: 0, guard=target, original=ORIGINAL)
    assert [case.outcome for case in table.cases] == ["guarded", "guarded", "clear", "same"]
    table.require()


def test_an_original_that_is_not_read_is_no_test():
    with pytest.raises(AssertionError, match="the original is not read: raw"):
        mutants.run([b"0"], target, original=b"raw")


def test_damage_is_seeded_and_leaves_the_original_alone():
    data = b'{"a": [1, 2, 3], "b": "7"}'
    assert mutants.damaged(data, 50, 1) == mutants.damaged(data, 50, 1) != mutants.damaged(data, 50, 2)
    assert mutants.damaged_lines(b"a=1 2\nb=3", 50, 1) == mutants.damaged_lines(b"a=1 2\nb=3", 50, 1)
    document = json.loads(data)
    found = mutants.damaged_documents(document, 200, 1)
    assert document == json.loads(data)
    assert sum(each != document for each in found) > 180
