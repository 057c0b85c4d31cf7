"""Damaged files (mutants), and what a reader does with each of them.

``run(mutants, target)`` passes each mutant (bytes) to ``target``, which reads it and returns what it read: arrays,
numbers or texts. This happens in forked child processes, so that a crash ends one child only. The outcomes are

- clear: a DebiasError or FileNotFoundError (or another error of `refusals`);
- same: the answer for the original file;
- changed: another answer, as for a file with other numbers;
- guarded: the child ended in `guard`, which in use runs in a separate process;
- raw: another exception;
- crash: the child died;
- hang: no answer in time;
- memory: more memory than 300 MB and 20 times the file, beyond what the process had before;
- code: a process, a pickle or a socket.

The parent should not have used threads before it forks (``threadpool_limits(1)``). It should have called the target
once, so that the children need not import or compile anything.
"""

import faulthandler
import gc
import hashlib
import json
import os
import pickle
import random
import re
import resource
import select
import signal
import sys
import time
import warnings
from collections import Counter
from dataclasses import dataclass, field

import numpy as np

from debias.errors import DebiasError

OUTCOMES = ("clear", "same", "changed", "guarded", "raw", "crash", "hang", "memory", "code")
BAD = ("raw", "crash", "hang", "memory", "code")
MEGABYTES, TIMES_THE_FILE = 300, 20
"""Memory that reading a mutant may take."""
CODE = ("os.system", "os.exec", "os.posix_spawn", "os.fork", "subprocess.Popen", "socket.connect", "pickle.find_class")
"""Python's audit events that reading a file has no reason to raise."""
EXTREMES = (0, 1, -1, 2, 127, 255, 32767, 65536, 2**31 - 1, -(2**31), 2**31, 2**32 - 1, 2**32, 2**63 - 1, -(2**63))
TEXTS = ("nan", "inf", "-inf", "1e300", "-1e300", "1e999", "", "x", "-0", "99999999999999999999", "2000000000")


@dataclass(frozen=True)
class Case:
    """The outcome of one mutant."""

    number: int
    outcome: str
    detail: str
    seconds: float
    megabytes: float = 0.0


@dataclass
class Table:
    """The outcomes of all mutants of a format. `str` gives a row of the printed table, ``heading()`` its heading."""

    name: str
    cases: list[Case] = field(default_factory=list)
    seconds: float = 0.0

    @property
    def counts(self):
        """Number of mutants by outcome."""
        return Counter(case.outcome for case in self.cases)

    @property
    def bad(self):
        """Cases with an outcome that must not happen."""
        return [case for case in self.cases if case.outcome in BAD]

    @staticmethod
    def heading():
        return "| format | mutants | " + " | ".join(OUTCOMES) + " | slowest, s | all, s | most MB |"

    def __str__(self):
        numbers = " | ".join(str(self.counts[outcome]) for outcome in OUTCOMES)
        slowest = max((case.seconds for case in self.cases), default=0.0)
        most = max((case.megabytes for case in self.cases), default=0.0)
        return f"| {self.name} | {len(self.cases)} | {numbers} | {slowest:.1f} | {self.seconds:.0f} | {most:.0f} |"

    def require(self):
        """Fail if there are bad cases, and show the first of them; fail also if no mutant was refused."""
        told = "\n".join(f"  mutant {case.number}: {case.outcome}: {case.detail}" for case in self.bad[:10])
        assert not self.bad, f"{self}\n{told}"
        assert self.counts["clear"] + self.counts["guarded"], f"no mutant was refused: {self}"


def run(mutants, target, *, original, name="", guard=None, seconds=10.0, memory=4 << 30, refusals=(FileNotFoundError,)):
    """Pass every mutant to a reader and return the outcomes.

    Parameters
    ----------
    mutants : sequence of bytes
    target : callable
        Takes the bytes of a mutant. Its result is compared with that for the original.
    original : bytes
        The undamaged file, which the target must be able to read.
    name : str
        Name of the format in the table.
    guard : callable, optional
        Takes the bytes before the target does. In use it runs in a separate process, so a crash or hang in it is the
        outcome "guarded".
    seconds : float
        Time limit for each mutant.
    memory : int
        Bytes that a child may allocate beyond what it has at its start.
    refusals : tuple of type
        Exceptions besides DebiasError that count as clear.
    """
    files, table, begin, first = [original, *mutants], Table(name), time.monotonic(), 0
    answer = None
    while first < len(files):
        for number, outcome, detail, took, most in _child(files, first, target, guard, seconds, memory, refusals):
            first = number + 1
            if number == 0:
                assert outcome == "read", f"{name}: the original is not read: {outcome}: {detail}"
                answer = detail
                continue
            if outcome == "read":
                outcome, detail = ("same", "") if detail == answer else ("changed", "")
            table.cases.append(Case(number - 1, outcome, detail, took, most))
    table.seconds = time.monotonic() - begin
    return table


