"""Runs the commands of the guide (`docs/guide`), page by page, as a reader would type them.

Blocks marked `sh` go to one shell for each page, those marked `js` to mongosh, on the server of `@PORT` if one is named, as the user behind it. In these
`// → VALUE` says what a line answers. Blocks marked `console` are not run here: `ELSEWHERE` says what runs them.
The ports of the page are replaced by free ones.
"""

import json
import os
import pathlib
import re
import subprocess

import pytest

from server_process import binary_path, free_port

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
PAGES = sorted((ROOT / "docs/guide").glob("*.md"))
BLOCK = re.compile(r"^```(\w+)([^\n]*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
PORTS = ("27017", "27018")
USERS = {"ada": "a%20long%20password"}
# What begins so is run by other tests.
ELSEWHERE = {
    "apt install": "test_debian_package.py: by dpkg",
    "systemctl": "test_readiness.py",
    "tar --extract": "test_static_programs.py",
    "plimsoll-VERSION-x86_64-linux-static/bin/plimsoll serve": "test_static_programs.py",
    "cargo run": "the build that is tested",
    "pip install": "test_packages.py: the wheel",
    "npm install": "test_packages.py: the npm package",
}


def blocks(page):
    return [(language, words.split(), text) for language, words, text in BLOCK.findall(page.read_text())]


def with_checks(text):
    """A script in which each line that says what it answers is compared with that."""
    script, statement = [], []
    for line in text.splitlines():
        code, arrow, expected = line.partition("  // → ")
        statement.append(code)
        if arrow:
            # Not evaluated from a string: the shell would not wait for what it asks the server.
            before, _, value = "\n".join(statement).rpartition("; ")
            script += [f"{before};", f"found = {value};", f"compare(found, {json.dumps(expected)}, {json.dumps(value)});"]
            statement = []
    rest = "\n".join(statement).strip()
    assert not rest, f"it is not said what this answers: {rest}"
    return CHECK + "\n".join(script) + '\nprint("done");\n'


CHECK = """
var found;
function compare(found, expected, source) {
  const told = EJSON.stringify(found, { relaxed: true });
  if (told !== expected) throw new Error(source + " answered " + told + ", not " + expected);
}
"""


class Reader:
    """One shell that lives as long as the page, so that servers started in it do, too."""

    def __init__(self, folder):
        self.folder = folder
        self.ports = {port: str(free_port()) for port in PORTS}
        links = folder / "programs"
        links.mkdir()
        for program in [binary_path(), binary_path().with_name("plimsoll-lab")]:
            (links / program.name).symlink_to(program)
        first = self.ports[PORTS[0]]
        self.environment = {**os.environ, "HOME": str(folder), "MONGOSH_LOG_DIRECTORY": str(folder)}
        self.environment |= {"PATH": f"{links}:{os.environ['PATH']}", "PLIMSOLL_LISTEN": f"127.0.0.1:{first}"}
        self.process = subprocess.Popen(
            ["bash", "-m"], cwd=folder, env=self.environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
            start_new_session=True,
        )

    def replaced(self, text):
        for port, free in self.ports.items():
            text = text.replace(port, free)
        return text

    def run_shell(self, text):
        # What only asks the default port is asked the free one.
        text = re.sub(r"^(plimsoll health(?: --wait \d+)?)$", rf"\1 mongodb://127.0.0.1:{self.ports['27017']}", text, flags=re.MULTILINE)
        for line in self.replaced(text).splitlines():
            self.process.stdin.write(f"{line}\necho \"ended with $?\"\n")
            self.process.stdin.flush()
            said = []
            for answer in self.process.stdout:
                if answer.startswith("ended with "):
                    break
                said.append(answer)
            assert answer == "ended with 0\n", f"{line}\n{''.join(said)}{answer}"

    def run_mongosh(self, words, text, database):
        port = words[0].removeprefix("@") if words else "27017"
        login = f"{words[1]}:{USERS[words[1]]}@" if len(words) > 1 else ""
        set_name = "&replicaSet=rs0" if port == "27018" else ""
        uri = f"mongodb://{login}127.0.0.1:{self.ports[port]}/{database}?authSource=admin{set_name}"
        script = self.folder / "script.js"
        script.write_text(with_checks(self.replaced(text)))
        shell = os.environ.get("PLIMSOLL_MONGOSH")
        if not shell:
            pytest.skip("PLIMSOLL_MONGOSH does not name a mongosh")
        command = [shell, "--quiet", "--norc", uri, "--file", str(script)]
        ended = subprocess.run(command, capture_output=True, text=True, timeout=300, env=self.environment, check=False)
        assert ended.returncode == 0 and ended.stdout.strip().endswith("done"), ended.stdout + ended.stderr

    def end(self):
        self.process.stdin.write("kill $(jobs -p) 2>/dev/null; wait\n")
        self.process.stdin.close()
        self.process.stdout.read()
        self.process.wait(60)


@pytest.fixture
def reader(tmp_path):
    reader = Reader(tmp_path)
    yield reader
    reader.end()


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_page(page, reader):
    for language, words, text in blocks(page):
        if language == "sh":
            reader.run_shell(text)
        elif language == "js":
            reader.run_mongosh(words, text, "shop")
        elif language == "rust":
            assert page.stem == "in-a-program", "tests of documentation in crates/plimsoll run that page"
        else:
            assert language == "console"
            for line in text.splitlines():
                assert any(line.startswith(beginning) for beginning in ELSEWHERE), line


def test_links_lead_somewhere():
    for page in PAGES:
        for target in re.findall(r"\]\(([^)#]*)", page.read_text()):
            assert target == "" or (page.parent / target).exists(), (page.name, target)
