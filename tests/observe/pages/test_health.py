import pytest

from scheduler.observe.pages.health import HealthChecks, HealthReport

CHECKS = {"loop": lambda: None, "informer-sync": lambda: "pods not listed"}
WITHHELD = (
    "[+]ping ok\n[+]loop ok\n[-]informer-sync failed: reason withheld\nhealthz check failed\n"
)
REASON = "[+]ping ok\n[+]loop ok\n[-]informer-sync failed: pods not listed\nreadyz check failed\n"
EXCLUDED = "[+]ping ok\n[+]loop ok\n[+]informer-sync excluded: ok\nreadyz check passed\n"
UNKNOWN = (
    "[+]ping ok\n"
    'warn: some health checks cannot be excluded: no matches for "a","b"\n'
    "readyz check passed\n"
)


@pytest.mark.parametrize(
    ("health", "options", "want"),
    [
        (HealthChecks("livez", {}), {}, (True, "ok")),
        (
            HealthChecks("livez", {"loop": lambda: None}),
            {"verbose": True},
            (True, "[+]ping ok\n[+]loop ok\nlivez check passed\n"),
        ),
        (HealthChecks("healthz", CHECKS), {}, (False, WITHHELD)),
        (HealthChecks("readyz", CHECKS, reasons=True), {}, (False, REASON)),
        (
            HealthChecks("readyz", CHECKS),
            {"verbose": True, "excluded": ["informer-sync"]},
            (True, EXCLUDED),
        ),
        (HealthChecks("readyz", {}), {"verbose": True, "excluded": ["b", "a"]}, (True, UNKNOWN)),
    ],
    ids=[
        "a healthy process is ok",
        "a verbose report names all checks",
        "a failure is verbose and withholds the reason",
        "readiness has the reason",
        "an excluded check does not run",
        "an unknown exclusion is reported",
    ],
)
def test_a_report_is_that_of_kube_scheduler(health, options, want):
    assert health.report(**options) == HealthReport(*want)


def test_a_single_check_can_be_requested():
    health = HealthChecks("readyz", CHECKS)

    assert health.single("ping") == HealthReport(healthy=True, text="ok")
    assert health.single("informer-sync") == HealthReport(
        healthy=False, text="internal server error: pods not listed\n"
    )
    assert health.single("unknown") is None
