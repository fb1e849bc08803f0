"""A real line in one process: TLS on the loopback interface, every party in a thread of its own."""

from __future__ import annotations

import socket
import threading
import time
import warnings
from contextlib import contextmanager

import pytest

from tests.scenarios.deployment import free_ports

with warnings.catch_warnings():
    # Flower imports names that protobuf and sqlalchemy have deprecated.
    warnings.simplefilter("ignore", category=DeprecationWarning)
    from confrere.federation.flower import answering
    from confrere.federation.flower.carrying import carrying
    from confrere.federation.flower.keys import make_authority, make_node_key, read_node_key
    from confrere.progress import Progress

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
        with carrying(
            nodes={name: self.folder / f"{name}.pem" for name in self.names},
            authority=self.authority,
            host="127.0.0.1",
            port=self.port,
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

    def raw(self, name):
        """Return a connection with a party's certificate, for saying anything."""
        context = self.key(name).client_context(self.authority.certificate)
        raw = socket.create_connection(("127.0.0.1", self.port))
        return context.wrap_socket(raw, server_hostname="127.0.0.1")

    def send(self, name, session, *, patience=60.0, **more):
        """Let a party connect and answer."""
        home = self.folder / f"home of {name}"
        home.mkdir(exist_ok=True)

        def work():
            try:
                answering.run_party(
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


def until(ready, seconds=30.0):
    """Wait until something is so."""
    deadline = time.monotonic() + seconds
    while not ready():
        assert time.monotonic() < deadline
        time.sleep(0.02)
