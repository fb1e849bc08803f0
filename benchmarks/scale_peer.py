"""diffprivlib's side of the benchmark ``scale``, in an environment that has it.

Reads rows and labels from a folder, fits whenever a line comes in, and says how many CPU seconds
that took.
"""

import sys
import time

import numpy as np
from diffprivlib.models import LogisticRegression

folder, C = sys.argv[1], float(sys.argv[2])
X, y = np.load(f"{folder}/X.npy"), np.load(f"{folder}/y.npy")
model = LogisticRegression(epsilon=1.0, data_norm=1.0, C=C)
for _ in sys.stdin:
    start = time.process_time()
    model.fit(X, y)
    sys.stdout.write(f"{time.process_time() - start!r}\n")
    sys.stdout.flush()
