"""Become another program that ends when the one that started it does: run as a script.

Where the platform can (Linux), the kernel ends this process gently once its parent is gone, however
it went. Elsewhere it only becomes the other program.
"""

import ctypes
import os
import signal
import sys

_PR_SET_PDEATHSIG = 1


def main() -> None:
    """Take the parent's process id, then the program and its arguments."""
    parent, *command = sys.argv[1:]
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
        if os.getppid() != int(parent):
            sys.exit("the parent is gone")
    os.execv(command[0], command)  # noqa: S606  our own arguments


if __name__ == "__main__":
    main()
