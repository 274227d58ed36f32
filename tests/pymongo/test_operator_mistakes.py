"""What an operator does by mistake loses nothing in silence: directories taken away, lock files removed, damage, limits, listeners."""

import json
import os
import resource
import shutil
import stat
import subprocess
import time

import pytest
from pymongo import MongoClient
from pymongo.errors import PyMongoError

from server_process import ServerProcess, binary_path, free_port

STOPS_WITHIN_SECONDS = 3


@pytest.fixture
def process(tmp_path):
    process = ServerProcess(tmp_path)
    process.start()
    yield process
    process.kill()


def connect(process):
    return MongoClient(process.uri, serverSelectionTimeoutMS=5_000, retryWrites=False)


def run(*arguments, **options):
    return subprocess.run([str(binary_path()), *map(str, arguments)], capture_output=True, text=True, timeout=60, **options)


def health(process):
    return run("health", process.uri)


@pytest.mark.parametrize("how", ["removed", "renamed", "oplog_removed", "pages_removed"])
def test_a_data_directory_that_is_taken_away_stops_writes(process, how):
    data = process.directory / "data"
    with connect(process) as client:
        things = client["db"]["things"]
        things.insert_one({"_id": 1})
        assert health(process).returncode == 0
        match how:
            case "removed":
                shutil.rmtree(data)
            case "renamed":
                data.rename(process.directory / "elsewhere")
            case "oplog_removed":
                shutil.rmtree(data / "oplog")
            case "pages_removed":
                max((path for path in data.iterdir() if path.is_file()), key=lambda path: path.stat().st_size).unlink()
        if how != "pages_removed":
            with pytest.raises(PyMongoError, match="not there any more"):
                things.with_options(write_concern=client.write_concern.__class__(w=1, j=True)).insert_one({"_id": 2})
        deadline = time.monotonic() + STOPS_WITHIN_SECONDS
        while client.admin.command("hello")["isWritablePrimary"]:
            assert time.monotonic() < deadline, "writes have not stopped"
            time.sleep(0.05)
        with pytest.raises(PyMongoError, match="not there any more"):
            things.insert_one({"_id": 3})
        with pytest.raises(PyMongoError):
            client.admin.command("fsync")
        writes = client.admin.command("serverStatus")["plimsoll"]["writes"]
        assert not writes["areAccepted"] and "not there any more" in writes["stoppedBecause"]
        assert things.find_one({"_id": 1}) == {"_id": 1}, "reads go on"
    answer = health(process)
    assert answer.returncode == 1 and "not there any more" in answer.stdout
    assert process.log_text().count("writes have stopped") == 1


def test_without_its_lock_file_a_directory_is_still_locked(process):
    (process.directory / "data" / "plimsoll.lock").unlink()
    refused = run("serve", "--data", process.directory / "data", "--listen", f"127.0.0.1:{free_port()}")
    assert refused.returncode != 0 and "in use by another server" in refused.stderr


def flip_bit(path, offset):
    with open(path, "r+b") as file:
        file.seek(offset)
        byte = file.read(1)[0]
        file.seek(offset)
        file.write(bytes([byte ^ 4]))


def test_a_flipped_bit_in_the_oplog_after_an_orderly_stop_loses_nothing(process):
    with connect(process) as client:
        with client["db"]["things"].watch() as stream:
            client["db"]["things"].insert_one({"_id": -1})
            token = stream.next()["_id"]
        client["db"]["things"].insert_many([{"_id": i} for i in range(100)])
    process.stop()
    oplog = process.directory / "data" / "oplog"
    flip_bit(oplog / f"{0:020}.segment", 4096 + 300)
    process.start()
    with connect(process) as client:
        assert client["db"]["things"].count_documents({}) == 101
        warnings = client.admin.command("getLog", "startupWarnings")["log"]
        assert any("put aside" in line and "286" in line for line in warnings), warnings
        with pytest.raises(PyMongoError) as lost, client["db"]["things"].watch(resume_after=token) as stream:
            stream.try_next()
        assert lost.value.code == 286
        client["db"]["things"].insert_one({"_id": 1000})
    assert [path for path in oplog.iterdir() if path.name.startswith("damaged-")]


def test_damage_that_would_lose_something_is_refused_with_the_way_out(process):
    with connect(process) as client:
        client["db"]["things"].insert_many([{"_id": i} for i in range(100)])
        for i in range(100, 110):
            client["db"]["things"].with_options(write_concern=client.write_concern.__class__(w=1, j=True)).insert_one({"_id": i})
    process.kill()
    flip_bit(process.directory / "data" / "oplog" / f"{0:020}.segment", 4096 + 300)
    for _ in range(2):
        with pytest.raises(RuntimeError, match="plimsoll repair --data"):
            process.start()


def limit_files(number):
    return lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (number, number))


def test_too_few_open_files_are_refused_with_the_number_that_is_needed(tmp_path):
    command = ["serve", "--data", tmp_path / "data", "--listen", f"127.0.0.1:{free_port()}"]
    refused = run(*command, preexec_fn=limit_files(100))
    assert refused.returncode != 0 and "at least 320 are needed" in refused.stderr


def test_the_data_is_for_the_owner_alone(process):
    process.stop()
    data = process.directory / "data"
    for path in [data, *data.rglob("*")]:
        path.chmod(0o755 if path.is_dir() else 0o644)
    process.start()
    for path in [data, *data.rglob("*")]:
        assert stat.S_IMODE(path.stat().st_mode) == (0o700 if path.is_dir() else 0o600), path


REMOTE = ["--cache", "64MiB"]


def test_a_listener_beyond_loopback_needs_a_word(tmp_path):
    data, port = tmp_path / "data", free_port()
    command = ["serve", "--data", data, "--listen", f"0.0.0.0:{port}", *REMOTE]
    refused = run(*command)
    told = ("--insecure-no-authentication", f"plimsoll user add NAME --role root --data {data}", f"plimsoll serve --auth --data {data}")
    assert refused.returncode != 0 and all(part in refused.stderr for part in told)
    assert not data.exists(), "nothing was made"
    mongod = ["mongod", "--dbpath", data, "--port", port, "--bind_ip_all"]
    refused = run(*mongod)
    assert refused.returncode != 0 and "--noauth" in refused.stderr
    said = {**os.environ, "PLIMSOLL_INSECURE_NO_AUTHENTICATION": "true"}
    of_old = {**os.environ, "PLIMSOLL_ALLOW_REMOTE_WITHOUT_LOGIN": "true"}
    for allowed, environment in [
        ([*command, "--insecure-no-authentication"], None),
        (command, said),
        (command, of_old),
        ([*mongod, "--noauth"], None),
        (mongod, said),
    ]:
        process = subprocess.Popen([str(binary_path()), *map(str, allowed)], env=environment, stderr=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
        try:
            with MongoClient("127.0.0.1", port, serverSelectionTimeoutMS=20_000) as client:
                lines = [json.loads(line) for line in client.admin.command("getLog", "startupWarnings")["log"]]
                assert any("access control is not enabled" in line["msg"] for line in lines)
        finally:
            process.terminate()
            assert process.wait(30) == 0


def test_nobody_answers_is_another_exit_code():
    answer = run("health", f"mongodb://127.0.0.1:{free_port()}/", "--timeout", "1")
    assert answer.returncode == 2 and "no answer" in answer.stdout
