"""What reads rows has no network: the attacks themselves, by code that runs there."""

import ctypes
import errno
import os
import signal
import socket
import sys
import time
from contextlib import suppress
from multiprocessing import Pipe
from pathlib import Path

import pytest

from confrere.errors import EngineFailed, InvalidData
from confrere.rows import Sql
from confrere_federation.engines import offline
from tests.methods.rows.postgres import postgres

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="namespaces are a thing of Linux")

LIBC = ctypes.CDLL(None, use_errno=True)


def checked(done):
    if done < 0:
        raise OSError(ctypes.get_errno(), "refused")


def connect(family, address, kind=socket.SOCK_STREAM):
    with socket.socket(family, kind) as mine:
        mine.settimeout(5)
        mine.connect(address)
        mine.send(b"a row")


def back_by(path):
    there = os.open(path, os.O_RDONLY)
    checked(LIBC.setns(there, 0x40000000))


def attacks(port):
    """Return what an operation might try, by name."""
    parent = os.getppid()
    return {
        "tcp": lambda: connect(socket.AF_INET, ("127.0.0.1", port)),
        "udp": lambda: connect(socket.AF_INET, ("127.0.0.1", port), socket.SOCK_DGRAM),
        "outside": lambda: connect(socket.AF_INET, ("192.0.2.1", 443)),
        "ipv6": lambda: connect(socket.AF_INET6, ("2001:db8::1", 443)),
        "abstract": lambda: connect(socket.AF_UNIX, f"\0confrere-{port}"),
        "back to the parent's": lambda: back_by(f"/proc/{parent}/ns/net"),
        "back to the first": lambda: back_by("/proc/1/ns/net"),
        "memory": lambda: Path(f"/proc/{parent}/mem").open("rb"),
        "trace": lambda: checked(LIBC.ptrace(16, parent, 0, 0)),
        "descriptors": lambda: checked(LIBC.syscall(438, os.pidfd_open(parent), 1, 0)),
    }


class Hostile:
    """A party whose operation does what it is asked to."""

    finished, state, told = False, "waiting", []

    def __init__(self, port, table):
        self._port, self._table = port, table

    def handle(self, question):
        self.state = "answered"
        if question == b"who":
            return f"{os.geteuid()} {os.getegid()}".encode()
        if question == b"file":
            return os.read(os.open("table.csv", os.O_RDONLY, dir_fd=self._table), 100)
        try:
            attacks(self._port)[question.decode()]()
        except OSError as error:
            return errno.errorcode[error.errno].encode()
        return b"done"


def at_home(answering, facts=None, no=None):
    """Complete what answers; at the end somebody may have said no."""

    def end():
        if no is not None:
            answering.state = str(no)
            raise no.error()

    answering.facts, answering.end = facts or {}, end
    return answering


def party(user, port, table):
    """Be a party of that user's: what the command does, in a process of its own."""
    if user != os.getuid():
        os.setgroups([])
        os.setgid(user)
        os.setuid(user)
        LIBC.prctl(4, 1, 0, 0, 0)  # a program that is started by that user can be looked into
    lines = []
    with offline.without_network(lambda: at_home(Hostile(port, table)), lines.append) as session:
        asked = ["tcp"] if lines else [*attacks(port), "who", "file"]
        told = {name: session.handle(name.encode()).decode() for name in asked}
        connect(socket.AF_INET, ("127.0.0.1", port))  # who has the line can still use it
        return told | {"state": session.state, "lines": lines}


def served(user, tmp_path):
    """Return what came of a party's attacks, and how many connections there were."""
    (tmp_path / "table.csv").write_bytes(b"rows")
    (tmp_path / "table.csv").chmod(0o600)
    for path in (tmp_path, tmp_path / "table.csv") if user else ():
        os.chown(path, user, user)
    with socket.create_server(("127.0.0.1", 0)) as server, socket.socket(socket.AF_UNIX) as local:
        port = server.getsockname()[1]
        local.bind(f"\0confrere-{port}")
        local.listen()
        here, there = Pipe()
        table = os.open(tmp_path, os.O_RDONLY | os.O_DIRECTORY)
        child = os.fork()
        if child == 0:
            try:
                there.send(party(user, port, table))
            except BaseException as error:
                there.send({"failed": repr(error)})
            finally:
                os._exit(0)
        os.close(table)
        assert here.poll(60)
        told = here.recv()
        os.waitpid(child, 0)
        assert "failed" not in told, told
        server.settimeout(0)
        had = 0
        with suppress(BlockingIOError):
            while True:
                with server.accept()[0] as mine:
                    assert mine.recv(100) == b"a row"
                had += 1
    return told | {"had": had}


