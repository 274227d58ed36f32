"""Every kind of report, looked at in a real browser: light and dark, as wide as a laptop and as a phone.

The reports are made by the programs themselves, from short runs against a server of this suite. PLIMSOLL_SCREENSHOTS names a
directory that keeps the pictures, for people to look at.
"""

import json
import os
import pathlib
import subprocess

import pytest

from browser import Browser
from server_process import binary_path

SCREENS = [(1280, 800), (390, 844)]
KINDS = ["bench", "partial", "profile", "compare", "history", "certify"]
# A run is as short as it can be: what is looked at is the page.
COMMAND_SECONDS_MAX = 120

# A closed loop and an open one.
SCENARIO = """
name: short
description: A closed loop and an open one
collections: {things: {documents: 500, document: {_id: =number, text: {=text: 100}}}}
phases:
  - {name: load, preparation: true, load: [things]}
  - {name: closed, threads: 2, seconds: 1, mix: [{findOne: {collection: things, filter: {_id: {=random: {to: 500}}}, expect: 1}}]}
  - {name: open, threads: 4, seconds: 2, rate: 200, mix: [{weight: 3, findOne: {collection: things, filter: {_id: 7}}},
      {updateOne: {collection: things, filter: {_id: {=random: {to: 500}}}, update: {$inc: {counter: 1}}}}]}
"""

# What sticks out of the page to the right, other than inside a table that scrolls by itself.
OVERFLOWING = """
[...document.querySelectorAll('main *')].filter(element => {
  if (element.closest('.scroll') || element.closest('details:not([open])')) return false;
  return element.getBoundingClientRect().right > innerWidth + 1;
}).map(element => element.outerHTML.slice(0, 200))
"""

# Text whose contrast with the ground is below what WCAG asks of small text.
FAINT = """
(() => {
  const parts = colour => colour.match(/[\\d.]+/g).map(Number);
  const luminance = colour => parts(colour).slice(0, 3).map(part => part / 255)
    .map(part => part <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4)
    .reduce((sum, part, place) => sum + part * [0.2126, 0.7152, 0.0722][place], 0);
  const ground = element => {
    for (let at = element; at; at = at.parentElement) {
      const colour = getComputedStyle(at).backgroundColor;
      if ((parts(colour)[3] ?? 1) > 0) return colour;
    }
    return 'rgb(255, 255, 255)';
  };
  const own = element => [...element.childNodes].some(node => node.nodeType === 3 && node.textContent.trim());
  const failing = [...document.querySelectorAll('main *:not(object)')].filter(element => own(element)).filter(element => {
    const style = getComputedStyle(element);
    const colour = element.closest('svg') ? style.fill : style.color;
    const [low, high] = [luminance(colour), luminance(ground(element))].sort((a, b) => a - b);
    return (high + 0.05) / (low + 0.05) < 4.5;
  });
  return failing.map(element => element.outerHTML.slice(0, 200));
})()
"""

FACTS = """
({
  data: document.getElementById('data') !== null && typeof JSON.parse(document.getElementById('data').textContent),
  width: document.documentElement.scrollWidth,
  heading: document.querySelector('h1').textContent,
  ground: getComputedStyle(document.body).backgroundColor,
  charts: [...document.querySelectorAll('svg.chart')].filter(chart => !chart.closest('details')).length,
  empty: [...document.querySelectorAll('svg.chart')].filter(chart => !chart.closest('details'))
    .filter(chart => chart.getBoundingClientRect().height < 60).length,
  unnamed: [...document.querySelectorAll('svg.chart')].filter(chart => !chart.getAttribute('aria-label')).length,
  pictures: document.querySelectorAll('object').length,
})
"""


def run(*arguments, expect=(0,), without_perf=False):
    """Runs a program of ours to its end; gives what it printed."""
    environment = dict(os.environ)
    if without_perf:
        environment["PATH"] = "/nonexistent"
    command = [str(binary_path().resolve()), *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=COMMAND_SECONDS_MAX, env=environment)
    assert done.returncode in expect, f"{command} ended with {done.returncode}:\n{done.stdout}{done.stderr}"
    return done.stdout + done.stderr


def run_profiled(server, scenario, output):
    """A short run with a profile. Where there is no perf, our own server is asked to sample itself."""
    options = ["--target", server.uri, "--profile", "--output", output]
    return run("bench", scenario, *options, without_perf=True)


def make_history(result, directory):
    """Fourteen results, of which the second half is slower."""
    for number in range(14):
        changed = json.loads(json.dumps(result))
        changed["started_at"] = f"2026-03-{number + 1:02d}T10:00:00Z"
        changed["target"]["git_version"] = f"{number:07x}"
        level = (1.0 if number < 7 else 0.6) * (1 + number % 3 / 100)
        for phase in changed["phases"]:
            for name in ("operations_per_second", "documents_per_second", "goodput_per_second"):
                phase[name] *= level
        (directory / f"{number:02d}").mkdir(parents=True)
        (directory / f"{number:02d}" / "result.json").write_text(json.dumps(changed))


