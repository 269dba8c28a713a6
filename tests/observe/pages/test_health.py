from scheduler.observe.pages.health import HealthChecks, HealthReport

CHECKS = {"loop": lambda: None, "informer-sync": lambda: "pods not listed"}


def test_a_healthy_process_says_ok():
    assert HealthChecks("livez", {}).report() == HealthReport(healthy=True, text="ok")


def test_a_verbose_report_names_all_checks():
    report = HealthChecks("livez", {"loop": lambda: None}).report(verbose=True)

    assert report == HealthReport(healthy=True, text="[+]ping ok\n[+]loop ok\nlivez check passed\n")


def test_a_failure_is_always_verbose_and_withholds_the_reason():
    report = HealthChecks("healthz", CHECKS).report()

    assert report == HealthReport(
        healthy=False,
        text="[+]ping ok\n[+]loop ok\n[-]informer-sync failed: reason withheld\n"
        "healthz check failed\n",
    )


def test_readiness_contains_the_reason():
    report = HealthChecks("readyz", CHECKS, reasons=True).report()

    assert "[-]informer-sync failed: pods not listed\n" in report.text


def test_an_excluded_check_does_not_run():
    report = HealthChecks("readyz", CHECKS).report(verbose=True, excluded=["informer-sync"])

    assert report == HealthReport(
        healthy=True,
        text="[+]ping ok\n[+]loop ok\n[+]informer-sync excluded: ok\nreadyz check passed\n",
    )


def test_excluding_a_check_that_does_not_exist_is_reported():
    report = HealthChecks("readyz", {}).report(verbose=True, excluded=["b", "a"])

    assert report.text == (
        "[+]ping ok\n"
        'warn: some health checks cannot be excluded: no matches for "a","b"\n'
        "readyz check passed\n"
    )


def test_a_single_check_can_be_asked_for():
    health = HealthChecks("readyz", CHECKS)

    assert health.single("ping") == HealthReport(healthy=True, text="ok")
    assert health.single("informer-sync") == HealthReport(
        healthy=False, text="internal server error: pods not listed\n"
    )
    assert health.single("unknown") is None
