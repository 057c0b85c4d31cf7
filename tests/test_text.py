"""Names that hold what is not seen, turn the line, or run in a spreadsheet."""

import csv
import io
import json
import unicodedata
import warnings
from xml.etree import ElementTree

import numpy as np
import pandas as pd
import pytest

import debias
from debias.cli.output import warn
from debias.results.console import print_audit, print_gate, print_scores
from debias.text import (
    escaped,
    few_digits,
    json_text,
    listed,
    message,
    name_in_text,
    shortened,
    shortened_apart,
    to_csv,
    told_apart,
    with_sign,
)
from support.audits import made
from support.versions import READ_EXACTLY

UNSEEN = [
    "lone \ud800 surrogate",
    "\udcff",
    "in\u202ecome",
    "\u2066isolate\u2069",
    "zero\u200bwidth",
    "\ufefffirst",
    "esc\x1b[31mred",
    "line\nbreak",
    "car\rriage",
    "para\u2029graph",
    "tag\U000e0041",
    "bell\x07\x00",
]
FORMULAS = ["=1+1", "+1+1", "-1+1", "@SUM(A1)", "\t=1", "\r=1", "\n=1", " =1+1", "\uff1d1", 'a;=HYPERLINK("x")', "a,=1"]


def seen(text):
    return not any(unicodedata.category(c) in ("Cc", "Cf", "Cs", "Zl", "Zp") and c not in "\n" for c in text)


@pytest.mark.thorough
@pytest.mark.parametrize("name", UNSEEN)
def test_every_output_shows_what_is_not_seen(name, capsys):
    from rich.console import Console

    audit = made([name, "b", "c"], warnings=(f"column {name!r}: {name}",))
    gate = audit.check({"must_be_informative": [name], "must_not_matter": ["b"]})
    assert seen(escaped(name))
    assert name != escaped(name)
    assert escaped(name) == escaped(escaped(name))
    html = audit.to_html()
    html.encode()
    assert seen(html)
    assert escaped(name) in html.replace("_<wbr>", "_").replace("&#34;", '"')
    for text in (audit._repr_html_(), audit.tested_scores._repr_html_(), gate.to_markdown(), *gate.to_annotations()):
        assert seen(text.encode().decode())
    for text in (audit.to_csv(), audit.tested_scores.to_csv(), gate.to_csv()):
        assert seen(text.encode().decode())
        assert escaped(name) in text
    junit = gate.to_junit()
    assert seen(junit)
    ElementTree.fromstring(junit.encode())
    with io.StringIO() as file:
        console = Console(file=file, width=200)
        print_audit(console, audit)
        print_scores(console, audit.tested_scores)
        print_gate(console, gate)
        assert seen(file.getvalue())
        assert escaped(name) in file.getvalue()
    warn(audit.warnings)
    assert seen(capsys.readouterr().err)


@pytest.mark.parametrize("name", UNSEEN)
def test_json_and_data_frames_keep_names_as_they_are(name):
    audit = made([name, "b", "c"])
    assert audit.to_json().isascii()
    assert debias.Audit.from_json(audit.to_json()).tested_scores.feature_names[0] == name
    assert name in audit.to_frame().index
    json.loads(audit.check({"must_be_informative": [name]}).to_json())


def test_plots_draw_them(tmp_path):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        axes = made(UNSEEN).plot()
        axes.figure.savefig(tmp_path / "figure.png")
    assert all(seen(label.get_text()) for label in axes.get_yticklabels())


def test_names_that_are_seen_stay_as_they_are():
    for name in ("", "age", "a_b c", "年齢", "возраст", "é", "naïve €", "[red]", r"C:\x", "😀"):
        assert escaped(name) == name


def test_a_name_in_a_message_begins_no_line():
    assert message("column 'a\nerror: all is well' is\x1b[2K odd") == "column 'a\n  error: all is well' is\\x1b[2K odd"


@pytest.mark.parametrize("name", FORMULAS)
def test_a_spreadsheet_runs_nothing(name):
    audit = made([name, "b", "c"])
    gate = audit.check({"must_be_informative": [name]})
    for text in (audit.to_csv(), audit.tested_scores.to_csv(), gate.to_csv()):
        for separator in ",;\t":
            for row in csv.reader(io.StringIO(text), delimiter=separator):
                for cell in row:
                    begins = cell.lstrip()[:1] in tuple("=+-@\uff1d\t\r")
                    number = not begins or cell.lstrip("+-").replace(".", "", 1).replace("e-", "").isdigit()
                    assert number, (separator, cell)


def test_numbers_of_a_table_are_not_touched(tmp_path):
    audit = made(["=a", "b", "c"])
    read = pd.read_csv(io.StringIO(audit.to_csv(tmp_path / "table.csv")), index_col="feature", **READ_EXACTLY)
    assert sorted(read.index) == ["'=a", "b", "c"]
    for name in read.columns:
        if name != "verdict":
            np.testing.assert_array_equal(read[name].to_numpy(), audit.to_frame()[name].to_numpy())
    assert (tmp_path / "table.csv").read_text() == audit.to_csv()
    frame = pd.DataFrame(
        {"number": [-1.5, np.nan], "text": ["-1.5", "-5%"], "=x": [True, False]}, index=["-3", "+4e-2"]
    )
    assert to_csv(frame) == ",number,text,'=x\n-3,-1.5,-1.5,True\n+4e-2,,-5%,False\n"


