"""What reads rows runs in a process that has no network; another one has the line.

A party is two processes where the system allows it (Linux with user namespaces): the one that was
started holds the line to the coordinator and never opens a table, and its child reads rows, keeps
the books and signs, in a network namespace in which there is nothing. Questions go in through one
pipe, and replies come out. Code that sees rows, the installed operations and all libraries that
they use, can open no connection, whatever it tries. Either process ends with the other.

What this does not do: whoever controls the child may put what it likes into a reply, which goes to
the coordinator and to nobody else, and into files that its user may write.
"""

from __future__ import annotations

import ctypes
import json
import os
import signal
import sys
import traceback
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from multiprocessing import Pipe
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, NoReturn

from confrere import errors
from confrere.errors import ConfrereError, EngineFailed
from confrere_federation.engines.carrier import Answering

_NEW_USER, _NEW_NET = 0x10000000, 0x40000000
_DEATH_SIGNAL, _DUMPABLE, _NO_NEW_PRIVILEGES = 1, 4, 38
_Told = dict[str, Any]
_GONE = "the process that reads rows has ended."
_GO, _ASK, _END = b"go", b"?", b"."


@contextmanager
def without_network(
    make: Callable[[], Answering], tell: Callable[[str], None]
) -> Iterator[Answering]:
    """Have questions answered by a process that cannot connect to anything.

    To be called in the main thread, before a line is open and threads hold locks: it forks.

    Raises ConfrereError, OSError what ``make`` raised; EngineFailed if the other process ends
    without being asked.
    """
    child, line, why = _begin()
    if line is None:
        tell(f"rows are read by a process that has a network: {why}")
        yield make()
        return
    if child == 0:
        _answer(line, make)
    try:
        _set(_DUMPABLE, 0)  # the child, of the same user, may not look into what has the network
        line.send_bytes(_GO)
        told, _ = _receive(line)
        _check(told)
        yield _Elsewhere(line, told["facts"], child)
    finally:
        line.close()
        with suppress(ChildProcessError):
            os.kill(child, signal.SIGKILL)  # all that it does can be killed at any moment
            os.waitpid(child, 0)
        _set(_DUMPABLE, 1)


class _Elsewhere:
    """What answers for a party in the other process; it may end without being asked."""

    finished, state = False, "waiting"

    def __init__(self, line: Connection, facts: Mapping[str, str], child: int) -> None:
        self._line, self._child = line, child
        self.facts, self.told = facts, list[_Told]()

    @property
    def gone(self) -> bool:
        with suppress(ChildProcessError):  # it is waited for by now
            how = os.WEXITED | os.WNOHANG | os.WNOWAIT
            return os.waitid(os.P_PID, self._child, how) is not None
        return True

    def handle(self, question: bytes) -> bytes:
        return self._ask(_ASK + question)

    def end(self) -> None:
        self._ask(_END)

    def _ask(self, question: bytes) -> bytes:
        with suppress(OSError):  # what ended it may be there to be heard
            self._line.send_bytes(question)
        told, reply = _receive(self._line)
        if "state" in told:
            self.finished, self.state = bool(told["finished"]), str(told["state"])
            self.told = list(told["told"])
        _check(told)
        return reply


def _receive(line: Connection) -> tuple[_Told, bytes]:
    """Return what the other process says, plain values, and a reply; or say that it is gone."""
    try:
        told, _, reply = line.recv_bytes().partition(b"\n")
    except (EOFError, OSError):
        raise EngineFailed(_GONE) from None
    return json.loads(told), reply


def _check(told: _Told) -> None:
    """Raise what the other process says that has failed."""
    if "error" not in told:
        return
    kind = getattr(errors, told["error"], None)
    error: Exception
    if told["error"] == "OSError":
        error = OSError(*told["args"])
    elif isinstance(kind, type) and issubclass(kind, ConfrereError):
        error = kind(*told["args"]).hinting(told["hint"])
    else:
        error = EngineFailed(f"what reads rows has failed: unexpected {told['error']}.")
    error.add_note(told["trace"])
    raise error


