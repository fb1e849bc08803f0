"""A study of three parties between processes, over TLS with node keys, by the command line alone.

Everything is on the loopback interface: a coordinator, three parties, and whatever they start.
"""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import time
import traceback
import warnings
from base64 import b64decode
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from types import MappingProxyType
from typing import BinaryIO, NoReturn

import numpy as np
import pandas as pd
import psutil

from confrere.cli import main
from confrere.release import load_rehearsal
from confrere_federation.parties.messages import Payload, SignedAnswer, split_parts
from confrere_federation.progress import read_progress
from confrere_federation.studies.running import approve_study
from confrere_federation.studies.study_file import (
    Home,
    Study,
    estimator_for,
    read_local,
    read_study,
)
from tests.examples import write_plain_example
from tests.wire.homes import DATASET, open_kits

COMMAND = [sys.executable, "-m", "confrere.cli"]
PARTIES = ("main", "branch-1", "branch-2")


class Deployment:
    """The processes of one study, each of which can be started, killed and started again.

    Parameters
    ----------
    folder : Path
        Everything is in it.
    rounds : int
        Of the protocol; every party spends epsilon 1 in all of them, and has no more.
    seeded : bool
        Draw seeded noise, so that the model is known beforehand.
    warm : bool
        Give the commands in forks of this process, which has imported everything: what is started
        often costs little. :attr:`first` holds what a fork does before its command.
    more : sequence of str
        Parties besides the example's three; they are like its branches.
    changes : mapping of str to str
        Of the study's text, besides.
    policy : str
        Lines of everybody's policy, besides.
    """

    def __init__(
        self,
        folder: Path,
        *,
        rounds: int = 1,
        seeded: bool = False,
        warm: bool = False,
        more: Sequence[str] = (),
        changes: Mapping[str, str] = MappingProxyType({}),
        policy: str = "",
    ) -> None:
        self.folder = folder.resolve()
        self.warm = warm
        self.first: dict[str, Callable[[], object]] = {}
        self.parties = (*PARTIES, *more)
        write_plain_example(self.folder)
        for name in more:
            _add_branch(self.folder, name)
        wanted = {
            'engine = "local"': 'engine = "line"',
            "epsilon = 3.0": "epsilon = 1.0",
            "epsilon = 2.0": "epsilon = 1.0",
            'name = "average"': f'rounds = {rounds}\nname = "average"',
            **changes,
        }
        if seeded:
            wanted['mode = "private"'] = 'mode = "simulation"'
            wanted["split_seed"] = "noise_seed = 7\nsplit_seed"
        text = (self.folder / "study.toml").read_text()
        for old, new in wanted.items():
            text = text.replace(old, new)
        (self.folder / "study.toml").write_text(text)
        (self.port,) = free_ports(1)
        self.commands = {
            "coordinator": [
                *("coordinator", "coordinator/study.toml", "--json", "--out", "out"),
                *("--folder", "coordinator", "--timeout", "400"),
            ]
        }
        self.places = open_kits(self.folder, self.parties, port=self.port)
        for name, place in self.places.items():
            with (self.folder / name / "policy.toml").open("a") as stream:
                stream.write(policy)
            local = read_local(place / "local.toml")
            told = {"key": local.key_path, "name": "the officer", "reason": "a test"}
            approve_study(self.study, local, approval=place / "approval.json", **told)
            self.commands[name] = [
                *("party", str(place / "study.toml")),
                *("--folder", f"nodes/{name}", "--out", f"had/{name}"),
            ]
        self.running: dict[str, subprocess.Popen[bytes] | Forked] = {}

    def __enter__(self) -> Deployment:
        return self

    def __exit__(self, kind, error, trace) -> None:
        for name in self.running:
            self.kill(name)
        if error is not None:
            error.add_note(self.logs())

    def listening(self) -> bool:
        """Whether the coordinator's door is there."""
        with suppress(OSError), socket.create_connection(("127.0.0.1", self.port), 1):
            return True
        return False

    def status(self, folder: str) -> dict:
        """Return how far a coordinator or a party says that it is."""
        return read_progress(self.folder / folder) or {}

    def processes(self) -> list[psutil.Process]:
        """Return the processes of the commands that were given."""
        return [psutil.Process(p.pid) for p in self.running.values() if p.poll() is None]

    def start_all(self) -> None:
        for name in ("coordinator", *self.parties):
            self.start(name)

    def start(self, name: str) -> None:
        """Give the command, as an operator would."""
        environment = {k: v for k, v in os.environ.items() if not k.startswith("CONFRERE_")}
        with (
            (self.folder / f"{name}.out").open("ab") as out,
            (self.folder / f"{name}.err").open("ab") as err,
        ):
            if self.warm:
                words, first = self.commands[name], self.first.pop(name, None)
                self.running[name] = Forked(words, self.folder, out, err, first)
                return
            self.running[name] = subprocess.Popen(
                [*COMMAND, *self.commands[name]],
                cwd=self.folder,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=err,
            )

    def kill(self, name: str) -> None:
        """End a command by signal 9; what it started ends by itself."""
        family = self._family(name)
        for process in family[:1]:
            with suppress(psutil.NoSuchProcess):
                process.kill()
        self.running[name].wait()
        assert psutil.wait_procs(family[1:], timeout=300)[1] == []

    def kill_reader(self, name: str) -> None:
        """End, by signal 9, the process of a party that reads rows; the other one notices."""
        # When it was only just started there is none yet.
        while len(family := self._family(name)) < 2 and self.running[name].poll() is None:
            time.sleep(0.05)
        for process in family[1:]:
            with suppress(psutil.NoSuchProcess):
                process.kill()
        assert self.running[name].wait(300) in (0, 6)

    def wait(self, ready, seconds: float) -> None:
        """Wait until something is so, and fail if it never will be."""
        deadline = time.monotonic() + seconds
        while not ready():
            assert time.monotonic() < deadline, f"not ready after {seconds} s"
            for name, process in self.running.items():
                assert process.poll() in (None, 0), f"{name} ended with code {process.poll()}"
            time.sleep(0.2)

    def finish(self, seconds: float) -> dict:
        """Wait until everybody has ended by themselves; return what the coordinator told."""
        self.wait(lambda: all(p.poll() is not None for p in self.running.values()), seconds)
        assert {name: p.returncode for name, p in self.running.items()} == dict.fromkeys(
            self.running, 0
        )
        told = json.loads((self.folder / "coordinator.out").read_text().splitlines()[-1])
        assert told["status"] == "ok"
        return told["data"]

    @property
    def finished(self) -> bool:
        """Whether the coordinator has written the release."""
        return (self.folder / "out/diabetes-2026").exists()

    def gathered(self) -> dict[tuple[str, int, str], bytes]:
        """Return what the coordinator's journal has: signed answers by operation, step, party."""
        found = {}
        for row in _rows(self.folder / "coordinator/journal", "answered"):
            _, operation, step = row["key"]
            if not operation.startswith("lost "):
                for answer in split_parts(b64decode(row["answer"]))[2:]:
                    party = Payload.decode(split_parts(answer)[0]).values["about"]["party"]
                    found[operation, step, party] = answer
        return found

    def payloads(self) -> dict[tuple[str, int, str], Payload]:
        """Return what is in the gathered answers, once their signatures are good."""
        keys = {party.name: party.key for party in self.study.parties}
        return {key: SignedAnswer.open(a, keys).payload for key, a in self.gathered().items()}

    def answers(self, party: str) -> dict[tuple[str, str, int], bytes]:
        """Return what a party has answered, by run, operation and step."""
        book = self.ledger(party)
        rows = _rows(book.with_name(f"{book.name}.{party}.answers"), "answered")
        return {tuple(row["key"]): b64decode(row["answer"]) for row in rows}

    def ledger(self, party: str) -> Path:
        return Home(self.folder / party).ledger_of(DATASET)

    @property
    def study(self) -> Study:
        """What everybody has agreed on."""
        return read_study(self.folder / "study.toml")

    def released(self) -> np.ndarray:
        """Return the coefficients of the release."""
        release = load_rehearsal(self.folder / "out/diabetes-2026")
        return release.model.coef[0]

    def released_in_python(self) -> np.ndarray:
        """Return what the estimator makes of the same parties' tables, with the same seed."""
        study, names = self.study, [party.name for party in self.study.parties]
        tables = [pd.read_csv(self.folder / f"local/{name}.csv") for name in names]
        party = np.repeat(names, [len(table) for table in tables])
        return estimator_for(study, study.method).fit(pd.concat(tables), party=party).coef_[0]

    def remains(self) -> list[str]:
        """Return the command lines of processes of this deployment that still run."""
        if self.warm:
            return [str(p) for p in psutil.Process().children(recursive=True)]
        found = []
        for process in psutil.process_iter():
            with suppress(psutil.Error):
                words = process.cmdline()
                if any(str(self.folder) in word for word in words):
                    found.append(" ".join(words))
        return found

    def logs(self) -> str:
        """Return the end of everything that was written, for whoever looks into a failure."""
        files = [*self.folder.glob("*.err"), *self.folder.rglob("line.log")]
        return "\n".join(f"--- {file.name}\n{file.read_text()[-3000:]}" for file in sorted(files))

    def _family(self, name: str) -> list[psutil.Process]:
        try:
            head = psutil.Process(self.running[name].pid)
            return [head, *head.children(recursive=True)]
        except psutil.NoSuchProcess:
            return []


