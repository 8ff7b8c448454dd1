"""The page in a real browser, with three jobs: one that runs, one that has failed, one with a slow vertex."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from flinkish.server.web import page_files
from tests.kit.ports import free_port
from tests.server.browser import CHECKS, Browser, need_browser
from tests.server.page_jobs import failing_job, late_job, restarting_job, running_job, slow_job
from tests.server.session_cluster import Session
from tests.unit.server.support import UNKNOWN, Server, served

TOKEN = "a-token-of-some-length"
#: The name of an operator.
MARKUP = "<img src=x onerror=alert(1)>"
#: A program for a session; its argument is the job's name.
SCRIPT = """
import sys
from flinkish.common import Configuration, WatermarkStrategy
from flinkish.datastream import StreamExecutionEnvironment
from flinkish.datastream.connectors.discard import DiscardingSink
from flinkish.datastream.connectors.number_seq import NumberSequenceSource

env = StreamExecutionEnvironment.get_execution_environment(Configuration.from_dict({"execution.engine": "local"}))
numbers = env.from_source(NumberSequenceSource(0, 10**12), WatermarkStrategy.no_watermarks(), "numbers")
numbers.sink_to(DiscardingSink())
env.execute(sys.argv[1])
"""
#: Pixels by which the page is wider than its window, whose scroll bar takes some.
OVERFLOW = "return document.documentElement.scrollWidth - document.documentElement.clientWidth"
#: Answers as if there were 40 jobs with long names, and 90 checkpoints of each job.
MANY = """
const real = window.fetch;
const many = (list, count, change) => Array(count).fill().map((_, index) => ({ ...list[index % list.length], ...change(index) }));
window.fetch = async (path, options) => {
  const answer = await real(path, options);
  if (!/overview$|checkpoints$/.test(path)) return answer;
  const body = await answer.json();
  if (body.jobs) body.jobs = many(body.jobs, 40, (index) => ({ jid: `job ${index}`, name: "<b>long</b> ".repeat(40) + index }));
  const done = body.history?.filter(({ status }) => status === "COMPLETED");
  if (done?.length) body.history = many(done, 90, (id) => ({ id }));
  return new Response(JSON.stringify(body), { status: answer.status });
};
"""
ESCAPE, ENTER, TAB = "\ue00c", "\ue007", "\ue004"


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    browser = Browser(tmp_path_factory.mktemp("browser"))
    yield browser
    browser.close()


class Shown:
    """A server with the jobs."""

    def __init__(self, server: Server, folder: Path) -> None:
        self.server = server
        self.folder = folder
        self.jobs: dict[str, Any] = {}

    def start(self, name: str, make: Any) -> None:
        (self.folder / name).mkdir()
        self.jobs[name] = make(self.folder / name)

    def id(self, name: str) -> str:
        return str(self.jobs[name].get_job_id())

    def address(self, place: str = "") -> str:
        return f"http://localhost:{self.server.port}/{place}"

    def job(self, name: str, tab: str = "") -> str:
        return self.address(f"#/job/{self.id(name)}{tab and '/'}{tab}")

    def vertex(self, name: str, word: str) -> str:
        """Return the id of the vertex of a job that has a word in its name."""
        vertices = self.server.get(f"/jobs/{self.id(name)}")["vertices"]
        return str(next(vertex["id"] for vertex in vertices if word in vertex["name"]))


@pytest.fixture(scope="module")
def shown(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shown]:
    need_browser()
    with served(refresh_interval=400) as server:
        shown = Shown(server, tmp_path_factory.mktemp("jobs"))
        shown.start("failing", partial(failing_job, name=MARKUP))
        shown.start("slow", slow_job)
        shown.start("running", running_job)
        yield shown
        for job in shown.jobs.values():
            if not job.get_job_status().result(120).is_terminal_state():
                job.cancel().result(120)


@pytest.fixture(autouse=True)
def _quiet(browser: Browser) -> Iterator[None]:
    """Each test begins in a wide light window, and leaves nothing in the console but what it has taken."""
    browser.resize(1360, 900)
    browser.scheme("light")
    browser.open("about:blank")
    browser.console()
    yield
    assert browser.console() == []


def test_a_job_that_restarts_again_and_again_does_not_look_healthy(browser: Browser, shown: Shown, tmp_path: Path) -> None:
    job = restarting_job(tmp_path)
    try:
        cause = "ValueError: the price of flight 5 is missing"

        browser.open(shown.address())

        browser.wait_text("restarting since", " restarts", "last failure", cause, "fails again and again")
        row = "[...document.querySelectorAll('tr')].find(row => row.textContent.includes('prices'))"
        assert browser.run(f"return {row}.querySelector('.badge.good')") is None
        browser.click("td a", "prices")
        browser.wait_text("Checkpoint", "restarting since", cause, "fails again and again")
        browser.click(".heading a", "restarting since")
        browser.wait_text("Traceback")
    finally:
        job.cancel().result(120)


def test_late_records_and_the_backlog_stand_with_their_vertices_and_in_a_table_with_totals(
    browser: Browser, shown: Shown, tmp_path: Path
) -> None:
    job = late_job(tmp_path)
    try:
        browser.open(shown.address(f"#/job/{job.get_job_id()}/graph"))

        browser.wait_text("8642 to read", "late")
        box = "[...document.querySelectorAll('a.vertex')].find(box => box.textContent.includes('per minute'))"
        assert browser.run(f"return /[1-9][0-9.k ]* late/.test({box}.textContent)")
        rows = browser.run(
            "return [...document.querySelectorAll('table tr')].map(row => [...row.cells].map(cell => cell.innerText))"
        )
        assert rows[0][3:9] == ["Records in", "Records out", "Bytes in", "Bytes out", "Late", "To read"]
        source, window = rows[1:]
        assert (source[7], source[8]) == ("0", "8,642")
        assert int(window[7].replace(",", "")) > 0
        assert all(int(row[3].replace(",", "")) > 0 for row in (source, window))

        names = "return [...document.querySelectorAll('table tbody tr')].map(row => row.cells[0].innerText)"
        in_order = browser.run(names)
        orders = []
        for _ in range(3):
            browser.click("th button", "Late")
            orders.append((browser.run(names), browser.run("return document.querySelector('[aria-sort]')?.ariaSort")))
        assert orders == [(in_order[::-1], "descending"), (in_order, "ascending"), (in_order, None)]
        browser.click("th button", "Vertex")
        assert browser.run(names) == sorted(in_order, key=str.lower)

        browser.click("td a", "per minute")
        browser.wait_text("late records dropped")
        subtasks = "return [...document.querySelectorAll('table tbody tr')].map(row => row.cells[0].innerText)"
        browser.click("th button", "Subtask")
        assert browser.run(subtasks) == sorted(browser.run(subtasks), reverse=True)
        browser.open(shown.address(f"#/job/{job.get_job_id()}/configuration"))
        assert "pendingRecords" not in browser.wait_text("Restart strategy")
    finally:
        job.cancel().result(120)


def test_plots_begin_with_what_the_server_has_kept(browser: Browser, shown: Shown) -> None:
    job = shown.server.jobs.get(shown.id("running"))
    assert job is not None
    begin = job.view().now - 1_800_000
    for number in range(180):
        job.history.add(replace(job.view(), now=begin + 10_000 * number))

    browser.open(shown.job("running", "metrics"))

    browser.wait("180 points", "return document.querySelector('.curve')?.getAttribute('d').split('L').length >= 180")


def test_the_first_view_lists_jobs_that_run_and_jobs_that_have_ended(browser: Browser, shown: Shown) -> None:
    browser.open(shown.address())

    text = browser.wait_text("flight delays", "payments", "nightly import")
    assert [word in text for word in ("running", "failed", "Slots in use", "4 of 4")] == [True] * 4
    assert browser.driver.title == "Jobs · flinkish"
    browser.click("td a", "nightly import")
    browser.wait_text("failed", "Exceptions")
    assert browser.driver.current_url == shown.job("failing")


def test_the_graph_shows_vertices_by_levels_with_their_figures(browser: Browser, shown: Shown) -> None:
    browser.open(shown.job("running"))

    browser.wait_text("records/s", "watermark 2024-01-0", "by key", "in turns")
    boxes = browser.run(
        "return [...document.querySelectorAll('.vertex')].map(each => {"
        "const {left, right, top, bottom} = each.getBoundingClientRect(); return [each.innerText, left, right, top, bottom]})"
    )
    assert len(boxes) == 5
    for index, (_, left, right, top, bottom) in enumerate(boxes):
        for _, other_left, other_right, other_top, other_bottom in boxes[:index]:
            assert right <= other_left or other_right <= left or bottom <= other_top or other_bottom <= top
    place = {word: next(box[1] for box in boxes if word in box[0]) for word in ("flights", "weather", "delay", "archive")}
    assert place["flights"] == place["weather"] < place["delay"] < place["archive"]
    assert browser.run("return document.querySelectorAll('.edge').length") == 5


def test_a_vertex_is_chosen_and_looked_at_by_keys(browser: Browser, shown: Shown) -> None:
    browser.open(shown.job("running"))
    browser.wait_text("Source: flights")
    for _ in range(40):
        browser.keys(TAB)
        if browser.run("return document.activeElement.matches('.vertex')"):
            break
    else:
        pytest.fail("the vertex is not reached by the tab key")
    ring = "const style = getComputedStyle(document.activeElement); return style.outlineStyle !== 'none' && style.outlineWidth"
    assert browser.run(ring) != "0px"

    assert "Source: " in browser.run("return document.activeElement.innerText")

    browser.keys(ENTER)

    browser.wait_text("Subtasks", "Records out", "Attempt")
    # The page is drawn again and again, and the focus stays.
    time.sleep(1)
    assert browser.run("return document.activeElement.matches('.vertex.chosen')")
    browser.open(shown.job("running", f"graph/{shown.vertex('running', 'flights')}/accumulators"))
    browser.wait_text("pair.seen", "LongCounter")


def test_what_is_typed_stays_while_the_page_is_drawn_again(browser: Browser, shown: Shown) -> None:
    browser.open(shown.job("running", f"graph/{shown.vertex('running', 'delay')}/metrics"))
    browser.wait_text("Find a metric", "numRecordsInPerSecond")
    browser.run("document.getElementById('seek').focus()")

    browser.keys("recordsin")

    browser.wait(
        "only those", "return !document.body.innerText.includes('numRecordsOut') && document.querySelector('#seek').value"
    )
    time.sleep(1)
    assert browser.run("return [document.activeElement.id, document.activeElement.value]") == ["seek", "recordsin"]
    assert "numRecordsInPerSecond" in browser.text()


@pytest.mark.parametrize("part", ["subtasks", "watermarks", "backpressure", "metrics", "accumulators", "processes"])
def test_each_part_of_a_vertex_can_be_used_by_all(browser: Browser, shown: Shown, part: str) -> None:
    browser.open(shown.job("running", f"graph/{shown.vertex('running', 'delay')}/{part}"))
    browser.wait("the part", "return document.querySelector('[data-key=\"part:' + arguments[0] + '\"]')", part)

    assert browser.run(CHECKS) == []
    assert "undefined" not in browser.text()
    assert "NaN" not in browser.text()


def test_a_slow_vertex_is_shown_as_the_bottleneck(browser: Browser, shown: Shown) -> None:
    browser.open(shown.job("slow"))

    browser.wait("a held back source", "return document.querySelector('.vertex.held')?.innerText.includes('orders')")
    browser.wait(
        "the bottleneck",
        "return [...document.querySelectorAll('.vertex')].find(each => each.innerText.includes('bottleneck'))"
        "?.innerText.includes('ask the bank')",
    )
    browser.open(shown.job("slow", f"graph/{shown.vertex('slow', 'orders')}/backpressure"))
    browser.wait_text("Back pressure of this vertex: high")


def test_a_failure_has_the_traceback_of_the_users_code(browser: Browser, shown: Shown) -> None:
    browser.open(shown.job("failing", "exceptions"))

    text = browser.wait_text("ValueError: flight 5 has no number", "page_jobs.py", "in check")
    assert "raise ValueError" in text
    assert browser.run("return document.querySelectorAll('.heading button').length") == 0


def test_names_are_texts_and_never_markup(browser: Browser, shown: Shown) -> None:
    browser.open(shown.job("failing"))

    browser.wait_text(MARKUP)
    assert browser.run("return document.querySelectorAll('main img').length") == 0


def test_checkpoints_are_shown_down_to_the_subtask(browser: Browser, shown: Shown) -> None:
    browser.open(shown.job("running", "checkpoints"))
    browser.wait("a complete one", "return document.body.innerText.includes('completed')")

    browser.click("tr:has(.good) a")

    text = browser.wait_text("Start delay", "Async", "State size")
    assert "delay per airport" in text
    assert "exactly once" in text
    assert browser.run("return document.querySelector('.panel tbody tr td').innerText") == "0"


def test_metrics_are_plotted_over_time(browser: Browser, shown: Shown) -> None:
    browser.open(shown.job("running", "metrics"))

    browser.wait("three points", "return document.querySelector('.curve')?.getAttribute('d').split('L').length > 3")
    browser.click("option", "numBytesOut")
    browser.run(
        "const select = document.querySelector('select'); select.value = 'numBytesOut';select.dispatchEvent(new Event('change'))"
    )
    browser.wait(
        "the metric that was added",
        "const plot = [...document.querySelectorAll('figure')].find(each => each.innerText.includes('numBytesOut'));"
        "return plot?.querySelector('.curve')",
    )


def test_a_savepoint_is_asked_for_and_its_path_is_told(browser: Browser, shown: Shown) -> None:
    browser.open(shown.job("running"))
    browser.click(".heading button", "Savepoint")
    browser.wait("the question", "return document.querySelector('dialog[open]')")
    assert browser.run(CHECKS) == []
    browser.keys(ESCAPE)
    browser.wait("no question", "return !document.querySelector('dialog')")
    assert shown.server.get(f"/jobs/{shown.id('running')}/checkpoints")["latest"]["savepoint"] is None

    browser.click(".heading button", "Savepoint")
    browser.wait("the question", "return document.activeElement.id === 'field-target'")
    browser.keys(str(shown.folder / "here"), ENTER)

    path = browser.wait("the path", "return document.querySelector('.notice.good pre')?.innerText")
    assert path.startswith(str(shown.folder / "here"))
    assert Path(path).exists()


@pytest.mark.parametrize(
    "place",
    ["", "JOB", "JOB/checkpoints", "JOB/exceptions", "JOB/metrics", "JOB/timeline", "JOB/configuration", "server", "logs"],
)
def test_every_view_is_readable_by_night_and_in_a_narrow_window(browser: Browser, shown: Shown, place: str) -> None:
    browser.scheme("dark")
    browser.resize(360, 780)
    name = "failing" if place.endswith("exceptions") else "slow"
    browser.open(shown.address(f"#/{place.replace('JOB', f'job/{shown.id(name)}')}"))

    browser.wait("the view", "return document.querySelector('main')?.getAttribute('aria-busy') === 'false'")

    assert browser.run("const [r] = getComputedStyle(document.body).backgroundColor.match(/\\d+/g); return Number(r)") < 60
    assert browser.run(CHECKS) == []
    assert browser.run("return document.documentElement.scrollWidth") <= 360
    assert browser.run(OVERFLOW) == 0
    browser.scheme("light")
    assert browser.run(CHECKS) == []
    assert "undefined" not in browser.text()
    assert "NaN" not in browser.text()


def test_settings_are_found_by_words_and_secrets_are_hidden(browser: Browser, shown: Shown) -> None:
    browser.open(shown.job("slow", "configuration"))
    browser.wait_text("execution.checkpointing.interval", "rest.secret")

    browser.run("document.getElementById('seek-setting').focus()")
    browser.keys("secret")

    browser.wait("few settings", "return document.querySelectorAll('main tbody tr').length === 1")
    assert "do not show" not in browser.run("return document.documentElement.outerHTML")


def test_a_job_is_cancelled_after_a_question(browser: Browser, shown: Shown) -> None:
    shown.start("unwanted", slow_job)
    browser.open(shown.job("unwanted"))
    browser.click(".heading button", "Cancel")
    browser.wait_text("Cancel this job?", "Let it run")
    browser.click("dialog button", "Let it run")
    assert shown.server.get(f"/jobs/{shown.id('unwanted')}/status") == {"status": "RUNNING"}

    browser.click(".heading button", "Cancel")
    browser.click("dialog button", "Cancel the job")

    browser.wait("the end", "return document.querySelector('h1 .badge')?.innerText === 'canceled'")
    browser.wait("no buttons", "return !document.querySelector('.heading button')")


def test_a_job_is_stopped_with_a_savepoint_after_a_question(browser: Browser, shown: Shown) -> None:
    shown.start("stopped", running_job)
    status, file = f"/jobs/{shown.id('stopped')}/status", shown.folder / "a file"
    file.write_text("")
    browser.open(shown.job("stopped"))
    browser.click(".heading button", "Stop")
    browser.wait_text("Stop this job with a savepoint?", "Drain")
    browser.click("dialog button", "Go back")
    browser.wait("no question", "return !document.querySelector('dialog')")

    # The savepoint cannot be written there, so the job goes on.
    browser.click(".heading button", "Stop")
    browser.keys(str(file), ENTER)
    told = browser.wait("the failure", "return document.querySelector('.notice.bad')?.innerText")
    assert "Stop of flight delays failed." in told
    assert str(file) in told
    assert shown.server.get(status) == {"status": "RUNNING"}

    browser.click(".heading button", "Stop")
    assert browser.run(CHECKS) == []
    browser.keys(str(shown.folder / "stopped here"))
    browser.click("#field-drain")
    browser.click("dialog button", "Stop the job")

    path = browser.wait("the path", "return document.querySelector('.notice.good pre')?.innerText")
    assert path.startswith(str(shown.folder / "stopped here"))
    assert Path(path).exists()
    browser.wait("the end", "return document.querySelector('h1 .badge')?.innerText === 'finished'")
    browser.wait("no buttons", "return !document.querySelector('.heading button')")
    browser.open(shown.job("stopped", f"graph/{shown.vertex('stopped', 'worst')}/watermarks"))
    browser.wait_text("at the end")


def test_long_names_and_lists_fit_into_a_narrow_window(browser: Browser, shown: Shown) -> None:
    script = browser.driver.execute_cdp_cmd("Page.addScriptToEvaluateOnNewDocument", {"source": MANY})["identifier"]
    try:
        browser.resize(360, 780)
        browser.open(shown.address())
        browser.wait("the jobs", "return document.querySelectorAll('td .name').length === 40")
        widths = browser.run("return [...document.querySelectorAll('td .name')].map(name => name.getBoundingClientRect().width)")
        assert max(widths) < 250
        assert browser.run("return document.querySelector('td .name').title.length") > 400
        assert browser.run("return document.querySelectorAll('td .name b').length") == 0
        assert browser.run(OVERFLOW) == 0

        browser.open(shown.job("running", "checkpoints"))
        browser.wait("the checkpoints", "return document.querySelectorAll('td a').length === 90")
        bars = browser.run("return [...document.querySelectorAll('.bars span')].map(bar => bar.getBoundingClientRect().right)")
        assert len(bars) > 50
        assert max(bars) < 360
        assert browser.run(OVERFLOW) == 0
        assert browser.run(CHECKS) == []
    finally:
        browser.driver.execute_cdp_cmd("Page.removeScriptToEvaluateOnNewDocument", {"identifier": script})


def test_figures_of_any_size_are_short(browser: Browser, shown: Shown) -> None:
    browser.open(shown.address())
    browser.wait_text("Jobs")
    browser.run("import('/js/format.js').then(module => { window.format = module })")
    browser.wait("the module", "return window.format")

    counts = {0: "0", 9999: "9999", 10_000: "10.0 k", 999_960: "1.00 M", 1_234_567: "1.23 M", 1.234567e12: "1.23 T"}
    for value, text in counts.items():
        assert browser.run("return format.count(arguments[0])", value) == text
    assert browser.run("return format.count(-20000)") == "-20.0 k"
    assert browser.run("return [675.451, 1024, 1.234567e12].map(format.bytes)") == ["675 B", "1.00 KiB", "1.12 TiB"]
    assert browser.run("return format.short('🛫'.repeat(200))") == "🛫" * 99 + "…"


def test_a_job_that_is_not_known_is_said_to_be_so(browser: Browser, shown: Shown) -> None:
    browser.open(shown.address(f"#/job/{UNKNOWN}"))

    browser.wait_text("Not there", f"Job {UNKNOWN} not found", "All jobs")
    browser.open("about:blank")  # no answer comes after it
    assert all("404" in message for message in browser.console())


def test_addresses_of_flinks_page_lead_to_the_same_things(browser: Browser, shown: Shown) -> None:
    browser.open(shown.address(f"#/job/running/{shown.id('slow')}/checkpoints"))

    browser.wait_text("History")
    assert browser.driver.current_url == shown.job("slow", "checkpoints")


def test_the_token_is_asked_for_once_and_sent_from_then_on(browser: Browser) -> None:
    with served(token=TOKEN, refresh_interval=300) as server:
        browser.open(f"http://localhost:{server.port}/")
        browser.wait_text("This server answers only those who know its token")
        assert browser.run(CHECKS) == []
        browser.keys("a wrong one", ENTER)
        browser.wait_text("does not accept this token")

        browser.keys(TOKEN, ENTER)

        browser.wait_text("No job runs.")
        browser.open(f"http://localhost:{server.port}/#/server")
        browser.wait_text("Settings of the server")
        assert TOKEN not in browser.run("return document.documentElement.outerHTML + document.cookie + location.href")
        assert all("401" in message for message in browser.console())
        # Else the page notices the end of the server.
        browser.open("about:blank")


def test_a_lost_server_is_told_and_found_again(browser: Browser) -> None:
    port = free_port()
    with served(ports=(port,), refresh_interval=300):
        browser.open(f"http://localhost:{port}/")
        browser.wait_text("No job runs.")
    browser.wait_text("The server does not answer", "What is shown is old", "No job runs.")
    assert browser.run("return document.querySelector('main').className") == "stale"
    assert all("ERR_CONNECTION" in message or "Failed to fetch" in message for message in browser.console())

    with served(ports=(port,), refresh_interval=300):
        browser.wait("the server again", "return !document.querySelector('.lost') && !document.querySelector('.stale')")
        browser.open("about:blank")
        browser.console()


def test_the_watermark_of_a_source_is_that_which_it_sends(browser: Browser, shown: Shown) -> None:
    browser.open(shown.address("#/logs"))
    browser.wait_text("Log files of Server")
    # By the letters, the last operator is the one before the watermarks are made.
    script = """
    const done = arguments[0];
    const marks = { Assigner: 5, Source__zones: -9223372036854775808 };
    const list = Object.entries(marks).map(([name, min]) => ({ id: `${name}.currentOutputWatermark`, min, max: min }));
    const others = window.fetch;  // the page goes on asking
    const answer = (path) => new Response(JSON.stringify(path.includes("/subtasks/metrics") ? list : []));
    window.fetch = async (path, ...rest) => (path.includes("/jobs/x") ? answer(path) : others(path, ...rest));
    import("./js/samples.js")
      .then(({ sampleJob }) => sampleJob("/jobs/x", { jid: "x", now: 1, state: "RUNNING", vertices: [{ id: "v" }] }))
      .then((found) => done(found.get("v").get("watermark").min), (error) => done(String(error)));
    """
    assert browser.driver.execute_async_script(script) == 5


def test_the_bottleneck_is_behind_what_is_held_back_or_a_far_busier_vertex_beside_it(browser: Browser, shown: Shown) -> None:
    browser.open(shown.address("#/logs"))
    browser.wait_text("Log files of Server")
    script = """
    const [shares, done] = arguments;
    const inputs = { middle: ["slow", "fast"], end: ["middle"] };
    const nodes = Object.keys(shares).map((id) => ({ id, inputs: (inputs[id] ?? []).map((from) => ({ id: from })) }));
    const sample = ([busy, held]) =>
      new Map([["busyTimeMsPerSecond", { max: busy }], ["backPressuredTimeMsPerSecond", { max: held }]]);
    const samples = new Map(Object.entries(shares).map(([id, pair]) => [id, sample(pair)]));
    import("./js/graph.js")
      .then(({ findBottlenecks }) => done([...findBottlenecks({ plan: { nodes } }, samples)]), (error) => done(String(error)));
    """
    found = browser.driver.execute_async_script
    behind = {"slow": (20, 800), "fast": (20, 800), "middle": (600, 0), "end": (30, 0)}
    assert found(script, behind) == ["middle"]
    beside = {"slow": (600, 30), "fast": (20, 800), "middle": (20, 0), "end": (30, 0)}
    assert found(script, beside) == ["slow"]
    assert found(script, {**beside, "fast": (20, 0)}) == []


def test_the_page_asks_only_its_own_server(browser: Browser, shown: Shown) -> None:
    browser.open(shown.job("slow"))
    browser.wait_text("held back")

    names = browser.run("return performance.getEntriesByType('resource').map(({name}) => name)")
    assert names
    assert all(name.startswith(shown.address()) for name in names)
    loaded = {name.removeprefix(shown.address()[:-1]) for name in names} | {"/", "/index.html"}
    assert set(page_files()) <= loaded


def test_a_program_is_uploaded_run_and_cancelled_in_a_session(browser: Browser, tmp_path: Path) -> None:
    script = tmp_path / "tiny_job.py"
    script.write_text(SCRIPT)
    session = Session(tmp_path)
    try:
        session.start()
        address = f"http://localhost:{session.port}"
        browser.open(f"{address}/#/submit")
        browser.wait_text("Upload a program", "No program was uploaded yet.")
        assert browser.run(CHECKS) == []

        browser.driver.find_element("id", "program").send_keys(str(script))
        browser.wait_text("tiny_job.py is uploaded.")
        browser.click("td button", "Plan")
        browser.wait("the question", "return document.activeElement.id === 'field-arguments'")
        browser.keys("'tiny job'", TAB, "1", ENTER)
        text = browser.wait_text("Plan of tiny_job.py: tiny job", "Source: numbers")
        assert "\u00d7 1" in text
        browser.wait("the focus", "return document.activeElement.id === 'plan'")
        assert browser.run(CHECKS) == []
        assert session.get("/jobs") == {"jobs": []}

        # What was answered for the plan is proposed.
        browser.click("section button", "Run this")
        browser.wait("the question", "return document.activeElement.id === 'field-arguments'")
        assert browser.run("return document.activeElement.value") == "'tiny job'"
        browser.keys(ESCAPE)

        browser.click("td button", "Run")
        browser.wait("the question", "return document.activeElement.id === 'field-arguments'")
        assert browser.run(CHECKS) == []
        browser.run("document.querySelectorAll('dialog input').forEach((each) => (each.value = ''))")
        browser.keys("'tiny job'", TAB, "1", ENTER)

        browser.wait("the graph", "return document.querySelector('.vertex') && document.querySelector('h1').innerText")
        assert browser.wait_text("was started", "records/s").count("tiny job running") == 1
        # A vertex that is a source and a sink.
        browser.wait("what it reads", "return /[0-9]( [kMG])? in\\s+records/.test(document.querySelector('.vertex').innerText)")
        browser.click(".heading button", "Cancel")
        browser.click("dialog button", "Cancel the job")
        browser.wait("the end", "return document.querySelector('h1 .badge')?.innerText === 'canceled'")
        browser.click(".heading a", "log")
        browser.wait_text(f"driver-{session.get('/jobs')['jobs'][0]['id']}.log", "switched from state RUNNING to CANCELLING")
        browser.click("p a", "All logs")
        browser.wait_text("Log files of Server")
        row = browser.run("return [...document.querySelectorAll('tr')].find(row => row.innerText.includes('driver-')).innerText")
        assert row.startswith("tiny job")
    finally:
        browser.open("about:blank")
        session.close()
