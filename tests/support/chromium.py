"""A real browser for tests. It is controlled over a pipe by the DevTools protocol, with the standard library alone."""

import base64
import itertools
import json
import os
import shutil
import subprocess
import tempfile
from pathlib import Path

PATH = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")


class Browser:
    """Headless Chromium as a context manager, offline and with one tab."""

    def __enter__(self):
        self._home = tempfile.TemporaryDirectory(ignore_cleanup_errors=True)  # its helpers may still write
        ours_out, theirs_out = os.pipe()
        theirs_in, ours_in = os.pipe()

        def place():  # the protocol wants its pipes as descriptors 3 (to read) and 4 (to write)
            spare_in, spare_out = os.dup2(theirs_in, 103), os.dup2(theirs_out, 104)
            os.dup2(spare_in, 3)
            os.dup2(spare_out, 4)

        flags = ["--headless=new", "--no-sandbox", "--disable-gpu", "--remote-debugging-pipe", "--no-first-run"]
        network = ["--host-resolver-rules=MAP * ~NOTFOUND", "--disable-background-networking"]
        self._process = subprocess.Popen(
            [PATH, *flags, *network, f"--user-data-dir={self._home.name}", "about:blank"],
            preexec_fn=place, close_fds=False, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )  # fmt: skip
        os.close(theirs_in)
        os.close(theirs_out)
        self._out, self._in = os.fdopen(ours_in, "wb"), os.fdopen(ours_out, "rb")
        self._number, self._rest, self.events, self._session = itertools.count(1), b"", [], None
        target = next(t for t in self.call("Target.getTargets")["targetInfos"] if t["type"] == "page")
        given = {"targetId": target["targetId"], "flatten": True}
        self._session = self.call("Target.attachToTarget", **given)["sessionId"]
        for domain in ("Page", "Log", "Runtime", "Network", "DOM", "Accessibility"):
            self.call(f"{domain}.enable")
        self.call("Network.emulateNetworkConditions", offline=True, latency=0, downloadThroughput=0, uploadThroughput=0)
        return self

    def __exit__(self, *_):
        self._process.terminate()
        self._process.wait(timeout=120)
        self._out.close()
        self._in.close()
        self._home.cleanup()

    def call(self, method, **params):
        """Call a method and return its result. Events that arrive before the result are kept."""
        number = next(self._number)
        message = {"id": number, "method": method, "params": params}
        if self._session:
            message["sessionId"] = self._session
        self._out.write(json.dumps(message).encode() + b"\0")
        self._out.flush()
        while True:
            answer = self._receive()
            if answer.get("id") == number:
                if "error" in answer:
                    raise RuntimeError(f"{method}: {answer['error']}")
                return answer["result"]
            self.events.append(answer)

    def open(self, path, width=1200, height=900, scheme="light"):
        """Open a file in a window of a size and colour scheme. Return messages of the console and failed requests."""
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False)
        self.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])
        self.events.clear()
        self.call("Page.navigate", url=Path(path).resolve().as_uri())
        self._wait_for_load()
        said = ("Log.entryAdded", "Runtime.consoleAPICalled", "Runtime.exceptionThrown", "Network.loadingFailed")
        return [event for event in self.events if event.get("method") in said]

    def follow(self, selector):
        """Click a link, wait for the page that it leads to, and return that page's title."""
        self.events.clear()
        # The click comes after the answer: Chromium refuses to answer a page that has already left.
        self.evaluate(f"setTimeout(() => document.querySelector({json.dumps(selector)}).click())")
        self._wait_for_load()
        return self.evaluate("document.title")

    def requests(self):
        """Return the addresses that the page requested."""
        sent = [event for event in self.events if event.get("method") == "Network.requestWillBeSent"]
        return [event["params"]["request"]["url"] for event in sent]

    def evaluate(self, expression):
        """Return the value of a JavaScript expression in the page. The page's policy does not restrict it."""
        result = self.call("Runtime.evaluate", expression=expression, returnByValue=True)
        if "exceptionDetails" in result:
            raise RuntimeError(result["exceptionDetails"])
        return result["result"].get("value")

    def screenshot(self, path=None, clip=None):
        """Return a PNG of the whole page, or of a part (x, y, width, height)."""
        given = {} if clip is None else {"clip": dict(zip(("x", "y", "width", "height"), clip, strict=True), scale=1)}
        shot = self.call("Page.captureScreenshot", format="png", captureBeyondViewport=True, **given)
        data = base64.b64decode(shot["data"])
        if path is not None:
            Path(path).write_bytes(data)
        return data

    def _wait_for_load(self):
        while not any(event.get("method") == "Page.loadEventFired" for event in self.events):
            self.events.append(self._receive())
        self.evaluate("1")

    def _receive(self):
        while b"\0" not in self._rest:
            part = os.read(self._in.fileno(), 1 << 20)
            if not part:
                raise RuntimeError("the browser went away")
            self._rest += part
        message, self._rest = self._rest.split(b"\0", 1)
        return json.loads(message)
