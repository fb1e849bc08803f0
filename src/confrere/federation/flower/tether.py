"""Become another program that ends when the one that started it does: run as a script.

Where the platform can (Linux), the kernel sends this process a signal once its parent is gone,
however it went. Elsewhere it only becomes the other program.
"""

import ctypes
import os
import sys

_PR_SET_PDEATHSIG = 1


def main() -> None:
    """Take the parent's process id, the signal, then the program and its arguments."""
    parent, signal, *command = sys.argv[1:]
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, int(signal))
        if os.getppid() != int(parent):
            sys.exit("the parent is gone")
    os.execv(command[0], command)  # noqa: S606  our own arguments


if __name__ == "__main__":
    main()
