"""An object store for tests: the requests of S3 that backups need (Google's XML interface has the same), and those of Azure's, in memory. Signatures are not checked. On
request it fails as networks and stores do: errors that pass, connections that are cut before and within an answer, slow answers."""

import base64
import contextlib
import hashlib
import http.server
import json
import os
import random
import re
import ssl
import threading
import time
import urllib.parse
import xml.sax.saxutils
from email.utils import formatdate

REGION = "here"


@contextlib.contextmanager
def store_of_the_environment(monkeypatch):
    """A store that clients of S3 find by the environment, in which there is no other: for a fixture."""
    for name in list(os.environ):
        if name.startswith(("AWS_", "GOOGLE_", "AZURE_")):
            monkeypatch.delenv(name)
    with ObjectStoreServer() as store:
        for name, value in store.environment().items():
            monkeypatch.setenv(name, value)
        yield store


class ObjectStoreServer:
    """`with ObjectStoreServer() as store`: serves on a free port of this machine until the end of the block."""

    def __init__(self, certificate=None):
        self.objects, self.uploads, self.requests = {}, {}, []
        self.trouble, self.draw, self.lock = 0.0, random.Random(11), threading.Lock()
        self.is_gone = False
        # So few that clients have to ask for the next.
        self.names_at_once = 3
        # How long each request takes, as if the store were far away.
        self.delay_seconds = 0.0
        outer = self

        class Handler(StoreHandler):
            store = outer

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        if certificate:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(*certificate)
            self.server.socket = context.wrap_socket(self.server.socket, server_side=True)
        self.endpoint = f"{'https' if certificate else 'http'}://127.0.0.1:{self.server.server_port}"
        self.thread = threading.Thread(target=self.server.serve_forever, kwargs={"poll_interval": 0.05})

    def environment(self):
        """What a client of S3 is told."""
        plain = {"AWS_ALLOW_HTTP": "true"} if self.endpoint.startswith("http:") else {}
        keys = {"AWS_ACCESS_KEY_ID": "somebody", "AWS_SECRET_ACCESS_KEY": "a secret", "AWS_REGION": REGION}
        return keys | {"AWS_ENDPOINT_URL": self.endpoint} | plain

    def google_environment(self):
        """What a client of Google's is told."""
        account = {"private_key": "", "private_key_id": "", "client_email": "", "disable_oauth": True, "gcs_base_url": self.endpoint}
        return {"GOOGLE_SERVICE_ACCOUNT_KEY": json.dumps(account), "GOOGLE_ALLOW_HTTP": "true"}

    def azure_environment(self):
        """What a client of Azure's is told."""
        account = {"AZURE_STORAGE_ACCOUNT": "somebody", "AZURE_STORAGE_KEY": base64.b64encode(b"a secret").decode()}
        return account | {"AZURE_STORAGE_ENDPOINT": self.endpoint, "AZURE_ALLOW_HTTP": "true"}

    def names(self, bucket):
        """Names in a bucket."""
        with self.lock:
            return sorted(name for of, name in self.objects if of == bucket)

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.server.shutdown()
        self.server.server_close()
        self.thread.join()


