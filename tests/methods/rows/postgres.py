"""A real PostgreSQL server in a temporary folder, if its programs are installed."""

import contextlib
import os
import pwd
import shutil
import subprocess
import tempfile
from pathlib import Path

import pytest


def program(name):
    found = shutil.which(name)
    if found is None:
        places = sorted(Path("/usr/lib/postgresql").glob(f"*/bin/{name}"))
        found = str(places[-1]) if places else None
    return found


@contextlib.contextmanager
def postgres():
    """Yield the address of a server with an empty database; it speaks through a socket alone."""
    initdb, server = program("initdb"), program("pg_ctl")
    if initdb is None or server is None:
        pytest.skip("PostgreSQL's programs (initdb, pg_ctl) are not installed")
    # A server refuses to run as root.
    user = None
    if os.getuid() == 0:
        names = [entry.pw_name for entry in pwd.getpwall()]
        user = "postgres" if "postgres" in names else "nobody"
    folder = Path(tempfile.mkdtemp(prefix="pg-", dir="/tmp"))
    try:
        if user is not None:
            shutil.chown(folder, user)
        quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL, "cwd": folder}
        quiet |= {"user": user, "env": {"PATH": os.environ["PATH"], "LC_ALL": "C"}}
        data = str(folder / "data")
        subprocess.run(
            [initdb, "-D", data, "-U", "tester", "-A", "trust", "--no-sync", "-E", "UTF8"],
            check=True,
            **quiet,
        )
        options = f"-c listen_addresses='' -c unix_socket_directories={folder} -c fsync=off"
        start = [server, "-D", data, "-o", options, "-l", str(folder / "log")]
        subprocess.run([*start, "-w", "start"], check=True, **quiet)
        try:
            yield f"postgresql://tester@/postgres?host={folder}"
        finally:
            subprocess.run([server, "-D", data, "-m", "immediate", "stop"], check=True, **quiet)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
