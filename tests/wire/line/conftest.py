"""A real line: TLS on the loopback interface, every party in a thread of its own."""

import asyncio
import os
import socket
import threading
import time
from contextlib import contextmanager

import pytest

from confrere_federation.engines import line
from confrere_federation.engines.keys import make_authority, make_node_key, read_node_key
from confrere_federation.progress import Progress
from tests.wire.deployment import free_ports

END = b"end"


class Echo:
    """Sends back what it is sent, until it is told to end."""

    def __init__(self):
        self.asked = []
        self.finished = False
        self.state = "waiting"
        self.told = []

    def handle(self, question):
        self.asked.append(question)
        self.finished = question == END
        self.state = "released" if self.finished else "answered"
        return question


class Wire:
    """A coordinator that listens, and parties that can be sent to it."""

    #: Within how many seconds a question is there for sure; the code for who has not come.
    soon, away = 5, "Unreachable"

    def __init__(self, folder, names):
        self.folder = folder
        self.names = list(names)
        for name in names:
            make_node_key(folder / name)
        self.authority = make_authority(folder / "authority", ["127.0.0.1"])
        (self.port,) = free_ports(1)
        self.address = f"127.0.0.1:{self.port}"
        self.threads = {}
        self.errors = {}
        self.states = []

    @contextmanager
    def open(self, *, end=True):
        with line.carrying(
            nodes={name: self.folder / f"{name}.pem" for name in self.names},
            authority=self.authority,
            host="127.0.0.1",
            port=self.port,
            log=self.folder / line.LOG,
            tell=self.states.append,
        ) as carrier:
            yield carrier
            if end:
                here = [name for name in self.names if name in self.threads]
                carrier.exchange(dict.fromkeys(here, END), 60)
                for thread in self.threads.values():
                    thread.join(60)

    def key(self, name):
        return read_node_key(self.folder / name)

    def credentials(self, name):
        """Return what a party shows, for saying anything."""
        key = self.key(name)
        files = self.authority.certificate, key.certificate
        known, shown = (file.read_bytes() for file in files)
        return line.grpc.ssl_channel_credentials(known, key.private_pem(), shown)

    def send(self, name, session, *, patience=60.0, **more):
        """Let a party connect and answer."""
        home = self.folder / f"home of {name}"
        home.mkdir(exist_ok=True)

        def work():
            try:
                line.run_party(
                    session,
                    coordinator=self.address,
                    authority=self.authority.certificate,
                    key=self.key(name),
                    progress=Progress(home),
                    patience=patience,
                    **more,
                )
            except Exception as error:
                self.errors[name] = error

        self.threads[name] = threading.Thread(target=work, daemon=True)
        self.threads[name].start()
        return home


@pytest.fixture
def wire(tmp_path):
    return Wire(tmp_path, ["a", "b", "c"])


@pytest.fixture
def inside(monkeypatch):
    """Have the port held by a thread of this process, whose bounds can be changed."""

    class Here:
        def __init__(self, words, *, stdin, **_):
            pipe = socket.socket(fileno=os.dup(stdin))
            self._thread = threading.Thread(target=lambda: asyncio.run(line._serve(pipe)))
            self._thread.start()

        def wait(self, seconds):
            self._thread.join(seconds)
            assert not self._thread.is_alive()

    monkeypatch.setattr(line.subprocess, "Popen", Here)


def until(ready):
    """Wait until something is so."""
    while not ready():
        time.sleep(0.02)
