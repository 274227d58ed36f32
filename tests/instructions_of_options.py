"""What options cost, in instructions for an operation: the server runs under valgrind's callgrind with each, and does 1,000 and then 4,000 operations
more; the difference says how many instructions one takes. Seconds would be too noisy for a few per cent. What works for nobody in particular is
left out, as it follows from how long the run takes; so are statistics of queries, which are kept of so many a second.

    PLIMSOLL_BINARY=target/dist/plimsoll python tests/instructions_of_options.py [plain logins audit encryption tls]

Needs valgrind. docs/benchmarks.md has what came out.
"""

import re
import secrets
import subprocess
import sys
import tempfile
import pathlib

from pymongo import MongoClient

from certificates import made_certificates
from server_process import ServerProcess, binary_path

FEW, MANY, DOCUMENTS = 1_000, 5_000, 2_000
# What counts, with all that it calls: a connection's work, and the writing of the oplog.
COUNTED = ["tokio::runtime::task::raw::poll", "*flush_step*"]
OPTIONS = {
    "plain": [],
    "logins": ["--auth"],
    "audit": ["--auth", "--audit", "DIRECTORY/audit.json", "--audit-mode", "strict"],
    "encryption": ["--encryption-key-file", "DIRECTORY/key"],
    "tls": ["--tls-mode", "require", "--tls-certificate-key-file", "DIRECTORY/server.pem"],
}
OPERATIONS = {
    "findOne by _id, in the cache": lambda things, number: things.find_one({"_id": number % DOCUMENTS}),
    "insert, acknowledged when it is durable": lambda things, number: things.insert_one({"text": "x" * 500}),
}


class Counted(ServerProcess):
    """A server whose instructions are counted."""

    def launch(self):
        counts = self.directory / "callgrind.out"
        command = ["valgrind", "--tool=callgrind", f"--callgrind-out-file={counts}", "--collect-atstart=no",
                   *(f"--toggle-collect={function}" for function in COUNTED), str(binary_path()), "serve"]
        command += ["--data", str(self.directory / "data"), "--listen", f"127.0.0.1:{self.port}", "--cache", "64MiB", *self.arguments]
        with open(self.log_path, "ab") as log:
            self.process = subprocess.Popen(command, stdout=log, stderr=log)

    def count(self):
        """Instructions until its end, of what counts."""
        self.stop()
        return int(re.findall(r"Collected : (\d+)", self.log_path.read_text())[-1])


def instructions(arguments, operation, times):
    with tempfile.TemporaryDirectory() as directory:
        directory = pathlib.Path(directory)
        (directory / "key").write_text(secrets.token_hex(32))
        (directory / "key").chmod(0o600)
        if "--tls-mode" in arguments:
            made_certificates(directory)
        server = Counted(directory, [argument.replace("DIRECTORY", str(directory)) for argument in arguments])
        server.start(seconds_max=120)
        options = {"serverSelectionTimeoutMS": 120_000, "maxPoolSize": 1, "w": 1, "journal": True}
        if "--tls-mode" in arguments:
            options |= {"tls": True, "tlsAllowInvalidCertificates": True}
        if "--auth" in arguments:
            # Whoever comes first may only make somebody who can make others.
            with MongoClient(server.uri, **options) as first:
                first.admin.command("createUser", "root", pwd="secret", roles=["root"])
            options |= {"username": "root", "password": "secret"}
        with MongoClient(server.uri, **options) as root:
            root.admin.command("setParameter", 1, internalQueryStatsRateLimit=0)
            if "--auth" in arguments:
                root.admin.command("createUser", "ada", pwd="secret", roles=[{"role": "readWrite", "db": "shop"}])
                options |= {"username": "ada"}
        with MongoClient(server.uri, **options) as client:
            things = client.shop.things
            things.insert_many({"_id": number, "text": "x" * 100} for number in range(DOCUMENTS))
            for number in range(times):
                operation(things, number)
        return server.count()


def main():
    for name, operation in OPERATIONS.items():
        plain = None
        for option in sys.argv[1:] or OPTIONS:
            few, many = (instructions(OPTIONS[option], operation, times) for times in (FEW, MANY))
            one = (many - few) / (MANY - FEW)
            plain = plain or one
            print(f"{name}: {option} {one:,.0f} instructions, {100 * (one / plain - 1):+.2f} %", flush=True)


if __name__ == "__main__":
    main()
