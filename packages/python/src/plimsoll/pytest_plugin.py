"""Fixtures for pytest. They are there when this package is installed."""

import pytest

import plimsoll

_OWN_DATABASES = ("admin", "config", "local")


@pytest.fixture(scope="session")
def plimsoll_server():
    """One server for all tests: a replica set of one, so that transactions and change streams work."""
    with plimsoll.Server(replica_set="rs0") as server:
        yield server


@pytest.fixture
def plimsoll_client(plimsoll_server):
    """A client of it. What a test has stored is dropped behind it."""
    pymongo = pytest.importorskip("pymongo")
    with pymongo.MongoClient(plimsoll_server.uri) as client:
        yield client
        for name in client.list_database_names():
            if name not in _OWN_DATABASES:
                client.drop_database(name)
