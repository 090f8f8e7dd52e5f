"""Six studies on one monitor in a real Chromium: five tasks in at most three clicks each."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from kit.households import HouseholdFolder
from kit.monitors import Monitor, monitor, publish
from kit.public_logs import published

from stream_dp.privacy.noise import SeededNoise
from stream_dp.services.desk import demo
from stream_dp.services.evaluate import simulated_panels
from stream_dp.studyfile import load_study

playwright = pytest.importorskip("playwright.sync_api")
CHROMIUM = shutil.which("chromium")
if CHROMIUM is None:
    pytest.skip("chromium is not installed; tests/tools can, as root", allow_module_level=True)

NUMBER, PEOPLE = 6, 2000
MOST_CLICKS = 3
NARROW = {"width": 390, "height": 844}
# By study: its address, a panel, and what shows a distribution.
WALKED = {
    "poverty": ("quarters", "/release/quarters"),
    "homes": ("pairs", "/data/households"),
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory, log_file: Path) -> Path:
    """The demo's study, one of households, and four small ones."""
    logs, work = tmp_path_factory.mktemp("six"), tmp_path_factory.mktemp("work")
    _, file = demo._begin(work / "demo")
    file.write_text(file.read_text().replace("size = 23374", f"size = {PEOPLE}"))
    study, _ = load_study(file)
    truth = {demo.ATTRIBUTE: simulated_panels.poverty(demo.SEED, PEOPLE)}
    publish(logs / "poverty-public.db", published(study, truth, SeededNoise(1)))
    homes = HouseholdFolder(work / "homes").prepare()
    homes.run()
    homes.work()
    homes.run()
    shutil.copy(work / "homes" / "homes-public.db", logs)
    for number in range(NUMBER - len(WALKED)):
        shutil.copy(log_file, logs / f"small{number:02}-public.db")
    return logs


@pytest.fixture(scope="module")
def six(folder: Path) -> Iterator[Monitor]:
    with monitor(str(folder)) as one:
        yield one


@pytest.fixture(scope="module")
def page(six: Monitor) -> Iterator[Any]:
    with playwright.sync_playwright() as started:
        options = ["--no-sandbox", "--disable-dev-shm-usage"]
        browser = started.chromium.launch(executable_path=CHROMIUM, args=options, timeout=600_000)
        one = browser.new_page(viewport=NARROW)
        one.set_default_timeout(120_000)
        yield one
        browser.close()


class Walk:
    """Clicks from the front page of a study; every page fits the narrow screen."""

    def __init__(self, page: Any, address: str) -> None:
        self.page, self.clicks = page, 0
        page.goto(address)
        self.fits()

    def click(self, selector: str) -> Walk:
        self.page.locator(selector).first.click()
        self.page.wait_for_load_state()
        self.clicks += 1
        assert self.clicks <= MOST_CLICKS
        self.fits()
        return self

    def fits(self) -> None:
        shown = self.page.evaluate("document.documentElement.scrollWidth")
        assert shown <= NARROW["width"], self.page.url

    def shows(self, selector: str) -> str:
        found = self.page.locator(selector).first
        found.wait_for()
        return str(found.text_content())


def test_six_studies_are_listed_and_found(six: Monitor, page: Any) -> None:
    walk = Walk(page, six.url)
    assert page.locator(".studies section").count() == NUMBER
    page.locator("[name=q]").fill("households")
    walk.click("main form button")
    assert page.locator(".studies section").count() == len(WALKED)
    walk.click("h2 a:text-is('homes')")
    assert page.url == f"{six.url}/studies/homes/"
    assert walk.shows("nav a:text-is('All studies')")


@pytest.mark.parametrize("study", WALKED)
def test_five_tasks_take_three_clicks_each(six: Monitor, page: Any, study: str) -> None:
    front, (panel, distribution) = f"{six.url}/studies/{study}/", WALKED[study]
    release = f".releases h2 a:text-is('{panel}')"

    trend = Walk(page, front).click(release).click(".share a")
    assert "Since" in trend.shows(".verdict strong")

    compared = (
        Walk(page, front).click(release).click(".share a").click("form[action*=compare] button")
    )
    assert "/compare/" in page.url
    assert compared.shows(".verdict")

    shares = Walk(page, front).click(f".releases h2 a[href$='{distribution}']")
    assert shares.shows("main figure svg") is not None
    assert page.locator("main figure").count() >= 2

    download = Walk(page, front).click("nav a:text-is('Downloads')")
    with page.expect_download() as expected:
        page.locator("td a:text-is('csv')").first.click()
    assert download.clicks + 1 <= MOST_CLICKS
    assert Path(expected.value.path()).read_bytes().count(b"\n") > 1

    cited = Walk(page, front).click(release).click(".share a").click(".take summary")
    assert f"/studies/{study}/release/{panel}" in cited.shows(".take dt:text-is('Cite') + dd")
    assert study in Walk(page, front).shows(".cite")
