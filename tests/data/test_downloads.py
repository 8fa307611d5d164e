"""Files are fetched once, whole and with the published checksum, or not at all."""

import gc
import hashlib
import http.server
import threading

import pytest

from lsa_jax.data import downloads
from lsa_jax.data.downloads import Download
from lsa_jax.errors import InputError

CONTENTS = {"/first.bin": b"first" * 1000, "/second.bin": b"second" * 1000}


@pytest.fixture
def server():
    """A server on this machine; yields its address and the list of requests."""
    asked = []

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            asked.append(self.path)
            body = CONTENTS.get(self.path)
            self.send_response(404 if body is None else 200)
            self.end_headers()
            self.wfile.write(body or b"")

        def log_message(self, *_):
            pass

    with http.server.HTTPServer(("127.0.0.1", 0), Handler) as running:
        thread = threading.Thread(target=running.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{running.server_port}", asked
        running.shutdown()
        thread.join()


@pytest.fixture
def registry(server, monkeypatch):
    """Puts the data set `made` of two files on that server into the registry."""
    monkeypatch.setenv("NO_PROXY", "*")
    address, _ = server

    def put(**changes):
        files = []
        for path, contents in CONTENTS.items():
            checksum = "sha256:" + hashlib.sha256(contents).hexdigest()
            files.append(Download(address + path, checksum, f"made{path}", (f"other{path}",)))
        files[1] = files[1]._replace(**changes)
        monkeypatch.setitem(downloads.DOWNLOADS, "made", tuple(files))

    return put


def files_below(folder):
    return sorted(str(p.relative_to(folder)) for p in folder.rglob("*") if p.is_file())


def test_fetch_brings_the_files_once(server, registry, tmp_path):
    registry()
    downloads.fetch("made", tmp_path)
    assert files_below(tmp_path) == ["made/first.bin", "made/second.bin"]
    assert (tmp_path / "made/second.bin").read_bytes() == CONTENTS["/second.bin"]
    assert (tmp_path / "made/second.bin").stat().st_mode & 0o444 == 0o444  # a folder may be shared
    downloads.fetch("made", tmp_path)
    assert server[1] == ["/first.bin", "/second.bin"]
    assert downloads.require("made", tmp_path) == [
        tmp_path / "made/first.bin",
        tmp_path / "made/second.bin",
    ]


# After an answer such as 404 pooch leaves its connection to the garbage collector.
@pytest.mark.filterwarnings("ignore::ResourceWarning")
@pytest.mark.parametrize("case", ["checksum", "address", "host"])
def test_failed_fetch_is_one_line_and_leaves_no_file(case, server, registry, tmp_path):
    address, _ = server
    registry(
        **{
            "checksum": {"checksum": "sha256:" + "0" * 64},
            "address": {"url": f"{address}/third.bin"},
            "host": {"url": "http://127.0.0.1:1/second.bin"},
        }[case]
    )
    with pytest.raises(InputError, match="second.bin could not be fetched from http") as error:
        downloads.fetch("made", tmp_path)
    assert "\n" not in str(error.value)
    assert files_below(tmp_path) == ["made/first.bin"]
    del error
    gc.collect()
