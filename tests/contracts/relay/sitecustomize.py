"""Where a site's FLARE starts a command of ours: has its messages answered by a test."""

import os
import sys
from multiprocessing.connection import Client, Connection, wait

if {"confrere.cli", "confrere_federation.commands.party"} & set(sys.orig_argv):
    ends = [Connection(os.dup(0)), Client("relay")]
    try:
        while True:
            for one in wait(ends):
                ends[one is ends[0]].send_bytes(one.recv_bytes())
    except (EOFError, OSError):
        os._exit(0)
