"""The pages in a real Chromium: narrow and wide, dark and light, by keyboard, and for everybody."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from queue import Queue
from threading import Thread
from typing import Any

import pytest
from kit.hostile import drafts, sealed, sound
from kit.monitors import Monitor, ServedHere, Topic, monitor, publish, wait_until
from kit.studies import study_toml
from kit.tools import axe_core
from test_figures import FIGURES

from stream_dp.log.log import LogError, TopicInfo
from stream_dp.services.commands import cli
from stream_dp.services.monitor.follower import Follower
from stream_dp.services.monitor.public_front import public_monitor
from stream_dp.services.monitor.serving import serve

playwright = pytest.importorskip("playwright.sync_api")
CHROMIUM = shutil.which("chromium")
if CHROMIUM is None:
    pytest.skip("chromium is not installed; tests/tools can, as root", allow_module_level=True)

PAGES = (
    "/",
    "/release/pairs?q=at-least+1+of+last+2+work%3Dfull",
    "/release/both?q=pattern+full&band=simultaneous&panel=1",
    "/release/pairs?q=nothing",
    "/compare/pairs?q2=pattern+no&period2=2021-04",
    "/compare/homes?q=nothing",
    "/data/homes?pair=groups:region:size&q=people:%20work=full",
    "/privacy",
    "/verify",
    "/downloads",
    "/certificate/1",
    "/api",
    "/none",
)
SIZES = (320, 768, 1280)


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with playwright.sync_playwright() as started:
        # Root has no sandbox, and a container's /dev/shm is small.
        options = ["--no-sandbox", "--disable-dev-shm-usage"]
        one = started.chromium.launch(executable_path=CHROMIUM, args=options, timeout=600_000)
        yield one
        one.close()


class Seen:
    """A page and whatever its console said."""

    def __init__(self, browser: Any, width: int = 1280) -> None:
        self.page = browser.new_page(viewport={"width": width, "height": 900})
        self.page.set_default_timeout(120_000)
        self.said: list[str] = []
        self.page.on("console", lambda m: self.said.append(m.text) if m.type == "error" else None)
        self.page.on("pageerror", lambda error: self.said.append(str(error)))

    def __enter__(self) -> Seen:
        return self

    def __exit__(self, *_: object) -> None:
        self.page.close()


@pytest.fixture(scope="module")
def axe() -> str:
    return axe_core()


def violations(page: Any, axe: str, rules: list[str] | None = None) -> list[str]:
    """What axe-core finds, each with the first element. rules: by default all."""
    if page.evaluate("typeof axe") == "undefined":
        page.evaluate(axe)
    options = {} if rules is None else {"runOnly": rules}
    findings = page.evaluate("how => axe.run(document, how).then(r => r.violations)", options)
    return [f"{v['id']}: {v['help']}: {v['nodes'][0]['html'][:300]}" for v in findings]


def looked_at(seen: Seen, axe: str, widths: tuple[int, ...], name: str) -> None:
    """A light page fits in these widths, and axe-core finds nothing in the first of them."""
    in_scheme(seen, "light")
    for width in widths:
        seen.page.set_viewport_size({"width": width, "height": 900})
        shown = seen.page.evaluate("document.documentElement.scrollWidth")
        assert shown <= width, f"{name} is {shown} pixels wide at {width}"
        if width == widths[0]:
            assert violations(seen.page, axe) == []


def looked_at_in_the_dark(seen: Seen, axe: str) -> None:
    """A dark page differs in its colours alone."""
    in_scheme(seen, "dark")
    assert violations(seen.page, axe, ["color-contrast"]) == []


def in_scheme(seen: Seen, scheme: str) -> None:
    """A page has the colours of the scheme that its reader prefers; they change no size."""
    seen.page.emulate_media(color_scheme=scheme)
    colour = seen.page.evaluate("getComputedStyle(document.body).backgroundColor")
    dark = sum(int(part) for part in colour[4:-1].split(",")) < 384
    assert dark == (scheme == "dark")


@pytest.fixture(scope="module")
def shared(browser: Any) -> Iterator[Seen]:
    """One page for all addresses: another one starts processes and compiles for a second."""
    with Seen(browser) as page:
        yield page


@pytest.fixture
def seen(shared: Seen) -> Iterator[Seen]:
    """The one page, as a new one is."""
    shared.page.set_viewport_size({"width": SIZES[-1], "height": 900})
    shared.page.emulate_media(color_scheme="light")
    shared.said.clear()
    yield shared
    shared.page.goto("about:blank")  # nothing goes on in it


@pytest.mark.parametrize("path", PAGES)
def test_pages_fit_and_can_be_read_by_everybody(
    served: Monitor, shared: Seen, axe: str, path: str
) -> None:
    shared.said.clear()
    shared.page.goto(served.url + path)
    looked_at(shared, axe, SIZES, path)
    if path in PAGES[::2]:  # every page has the same colours
        looked_at_in_the_dark(shared, axe)
    assert [text for text in shared.said if "404" not in text and "400" not in text] == []


@pytest.mark.parametrize("path", ["/", "/data/blocks?q=at-least+2"])
def test_pages_of_sizes_and_maps_fit_and_can_be_read_by_everybody(
    mapped: Monitor, shared: Seen, axe: str, path: str
) -> None:
    shared.said.clear()
    shared.page.goto(mapped.url + path)
    looked_at(shared, axe, SIZES[::2], path)
    if path != "/":
        looked_at_in_the_dark(shared, axe)
        figures = shared.page.locator("figure:not(#map figure)")
        assert figures.count() == 9  # of everywhere, two counties and six tracts
        # All charts have the same bars: 0 to the largest size that is published.
        bars = {figures.nth(i).locator("svg[role=img] rect").count() for i in range(9)}
        assert len(bars) == 1
        figures.nth(2).locator("summary").click()
        assert figures.nth(2).locator("table tbody tr").first.is_visible()
    assert shared.said == []


@contextmanager
def another_site(page: str) -> Iterator[str]:
    """Serves a page at an origin of its own; yields the address."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.send_header("content-type", "text/html")
            self.end_headers()
            self.wfile.write(page.encode())

        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}/"
        server.shutdown()


