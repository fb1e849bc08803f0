"""The clerk's process: started when it is asked something, ended when nobody asks any more.

What it answers is remembered as long as the files that it is about stay as they are, so that most
pages need no second process.
"""

from __future__ import annotations

import importlib
import signal
import socket
import subprocess
import sys
import threading
import time
from collections import OrderedDict
from collections.abc import Hashable
from contextlib import suppress
from multiprocessing.connection import Connection
from typing import Any

_IDLE_SECONDS = 30.0
_ANSWER_SECONDS = 120.0
_MOST_REMEMBERED = 500

_GONE = {"fault": "the desk's second process has ended while it worked on this; try again."}


class ClerkProcess:
    """A second process that calls functions by their names, one at a time.

    Parameters
    ----------
    idle : float, default=30
        Seconds without a question after which it ends.
    """

    def __init__(self, idle: float = _IDLE_SECONDS) -> None:
        self._idle = idle
        self._one_at_a_time = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._line: Connection | None = None
        self._known: OrderedDict[Hashable, dict[str, Any]] = OrderedDict()
        self._wanted: set[Hashable] = set()

    def ask(
        self, function: str, *args: Any, state: Hashable = None, **facts: Any
    ) -> dict[str, Any]:
        """Call ``module:name`` there, unless it is known what it says in this state.

        Parameters
        ----------
        function : str
            Such as ``"clerk:study_facts"``, of this package.
        *args, **facts
            Plain values.
        state : hashable, optional
            What the answer depends on besides; None remembers nothing.
        """
        key = None if state is None else (function, repr(args), state)
        if key is not None and key in self._known:
            return self._known[key]
        with self._one_at_a_time:
            answer = self._asked(function, args, facts)
        if key is not None and answer is not _GONE:
            self._known[key] = answer
            while len(self._known) > _MOST_REMEMBERED:
                self._known.popitem(last=False)
        return answer

    def known(self, function: str, *args: Any, state: Hashable) -> dict[str, Any] | None:
        """Return what :meth:`ask` would, if it is known; else None, and find it out meanwhile."""
        key = (function, repr(args), state)
        if key in self._known:
            return self._known[key]
        if key not in self._wanted:
            self._wanted.add(key)

            def find_out() -> None:
                try:
                    self.ask(function, *args, state=state)
                finally:
                    self._wanted.discard(key)

            threading.Thread(target=find_out, daemon=True, name="confrere-clerk").start()
        return None

    def warm_up(self) -> None:
        """Begin to load what a first question would wait for."""

        def begin() -> None:
            with self._one_at_a_time:
                self._start()

        threading.Thread(target=begin, daemon=True, name="confrere-clerk").start()

    @property
    def working(self) -> bool:
        """Whether there is a process now."""
        return self._process is not None and self._process.poll() is None

    def close(self) -> None:
        """End it."""
        with suppress(OSError):
            if self._line is not None:
                self._line.close()
        self._end()
        self._process = self._line = None

    def _end(self) -> None:
        if self._process is None:
            return
        try:
            self._process.wait(1.0)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    def _start(self) -> Connection:
        if self._line is not None and self.working:
            return self._line
        self._end()
        ours, theirs = socket.socketpair()
        with theirs:
            # Our own interpreter and module, and numbers: nothing of a stranger's.
            self._process = subprocess.Popen(  # noqa: S603
                [sys.executable, "-m", __name__, str(theirs.fileno()), str(self._idle)],
                pass_fds=[theirs.fileno()],
                stdin=subprocess.DEVNULL,
            )
        # Somebody has to notice its end, or the system keeps its name.
        threading.Thread(target=self._process.wait, daemon=True, name="confrere-clerk").start()
        self._line = Connection(ours.detach())
        return self._line

    def _asked(self, function: str, args: Any, facts: Any) -> dict[str, Any]:
        for _ in range(2):  # it may have gone home just when it was asked
            line = self._start()
            try:
                line.send((function, args, facts))
                if line.poll(_ANSWER_SECONDS):
                    answer: dict[str, Any] = line.recv()
                    return answer
                self.close()
                return {"fault": "it took too long."}
            except (EOFError, OSError):
                self.close()
        return _GONE


def _work(line: Connection, idle: float) -> None:
    """Answer until nobody asks any more, or the desk is gone."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the desk ends it
    modules = {
        name: importlib.import_module(f"confrere.desk.{name}")
        for name in ("clerk", "shown_release")
    }
    last = time.monotonic()
    try:
        while time.monotonic() - last < idle:
            if not line.poll(idle):
                return
            function, args, facts = line.recv()
            module, _, name = function.partition(":")
            try:
                answer = getattr(modules[module], name)(*args, **facts)
            except Exception as error:  # what it was about must not end it
                answer = {"fault": f"unexpected {type(error).__name__}."}
            line.send(answer)
            last = time.monotonic()
    except (EOFError, OSError):
        return


if __name__ == "__main__":
    _work(Connection(int(sys.argv[1])), float(sys.argv[2]))
