"""Programs that start MongoDB's server by its command line, given ours by that name: pytest-mongo, service managers, scripts that fork.

`tests/node/memory_server.test.mjs` does it with mongodb-memory-server.
"""

import json
import os
import signal
import subprocess
import sys
import textwrap
import time

import pytest
from pymongo import MongoClient

from server_process import binary_path, free_port

CACHE = ["--wiredTigerCacheSizeGB", "0.0625"]


@pytest.fixture
def mongod(tmp_path):
    """The binary by the name mongod."""
    link = tmp_path / "mongod"
    link.symlink_to(binary_path().resolve())
    return str(link)


def wait_until(what, is_so, seconds=20):
    end = time.monotonic() + seconds
    while not is_so():
        assert time.monotonic() < end, f"never: {what}"
        time.sleep(0.02)


def lines_until(process, message):
    """What the process logs, as documents, until it says this."""
    lines = []
    for line in process.stdout:
        lines.append(json.loads(line))
        if lines[-1]["msg"] == message:
            return lines
    raise AssertionError(f"ended without saying {message}: {lines}")


def test_it_logs_in_mongods_format_on_standard_output(mongod, tmp_path):
    port = free_port()
    command = [mongod, "--dbpath", str(tmp_path / "db"), "--port", str(port), "--bind_ip_all", "--noauth", *CACHE]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    lines = lines_until(process, "Waiting for connections")
    assert {"t", "s", "c", "id", "ctx", "msg", "attr"} == set(lines[-1]) and list(lines[-1])[0] == "t"
    assert (lines[-1]["id"], lines[-1]["c"], lines[-1]["attr"]["port"]) == (23016, "NETWORK", port)
    warnings = [line["msg"] for line in lines if line.get("tags") == ["startupWarnings"]]
    assert any("access control is not enabled" in warning for warning in warnings)
    with MongoClient("127.0.0.1", port) as client:
        log = client.admin.command("getLog", "startupWarnings")
        assert [json.loads(line)["msg"] for line in log["log"]] == warnings and log["totalLinesWritten"] == len(warnings)
        assert client.server_info()["version"] in subprocess.check_output([mongod, "--version"], text=True)
    process.send_signal(signal.SIGINT)
    assert process.wait(20) == 0


def test_a_log_file_is_rotated_on_demand(mongod, tmp_path):
    port, log = free_port(), tmp_path / "logs" / "mongod.log"
    log.parent.mkdir()
    command = [mongod, "--port", str(port), "--dbpath", str(tmp_path / "db"), "--logpath", str(log), *CACHE]
    process = subprocess.Popen(command)
    with MongoClient("127.0.0.1", port) as client:
        assert client.admin.command("logRotate")["ok"] == 1.0
    assert log.exists() and len(list(log.parent.iterdir())) == 2
    process.terminate()
    assert process.wait(20) == 0


def test_a_port_in_use_is_said_as_wrappers_look_for_it(mongod, tmp_path):
    port = free_port()
    command = [mongod, "--port", str(port), *CACHE]
    first = subprocess.Popen([*command, "--dbpath", str(tmp_path / "a")], stdout=subprocess.PIPE, text=True)
    lines_until(first, "Waiting for connections")
    second = subprocess.run([*command, "--dbpath", str(tmp_path / "b")], capture_output=True, text=True, timeout=30)
    assert second.returncode != 0 and "Address already in use" in second.stdout
    first.terminate()
    assert first.wait(20) == 0


def test_it_runs_in_the_background_by_a_configuration_file_as_a_service_does(mongod, tmp_path):
    port, log, pid_file, data = free_port(), tmp_path / "mongod.log", tmp_path / "mongod.pid", tmp_path / "db"
    configuration = tmp_path / "mongod.conf"
    configuration.write_text(
        textwrap.dedent(
            f"""
            storage:
              dbPath: {data}
              wiredTiger:
                engineConfig:
                  cacheSizeGB: 0.0625
            systemLog:
              destination: file
              path: {log}
              logAppend: true
            net:
              port: {port}
              bindIp: 127.0.0.1
            processManagement:
              fork: true
              pidFilePath: {pid_file}
            setParameter:
              enableTestCommands: 1
              transactionLifetimeLimitSeconds: 33
            """
        )
    )
    log.write_text("earlier\n")
    begun = subprocess.run([mongod, "--config", str(configuration)], capture_output=True, text=True, timeout=60)
    assert begun.returncode == 0 and "child process started successfully" in begun.stdout, begun
    process = int(pid_file.read_text())
    assert f"forked process: {process}" in begun.stdout
    with MongoClient("127.0.0.1", port) as client:
        wanted = client.admin.command("getParameter", 1, enableTestCommands=1, transactionLifetimeLimitSeconds=1)
        assert (wanted["enableTestCommands"], wanted["transactionLifetimeLimitSeconds"]) == (True, 33)
        assert log.read_text().startswith("earlier\n")
        client.admin.command("logRotate")
        wait_until("the file is a new one", lambda: log.exists() and "earlier" not in log.read_text())
    log.unlink()
    os.kill(process, signal.SIGUSR1)
    wait_until("a signal makes a new file", log.exists)
    stopped = subprocess.run([mongod, "--shutdown", "--dbpath", str(data)], capture_output=True, text=True, timeout=60)
    assert stopped.returncode == 0 and str(process) in stopped.stdout
    wait_until("its number is gone with it", lambda: not pid_file.exists())
    again = subprocess.run([mongod, "--shutdown", "--dbpath", str(data)], capture_output=True, text=True)
    assert again.returncode != 0 and "no server" in again.stderr


@pytest.mark.parametrize("option", ["--keyFile=k", "--shardsvr", "--setParameter=noSuchParameter=1", "--storageEngine=mmapv1"])
def test_what_it_cannot_do_it_refuses_by_name(mongod, tmp_path, option):
    command = [mongod, "--dbpath", str(tmp_path / "db"), "--port", str(free_port()), *CACHE, option]
    refused = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert refused.returncode != 0
    assert option.rsplit("=", 1)[0].removeprefix("--setParameter=") in refused.stderr, refused.stderr


def test_pytest_mongo(mongod, tmp_path):
    """A test-suite that lets pytest-mongo start its server."""
    (tmp_path / "test_of_a_project.py").write_text(
        textwrap.dedent(
            """
            def test_it_has_a_server(mongodb):
                things = mongodb["test"]["things"]
                things.insert_one({"a": 1})
                assert things.count_documents({}) == 1

            def test_that_is_empty_for_each_test(mongodb):
                assert mongodb["test"]["things"].count_documents({}) == 0
            """
        )
    )
    command = [sys.executable, "-m", "pytest", "-q", f"--mongo-exec={mongod}", f"--mongo-params={' '.join(CACHE)}", "."]
    command += ["-p", "no:cacheprovider", "-p", "pytest_mongo.plugin"]
    environment = {**os.environ, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    outcome = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=120, env=environment)
    assert outcome.returncode == 0 and "2 passed" in outcome.stdout, outcome.stdout + outcome.stderr
