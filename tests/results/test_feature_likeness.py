import pytest

from debias.results.feature_likeness import alike


@pytest.mark.parametrize(
    ("name", "other"),
    [
        ("CUSTOMER_ID", "customer id"),
        ("customerId", "customer_id"),
        ("cust_id", "customer_id"),
        ("id", "customer_id"),
        ("temprature", "temperature"),
        ("temp", "temperature_mean"),
        ("tmp", "temperature"),
        ("dob", "date_of_birth"),
        ("city", "city=Rome"),
        ("x1", "x_1"),
        ("caf\u00e9", "cafe\u0301"),
        ("ＩＤ", "id"),
        (" age ", "age"),
        ("***", "*** "),
    ],
)
def test_names_that_may_mean_the_same_are_alike_in_both_directions(name, other):
    assert alike(name, ["unrelated", other]) == [other]
    assert alike(other, ["unrelated", name]) == [name]


@pytest.mark.parametrize(
    ("name", "other"),
    [
        ("x1", "x10"),
        ("x1", "x2"),
        ("age", "average_wage"),
        ("id", "paid"),
        ("a", "age"),
        ("***", "+++"),
        ("", "a"),
        ("passport", "income"),
    ],
)
def test_names_of_other_things_are_not_alike(name, other):
    assert alike(name, [other]) == alike(other, [name]) == []