class StoreHandler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    # Answers are written in two pieces: without this the second one waits 40 ms for the client to acknowledge the first.
    disable_nagle_algorithm = True
    store = None

    def log_message(self, *_):
        pass

    def handle_one_request(self):
        try:
            super().handle_one_request()
        except (ConnectionError, ssl.SSLError):
            self.close_connection = True

    def begin(self):
        """Reads the request; whether it is to be answered."""
        address = urllib.parse.urlsplit(self.path)
        self.query = dict(urllib.parse.parse_qsl(address.query, keep_blank_values=True))
        bucket, _, name = urllib.parse.unquote(address.path).lstrip("/").partition("/")
        self.key = (bucket, name)
        if self.store.is_gone or self.fails(0.3):
            self.close_connection = True
            return False
        self.body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        with self.store.lock:
            self.store.requests.append((self.command, self.path))
        time.sleep(self.store.delay_seconds)
        if self.fails(0.3):
            self.answer(self.store.draw.choice([500, 503]), b"<Error><Code>SlowDown</Code></Error>")
            return False
        if self.fails(0.1):
            time.sleep(0.2)
        return True

    def fails(self, share):
        with self.store.lock:
            return self.store.draw.random() < self.store.trouble * share

    def answer(self, status, content=b"", **headers):
        self.send_response(status)
        tag = f'"{hashlib.md5(content).hexdigest()}"'
        headers = {"ETag": tag, "Last-Modified": formatdate(usegmt=True), "Content-Length": len(content)} | headers
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), str(value))
        self.end_headers()
        if self.command == "HEAD":
            return
        if content and status < 300 and self.fails(0.3):
            # Cut within the answer.
            self.wfile.write(content[: len(content) // 2])
            self.close_connection = True
            return
        self.wfile.write(content)

    def do_PUT(self):
        if not self.begin():
            return
        with self.store.lock:
            # As the stores have it: only if there is none of that name.
            refused = self.headers.get("If-None-Match") == "*" and self.key in self.store.objects
            if refused:
                pass
            elif "partNumber" in self.query:
                self.store.uploads[self.query["uploadId"]][int(self.query["partNumber"])] = self.body
            else:
                self.store.objects[self.key] = self.body
        if refused:
            self.answer(412, b"<Error><Code>PreconditionFailed</Code></Error>")
        else:
            self.answer(200, ETag=f'"{hashlib.md5(self.body).hexdigest()}"')

    def do_GET(self):
        if not self.begin():
            return
        if not self.key[1]:
            self.answer(200, self.listing())
            return
        with self.store.lock:
            content = self.store.objects.get(self.key)
        if content is None:
            self.answer(404, b"<Error><Code>NoSuchKey</Code></Error>")
            return
        tag = f'"{hashlib.md5(content).hexdigest()}"'
        wanted = re.fullmatch(r"bytes=(\d+)-(\d*)", self.headers.get("Range", ""))
        if not wanted:
            self.answer(200, content, ETag=tag)
            return
        begin, end = int(wanted[1]), min(int(wanted[2] or len(content) - 1), len(content) - 1)
        self.answer(206, content[begin : end + 1], ETag=tag, Content_Range=f"bytes {begin}-{end}/{len(content)}")

    do_HEAD = do_GET

    def do_DELETE(self):
        if not self.begin():
            return
        with self.store.lock:
            if "uploadId" in self.query:
                self.store.uploads.pop(self.query["uploadId"], None)
                found = True
            else:
                found = self.store.objects.pop(self.key, None) is not None
        # Google's store says when there was nothing; S3 does not, but is asked by do_POST.
        self.answer(204 if found else 404)

    def do_POST(self):
        if not self.begin():
            return
        if self.query.get("comp") == "batch":
            self.delete_batch()
        elif "delete" in self.query:
            names = [xml.sax.saxutils.unescape(name) for name in re.findall(r"<Key>(.*?)</Key>", self.body.decode())]
            with self.store.lock:
                for name in names:
                    self.store.objects.pop((self.key[0], name), None)
            deleted = "".join(f"<Deleted><Key>{name}</Key></Deleted>" for name in names)
            self.answer(200, f"<DeleteResult>{deleted}</DeleteResult>".encode())
        elif "uploads" in self.query:
            with self.store.lock:
                upload = f"upload-{len(self.store.uploads)}-{self.store.draw.random()}"
                self.store.uploads[upload] = {}
            self.answer(200, f"<InitiateMultipartUploadResult><UploadId>{upload}</UploadId></InitiateMultipartUploadResult>".encode())
        else:
            with self.store.lock:
                parts = self.store.uploads.pop(self.query["uploadId"], None)
                if parts is not None:
                    self.store.objects[self.key] = b"".join(parts[number] for number in sorted(parts))
            self.answer(200, b"<CompleteMultipartUploadResult><ETag>&quot;whole&quot;</ETag></CompleteMultipartUploadResult>")

    def delete_batch(self):
        """Azure's: a request for each object, with an answer for each."""
        parts = []
        for number, path in enumerate(re.findall(r"^DELETE /(\S+) HTTP/1.1", self.body.decode(), re.MULTILINE)):
            bucket, _, name = urllib.parse.unquote(path).partition("/")
            with self.store.lock:
                found = self.store.objects.pop((bucket, name), None) is not None
            status = "202 Accepted" if found else "404 Not Found"
            head = f"Content-Type: application/http\r\nContent-ID: {number}\r\n\r\nHTTP/1.1 {status}\r\nx-ms-request-id: 1\r\n\r\n"
            parts.append(f"--answers\r\n{head}\r\n")
        self.answer(202, ("".join(parts) + "--answers--\r\n").encode(), Content_Type="multipart/mixed; boundary=answers")

    def listing(self):
        """A page of names."""
        rows = list(self.rows())
        after = self.query.get("continuation-token", self.query.get("marker", self.query.get("start-after", "")))
        rows = [row for row in rows if row[0] > after]
        at_once = min(self.store.names_at_once, int(self.query.get("max-keys", self.store.names_at_once)))
        page, more = rows[:at_once], len(rows) > at_once
        newest = page[-1][0] if more else ""
        if self.query.get("comp") == "list":
            text = "".join(
                f"<BlobPrefix><Name>{name}</Name></BlobPrefix>"
                if size is None
                else f"<Blob><Name>{name}</Name><Properties><Last-Modified>{formatdate(usegmt=True)}</Last-Modified><Content-Length>{size}</Content-Length><Content-Type>a/b</Content-Type><Etag>e</Etag></Properties></Blob>"
                for name, size in page
            )
            return f"<EnumerationResults><Blobs>{text}</Blobs><NextMarker>{newest}</NextMarker></EnumerationResults>".encode()
        text = "".join(
            f"<CommonPrefixes><Prefix>{name}</Prefix></CommonPrefixes>"
            if size is None
            else f"<Contents><Key>{name}</Key><LastModified>2026-11-29T12:00:00.000Z</LastModified><ETag>&quot;e&quot;</ETag><Size>{size}</Size></Contents>"
            for name, size in page
        )
        token = f"<NextContinuationToken>{newest}</NextContinuationToken>" if more else ""
        return f"<ListBucketResult><IsTruncated>{str(more).lower()}</IsTruncated>{text}{token}</ListBucketResult>".encode()

    def rows(self):
        """Names with sizes, and folders without."""
        prefix, delimiter = self.query.get("prefix", ""), self.query.get("delimiter", "")
        with self.store.lock:
            content = {name: len(value) for (bucket, name), value in self.store.objects.items() if bucket == self.key[0]}
        seen = set()
        for name, size in sorted(content.items()):
            if not name.startswith(prefix):
                continue
            inner, found, _ = name[len(prefix) :].partition(delimiter) if delimiter else (name, "", "")
            if not found:
                yield name, size
            elif inner not in seen:
                seen.add(inner)
                yield f"{prefix}{inner}{delimiter}", None
