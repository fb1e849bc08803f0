"""Flower's programs as children: started with our settings, ended with us, and never left behind.

Beside the two ends' own traffic nothing leaves: telemetry and update checks are off, and Flower's
files stay in the folder that is given.
"""

from __future__ import annotations

import errno
import fcntl
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from confrere.errors import EngineFailed

_STOP_SECONDS = 15.0
_TETHER = Path(__file__).with_name("tether.py")
_COLOURS = re.compile(r"\x1b\[[0-9;]*m")
_LAST = 300


class Program:
    """A running program with its log; it ends with the thread that started it.

    Parameters
    ----------
    name : str
        Of the program.
    *arguments : str
        What it is given.
    folder : Path
        Flower's files, the log and the note of who runs.
    last : signal, default=SIGTERM
        What it is sent when the thread that started it is gone.
    """

    def __init__(
        self, name: str, *arguments: str, folder: Path, last: signal.Signals = signal.SIGTERM
    ) -> None:
        (folder / "flower").mkdir(parents=True, exist_ok=True)
        self.name = name
        self.log = folder / f"{name}.log"
        self._note = _note(folder, name)
        command = [find_program(name), *arguments]
        with self.log.open("ab") as log:
            self._began = log.tell()
            self._process = subprocess.Popen(  # noqa: S603  our own arguments
                [sys.executable, "-I", str(_TETHER), str(os.getpid()), str(int(last)), *command],
                env=environment(folder),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
            )
        self._note.write_text(f"{self._process.pid}\n{' '.join(command)}", encoding="utf-8")

    @property
    def code(self) -> int | None:
        """How it ended: 0 as asked, negative by a signal; None while it runs."""
        return self._process.poll()

    def wait(self) -> int:
        """Wait for its end."""
        return self._process.wait()

    def stop(self) -> None:
        """End it, gently first."""
        self._process.terminate()
        try:
            self._process.wait(_STOP_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._note.unlink(missing_ok=True)

    def said(self) -> str:
        """Return what its log says since it began, in one line."""
        with self.log.open("rb") as log:
            log.seek(self._began)
            text = _COLOURS.sub("", log.read().decode("utf-8", "replace"))
        return " ".join(text.split())

    def failed(self, what: str) -> EngineFailed:
        """Return the error that names the cause and the log."""
        said = self.said()
        # Flower's last word is its reason; before it are lines about how it went.
        last = said[max(said.rfind("Exit Code:"), len(said) - _LAST) :]
        cause = f": {last}" if last else ""
        return EngineFailed(f"{self.name} {what}{cause}; its log is {self.log}")


@contextmanager
def alone(folder: Path, who: str) -> Iterator[None]:
    """Be the only one of a kind in a folder; the lock goes with the process, however that ends."""
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    with (folder / f"{who}.lock").open("ab") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise EngineFailed(
                f"{folder}: another {who} works in this folder; end it, or give another --folder."
            ) from None
        yield


def make_room(folder: Path, name: str, host: str, port: int) -> None:
    """End the program that an earlier, killed process left here, and see that the port is free."""
    _end_orphan(folder, name)
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        socket.create_server((host, port), family=family).close()
    except OSError as error:
        if error.errno == errno.EADDRINUSE:
            raise EngineFailed(
                f"port {port} of {host} is in use; end the program that listens there, or give "
                "another --port."
            ) from None
        raise EngineFailed(
            f"cannot listen on {host}:{port} ({error.strerror}); give an address of this machine "
            "and a port that you may use."
        ) from None


def find_program(name: str) -> str:
    """Return the path of one of Flower's programs: beside this Python, or where shells find it."""
    beside = Path(sys.executable).with_name(name)
    found = str(beside) if beside.exists() else shutil.which(name)
    if found is None:
        raise EngineFailed(f"{name} is not installed: pip install 'confrere[flower]'.")
    return found


def environment(folder: Path) -> dict[str, str]:
    """Return the environment of Flower's programs."""
    programs = f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', '')}"
    return {
        **os.environ,
        "PATH": programs,
        "FLWR_HOME": str(folder / "flower"),
        "FLWR_TELEMETRY_ENABLED": "0",
        "FLWR_DISABLE_UPDATE_CHECK": "1",
    }


def _note(folder: Path, name: str) -> Path:
    return folder / f"{name}.pid"


def _end_orphan(folder: Path, name: str) -> None:
    note = _note(folder, name)
    with suppress(FileNotFoundError, ValueError):
        number, command = note.read_text(encoding="utf-8").split("\n", 1)
        for kind in (signal.SIGTERM, signal.SIGKILL):
            deadline = time.monotonic() + _STOP_SECONDS
            # Numbers are given again: only a process with our very arguments is ours to end.
            while _running(int(number)).endswith(command) and time.monotonic() < deadline:
                with suppress(ProcessLookupError):
                    os.kill(int(number), kind)
                time.sleep(0.5)
    note.unlink(missing_ok=True)


def _running(number: int) -> str:
    """Return a process's command line; nothing if there is none."""
    if Path("/proc/self/cmdline").exists():
        with suppress(OSError):
            return Path(f"/proc/{number}/cmdline").read_text("utf-8").replace("\0", " ").strip()
        return ""
    ask: list[Any] = ["ps", "-ww", "-o", "args=", "-p", str(number)]
    return subprocess.run(ask, capture_output=True, text=True, check=False).stdout.strip()  # noqa: S603
