"""The Debian package, installed by dpkg into a Debian of its own: upgraded, removed, purged; and the container's recipe, built from it.

The Debian is made by `debootstrap`, once, and copied for each test. Where the machine does not allow that, each test says what is missing.
"""

import contextlib
import os
import pathlib
import shutil
import subprocess

import pytest
from pymongo import MongoClient

from server_process import free_port

PACKAGES = os.environ.get("PLIMSOLL_PACKAGES")
pytestmark = pytest.mark.skipif(PACKAGES is None, reason="PLIMSOLL_PACKAGES does not say where they are")
ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
SUITE = os.environ.get("PLIMSOLL_DEBIAN_SUITE", "bookworm")
CONFIGURATION = "etc/plimsoll.toml"
DATA = "var/lib/plimsoll"


def run(*command, code=0, **options):
    ended = subprocess.run(command, capture_output=True, text=True, timeout=900, check=False, **options)
    assert ended.returncode == code, f"{command}: {ended.returncode}\n{ended.stdout}{ended.stderr}"
    return ended.stdout


def need(*programs):
    if os.geteuid() != 0:
        pytest.skip("only root may change the root of a process")
    for program in programs:
        if shutil.which(program) is None:
            pytest.skip(f"{program} is not installed")


@pytest.fixture(scope="session")
def debian():
    """A Debian that nothing has been done to, made once and kept beside the packages."""
    need("debootstrap", "dpkg-deb", "chroot")
    # Packages are made anew each time, and their folder with them.
    made = pathlib.Path(PACKAGES).parent / f"debian-{SUITE}"
    if not (made / "complete").exists():
        shutil.rmtree(made, ignore_errors=True)
        command = ["debootstrap", "--variant=minbase", "--include=adduser,ca-certificates", SUITE, str(made)]
        ended = subprocess.run(command, capture_output=True, text=True, timeout=900, check=False)
        if ended.returncode != 0:
            pytest.skip(f"debootstrap cannot make a Debian here: {(ended.stdout + ended.stderr)[-300:]}")
        (made / "complete").write_text("")
    return made