def _child(files, first, target, guard, seconds, memory, refusals):
    """Fork a child and yield the outcome of each file from `first` on, until one ends the child."""
    readable, writable = os.pipe()
    sys.stdout.flush()
    sys.stderr.flush()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # forks beside threads, from Python 3.12 on
        child = os.fork()
    if child == 0:
        os.close(readable)
        _try_all(files, first, target, guard, memory, refusals, writable)
    os.close(writable)
    at, in_guard, begin, rest = first, False, time.monotonic(), b""
    try:
        while True:
            ready, _, _ = select.select([readable], [], [], max(0.0, begin + seconds - time.monotonic()))
            if not ready:
                os.kill(child, signal.SIGKILL)
                os.waitpid(child, 0)
                child = None
                yield at, "guarded" if in_guard else "hang", f"no answer in {seconds:g} s", seconds, 0.0
                return
            rest += os.read(readable, 1 << 16)
            *lines, rest = rest.split(b"\n")
            for line in lines:
                number, outcome, detail, took, most = json.loads(line)
                if outcome == "guard":
                    in_guard = True
                elif outcome == "target":
                    in_guard = False
                else:
                    at, in_guard, begin = number + 1, False, time.monotonic()
                    yield number, outcome, detail, took, most
            if not lines:  # the pipe is closed
                status = os.waitpid(child, 0)[1]
                child = None
                if at < len(files):
                    ended = signal.Signals(status & 127).name if status & 127 else f"exit code {status >> 8}"
                    yield at, "guarded" if in_guard else "crash", ended, time.monotonic() - begin, 0.0
                return
    finally:
        os.close(readable)
        if child is not None:
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)


def _try_all(files, first, target, guard, memory, refusals, writable):
    """Try the files in order, write the outcome of each to the pipe, and end the process."""
    nowhere = os.open(os.devnull, os.O_RDWR)
    for stream in (0, 1, 2):
        os.dup2(nowhere, stream)
    faulthandler.disable()  # pytest's would write to the terminal
    gc.freeze()
    used = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()  # noqa: SIM115
    resource.setrlimit(resource.RLIMIT_AS, (used + memory, used + memory))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    seen = []
    sys.addaudithook(lambda event, _: seen.append(event) if event in CODE else None)

    def tell(*words):
        os.write(writable, json.dumps(words).encode() + b"\n")

    for number in range(first, len(files)):
        seen.clear()
        before = _megabytes("VmRSS")
        _forget_the_peak()
        begin = time.monotonic()
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                if guard is not None:
                    tell(number, "guard", "", 0, 0)
                    guard(files[number])
                    tell(number, "target", "", 0, 0)
                found = target(files[number])
            outcome, detail = "read", _digest(found)
        except (DebiasError, *refusals) as error:
            outcome, detail = "clear", f"{type(error).__name__}: {error}"[:300]
        except BaseException as error:  # whatever else it is, it is no clear refusal
            outcome, detail = "raw", f"{type(error).__name__}: {error}"[:300]
        if seen:
            outcome, detail = "code", ", ".join(seen)
        took, most = time.monotonic() - begin, _megabytes("VmHWM") - before
        if outcome not in BAD and most > MEGABYTES + TIMES_THE_FILE * len(files[number]) / 1e6:
            outcome, detail = "memory", f"{most:,.0f} MB for {len(files[number]):,} bytes"
        tell(number, outcome, detail, took, most)
    os._exit(0)


def _megabytes(name):
    """Return a number of the memory of this process: VmRSS is in use, VmHWM was in use at most."""
    with open("/proc/self/status") as file:
        return next(int(line.split()[1]) * 1024 / 1e6 for line in file if line.startswith(name + ":"))


def _forget_the_peak():
    with open("/proc/self/clear_refs", "w") as file:
        file.write("5")


def _digest(found):
    return hashlib.sha256(pickle.dumps(found)).hexdigest()


# Damage ---------------------------------------------------------------------------------------------------------------


def damaged(data, count, seed):
    """Return mutants of any file: bytes changed, spans cut off, removed, repeated or exchanged, numbers replaced."""
    draw = random.Random(seed)
    ways = (_flip, _flip, _cut_off, _remove, _repeat, _exchange, _replace_integer, _replace_number, _replace_number)
    return [draw.choice(ways)(data, draw) for _ in range(count)]


