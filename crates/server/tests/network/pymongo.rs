//! PyMongo through the server, where `PLIMSOLL_TEST_PYTHON` names a Python that has it; skipped visibly elsewhere.

use std::process::Command;
use std::sync::atomic::Ordering;

use crate::test_service::TestServer;

const SCRIPT: &str = r#"
import sys, time, threading
from pymongo import MongoClient, WriteConcern
port = int(sys.argv[1])
for compressors in [None, "snappy", "zlib", "zstd"]:
    options = {"compressors": compressors} if compressors else {}
    client = MongoClient("127.0.0.1", port, serverSelectionTimeoutMS=5000, heartbeatFrequencyMS=500, **options)
    assert client.admin.command("ping")["ok"] == 1.0
    assert client.test.command("echo", "x" * 100000)["echo"] == "x" * 100000
    result = client.test.things.insert_many([{"i": i, "pad": "p" * 1000} for i in range(1000)])
    assert len(result.inserted_ids) == 1000
    client.test.get_collection("things", write_concern=WriteConcern(w=0)).insert_many([{"i": i} for i in range(10)])
    try:
        client.admin.command("unknownCommand")
        raise SystemExit("an unknown command was accepted")
    except Exception as error:
        assert error.code == 59, error
    def pings():
        for _ in range(200):
            client.admin.command("ping")
    threads = [threading.Thread(target=pings) for _ in range(8)]
    [thread.start() for thread in threads]
    [thread.join() for thread in threads]
    time.sleep(1.2)
    assert client.admin.command("ping")["ok"] == 1.0
    client.close()
legacy = MongoClient("127.0.0.1", port, directConnection=True, loadBalanced=False)
assert legacy.admin.command("isMaster")["maxWireVersion"] == 21
legacy.close()
print("fine")
"#;

#[test]
fn pymongo_connects_pings_and_compresses() {
    let Ok(python) = std::env::var("PLIMSOLL_TEST_PYTHON") else {
        eprintln!("SKIPPED: PLIMSOLL_TEST_PYTHON does not name a Python with PyMongo");
        return;
    };
    let server = TestServer::start();
    let port = server.address.port().to_string();
    let output = Command::new(python).args(["-c", SCRIPT, &port]).output().unwrap();
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{stderr}");
    assert_eq!(String::from_utf8_lossy(&output.stdout).trim(), "fine", "{stderr}");
    assert_eq!(server.seen.inserted.load(Ordering::SeqCst), 4 * 1010);
}