def test_a_frame_of_another_page_fits_and_can_be_read_by_everybody(
    served: Monitor, shared: Seen, axe: str
) -> None:
    page = shared.page
    for address in FIGURES[1:]:
        page.goto(f"{served.url}/embed/{address}")
        for width, height in ((320, 520), (640, 440)):
            page.set_viewport_size({"width": width, "height": height})
            assert page.evaluate("document.documentElement.scrollWidth") <= width
            assert page.evaluate("document.documentElement.scrollHeight") <= height
        assert violations(page, axe) == []
    with another_site(f'<iframe src="{served.url}/embed/{FIGURES[0]}" title="x"></iframe>') as url:
        page.goto(url)
        page.frame_locator("iframe").locator("figcaption").wait_for()


TALLEST = "Math.max(...[...document.querySelectorAll('main .numbers td')].map(e => e.offsetHeight))"
LARGEST = """Math.max(...[...document.querySelectorAll('main svg[role=img]')].map(
    e => e.getBoundingClientRect().width / e.viewBox.baseVal.width))"""


def test_numbers_stand_on_one_line_and_letters_of_charts_are_no_headings(
    served: Monitor, shared: Seen
) -> None:
    shared.page.goto(served.url + "/")
    for width in SIZES:
        shared.page.set_viewport_size({"width": width, "height": 900})
        assert 0 < shared.page.evaluate(TALLEST) <= 40, width
        assert 0.6 < shared.page.evaluate(LARGEST) < 1.4, width


@pytest.mark.parametrize("path", ["/release/both", "/data/homes", "/privacy"])
def test_every_chart_has_words_and_a_table_behind_it(
    served: Monitor, shared: Seen, path: str
) -> None:
    shared.page.goto(served.url + path)
    figures = shared.page.locator("figure")
    assert figures.count() > 0
    for i in range(figures.count()):
        figure = figures.nth(i)
        label = figure.locator('svg[role="img"]').first.get_attribute("aria-label")
        assert label
        table = figure.locator("table")
        assert not table.first.is_visible()
        figure.locator("summary").first.click()
        assert table.first.is_visible()
        assert table.first.locator("tbody tr").count() > 0


def test_a_question_is_asked_by_keyboard_alone(served: Monitor, seen: Seen) -> None:
    page = seen.page
    page.goto(served.url + "/release/pairs")
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.textContent") == "Skip to the content"
    page.keyboard.press("Enter")
    for _ in range(60):
        page.keyboard.press("Tab")
        outline = page.evaluate("getComputedStyle(document.activeElement).outlineStyle")
        assert outline != "none"
        if page.evaluate("document.activeElement.name") == "words":
            break
    page.keyboard.type("pattern no ?")
    page.keyboard.press("Enter")
    page.wait_for_url("**/release/pairs?q=pattern+no+%3F")
    assert page.locator(".query").text_content() == "pattern no ?"
    assert seen.said == []


def test_the_builder_gives_an_address_that_can_be_shared(served: Monitor, seen: Seen) -> None:
    page = seen.page
    page.goto(served.url + "/release/pairs")
    form = page.locator("form").first
    form.locator("[name=form]").select_option("consecutive")
    form.locator("[name=need]").fill("2")
    form.locator("[name=value]").select_option("half day")
    form.locator("button").click()
    page.wait_for_url("**/release/pairs?q=*")
    assert page.locator(".query").text_content() == "consecutive 2 of last 2 'work=half day'"
    shared = page.locator(".share code").first.text_content()
    answer = page.locator(".answer").text_content()
    page.goto(served.url + shared)
    assert page.locator(".answer").text_content() == answer


