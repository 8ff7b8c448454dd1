"""A real browser for tests of the page: Debian's chromium, steered by selenium."""

from __future__ import annotations

import os
import shutil
import time
from pathlib import Path
from typing import Any

import pytest

#: Names of the browser and of its driver, as distributions call them.
BROWSERS = ("chromium", "chromium-browser", "google-chrome")
DRIVERS = ("chromedriver", "chromium.chromedriver")
PATIENCE = 30.0


def need_browser() -> tuple[str, str]:
    """Return the paths of a browser and its driver; skip the test if there is none, unless CI must have it."""
    found = [next(filter(None, map(shutil.which, names)), None) for names in (BROWSERS, DRIVERS)]
    browser, driver = found
    if browser is None or driver is None:
        pytest.skip("no browser: install chromium and chromium-driver")
    pytest.importorskip("selenium", reason="selenium is not installed: pip install -e '.[dev]'")
    return browser, driver


class Browser:
    """One browser with one tab, and what its console said."""

    def __init__(self, folder: Path) -> None:
        path, driver = need_browser()
        from selenium.webdriver import Chrome
        from selenium.webdriver.chrome.options import Options
        from selenium.webdriver.chrome.service import Service

        options = Options()
        options.binary_location = path
        for argument in (
            "--headless=new",
            "--disable-gpu",
            "--disable-dev-shm-usage",
            "--disable-extensions",
            "--disable-background-networking",
            "--no-first-run",
            f"--user-data-dir={folder}",
            # The browser refuses to be the superuser's with its sandbox.
            *(["--no-sandbox"] if os.geteuid() == 0 else []),
        ):
            options.add_argument(argument)
        options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
        self.driver = Chrome(options=options, service=Service(driver))
        self.resize(1360, 900)

    def close(self) -> None:
        self.driver.quit()

    def open(self, address: str) -> None:
        """Open an address; only the part behind the hash may differ from the current one."""
        self.driver.get(address)

    def run(self, script: str, *arguments: Any) -> Any:
        """Run a script in the page and return its result."""
        return self.driver.execute_script(script, *arguments)

    def wait(self, what: str, script: str, *arguments: Any) -> Any:
        """Wait until a script's result is true, and return it."""
        deadline = time.monotonic() + PATIENCE
        while not (result := self.run(script, *arguments)):
            if time.monotonic() > deadline:
                pytest.fail(f"waited {PATIENCE:.0f} s for {what}; the page shows:\n{self.text()}\nconsole: {self.console()}")
            time.sleep(0.05)
        return result

    def wait_text(self, *texts: str) -> str:
        """Wait until the page shows all texts; return all that it shows."""
        self.wait(f"{texts}", "return arguments[0].every(text => document.body.innerText.includes(text))", list(texts))
        return self.text()

    def text(self) -> str:
        """Return what the page shows."""
        return str(self.run("return document.body.innerText"))

    def keys(self, *keys: str) -> None:
        """Press keys where the focus is."""
        self.driver.switch_to.active_element.send_keys(*keys)

    def click(self, selector: str, text: str = "") -> None:
        """Click on the first element of a selector that has the text."""
        find = "[...document.querySelectorAll(arguments[0])].find(each => each.textContent.includes(arguments[1]))"
        self.wait(f"{selector} {text!r}", f"const found = {find}; if (found) found.click(); return !!found", selector, text)

    def resize(self, width: int, height: int) -> None:
        """Set the size of the window's content; a real window has a least width."""
        metrics = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False}
        self.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)

    def scheme(self, name: str) -> None:
        """Prefer a dark or a light page."""
        self.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [{"name": "prefers-color-scheme", "value": name}]})

    def console(self) -> list[str]:
        """Return warnings and errors of the console since the last call."""
        return [entry["message"] for entry in self.driver.get_log("browser") if entry["level"] in ("SEVERE", "WARNING")]


#: Finds texts without contrast, controls without names, and other things that readers cannot use; returns sentences.
CHECKS = Path(__file__).with_name("page_checks.js").read_text()