def damaged_numbers(data, count, seed):
    """Return mutants of binary numbers. They have at most as many bytes; some bytes become extreme numbers."""
    draw = random.Random(seed)
    return [draw.choice((_flip, _replace_integer))(data, draw)[: len(data)] if data else data for _ in range(count)]


def damaged_lines(data, count, seed):
    """Return mutants of a text: a line removed, a line repeated elsewhere, or a word of a line replaced."""
    draw, mutants = random.Random(seed), []
    for _ in range(count):
        lines = data.split(b"\n")
        for _ in range(draw.choice((1, 1, 1, 2, 4))):
            at = draw.randrange(len(lines))
            way = draw.randrange(4)
            if way == 0 and len(lines) > 1:
                del lines[at]
            elif way == 1:
                lines.insert(at, lines[draw.randrange(len(lines))])
            else:
                words = re.split(rb"([ =:,]+)", lines[at])
                words[draw.randrange(0, len(words), 2)] = _number(draw)
                lines[at] = b"".join(words)
        mutants.append(b"\n".join(lines))
    return mutants


def damaged_documents(document, count, seed):
    """Return mutants of a JSON document: values replaced, removed, repeated, nested, or of another type.

    Parameters
    ----------
    document : dict or list
        The document; it is not changed.
    count, seed : int
    """
    draw, text, mutants = random.Random(seed), json.dumps(document), []
    for _ in range(count):
        copy = json.loads(text)
        for _ in range(draw.choice((1, 1, 1, 2, 4))):
            _edit(copy, draw)
        mutants.append(copy)
    return mutants


def _edit(document, draw):
    """Change one place. All entries of a level are equally likely, so that settings change as often as long arrays."""
    holder, key = None, None
    here = document
    while isinstance(here, (dict, list)) and len(here) and (holder is None or draw.random() < 0.9):
        holder = here
        key = draw.choice(list(here)) if isinstance(here, dict) else draw.randrange(len(here))
        here = here[key]
    if holder is None:
        return
    way = draw.randrange(8)
    if way == 0:
        del holder[key]
    elif way == 1 and isinstance(here, list):
        holder[key] = here[: draw.randrange(len(here) + 1)]
    elif way == 2 and isinstance(here, list):
        holder[key] = here + here
    elif way == 3:
        holder[key] = draw.choice(([], {}, None, True, "x", 1.5, [[]], [here], {"x": here}))
    elif way == 4 and isinstance(holder, list):
        holder.insert(key, here)
    elif isinstance(here, str):
        holder[key] = draw.choice((str(draw.choice(EXTREMES)), draw.choice(TEXTS), here[:-1], here * 2))
    else:
        holder[key] = draw.choice((*EXTREMES, 1e300, -1e300, 0.5, str(draw.choice(EXTREMES))))


def _span(data, draw):
    begin = draw.randrange(len(data))
    return begin, min(len(data), begin + draw.choice((1, 2, 4, 8, 64, 1024)))


def _flip(data, draw):
    changed = bytearray(data)
    for _ in range(draw.choice((1, 1, 2, 8))):
        changed[draw.randrange(len(data))] = draw.randrange(256)
    return bytes(changed)


def _cut_off(data, draw):
    return data[: draw.randrange(len(data))]


def _remove(data, draw):
    begin, end = _span(data, draw)
    return data[:begin] + data[end:]


def _repeat(data, draw):
    begin, end = _span(data, draw)
    return data[:end] + data[begin:end] * draw.choice((1, 1, 3)) + data[end:]


def _exchange(data, draw):
    begin, end = _span(data, draw)
    other = draw.randrange(len(data))
    return data[:begin] + data[other : other + end - begin] + data[end:]


def _replace_integer(data, draw):
    """Write an extreme number over some bytes, as a binary format stores it."""
    size, order = draw.choice((2, 4, 8)), draw.choice(("little", "big"))
    number = draw.choice(EXTREMES) % 256**size
    at = draw.randrange(max(1, len(data) - size))
    return data[:at] + number.to_bytes(size, order) + data[at + size :]


def _replace_number(data, draw):
    """Replace a decimal number in a text, or bytes if the file has no such number."""
    at = draw.randrange(len(data))
    found = re.compile(rb"-?\d[\d.eE+-]*").search(data, at) or re.compile(rb"-?\d[\d.eE+-]*").search(data)
    if found is None:
        return _replace_integer(data, draw)
    return data[: found.start()] + _number(draw) + data[found.end() :]


def _number(draw):
    return (str(draw.choice(EXTREMES)) if draw.random() < 0.6 else draw.choice(TEXTS)).encode()


def answer_of(scores):
    """Return shape and bytes of arrays, for comparisons in which NaN equals NaN."""
    return [(np.asarray(each).shape, np.ascontiguousarray(each).tobytes()) for each in scores]
