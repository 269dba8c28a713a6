import pytest

from scheduler.config import yaml_scalars


@pytest.mark.parametrize(
    ("text", "want"),
    [
        pytest.param("", None, id="nothing is null"),
        pytest.param("~", None, id="a tilde is null"),
        pytest.param("yes", True, id="yes is true"),
        pytest.param("y", True, id="so is y"),
        pytest.param("OFF", False, id="off in capitals is false"),
        pytest.param("tRue", "tRue", id="mixed case is text"),
        pytest.param("16", 16, id="an integer"),
        pytest.param("+5", 5, id="an explicit plus"),
        pytest.param("-0", 0, id="minus zero"),
        pytest.param("1_000", 1000, id="underscores are left out"),
        pytest.param("0x1F", 31, id="hexadecimal"),
        pytest.param("-0b11", -3, id="binary"),
        pytest.param("0o17", 15, id="octal"),
        pytest.param("017", 15, id="octal in the old way"),
        pytest.param("08", 8, id="a leading zero that is not octal"),
        pytest.param("16.0", 16, id="a whole decimal is an integer"),
        pytest.param("1e3", 1000, id="so is a whole number with an exponent"),
        pytest.param("16.5", 16.5, id="a decimal"),
        pytest.param(".5", 0.5, id="a decimal without a leading digit"),
        pytest.param("1e21", 1e21, id="a decimal too large for an integer"),
        pytest.param("18446744073709551616", 2**64, id="digits beyond 64 bits"),
        pytest.param("1e400", "1e400", id="a number beyond all decimals is text"),
        pytest.param("2001-01-01", "2001-01-01", id="a date is text"),
        pytest.param("12:30", "12:30", id="a time of day is text"),
        pytest.param("-", "-", id="a sign is text"),
        pytest.param("LeastAllocated", "LeastAllocated", id="a word is text"),
    ],
)
def test_resolves_a_plain_scalar(text, want):
    value = yaml_scalars.plain(text)

    assert (value, type(value)) == (want, type(want))


@pytest.mark.parametrize("text", [".inf", "-.Inf", "+.INF", ".nan", ".NaN"])
def test_refuses_numbers_that_json_cannot_hold(text):
    with pytest.raises(yaml_scalars.ScalarError, match="unsupported value"):
        yaml_scalars.plain(text)


@pytest.mark.parametrize(
    ("tag", "text", "want"),
    [
        pytest.param("str", "16", "16", id="text keeps its digits"),
        pytest.param("int", "16", 16, id="an integer"),
        pytest.param("float", "16", 16, id="an integer is a decimal too"),
        pytest.param("bool", "on", True, id="a boolean"),
        pytest.param("null", "~", None, id="null"),
        pytest.param("binary", "YWI=", "ab", id="binary is decoded"),
        pytest.param("timestamp", "2001-01-01", "2001-01-01", id="a date is text"),
        pytest.param("!custom", "16", "16", id="an unknown tag makes text"),
    ],
)
def test_resolves_a_scalar_with_a_tag(tag, text, want):
    long_tag = tag if tag.startswith("!") else f"tag:yaml.org,2002:{tag}"
    value = yaml_scalars.tagged(long_tag, text)

    assert (value, type(value)) == (want, type(want))


@pytest.mark.parametrize(
    ("tag", "text", "want_message"),
    [
        pytest.param("int", "x", "cannot decode `x` as !!int", id="text is no integer"),
        pytest.param("int", "1.5", "cannot decode `1.5` as !!int", id="a decimal is no integer"),
        pytest.param("int", "yes", "cannot decode `yes` as !!int", id="a boolean is no integer"),
        pytest.param("bool", "1", "cannot decode `1` as !!bool", id="a number is no boolean"),
        pytest.param("null", "x", "cannot decode `x` as !!null", id="text is not null"),
        pytest.param("binary", "?", "!!binary value contains invalid base64 data", id="no base64"),
    ],
)
def test_refuses_a_scalar_that_does_not_fit_its_tag(tag, text, want_message):
    with pytest.raises(yaml_scalars.ScalarError, match=f"^{want_message}$"):
        yaml_scalars.tagged(f"tag:yaml.org,2002:{tag}", text)
