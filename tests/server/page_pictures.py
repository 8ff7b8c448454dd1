"""Makes the pictures of the page in the documentation again: `make pictures`. Look at them before they are committed."""

from __future__ import annotations

import base64
import tempfile
import time
from pathlib import Path

from tests.server import page_jobs
from tests.server.browser import Browser
from tests.unit.server.support import served

IMAGES = Path(__file__).parents[2] / "docs" / "pages" / "images"
#: Seconds that plots go on for.
PLOTTED = 40.0
#: Replaces the paths of this machine in all answers: [[from, to], ...].
PATHS = """
const real = window.fetch;
window.fetch = async (...request) => {
  const answer = await real(...request);
  let text = await answer.text();
  for (const [from, to] of %s) text = text.replaceAll(from, to);
  return new Response(text, { status: answer.status, headers: answer.headers });
};
"""


def make(folder: Path) -> None:
    """Start the jobs of the page's tests and make a picture of each view that the documentation shows."""
    browser = Browser(folder / "browser")
    paths = [[page_jobs.__file__, "/home/ada/jobs/flights.py"], [str(folder), "/data"]]
    browser.driver.execute_cdp_cmd("Page.addScriptToEvaluateOnNewDocument", {"source": PATHS % paths})
    browser.driver.execute_cdp_cmd("Emulation.setScrollbarsHidden", {"hidden": True})
    with served(refresh_interval=1_000) as server:
        jobs = {}

        def shown(job: str, tab: str, wanted: str, width: int, height: int, scheme: str = "light") -> None:
            browser.resize(width, height)
            browser.scheme(scheme)
            browser.open("about:blank")
            browser.open(f"http://localhost:{server.port}/#/job/{jobs[job].get_job_id()}/{tab}")
            browser.wait(wanted, f"return {wanted}")

        def taken(name: str) -> None:
            # The driver's own picture has the scroll bars.
            picture = browser.driver.execute_cdp_cmd("Page.captureScreenshot", {"format": "png"})["data"]
            (IMAGES / f"{name}.png").write_bytes(base64.b64decode(picture))

        def start(name: str, job: object) -> None:
            (folder / name).mkdir()
            jobs[name] = job(folder / name)  # type: ignore[operator]

        def vertex(job: str, word: str) -> str:
            vertices = server.get(f"/jobs/{jobs[job].get_job_id()}")["vertices"]
            return str(next(each["id"] for each in vertices if word in each["name"]))

        start("failing", page_jobs.failing_job)
        shown("failing", "exceptions", "document.querySelector('.trace')", 1160, 480)
        taken("exceptions")
        start("slow", page_jobs.slow_job)
        held = "document.querySelector('.vertex.held') && document.body.innerText.includes('bottleneck')"
        shown("slow", f"graph/{vertex('slow', 'orders')}/backpressure", held, 1160, 650)
        browser.wait_text("Back pressure of this vertex: high")
        # Bars move slowly to their places.
        time.sleep(10)
        taken("back-pressure")
        jobs["slow"].cancel().result(120)
        start("running", page_jobs.running_job)
        time.sleep(20)
        shown("running", "graph", "document.querySelectorAll('.vertex').length === 5", 1160, 620)
        browser.wait_text("out records/s")
        time.sleep(3)
        taken("graph")
        shown("running", "checkpoints", "document.querySelectorAll('tr .good').length > 8", 1160, 760)
        browser.click("tr:has(.good) a")
        browser.wait_text("Start delay")
        taken("checkpoints")
        shown("running", "metrics", "document.querySelector('.curve')", 1160, 760, "dark")
        time.sleep(PLOTTED)
        taken("metrics")
        jobs["running"].cancel().result(120)
        browser.open("about:blank")
    browser.close()


if __name__ == "__main__":
    with tempfile.TemporaryDirectory(prefix="flinkish-pictures-") as folder:
        make(Path(folder))
