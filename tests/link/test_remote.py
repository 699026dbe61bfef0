"""A link in an object store: the same pipeline, over a server that speaks S3's protocol."""

from __future__ import annotations

import importlib.util
import socket
import subprocess
import sys
import time
import urllib.request

import pytest

from flowcontrol.errors import FencedError
from flowcontrol.ledger.storage import Storage
from flowcontrol.link.packing import packed_rows

PATIENCE_S = 1800.0

pytestmark = pytest.mark.skipif(
    importlib.util.find_spec("moto") is None, reason="moto is missing: pip install moto[s3] flask"
)


@pytest.fixture(scope="module")
def endpoint(tmp_path_factory):
    """Start the server on a free port of this machine; return its address."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    log = tmp_path_factory.mktemp("s3") / "server.log"
    command = [sys.executable, "-W", "ignore", "-m", "moto.server", "-H", "127.0.0.1", "-p"]
    with log.open("wb") as output:
        server = subprocess.Popen([*command, str(port)], stdout=output, stderr=output)
    address = f"http://127.0.0.1:{port}"
    try:
        end = time.monotonic() + PATIENCE_S
        while True:
            try:
                urllib.request.urlopen(f"{address}/moto-api/", timeout=5).close()
                break
            except OSError:
                assert server.poll() is None, log.read_text()
                assert time.monotonic() < end, log.read_text()
                time.sleep(0.1)
        yield address
    finally:
        server.terminate()
        server.wait()


@pytest.fixture
def bucket(endpoint, monkeypatch):
    """Make an empty bucket; return its URI. Both libraries read the usual variables."""
    from pyarrow import fs

    for name, value in {
        "AWS_ENDPOINT_URL": endpoint,
        "AWS_ACCESS_KEY_ID": "key",
        "AWS_SECRET_ACCESS_KEY": "secret",
        "AWS_REGION": "us-east-1",
        "AWS_DEFAULT_REGION": "us-east-1",
        "AWS_ALLOW_HTTP": "true",
        "AWS_EC2_METADATA_DISABLED": "true",
    }.items():
        monkeypatch.setenv(name, value)
    store = fs.S3FileSystem(
        endpoint_override=endpoint.removeprefix("http://"), scheme="http", region="us-east-1",
        access_key="key", secret_key="secret", allow_bucket_creation=True,
    )  # fmt: skip
    name = f"lake-{time.time_ns()}"
    store.create_dir(name)
    return f"s3://{name}"


def test_a_link_in_a_bucket_survives_kills_at_both_ends(bucket, dry, verify):
    settings = {"channels": 2, "exclusive_buffers": 1, "floating_buffers": 1}
    pipeline = dry.Pipeline(f"{bucket}/links/orders", **settings)
    try:
        batches = [
            dry.source_rows("a", 8 * n, [i % 2 for i in range(8)], [400, 400, 1500, 20] * 2)
            for n in range(3)
        ]
        pipeline.sender("a", batches, tasks=2)
        pipeline.receiver("main")
        for place in (("a", "before-ledger"), ("main", "after-ledger"), ("a", "after-release")):
            pipeline.arm(*place)
            while pipeline.is_armed:
                for query in pipeline.queries:
                    query.advance()
        pipeline.drain()
        assert pipeline.kills == 3
        verify.check_pipeline(pipeline)
        assert pipeline.receivers[0].rows.num_rows == 24
        assert pipeline.storage.exists("link.json")
        assert not Storage(f"{bucket}/links/other").exists("link.json")
    finally:
        pipeline.close()


def test_a_zombie_is_refused_in_a_bucket(bucket, dry):
    pipeline = dry.Pipeline(f"{bucket}/links/orders")
    try:
        rows = dry.source_rows("a", 0, [0, 1])
        sender = pipeline.sender("a", [rows])
        zombie = sender.open()
        files = packed_rows(sender._pack(rows, zombie))
        sender.sender = None
        sender.open()
        with pytest.raises(FencedError, match="taken over"):
            zombie.write(0, files)
    finally:
        pipeline.close()
