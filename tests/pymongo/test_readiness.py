"""What a service manager (systemd) hears: ready when clients are served, alive as often as it wants to hear it, stopping."""

import os
import socket

from pymongo import MongoClient

from server_process import ServerProcess

WATCHDOG_MICROSECONDS = 200_000


def test_readiness_watchdog_and_stop(tmp_path, monkeypatch):
    path = str(tmp_path / "notify")
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.bind(path)
        manager.settimeout(60)
        monkeypatch.setenv("NOTIFY_SOCKET", path)
        monkeypatch.setenv("WATCHDOG_USEC", str(WATCHDOG_MICROSECONDS))
        monkeypatch.delenv("WATCHDOG_PID", raising=False)
        server = ServerProcess(tmp_path)
        server.launch()
        assert manager.recv(1000).split() == [b"READY=1"]
        with MongoClient(server.uri) as client:
            client.admin.command("ping")
        for _ in range(5):
            assert manager.recv(1000).split() == [b"WATCHDOG=1"]
        server.stop()
        heard = {b"WATCHDOG=1"}
        while heard == {b"WATCHDOG=1"}:
            heard = set(manager.recv(1000).split())
        assert heard == {b"STOPPING=1"}


def test_without_a_manager_nothing_is_said(tmp_path, monkeypatch):
    monkeypatch.delenv("NOTIFY_SOCKET", raising=False)
    server = ServerProcess(tmp_path)
    server.start()
    server.stop()
    assert "service manager" not in server.log_tail(1000)
    assert "NOTIFY_SOCKET" not in os.environ
