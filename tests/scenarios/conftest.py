"""The real data are published but not part of the project: CONFRERE_DATA says where they lie."""

from __future__ import annotations

import os

collect_ignore = (
    []
    if os.environ.get("CONFRERE_DATA")
    else ["test_real_data.py", "test_real_multiparty.py", "test_reproduce_real.py"]
)