def _begin() -> tuple[int, Connection | None, str]:
    """Fork; return the child's number (0 in it) and the line to the other, or why there is none."""
    if sys.platform != "linux":
        return -1, None, "network namespaces are a thing of Linux."
    ours, theirs = Pipe()
    parent = os.getpid()
    sys.stdout.flush()
    sys.stderr.flush()
    with warnings.catch_warnings():
        # Threads of mathematical libraries see to themselves, and there are no others yet.
        warnings.simplefilter("ignore", DeprecationWarning)
        child = os.fork()
    if child == 0:
        ours.close()
        failure = _leave_network(parent)
        theirs.send_bytes(failure.encode())
        if failure:
            os._exit(0)
        return 0, theirs, ""
    theirs.close()
    try:
        failure = ours.recv_bytes().decode()
        if not failure:
            _map_ids(child)
            return child, ours, ""
    except EOFError:
        failure = "it has ended"
    except OSError as error:
        failure = str(error.strerror)
    ours.close()
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    return -1, None, f"this system does not allow another ({failure})."


def _leave_network(parent: int) -> str:
    """Go where there is no network, and end with the parent; return why that is not possible."""
    libc = ctypes.CDLL(None, use_errno=True)
    # In a user namespace of its own it has no powers outside of it: there is no way back.
    if libc.unshare(_NEW_USER | _NEW_NET) != 0:
        return os.strerror(ctypes.get_errno())
    _set(_NO_NEW_PRIVILEGES, 1)
    _set(_DEATH_SIGNAL, signal.SIGKILL)
    return "" if os.getppid() == parent else "it was left alone"


def _set(option: int, value: int) -> None:
    ctypes.CDLL(None, use_errno=True).prctl(option, value, 0, 0, 0)


def _map_ids(child: int) -> None:
    """Let the child be the same user, so that its files are whose they are."""
    there = Path(f"/proc/{child}")
    if os.geteuid() == 0:
        for name in ("uid_map", "gid_map"):
            known = [line.split() for line in Path(f"/proc/self/{name}").read_text().splitlines()]
            (there / name).write_text("".join(f"{a} {a} {n}\n" for a, _, n in known))
        return
    (there / "uid_map").write_text(f"{os.geteuid()} {os.geteuid()} 1\n")
    (there / "setgroups").write_text("deny")
    (there / "gid_map").write_text(f"{os.getegid()} {os.getegid()} 1\n")


def _answer(line: Connection, make: Callable[[], Answering]) -> NoReturn:
    """Make what answers, then answer until the other process is gone."""
    try:
        line.recv_bytes()  # by now the user is known here
        session = make()
        # Who stops a party stops the process that was started; this one ends with it.
        for stop in (signal.SIGINT, signal.SIGTERM):
            signal.signal(stop, signal.SIG_IGN)
        _say(line, facts=session.facts)
        while True:
            asked, failed, reply = line.recv_bytes(), {}, b""
            try:
                if asked == _END:
                    session.end()
                else:
                    reply = session.handle(asked[1:])
            except ConfrereError as error:
                failed = _failure(error)
            now = {"finished": session.finished, "state": session.state, "told": session.told}
            _say(line, reply, **now, **failed)
    except (EOFError, ConnectionError, KeyboardInterrupt):
        pass
    except BaseException as error:
        with suppress(OSError):
            _say(line, **_failure(error))
    finally:
        os._exit(0)


def _failure(error: BaseException) -> _Told:
    told: list[object] = [a for a in error.args if isinstance(a, str | int | float)]
    name = type(error).__name__
    if isinstance(error, OSError):
        told, name = [error.errno, error.strerror, error.filename], "OSError"
    trace = "".join(traceback.format_exception(error))
    return {"error": name, "args": told, "trace": trace, "hint": getattr(error, "hint", "")}


def _say(line: Connection, reply: bytes = b"", **told: object) -> None:
    line.send_bytes(json.dumps(told, default=str).encode() + b"\n" + reply)
