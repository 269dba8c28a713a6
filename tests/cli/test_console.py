"""The command line of the console in a cluster: what it refuses before it serves."""

import pytest

from scheduler.cli import main

SCHEDULER = ("--scheduler", "https://a.svc:10259")


@pytest.mark.parametrize(
    ("given", "want"),
    [
        ("https://Console.Example.com/", "https://console.example.com"),
        ("https://console.example.com:8443", "https://console.example.com:8443"),
        ("https://console.example.com:443", "https://console.example.com"),
        ("https://[fd00::1]", "https://[fd00::1]"),
        ("http://localhost:8080", "http://localhost:8080"),
        ("http://127.0.0.1:8080", "http://127.0.0.1:8080"),
    ],
)
def test_an_address_is_kept_as_browsers_send_it(given, want):
    parsed = main.parser().parse_args(["console", "--url", given, *SCHEDULER])

    assert parsed.url == want


@pytest.mark.parametrize(
    ("url", "scheduler", "problem"),
    [
        ("http://console.example.com", "https://a:1", "browsers keep the cookie for https only"),
        ("https://console.example.com/path", "https://a:1", "is not https://HOST"),
        ("https://console.example.com?a=b", "https://a:1", "is not https://HOST"),
        ("https://user@console.example.com", "https://a:1", "is not https://HOST"),
        ("https://a.example,b.example", "https://a:1", "is not https://HOST"),
        ("console.example.com", "https://a:1", "is not https://HOST"),
        ("https://a.example:65536", "https://a:1", "is not https://HOST"),
        ("https://a.example", "https://a:99999", "is not https://HOST:PORT"),
        ("https://a.example", "https://a:0", "is not https://HOST:PORT"),
        ("https://a.example", "http://a:1", "is not https://HOST:PORT"),
        ("https://a.example", "https://a:1/api", "is not https://HOST:PORT"),
        ("https://a.example", "a:1", "is not https://HOST:PORT"),
    ],
)
def test_an_address_that_cannot_work_is_refused(url, scheduler, problem, capsys):
    with pytest.raises(SystemExit) as ended:
        main.parser().parse_args(["console", "--url", url, "--scheduler", scheduler])

    assert ended.value.code == 2
    assert problem in capsys.readouterr().err


def test_what_cannot_be_used_ends_it_with_a_line_that_says_so(capfdbinary):
    flags = ("--port", "0", "--certificate-authority", "/nowhere/ca.crt")
    assert main.main(["console", "--url", "https://a", *SCHEDULER, *flags]) == 2

    (line,) = capfdbinary.readouterr().err.decode().splitlines()
    assert '"event":"cannot_start"' in line
    assert "--certificate-authority /nowhere/ca.crt" in line
