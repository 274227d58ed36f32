"""Kafka brokers on this machine, for tests: each is broker and controller, with a small heap and a folder of its own.

Used by the tests as a module; as a program, it starts three, runs a command with their addresses in PLIMSOLL_KAFKA, and stops them:

    python brokers.py JARS [--count N] -- COMMAND ...

The command also gets the options of URLs that reach their other two listeners: PLIMSOLL_KAFKA_LOGIN (PLAIN without TLS) and PLIMSOLL_KAFKA_SECURE (TLS and SCRAM),
each with the addresses before a question mark.

JARS: the folder of what pom.xml beside this file names.
"""

import contextlib
import os
import pathlib
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time

sys.path.append(str(pathlib.Path(__file__).resolve().parent))
from proxy import Proxy  # noqa: E402

CLUSTER = "cGxpbXNvbGwtdGVzdHMtMQ"
USER = "SCRAM-SHA-512=[name=plimsoll,password=a secret]"
START_SECONDS = 120
SETTINGS = """\
process.roles=broker,controller
node.id={node}
controller.quorum.voters={voters}
listeners=PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller_port},LOGIN://127.0.0.1:{login_port},SECURE://localhost:{secure_port}{more}
advertised.listeners=PLAINTEXT://127.0.0.1:{port},LOGIN://127.0.0.1:{login_port},SECURE://localhost:{secure_port}{advertised}
listener.security.protocol.map=PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,LOGIN:SASL_PLAINTEXT,SECURE:SASL_SSL{protocols}
listener.name.login.sasl.enabled.mechanisms=PLAIN
listener.name.login.plain.sasl.jaas.config={module}.plain.PlainLoginModule required user_plimsoll="a secret";
listener.name.secure.sasl.enabled.mechanisms=SCRAM-SHA-512
listener.name.secure.scram-sha-512.sasl.jaas.config={module}.scram.ScramLoginModule required;
ssl.keystore.location={keys}
ssl.keystore.password=plimsoll
ssl.keystore.type=PKCS12
controller.listener.names=CONTROLLER
log.dirs={directory}/data
auto.create.topics.enable=false
broker.session.timeout.ms=3000
broker.heartbeat.interval.ms=500
offsets.topic.replication.factor={replication}
offsets.topic.num.partitions=1
transaction.state.log.replication.factor={replication}
transaction.state.log.min.isr=1
transaction.state.log.num.partitions=1
num.network.threads=1
num.io.threads=2
log.cleaner.dedupe.buffer.size=4194304
"""


@contextlib.contextmanager
def free_ports(count):
    """So many ports, which nobody else is given meanwhile."""
    with contextlib.ExitStack() as sockets:
        yield [sockets.enter_context(socket.create_server(("127.0.0.1", 0))).getsockname()[1] for _ in range(count)]