class Asking:
    """A party that asks a database for its rows, as it is made."""

    finished, state, told = False, "waiting", []

    def __init__(self, address):
        self._rows = sum(map(len, Sql(address, "SELECT * FROM generate_series(1, 3)").read()))

    def handle(self, question):
        return str(self._rows).encode()


def test_a_database_is_reached_by_its_socket_file_and_the_error_says_so():
    pytest.importorskip("adbc_driver_postgresql")
    with postgres() as address:
        lines = []
        with offline.without_network(lambda: at_home(Asking(address)), lines.append) as session:
            assert session.handle(b"rows") == b"3"
        if lines:
            pytest.skip(f"this system has no user namespaces: {lines[0]}")
    far = "postgresql://reader:hunter2@127.0.0.1:5432/clinic"
    with (
        pytest.raises(InvalidData, match=r"no network.*socket file.*data_path") as refusal,
        offline.without_network(lambda: at_home(Asking(far)), lines.append),
    ):
        pass
    assert "hunter2" not in str(refusal.value)


USERS = [0, 65534] if os.getuid() == 0 else [os.getuid()]


@pytest.mark.parametrize("user", USERS)
def test_code_that_sees_rows_reaches_nobody(tmp_path, user):
    told = served(user, tmp_path)
    if told["lines"]:
        pytest.skip(f"this system has no user namespaces: {told['lines'][0]}")
    assert told["tcp"] == told["udp"] == told["outside"] == "ENETUNREACH"
    assert told["ipv6"] in ("ENETUNREACH", "EADDRNOTAVAIL")
    assert told["abstract"] == "ECONNREFUSED"
    for attack in ("back to the parent's", "back to the first", "memory", "trace", "descriptors"):
        assert told[attack] in ("EPERM", "EACCES"), attack
    assert told["who"] == f"{user} {user if user else os.getgid()}"
    assert told["file"] == "rows"
    assert told["state"] == "answered"
    assert told["had"] == 1  # the parent's own


def test_where_it_is_not_allowed_it_is_said_in_one_line(tmp_path, monkeypatch):
    monkeypatch.setattr(offline, "_leave_network", lambda parent: "Operation not permitted")
    told = served(os.getuid(), tmp_path)
    (line,) = told["lines"]
    assert line == (
        "rows are read by a process that has a network: this system does not allow another "
        "(Operation not permitted)."
    )
    assert (told["tcp"], told["had"]) == ("done", 2)


class TestEnds:
    def test_an_error_of_others_is_named_and_not_quoted(self):
        def make():
            raise ZeroDivisionError("the patient's age is 47")

        with (
            pytest.raises(EngineFailed, match="unexpected ZeroDivisionError") as found,
            offline.without_network(make, print),
        ):
            raise AssertionError
        assert "47" not in str(found.value)

    def test_it_ends_with_the_other(self):
        class Mortal:
            finished, state, told = False, "waiting", []

            def handle(self, question):
                if question == b"die":
                    os._exit(9)
                return str(os.getpid()).encode()

        with offline.without_network(lambda: at_home(Mortal()), print) as session:
            child = int(session.handle(b""))
            assert child != os.getpid()
        with pytest.raises(ProcessLookupError):
            os.kill(child, 0)
        with offline.without_network(lambda: at_home(Mortal()), print) as session:
            for _ in range(2):
                with pytest.raises(EngineFailed, match="has ended"):
                    session.handle(b"die")
        with offline.without_network(lambda: at_home(Mortal()), print) as session:
            child = int(session.handle(b""))
            assert not session.gone
            os.kill(child, signal.SIGKILL)
            while not session.gone:  # asked nothing, it is noticed all the same
                time.sleep(0.01)
            with pytest.raises(EngineFailed, match="has ended"):
                session.end()
