"""A headless Chromium, spoken to over its pipe: opens a page at a width, light or dark, evaluates scripts, takes pictures.

Used by test_reports.py. The browser is PLIMSOLL_CHROMIUM, or the first of the usual names that is found; there is no test
without one. Speaks the DevTools protocol over two pipes, so that nothing has to be installed beside the browser.
"""

import base64
import json
import os
import shutil
import subprocess
import time

NAMES = ["chromium", "chromium-browser", "google-chrome", "google-chrome-stable"]
ANSWER_SECONDS_MAX = 60


def browser_path():
    """The browser to look with."""
    named = os.environ.get("PLIMSOLL_CHROMIUM")
    found = named or next(filter(None, map(shutil.which, NAMES)), None)
    if not found:
        raise RuntimeError("no browser to look at reports with: install chromium, or name one by PLIMSOLL_CHROMIUM")
    return found


class Browser:
    """A running browser with one page."""

    def __init__(self, profile_directory):
        to_browser, self.commands = os.pipe()
        self.replies, from_browser = os.pipe()

        def attach():
            # The browser reads commands from descriptor 3 and answers on 4.
            reading, writing = os.dup(to_browser), os.dup(from_browser)
            os.dup2(reading, 3)
            os.dup2(writing, 4)

        arguments = ["--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--hide-scrollbars"]
        arguments += ["--no-first-run", "--disable-extensions", "--disable-background-networking", "--mute-audio"]
        arguments += ["--remote-debugging-pipe", f"--user-data-dir={profile_directory}", "about:blank"]
        self.process = subprocess.Popen(
            [browser_path(), *arguments],
            preexec_fn=attach,
            close_fds=False,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        os.close(to_browser)
        os.close(from_browser)
        self.received = b""
        self.number = 0
        self.events = []
        self.session = None
        targets = self.call("Target.getTargets")["targetInfos"]
        page = next(target["targetId"] for target in targets if target["type"] == "page")
        self.session = self.call("Target.attachToTarget", targetId=page, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Network", "Log"):
            self.call(f"{domain}.enable")

    def close(self):
        """Ends the browser."""
        os.close(self.commands)
        os.close(self.replies)
        self.process.terminate()
        try:
            self.process.wait(10)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()

    def call(self, method, **parameters):
        """Sends a command and waits for its reply."""
        self.number += 1
        message = {"id": self.number, "method": method, "params": parameters}
        if self.session:
            message["sessionId"] = self.session
        unsent = json.dumps(message).encode() + b"\0"
        while unsent:
            unsent = unsent[os.write(self.commands, unsent) :]
        until = time.monotonic() + ANSWER_SECONDS_MAX
        while time.monotonic() < until:
            reply = self.receive()
            if reply.get("id") == self.number:
                assert "error" not in reply, f"{method}: {reply['error']}"
                return reply["result"]
            self.events.append(reply)
        raise RuntimeError(f"the browser does not answer {method}")

    def receive(self):
        """The next message of the browser."""
        while b"\0" not in self.received:
            piece = os.read(self.replies, 1 << 20)
            if not piece:
                raise RuntimeError("the browser has ended")
            self.received += piece
        message, _, self.received = self.received.partition(b"\0")
        return json.loads(message)

    def open(self, path, width, height, scheme):
        """Shows a file as a screen of this size, light or dark, would; gives what it asked the network for and complained of."""
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=width < 600)
        self.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])
        self.events.clear()
        self.call("Page.navigate", url=path.resolve().as_uri())
        until = time.monotonic() + ANSWER_SECONDS_MAX
        while self.evaluate("document.readyState") != "complete" or self.evaluate("location.href") == "about:blank":
            assert time.monotonic() < until, f"{path} does not load"
            time.sleep(0.02)
        requests = [event["params"]["request"]["url"] for event in self.events if event.get("method") == "Network.requestWillBeSent"]
        complaints = [event["params"] for event in self.events if event.get("method") in ("Log.entryAdded", "Runtime.exceptionThrown")]
        return requests, complaints

    def evaluate(self, script):
        """The value of an expression in the page."""
        reply = self.call("Runtime.evaluate", expression=script, returnByValue=True)
        assert "exceptionDetails" not in reply, reply
        return reply["result"].get("value")

    def picture(self, path):
        """Writes the whole page as a PNG. What is out of sight is not drawn, so the screen is made as high as the page."""
        width, height = self.evaluate("[innerWidth, Math.min(document.documentElement.scrollHeight, 16000)]")
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=width < 600)
        # Two frames later everything, flame graphs in their own documents too, has been drawn.
        drawn = "new Promise(done => requestAnimationFrame(() => requestAnimationFrame(() => setTimeout(done, 200))))"
        self.call("Runtime.evaluate", expression=drawn, awaitPromise=True)
        reply = self.call("Page.captureScreenshot", format="png")
        path.write_bytes(base64.b64decode(reply["data"]))
