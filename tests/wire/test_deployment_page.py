"""The pages about deployments, word by word: their commands give releases that everybody signed.

Once on the loopback interface, and once between machines as far as a network can tell: coordinator
and parties each in a network namespace of their own, joined by cables.
"""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from confrere.release import fingerprint
from confrere_federation.studies.study_file import read_study
from tests.wire.deployment import PARTIES, free_ports

DOCS = Path(__file__).parents[2] / "docs"

pytestmark = [pytest.mark.slow, pytest.mark.deployment, pytest.mark.timeout(900)]


def run(*words: str) -> None:
    subprocess.run(words, check=True, capture_output=True, timeout=60)


@pytest.fixture(params=["loopback", "namespaces"])
def machines(request):
    """Return the coordinator's address, and the words that begin a command at everybody's."""
    if request.param == "loopback":
        yield "127.0.0.1", {}
        return
    if os.getuid() != 0 or shutil.which("ip") is None:
        pytest.skip("namespaces and cables between them need root, and ip")
    names = {name: f"confrere-{os.getpid()}-{name}" for name in ("coordinator", *PARTIES)}
    hub = names["coordinator"]
    try:
        for space in names.values():
            run("ip", "netns", "add", space)
            run("ip", "-n", space, "link", "set", "lo", "up")
        run("ip", "-n", hub, "link", "add", "hub", "type", "bridge")
        run("ip", "-n", hub, "addr", "add", "10.203.0.1/24", "dev", "hub")
        run("ip", "-n", hub, "link", "set", "hub", "up")
        for k, party in enumerate(PARTIES):
            space, far = names[party], f"to{k}"
            run("ip", "-n", space, "link", "add", "cable", "type", "veth", "peer", far)
            run("ip", "-n", space, "link", "set", far, "netns", hub)
            run("ip", "-n", space, "addr", "add", f"10.203.0.{k + 2}/24", "dev", "cable")
            run("ip", "-n", space, "link", "set", "cable", "up")
            run("ip", "-n", hub, "link", "set", far, "master", "hub", "up")
        yield "10.203.0.1", {n: ["ip", "netns", "exec", space] for n, space in names.items()}
    finally:
        for space in names.values():
            subprocess.run(["ip", "netns", "del", space], check=False, capture_output=True)


@pytest.fixture
def shell(tmp_path, machines):
    """Return a way to start a block of commands, where ``confrere`` is this checkout's."""
    address, spaces = machines
    programs = tmp_path / "bin"
    programs.mkdir()
    script = programs / "confrere"
    script.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m confrere.cli "$@"\n')
    script.chmod(0o755)
    here = tmp_path / "here"
    here.mkdir()
    environment = {k: v for k, v in os.environ.items() if not k.startswith("CONFRERE_")}
    environment |= {"PATH": f"{programs}{os.pathsep}{environment['PATH']}", "COORDINATOR": address}
    started = []

    def start(block, typed="", at="coordinator"):
        process = subprocess.Popen(
            [*spaces.get(at, ()), "/bin/bash", "-eu", "-c", block],
            cwd=here,
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        started.append(process)
        process.stdin.write(typed)
        process.stdin.close()
        return process

    start.here = here
    start.address = address
    yield start
    for process in started:
        process.kill()
        process.stdout.close()
        process.wait()


def test_from_kits_to_a_release_that_everybody_signed(shell):
    requests, kits, opening, party, coordinator, looking, *later = blocks_of(
        "kits.md", shell.address
    )
    following, rotating, accepting = later
    for block in (requests, kits, opening):
        done(shell(block))
    asking = shell(coordinator)
    answering = [shell(party.replace("main", n), typed="1\n", at=n) for n in PARTIES]
    for process in (*answering, asking):
        done(process)
    assert done(shell(looking)).count("released") >= 2
    (release,) = {one.parent for one in shell.here.glob("coordinator/**/card.json")}
    assert sorted(one.stem for one in release.glob("signatures/*.sig")) == sorted(PARTIES)
    # The next study finds what this one spent, under another name for the data.
    told = done(shell(following))
    (priced,) = (row for row in told.splitlines() if re.match(r" +main +epsilon", row))
    assert priced.split()[:5] == ["main", "epsilon", "1", "1", "2"], told
    assert "main/checkups" in told
    # A new signing key: the third study names it, the first two stay as they are.
    old = fingerprint(shell.here / "main/keys/main.key.pub")
    peers = shell.here / "branch-1/peers.toml"
    peers.write_text(f'[peers]\nmain = "{old}"\n')
    ledger = (shell.here / "main/ledgers/checkups.ledger").read_bytes()
    done(shell(rotating))
    done(shell(accepting))
    new = fingerprint(shell.here / "main/keys/main.key.pub")
    assert peers.read_text() == f'[peers]\nmain = "{new}"\n'
    assert (shell.here / "main/ledgers/checkups.ledger").read_bytes() == ledger
    studies = [read_study(p) for p in sorted((shell.here / "main/studies").glob("*/study.toml"))]
    assert [fingerprint(one.party("main").key) for one in studies] == [old, old, new]


def blocks_of(page: str, address: str) -> list[str]:
    """Return the commands of a page, with this machine's address and a free port."""
    (port,) = free_ports(1)
    text = (DOCS / page).read_text().replace("8443", str(port))
    text = text.replace("COORDINATOR=127.0.0.1", f"COORDINATOR={address}")
    return re.findall(r"```sh\n(.*?)```", text, re.DOTALL)


def done(process) -> str:
    output = process.stdout.read()
    assert process.wait(300) == 0, output
    return output