def test_long_lists_of_names_are_cut():
    assert listed(list("abc"), 2) == "a, b and 1 more"
    assert listed(list("ab"), 2) == "a, b"


@pytest.mark.parametrize("indent", [None, 0, 2])
def test_json_is_read_unchanged_and_lists_of_plain_values_have_one_line(indent):
    odd = ['a "quote", and more', "[", "]", "{}", "\\", '\\"', "line\nfeed", ",\n  x", "##[group]", ""]
    value = {"texts": odd, "numbers": [1, -2.5, 1e300, None, True], "nested": [[1, 2], ["a"]], "empty": [], "of": [{}]}
    value["inside"] = {"again": {"texts": odd}, "[1,\n2]": "[\n1\n]"}
    text = json_text(value, indent=indent)
    assert json.loads(text) == value
    assert "[1,-2.5,1e+300,null,true]" in text
    assert '["[","]","{}"' in json_text({"texts": odd[1:]}, indent=indent)
    assert ("\n" in text) == (indent is not None)


@pytest.mark.parametrize("number", [0.0, 0.5, 1.234567, 12.34, 99.94, 99.96, 999.6, 3256.4, 12345678.9, 1e-3])
@pytest.mark.parametrize("sign", [1, -1])
@pytest.mark.parametrize("digits", [2, 3])
def test_a_number_in_a_sentence_has_its_first_digits_and_no_exponent_above_1(number, sign, digits):
    text = few_digits(sign * number, digits)
    assert "e" not in text
    read = float(text.replace(",", ""))
    assert abs(read - sign * number) <= 0.5 * max(10.0 ** -(digits - 1) * abs(number), 0) + 1e-12
    assert with_sign(sign * number).lstrip("+") == few_digits(sign * number)
    assert with_sign(sign * number).startswith("+" if sign * number >= 0 else "-")


def test_numbers_that_are_not_known_and_very_small_ones_are_written_too():
    assert few_digits(float("nan")) == with_sign(float("nan")) == "nan"
    assert few_digits(1.5e-7) == "1.5e-07"


def test_nothing_is_minus_nothing_and_no_number_is_as_long_as_a_line():
    assert few_digits(-0.0) == "0"
    assert with_sign(-0.0) == "+0"
    assert few_digits(99_999_999) == "99,999,999"
    assert few_digits(1e14) == "1e+14"
    assert few_digits(1.234e22) == "1.23e+22"


def test_numbers_that_differ_look_different():
    assert told_apart(0.41212, 0.41238) == ("0.4121", "0.4124")
    assert told_apart(100.2, 100.4) == ("100.2", "100.4")
    assert told_apart(0.5, 0.6) == ("0.5", "0.6")
    assert told_apart(0.5, 0.5) == told_apart(0.5, 0.5 + 1e-9) == ("0.5", "0.5")


@pytest.mark.parametrize("longest", [14, 18, 26])
@pytest.mark.parametrize(
    "names",
    [
        [f"customer_transactions_amount_{days}_days_rolling_mean_normalised" for days in (7, 14, 30, 60, 90)],
        [f"{'a' * 30}_{one}_{'b' * 30}_{other}_{'c' * 30}" for one in "xy" for other in "uv"],
        [f"{'number_' * 6}{k}{'_of_many' * 6}" for k in (1, 10, 14, 140)],
        ["short", "x" * 40, "x" * 39 + "\u200b" + "x" * 40, "y" * 40],
    ],
)
def test_names_that_differ_look_different_when_they_are_shown_together(names, longest):
    shown = shortened_apart(names, longest)
    assert len(set(shown)) == len(names)
    assert max(map(len, shown)) <= longest
    assert all(text == shortened(text, longest) for text in shown)


def test_names_that_look_different_are_shortened_as_single_ones_and_equal_ones_stay_equal():
    names = ["income", "a" * 40, "b" * 40, "b" * 40]
    assert shortened_apart(names, 12) == [shortened(name, 12) for name in names]
    numbers = [f"days_since_the_first_of_the_payments_{days}_and_so_on_until_today" for days in (10, 14)]
    assert [f"{days}_" in text for days, text in zip((10, 14), shortened_apart(numbers, 26), strict=True)] == [True] * 2


def test_names_that_could_be_read_as_none_or_several_are_in_quotation_marks():
    odd = ["", " ", "a and b", "and", "or", "x, y", " income"]
    assert [name_in_text(name) for name in odd] == [f'"{name}"' for name in odd]
    assert name_in_text("\u200b") == r"\u200b"
    plain = ["age", "brand", "sand and_", "f.1 (of 3)"]
    assert list(map(name_in_text, plain)) == plain