class Brokers:
    """Several brokers that are one cluster. `ways`: so many clients each have a listener of their own, which says that it is reached by a proxy (`proxies`)."""

    def __init__(self, directory, jars, count=3, ways=0):
        self.directory, self.jars, self.count = pathlib.Path(directory), jars, count
        listeners = 4 + ways
        with free_ports(listeners * count) as ports:
            self.ports, controllers, self.login_ports, self.secure_ports, *targets = (ports[part::listeners] for part in range(listeners))
            self.proxies = [[Proxy(port) for port in each] for each in targets]
        self.processes = [None] * count
        voters = ",".join(f"{number + 1}@127.0.0.1:{port}" for number, port in enumerate(controllers))
        for number in range(count):
            place = self.place(number)
            place.mkdir(parents=True)
            settings = SETTINGS.format(
                node=number + 1,
                voters=voters,
                port=self.ports[number],
                controller_port=controllers[number],
                login_port=self.login_ports[number],
                secure_port=self.secure_ports[number],
                directory=place,
                keys=self.directory / "keys.p12",
                module="org.apache.kafka.common.security",
                replication=min(count, 3),
                more="".join(f",WAY{way}://127.0.0.1:{each[number].target}" for way, each in enumerate(self.proxies)),
                advertised="".join(f",WAY{way}://127.0.0.1:{each[number].port}" for way, each in enumerate(self.proxies)),
                protocols="".join(f",WAY{way}:PLAINTEXT" for way in range(ways)),
            )
            (place / "server.properties").write_text(settings)
        self.make_keys()

    def make_keys(self):
        """A certificate of their own for all brokers, and the password of the only user."""
        store = ["-alias", "broker", "-keystore", str(self.directory / "keys.p12"), "-storepass", "plimsoll"]
        make = ["keytool", "-genkeypair", *store, "-storetype", "PKCS12", "-keyalg", "EC", "-groupname", "secp256r1"]
        make += ["-dname", "CN=localhost", "-ext", "san=dns:localhost,ip:127.0.0.1", "-ext", "bc=ca:true", "-validity", "30"]
        export = ["keytool", "-exportcert", "-rfc", *store, "-file", str(self.directory / "ca.pem")]
        for command in (make, export):
            subprocess.run(command, check=True, capture_output=True)
        (self.directory / "password").write_text("a secret\n")

    def login(self):
        addresses = ",".join(f"127.0.0.1:{port}" for port in self.login_ports)
        return f"{addresses}?user=plimsoll&mechanism=PLAIN&password-file={self.directory}/password"

    def secure(self):
        addresses = ",".join(f"localhost:{port}" for port in self.secure_ports)
        tls = f"tls=true&tls-ca-file={self.directory}/ca.pem"
        return f"{addresses}?{tls}&user=plimsoll&mechanism=SCRAM-SHA-512&password-file={self.directory}/password"

    @property
    def addresses(self):
        return ",".join(f"127.0.0.1:{port}" for port in self.ports)

    def way(self, way):
        """The addresses by which one client reaches all brokers: through its proxies, and in no other way."""
        return ",".join(f"127.0.0.1:{proxy.port}" for proxy in self.proxies[way])

    def place(self, number):
        return self.directory / f"broker{number}"

    def java(self, number, *arguments):
        """Starts a program of Kafka's; what it prints is in the broker's folder."""
        options = ["-Xmx256m", "-Xms128m", "-XX:+UseSerialGC", "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn"]
        options += ["-Dorg.slf4j.simpleLogger.log.kafka.server.KafkaRaftServer=info"]
        command = ["java", *options, "-cp", f"{self.jars}/*", *arguments]
        with open(self.place(number) / "output", "ab") as output:
            return subprocess.Popen(command, stdout=output, stderr=subprocess.STDOUT, start_new_session=True)

    def start(self):
        begun = []
        for number in range(self.count):
            settings = str(self.place(number) / "server.properties")
            begun.append(self.java(number, "kafka.tools.StorageTool", "format", "-t", CLUSTER, "-c", settings, "-S", USER))
        assert all(process.wait() == 0 for process in begun), self.output(0)
        for number in range(self.count):
            self.begin(number)
        for number in range(self.count):
            self.wait(number)
        return self

    def begin(self, number):
        (self.place(number) / "output").write_text("")
        settings = str(self.place(number) / "server.properties")
        self.processes[number] = self.java(number, "kafka.Kafka", settings)

    def wait(self, number):
        began = time.monotonic()
        while "Kafka Server started" not in self.output(number):
            assert self.processes[number].poll() is None, self.output(number)
            assert time.monotonic() - began < START_SECONDS, self.output(number)
            time.sleep(0.1)

    def output(self, number):
        return (self.place(number) / "output").read_text(errors="replace")

    def kill(self, number):
        self.processes[number].kill()
        self.processes[number].wait()

    def start_again(self, *numbers):
        for number in numbers:
            self.begin(number)
        for number in numbers:
            self.wait(number)

    def signal(self, number, which):
        self.processes[number].send_signal(which)

    def stop(self):
        for proxy in sum(self.proxies, []):
            proxy.close()
        for process in self.processes:
            if process is not None and process.poll() is None:
                process.send_signal(signal.SIGCONT)
                process.kill()
                process.wait()
        shutil.rmtree(self.directory, ignore_errors=True)


def main(arguments):
    options, command = arguments[: arguments.index("--")], arguments[arguments.index("--") + 1 :]
    count = int(options[options.index("--count") + 1]) if "--count" in options else 3
    brokers = Brokers(tempfile.mkdtemp(prefix="plimsoll-kafka-"), options[0], count)
    try:
        brokers.start()
        told = {"PLIMSOLL_KAFKA": brokers.addresses}
        told |= {"PLIMSOLL_KAFKA_LOGIN": brokers.login(), "PLIMSOLL_KAFKA_SECURE": brokers.secure()}
        return subprocess.run(command, env={**os.environ, **told}, check=False).returncode
    finally:
        brokers.stop()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