class Forked:
    """A command in a fork of this process; looks like what ``subprocess`` starts."""

    def __init__(
        self,
        words: list[str],
        folder: Path,
        out: BinaryIO,
        err: BinaryIO,
        first: Callable[[], object] | None = None,
    ) -> None:
        self.returncode: int | None = None
        self.pid = os.fork()
        if self.pid == 0:
            self._be(words, folder, out, err, first)

    def _be(
        self,
        words: list[str],
        folder: Path,
        out: BinaryIO,
        err: BinaryIO,
        first: Callable[[], object] | None,
    ) -> NoReturn:
        code = 1
        try:
            if first is not None:
                first()
            os.chdir(folder)
            with Path(os.devnull).open("rb") as nothing:
                for place, file in enumerate((nothing, out, err)):
                    os.dup2(file.fileno(), place)
            sys.stdin, sys.stdout, sys.stderr = (
                os.fdopen(place, mode, closefd=False) for place, mode in enumerate("rww")
            )
            for name in [name for name in os.environ if name.startswith("CONFRERE_")]:
                del os.environ[name]
            warnings.resetwarnings()
            warnings.simplefilter("ignore")
            sys.argv = ["confrere", *words]
            main()
        except SystemExit as end:
            code = end.code if isinstance(end.code, int) else 1
        except BaseException:
            traceback.print_exc()
        finally:
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(code)

    def poll(self) -> int | None:
        """Return how it ended; None if it has not."""
        if self.returncode is None:
            found, status = os.waitpid(self.pid, os.WNOHANG)
            if found:
                self.returncode = os.waitstatus_to_exitcode(status)
        return self.returncode

    def wait(self, timeout: float = 60) -> int:
        """Wait for its end."""
        deadline = time.monotonic() + timeout
        while self.poll() is None:
            assert time.monotonic() < deadline, f"it has not ended after {timeout} s"
            time.sleep(0.05)
        assert self.returncode is not None
        return self.returncode


def _add_branch(folder: Path, name: str) -> None:
    """Give the example another branch, with patients of its own."""
    local = (folder / "local/branch-1.toml").read_text()
    (folder / f"local/{name}.toml").write_text(local.replace("branch-1", name))
    rows = (folder / "local/branch-1.csv").read_text()
    (folder / f"local/{name}.csv").write_text(rows.replace("branch-1", name))
    study = folder / "study.toml"
    branch = f'[[party]]\nname = "{name}"\ndataset = "checkups-2010"\ncap = {{ epsilon = 2.0 }}\n'
    study.write_text(study.read_text().replace("[federation]", f"{branch}\n[federation]"))


def free_ports(count: int) -> list[int]:
    """Return ports that nobody listens on."""
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [s.getsockname()[1] for s in sockets]
    for s in sockets:
        s.close()
    return ports


def _rows(path: Path, kind: str) -> list[dict]:
    """Return what the rows of one kind in a log say."""
    lines = path.read_bytes().split(b"\n")[:-1] if path.exists() else []
    rows = [json.loads(line) for line in lines]
    return [json.loads(row[3]) for row in rows if row[1] == kind]
