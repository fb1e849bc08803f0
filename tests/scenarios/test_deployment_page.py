"""The page about deployments, word by word: its commands give a release that everybody signed."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.scenarios.deployment import PARTIES, free_ports

PAGE = Path(__file__).parents[2] / "docs/deployment.md"

pytestmark = [pytest.mark.slow, pytest.mark.deployment, pytest.mark.timeout(900)]


@pytest.fixture
def shell(tmp_path):
    """Return a way to start a block of commands, where ``confrere`` is this checkout's."""
    programs = tmp_path / "bin"
    programs.mkdir()
    script = programs / "confrere"
    script.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m confrere.cli "$@"\n')
    script.chmod(0o755)
    here = tmp_path / "here"
    here.mkdir()
    environment = {k: v for k, v in os.environ.items() if not k.startswith("CONFRERE_")}
    environment |= {
        "PATH": f"{programs}{os.pathsep}{environment['PATH']}",
        "COORDINATOR": "127.0.0.1",
    }
    started = []

    def start(block, typed=""):
        process = subprocess.Popen(
            ["/bin/bash", "-eu", "-c", block],
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
    yield start
    for process in started:
        process.kill()
        process.stdout.close()
        process.wait()


def test_the_page_s_commands_work_as_written(shell):
    (port,) = free_ports(1)
    blocks = re.findall(r"```sh\n(.*?)```", PAGE.read_text().replace("8443", str(port)), re.DOTALL)
    keys, study, local, approve, coordinator, status, party, release = blocks
    for block in (keys, study, local):
        done(shell(block))
    for name in PARTIES:
        done(shell(approve.replace("main", name), typed="1\n"))
    asking = shell(coordinator)
    authority = shell.here / "coordinator/confrere-coordinator/authority/ca.pem"
    deadline = time.monotonic() + 120
    while not (authority.exists() and (authority.parents[1] / "status.json").exists()):
        assert time.monotonic() < deadline
        time.sleep(0.2)
    assert "nobody yet" in done(shell(status))
    answering = [shell(party.replace("main", name)) for name in PARTIES]
    for process in (*answering, asking):
        done(process)
    told = done(shell(release))
    assert "released" in told


def done(process) -> str:
    output = process.stdout.read()
    assert process.wait(300) == 0, output
    return output
