"""A real browser, headless: Debian's chromium and chromium-driver, driven by selenium (the extra `browser`)."""

import json
import shutil
import subprocess
import tarfile
import time

import pytest

AXE = "axe-core@4.14.0"  # from npm, fetched for the test and kept nowhere
NAMES = ("chromium", "chromium-browser", "google-chrome")
WAIT = 30  # seconds, on a busy machine


class Browser:
    """A page from a disk, and what the browser said and asked for meanwhile."""

    def __init__(self, driver):
        self.driver = driver
        self.size(1200)
        self.theme("light")

    def size(self, width, height=900):
        values = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False}
        self.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", values)

    def theme(self, name, media=""):
        features = [{"name": "prefers-color-scheme", "value": name}]
        self.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": features, "media": media})

    def open(self, page, address=""):
        """Milliseconds from its start until it shows something."""
        self.driver.get("about:blank")
        self.driver.get(page.resolve().as_uri() + address)
        return int(self.until("return document.documentElement.dataset.ready"))

    def go(self, address):
        self.run("delete document.documentElement.dataset.ready; location.hash = arguments[0]", address)
        self.until("return document.documentElement.dataset.ready")

    def run(self, code, *given):
        return self.driver.execute_script(code, *given)

    def until(self, code):
        end = time.monotonic() + WAIT
        while time.monotonic() < end:
            if found := self.run(code):
                return found
            time.sleep(0.02)
        raise AssertionError(f"never: {code}; {self.driver.get_log('browser')}")

    @property
    def text(self):
        return self.run("return document.getElementById('main').innerText")

    def texts(self, selector):
        return self.run("return [...document.querySelectorAll(arguments[0])].map((e) => e.textContent)", selector)

    def click(self, selector):
        """By the script's own click, and wait for what it shows."""
        code = "delete document.documentElement.dataset.ready; document.querySelector(arguments[0]).click()"
        self.run(code, selector)
        self.until("return document.documentElement.dataset.ready")

    def milliseconds(self, code):
        """From an action until the view is drawn again."""
        return self.driver.execute_async_script(
            "const [code, done] = arguments, start = performance.now();"
            "new MutationObserver((_, self) => { self.disconnect();"
            " requestAnimationFrame(() => setTimeout(() => done(performance.now() - start))); })"
            ".observe(document.getElementById('main'), {childList: true}); eval(code);",
            code,
        )

    def said(self):
        return [each["message"] for each in self.driver.get_log("browser")]

    def asked(self):
        """Addresses of all requests since the last call."""
        events = [json.loads(each["message"])["message"] for each in self.driver.get_log("performance")]
        return [e["params"]["request"]["url"] for e in events if e["method"] == "Network.requestWillBeSent"]


@pytest.fixture(scope="session")
def browser():
    webdriver = pytest.importorskip(
        "selenium.webdriver", reason="selenium is not installed: pip install -e '.[browser]'"
    )
    binary = next((found for name in NAMES if (found := shutil.which(name))), None)
    chromedriver = shutil.which("chromedriver")
    if binary is None or chromedriver is None:
        pytest.skip("no browser here: apt-get install chromium chromium-driver")
    options = webdriver.ChromeOptions()
    options.binary_location = binary
    for argument in ("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"):
        options.add_argument(argument)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    driver = webdriver.Chrome(options=options, service=webdriver.ChromeService(chromedriver))
    driver.set_script_timeout(WAIT)
    yield Browser(driver)
    driver.quit()


@pytest.fixture(scope="session")
def axe(tmp_path_factory):
    """The text of axe-core."""
    if shutil.which("npm") is None:
        pytest.skip("no npm here, which axe-core comes from")
    folder = tmp_path_factory.mktemp("axe")
    done = subprocess.run(["npm", "pack", "--silent", AXE], cwd=folder, capture_output=True, text=True, timeout=120)
    if done.returncode:
        pytest.skip(f"npm has no {AXE} here: {done.stderr[:200]}")
    with tarfile.open(next(folder.glob("*.tgz"))) as archive:
        return archive.extractfile("package/axe.min.js").read().decode()