class Machine:
    """A copy of it."""

    def __init__(self, root):
        self.root = root
        self.port = free_port()

    def run(self, *command, code=0, user=None):
        by = ["--userspec", f"{user}:{user}"] if user else []
        return run("chroot", *by, str(self.root), *command, code=code, env={"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "DEBIAN_FRONTEND": "noninteractive"})

    def install(self, package):
        shutil.copy(package, self.root / "plimsoll.deb")
        return self.run("dpkg", "--install", "/plimsoll.deb")

    def status(self):
        return self.run("dpkg-query", "--show", "--showformat", "${db:Status-Abbrev}|${Version}", "plimsoll").strip()

    def user(self):
        lines = [line.split(":") for line in (self.root / "etc/passwd").read_text().splitlines()]
        return next((line for line in lines if line[0] == "plimsoll"), None)

    @contextlib.contextmanager
    def served(self):
        """As the unit starts it: by its user, with the configuration file."""
        user = f"{self.user()[2]}:{self.user()[3]}"
        command = ["chroot", "--userspec", user, str(self.root), "/usr/bin/plimsoll", "serve", "--config", "/etc/plimsoll.toml"]
        with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as server:
            try:
                with MongoClient(port=self.port, directConnection=True) as client:
                    yield client
            finally:
                server.terminate()
                said = server.communicate(timeout=120)[1]
                assert server.returncode == 0, said


@pytest.fixture
def machine(debian, tmp_path):
    root = tmp_path / "root"
    run("cp", "--archive", "--reflink=auto", str(debian), str(root))
    yield Machine(root)
    shutil.rmtree(root, ignore_errors=True)


def package():
    [found] = pathlib.Path(PACKAGES).glob("*.deb")
    return found


def newer(tmp_path):
    """The same package with a later version."""
    folder, made = tmp_path / "newer", tmp_path / "newer.deb"
    run("dpkg-deb", "--raw-extract", str(package()), str(folder))
    control = folder / "DEBIAN/control"
    lines = [f"{line}+later" if line.startswith("Version: ") else line for line in control.read_text().splitlines()]
    control.write_text("\n".join(lines) + "\n")
    run("dpkg-deb", "--root-owner-group", "-Zxz", "-z0", "--build", str(folder), str(made))
    return made


def test_it_is_installed_upgraded_removed_and_purged(machine, tmp_path):
    machine.install(package())
    status, version = machine.status().split("|")
    assert status.strip() == "ii"
    assert machine.run("plimsoll", "--version").strip() == f"plimsoll {version}"
    assert (machine.root / "usr/share/man/man1/plimsoll-serve.1.gz").exists()
    data = (machine.root / DATA).stat()
    number = int(machine.user()[2])
    assert (data.st_uid, data.st_mode & 0o777) == (number, 0o700)
    assert machine.user()[6].endswith("nologin") and number < 1000

    configuration = machine.root / CONFIGURATION
    changed = configuration.read_text().replace("127.0.0.1:27017", f"127.0.0.1:{machine.port}") + 'memory = "192MiB"\n'
    configuration.write_text(changed)
    with machine.served() as client:
        client.shop.orders.insert_one({"_id": 1})

    machine.install(newer(tmp_path))
    assert machine.status().split("|")[1] == f"{version}+later"
    # What the operator has changed stays, and so does the data.
    assert configuration.read_text() == changed
    with machine.served() as client:
        assert client.shop.orders.count_documents({}) == 1

    machine.run("dpkg", "--remove", "plimsoll")
    assert not (machine.root / "usr/bin/plimsoll").exists()
    assert configuration.read_text() == changed and (machine.root / DATA / "plimsoll.lock").exists() and machine.user()
    # Installed again it goes on.
    machine.install(package())
    with machine.served() as client:
        assert client.shop.orders.count_documents({}) == 1

    machine.run("dpkg", "--purge", "plimsoll")
    assert not configuration.exists() and not (machine.root / DATA).exists() and machine.user() is None
    left = run("find", str(machine.root / "etc"), str(machine.root / "usr"), str(machine.root / "var/lib"), "-iname", "*plimsoll*")
    assert left == ""
    # And once more, as on a system that has had it.
    machine.install(package())
    assert machine.user()


def test_it_asks_for_what_it_needs(machine):
    depends = run("dpkg-deb", "--field", str(package()), "Depends")
    assert "libc6 (>= " in depends
    machine.install(package())
    assert machine.run("dpkg", "--verify", "plimsoll") == ""
    missing = [line for line in machine.run("ldd", "/usr/bin/plimsoll", "/usr/bin/plimsoll-lab").splitlines() if "not found" in line]
    assert missing == []


def test_the_unit_is_one_that_systemd_takes(tmp_path):
    if shutil.which("systemd-analyze") is None:
        pytest.skip("systemd-analyze is not installed")
    run("dpkg-deb", "--extract", str(package()), str(tmp_path))
    unit = tmp_path / "usr/lib/systemd/system/plimsoll.service"
    text = unit.read_text().replace("/usr/bin/plimsoll", str(tmp_path / "usr/bin/plimsoll"))
    unit.write_text(text.replace("User=plimsoll", "User=root").replace("Group=plimsoll", "Group=root").replace("man:plimsoll(1)", "https://localhost/"))
    run("systemd-analyze", "verify", "--man=no", str(unit))


def buildah(store, *words, **options):
    places = ["--root", str(store / "images"), "--runroot", str(store / "run"), "--storage-driver", "vfs"]
    return run("buildah", *places, *words, **options).strip()


def test_the_container_is_built_and_serves(debian, tmp_path):
    """Its base is the Debian of these tests in place of the one that a registry has; `RUN` and what follows are the recipe's own."""
    need("buildah")
    base = buildah(tmp_path, "from", "scratch")
    buildah(tmp_path, "copy", base, str(debian), "/")
    buildah(tmp_path, "commit", base, "localhost/debian")
    recipe, image = ROOT / "packages/container/Containerfile", "localhost/plimsoll"
    built = ["build", "--isolation", "chroot", "--from", "localhost/debian", "--pull-never", "--format", "docker", "--tag", image, "--file", str(recipe)]
    try:
        buildah(tmp_path, *built, PACKAGES)
    except AssertionError as error:
        for reason in ["Temporary failure resolving", "Could not resolve", "unshare(CLONE", "operation not permitted"]:
            if reason in str(error):
                pytest.skip(f"buildah cannot build here: {reason}")
        raise
    facts = buildah(tmp_path, "inspect", "--type", "image", "--format", "{{.Docker.Config.User}} {{.Docker.Config.StopSignal}} {{.Docker.Config.Healthcheck.Test}}", image)
    assert facts == "plimsoll SIGTERM [CMD plimsoll health]"
    container = buildah(tmp_path, "from", "--pull-never", image)
    root = pathlib.Path(buildah(tmp_path, "mount", container))
    try:
        serves(Machine(root))
    finally:
        buildah(tmp_path, "umount", container)


def serves(machine):
    """What the recipe says of the process, by hand: chroot is all that this needs of the machine."""
    user = machine.user()
    environment = {"PATH": "/usr/sbin:/usr/bin:/bin", "PLIMSOLL_DATA": "/" + DATA, "PLIMSOLL_LISTEN": f"127.0.0.1:{machine.port}", "PLIMSOLL_MEMORY": "192MiB"}
    inside = ["chroot", "--userspec", f"{user[2]}:{user[3]}", str(machine.root)]
    with subprocess.Popen([*inside, "plimsoll", "serve"], env=environment, stderr=subprocess.PIPE, text=True) as server:
        try:
            healthy = subprocess.run([*inside, "plimsoll", "health", "--wait", "60", f"mongodb://127.0.0.1:{machine.port}"], env=environment, capture_output=True, text=True, timeout=120, check=False)
            assert healthy.returncode == 0, healthy.stdout + healthy.stderr
            with MongoClient(port=machine.port, directConnection=True) as client:
                client.shop.orders.insert_one({"_id": 1})
        finally:
            server.terminate()
            said = server.communicate(timeout=120)[1]
        assert server.returncode == 0, said
    assert (machine.root / DATA / "plimsoll.lock").stat().st_uid == int(user[2])
