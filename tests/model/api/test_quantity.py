"""Quantities: the text of the API as exact integers, rounded away from zero and capped."""

import pytest

from scheduler.model.api import quantity
from scheduler.model.api.quantity import MAX_QUANTITY, QuantityError

EI = 2**63 - 1

#: Text, value in whole units, value in thousandths, both before the cap.
#: Source: apimachinery v0.36.3 resource.ParseQuantity, Value, MilliValue.
QUANTITIES = [
    # plain and decimal
    ("0", 0, 0),
    ("0m", 0, 0),
    ("-0", 0, 0),
    ("00", 0, 0),
    ("0Ki", 0, 0),
    ("1", 1, 1000),
    ("+1", 1, 1000),
    ("1.", 1, 1000),
    ("1025", 1025, 1_025_000),
    ("000000000000000000001", 1, 1000),
    ("1.5", 2, 1500),
    ("1.50", 2, 1500),
    ("0.1", 1, 100),
    (".5", 1, 500),
    ("+.5", 1, 500),
    ("0.0001", 1, 1),
    ("0.0000000005", 1, 1),
    # decimal suffixes
    ("100m", 1, 100),
    ("100u", 1, 1),
    ("0.9n", 1, 1),
    ("3.001n", 1, 1),
    ("128974848000m", 128_974_848, 128_974_848_000),
    ("1k", 1000, 1_000_000),
    ("1M", 10**6, 10**9),
    ("1G", 10**9, 10**12),
    ("1T", 10**12, 10**15),
    ("1P", 10**15, 10**18),
    ("1E", 10**18, 10**21),
    ("12E", 12 * 10**18, 12 * 10**21),
    ("1000E", 10**21, 10**24),
    ("9223372036854775808", 2**63, 2**63 * 1000),
    # binary suffixes
    ("1Ki", 1024, 1_024_000),
    (".001Ki", 2, 1024),
    (".000000000001Ki", 1, 1),
    ("100.035Ki", 102_436, 102_435_840),
    ("123Mi", 128_974_848, 128_974_848_000),
    ("1024Mi", 2**30, 2**30 * 1000),
    ("1Gi", 2**30, 2**30 * 1000),
    ("0.05Gi", 53_687_092, 53_687_091_200),
    ("9.5000000001Gi", 10_200_547_329, 10_200_547_328_108),
    ("1Ti", 2**40, 2**40 * 1000),
    ("1Pi", 2**50, 2**50 * 1000),
    ("8Ei", EI, EI * 1000),
    ("9Ei", EI, EI * 1000),
    # exponents
    ("1E3", 1000, 1_000_000),
    ("1e3", 1000, 1_000_000),
    ("129e6", 129_000_000, 129_000_000_000),
    ("1e14", 10**14, 10**17),
    ("1e19", 10**19, 10**22),
    ("1E-3", 1, 1),
    ("0.5e-9", 1, 1),
    ("1.1E-9", 1, 1),
    # negative ones never pass an API server, but must not crash
    ("-1", -1, -1000),
    ("-100m", -1, -100),
    ("-0.0005", -1, -1),
    ("-9Ei", -EI, -EI * 1000),
]

INVALID = [
    "", "+", "-", ".", "+.", "1.1.M", "1,5", "--1", "+-1",
    "1i", "0.1mi", "1K", "1KB", "1KI", "50GB", "1kk", "1mm", "m", "Ki", "aoeu",
    " 1", "1 ", "\u00a01", "1\n", "1\u0000", "1_000", "0x10",
    "1e", "1e+", "1e1.5", "-3.01e-", "1e3Ki", "1e3k",
    "NaN", "nan", "Inf", "-Infinity", "\uff11", "\u0661",
    "1e99999999999999999999", "1e-99999999999999999999", "2E6024865272343",
]  # fmt: skip

#: Texts that stand for absurdly large or small numbers.
BOMBS = [
    ("1e2147483647", MAX_QUANTITY),
    ("1e-2147483647", 1),
    ("1e100000000", MAX_QUANTITY),
    ("9" * 5000, MAX_QUANTITY),
    ("9" * 5000 + "Ei", MAX_QUANTITY),
    ("-" + "9" * 5000, -MAX_QUANTITY),
    ("0" * 5000 + "7", 7),
    ("0." + "0" * 5000 + "1", 1),
    ("0." + "0" * 5000 + "1Ki", 1),
    ("1." + "0" * 5000 + "1Ki", 1025),
    ("0." + "9" * 5000, 1),
    ("0." + "9" * 5000 + "Ki", 1024),
]


def capped(number: int) -> int:
    return max(-MAX_QUANTITY, min(MAX_QUANTITY, number))


@pytest.mark.parametrize(("text", "whole", "thousandths"), QUANTITIES, ids=str)
def test_a_quantity_is_read_and_rounded_away_from_zero(text, whole, thousandths):
    assert quantity.value(text) == capped(whole)
    assert quantity.milli_value(text) == capped(thousandths)


@pytest.mark.parametrize("text", INVALID, ids=repr)
def test_a_text_that_is_no_quantity_is_refused(text):
    with pytest.raises(QuantityError):
        quantity.value(text)
    with pytest.raises(QuantityError):
        quantity.milli_value(text)


@pytest.mark.parametrize(
    ("text", "whole"), BOMBS, ids=[f"{text[:6]}...{text[-4:]}" for text, _ in BOMBS]
)
def test_absurd_numbers_are_read_without_big_arithmetic(text, whole):
    assert quantity.value(text) == whole


def test_an_unquoted_number_is_a_quantity():
    assert quantity.milli_value(2) == 2000
    assert quantity.milli_value(0.1) == 100
    assert quantity.value(1e-7) == 1
    assert quantity.value(1e22) == MAX_QUANTITY


def test_an_infinite_number_is_no_quantity():
    with pytest.raises(QuantityError):
        quantity.value(float("inf"))


def test_spellings_of_one_amount_are_equal():
    assert (
        len({quantity.milli_value(text) for text in ("500m", "0.5", ".50", "500000u", "5e-1")}) == 1
    )


def test_the_cap_keeps_a_thousand_of_them_within_64_bits():
    assert 1000 * MAX_QUANTITY < 2**63


def test_a_long_text_is_shown_shortened():
    with pytest.raises(QuantityError, match=r"^'x{37}\.\.\.' is not a quantity$"):
        quantity.value("x" * 5000)
