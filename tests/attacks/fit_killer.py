"""Fork a child that fits and releases in a loop, kill it at a random moment, look at the ledger.

Usage: ``python fit_killer.py LEDGER FOLDER KILLS SEED``. Everything is imported once, here, so that
fifty children cost little more than their fits. Prints one JSON line per kill.
"""

import json
import os
import random
import signal
import sys
import time
from pathlib import Path

import numpy as np

from confrere import Ledger, PrivateLogisticRegression

X = np.random.default_rng(0).normal(size=(300, 4))
Y = (X[:, 0] > 0).astype(int)


def fit_forever(ledger, folder):
    model = PrivateLogisticRegression(epsilon=0.25, budget=ledger["study"])
    count = 0
    while True:
        model.fit(X, Y)
        # What leaves: a file that appears whole or not at all.
        draft = folder / f".{os.getpid()}-{count}"
        draft.write_text(json.dumps({"row": model.receipt_.row, "coef": model.coef_.tolist()}))
        draft.rename(folder / f"{os.getpid()}-{count}.json")
        count += 1


def main(path, folder, kills, seed):
    ledger = Ledger(path)
    ledger.open_account("study")
    moments = random.Random(seed)
    for _ in range(kills):
        enough = len(list(folder.glob("*.json"))) + moments.randint(0, 2)
        child = os.fork()
        if child == 0:
            fit_forever(ledger, folder)
        while len(list(folder.glob("*.json"))) < enough:
            time.sleep(0.0005)
        time.sleep(moments.uniform(0.0, 0.015))
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        released = [json.loads(file.read_text()) for file in folder.glob("*.json")]
        after = Ledger(path)
        charged = {entry.row for entry in after.entries("study")}
        report = {
            "verified": after.verify() > 0,
            "released": len(released),
            "charged": len(charged),
            "unpaid": sum(each["row"] not in charged for each in released),
            "spent": after.spent("study"),
        }
        print(json.dumps(report), flush=True)  # noqa: T201


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4]))