def test_a_release_appears_by_itself(tmp_path: Path, seen: Seen) -> None:
    messages, path = sound(), tmp_path / "growing.db"
    publish(path, messages[:-4])
    with monitor(f"sqlite:{path}") as one:
        page = seen.page
        page.goto(one.url + "/verify")
        last = f".hash >> text={messages[-1].hash} >> nth=0"
        assert page.locator(last).count() == 0
        publish(path, messages[-4:])
        page.wait_for_selector(last)
        assert "this page shows it" in page.locator("#live").text_content()
        assert page.evaluate("document.body.dataset.head") == messages[-1].hash
        assert seen.said == []


class Away(Topic):
    """A log that can cease to answer."""

    answers = True

    def describe(self, topic: str) -> TopicInfo:
        if not self.answers:
            raise LogError("no answer")
        return super().describe(topic)  # type: ignore[no-any-return, no-untyped-call]


def test_a_log_that_does_not_answer_is_said_on_open_pages(seen: Seen) -> None:
    records = sealed(drafts(sound()))
    log: Any = Away(records)  # type: ignore[no-untyped-call]
    follower = Follower(lambda: log, lambda: ServedHere(records))
    follower.start()
    ports: Queue[int] = Queue()
    application = public_monitor(follower)
    Thread(target=serve, args=(application, "127.0.0.1:0", ports.put), daemon=True).start()
    page, url = seen.page, f"http://127.0.0.1:{ports.get(timeout=600)}"
    wait_until(lambda: follower.served is not None)
    page.goto(url)
    log.answers = False
    page.wait_for_selector("#live:has-text('does not answer now')")
    page.goto(url + "/verify")
    page.wait_for_selector("#live:has-text('does not answer now')")
    log.answers = True
    page.wait_for_selector("#live:has-text('answers again')")
    assert seen.said == []
    follower.stop()


@pytest.mark.parametrize("study", ["of work", "of sizes"])
def test_the_offline_page_opens_from_a_file(
    study: str, log_file: Path, mapped_folder: Path, tmp_path: Path, seen: Seen, axe: str
) -> None:
    out = tmp_path / "page.html"
    log = log_file if study == "of work" else mapped_folder / "moves-public.db"
    assert cli.main(["page", f"sqlite:{log}", str(out)]) == 0
    seen.page.goto(out.as_uri())
    for width in SIZES:
        seen.page.set_viewport_size({"width": width, "height": 900})
        assert seen.page.evaluate("document.documentElement.scrollWidth") <= width
    assert violations(seen.page, axe) == []
    assert seen.said == []


@pytest.mark.parametrize("where", ["the exported page", "the monitor"])
def test_the_verifier_judges_a_file_that_is_chosen(
    where: str, served: Monitor, log_file: Path, tmp_path: Path, seen: Seen, axe: str
) -> None:
    address, copy = f"{served.url}/verify", tmp_path / "copy.db"
    if where == "the exported page":
        out = tmp_path / "page.html"
        assert cli.main(["page", f"sqlite:{log_file}", str(out)]) == 0
        address = out.as_uri()
        copy.write_bytes(log_file.read_bytes())
    else:
        status, data = served.get("/download/log.db")
        assert status == 200
        copy.write_bytes(data)
    seen.page.set_viewport_size({"width": SIZES[0], "height": 900})
    page = seen.page
    page.goto(address)
    if where == "the exported page":  # its sections begin closed on a phone
        page.click("nav >> text=Verify it yourself")
    head = sound()[-1].hash
    page.set_input_files("#verifier [name=file]", copy)
    page.fill("#verifier [name=head]", head)
    page.click("#verifier button")
    page.wait_for_selector("#verifier output:has-text('Everything that was checked holds.')")
    said = page.locator("#verifier output").text_content()
    assert f"holds: chain: {len(sound())} messages" in said
    assert "holds: head: the hash that was kept elsewhere is in the chain" in said
    assert f"head {head}" in said
    looked_at(seen, axe, SIZES, where)
    page.fill("#verifier [name=head]", "0" * 64)
    page.click("#verifier button")
    page.wait_for_selector("#verifier output:has-text('This log does not hold.')")
    page.set_input_files("#verifier [name=file]", Path(__file__))
    page.click("#verifier button")
    page.wait_for_selector("#verifier output:has-text('not a log of stream-dp')")
    looked_at_in_the_dark(seen, axe)
    assert seen.said == []


def test_the_operators_pages_fit_and_can_be_read_by_everybody(
    tmp_path: Path, browser: Any, axe: str
) -> None:
    study = tmp_path / "small.toml"
    study.write_text(study_toml())
    (tmp_path / "reports.csv").write_text("person,period,poverty\na,2021-01,1\nb,2021-01,7\n")
    send = ["send", str(study), str(tmp_path / "reports.csv")]
    assert cli.main(send) == 0
    with monitor(str(study), "--operator") as one, Seen(browser) as seen:
        for path in ("/login", "/", "/close"):
            seen.page.goto(one.url + (one.link if path == "/" else path))
            if path == "/":  # which may say first that the logs are being read
                seen.page.wait_for_selector("h2:has-text('Intake')")
            looked_at(seen, axe, SIZES[::-1], path)
            if path != "/close":
                looked_at_in_the_dark(seen, axe)
            assert seen.said == []