@pytest.fixture(scope="module")
def reports(server, tmp_path_factory):
    """The report of each kind, and what the programs printed."""
    directory = tmp_path_factory.mktemp("reports")
    said = {}
    scenario = directory / "short.yaml"
    scenario.write_text(SCENARIO)
    said["bench"] = run_profiled(server, scenario, directory / "runs/1")
    run_profiled(server, scenario, directory / "runs/2")
    said["partial"] = cut_short(server, directory)
    said["profile"] = run(
        "profile", "--read", directory / "runs/1/profile.folded", "--output", directory / "profile"
    )
    said["compare"] = run(
        "compare", directory / "runs/1", directory / "runs/2", "--output", directory / "compare", expect=(0, 3)
    )
    make_history(json.loads((directory / "runs/1/result.json").read_text()), directory / "past")
    said["history"] = run("history", directory / "past", "--output", directory / "history", expect=(0, 3))
    short = ["--scale", "0.01", "--seconds", "1", "--only", "G5,G20"]
    said["certify"] = run("certify", "--target", server.uri, *short, "--output", directory / "certify", expect=(0, 3))
    pages = {kind: directory / kind / "report.html" for kind in KINDS}
    pages["bench"] = directory / "runs/1/report.html"
    pages["profile"] = directory / "profile/profile.html"
    return pages, said


def cut_short(server, directory):
    """A run that stops at its first operation."""
    scenario = directory / "wrong.yaml"
    mix = "[{findOne: {collection: nothing, filter: {_id: 1}, expect: 1}}]"
    scenario.write_text(f"name: wrong\ncollections: {{nothing: {{}}}}\nphases: [{{name: p, seconds: 5, mix: {mix}}}]\n")
    return run("bench", scenario, "--target", server.uri, "--output", directory / "partial", expect=(1,))


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    """The browser. Without one the tests fail."""
    browser = Browser(tmp_path_factory.mktemp("browser"))
    yield browser
    browser.close()


@pytest.mark.parametrize("kind", KINDS)
def test_looks_tidy(kind, reports, browser, tmp_path):
    pictures = pathlib.Path(os.environ.get("PLIMSOLL_SCREENSHOTS", tmp_path))
    pictures.mkdir(parents=True, exist_ok=True)
    path = reports[0][kind]
    for width, height in SCREENS:
        for scheme in ("light", "dark"):
            requests, complaints = browser.open(path, width, height, scheme)
            outside = [url for url in requests if not url.startswith(("file:", "data:"))]
            assert not outside and not complaints, (outside, complaints)
            facts = browser.evaluate(FACTS)
            assert facts["data"] == "object" and facts["heading"], facts
            assert facts["width"] <= width and browser.evaluate(OVERFLOWING) == [], facts
            assert browser.evaluate(FAINT) == []
            is_dark = sum(map(int, facts["ground"].strip("rgb()").split(","))) < 200
            assert is_dark == (scheme == "dark"), facts
            assert facts["empty"] == 0 and facts["unnamed"] == 0, facts
            assert facts["charts"] > 0 or kind in ("profile", "partial", "certify"), facts
            assert facts["pictures"] > 0 or kind in ("partial", "history", "certify"), facts
            picture = pictures / f"{kind}-{width}-{scheme}.png"
            browser.picture(picture)
            assert picture.read_bytes().startswith(b"\x89PNG") and picture.stat().st_size > 10_000


def test_a_profile_is_taken_without_perf(reports):
    pages, said = reports
    assert "perf does not serve" in said["bench"]
    result = json.loads((pages["bench"].parent / "result.json").read_text())
    assert "sampled by the server itself" in result["profile"], result["profile"]
    assert "sampled by the server itself" in pages["bench"].read_text()
    assert " " in (pages["bench"].parent / "profile.folded").read_text()


def test_a_run_leaves_all_that_is_promised(reports):
    directory = reports[0]["bench"].parent
    result = json.loads((directory / "result.json").read_text())
    assert result["complete"]
    measured = [phase for phase in result["phases"] if not phase["preparation"]]
    for phase in measured:
        assert phase["seconds"] and phase["tenths"]["operations"] and phase["second_latencies"]["p99"]
        assert phase["longest_gap"]["seconds"] > 0 and phase["goodput_per_second"] > 0
        assert phase["overhead"]["client_cpu_microseconds_per_operation"] > 0
        assert phase["server_cpu_seconds"] > 0 and phase["server_resident_bytes_maximum"] > 1_000_000
        assert any(path.startswith("opcounters.") for path in phase["counters"]), phase["counters"].keys()
        assert all(step["histogram"] for step in phase["steps"])
    assert measured[-1]["offered_per_second"] == 200
    lines = [json.loads(line) for line in (directory / "series.jsonl").read_text().splitlines()]
    assert {line["phase"] for line in lines} >= {phase["name"] for phase in measured}
    assert (directory / "latency.hlog").read_text().count("Tag=") >= len(measured)
    assert "<svg" in (directory / "throughput.svg").read_text()


def test_a_run_cut_short_says_why_and_keeps_what_it_has(reports):
    pages, said = reports
    assert "FAILED" in said["partial"] and "expects 1" in said["partial"], said["partial"]
    result = json.loads((pages["partial"].parent / "result.json").read_text())
    assert not result["complete"] and "findOne: 0 documents" in result["failure"]
    assert "Partial results" in pages["partial"].read_text()
