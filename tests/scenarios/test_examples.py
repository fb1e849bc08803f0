"""Every example runs as it is, and so does the first chapter of the documentation."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
EXAMPLES = sorted((ROOT / "examples").glob("[0-9]*.py"))


def run(arguments, folder):
    environment = {**os.environ, "MPLBACKEND": "Agg", "PYTHONWARNINGS": "ignore"}
    return subprocess.run(
        [sys.executable, *arguments],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        timeout=280,
        check=False,
    )


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.stem)
def test_example(example, tmp_path):
    done = run([str(example)], tmp_path)
    assert done.returncode == 0, done.stderr[-2000:]


@pytest.mark.parametrize("page", ["README.md", "docs/start.md"])
def test_the_code_of_a_page_runs_in_order(page, tmp_path):
    blocks = re.findall(r"```python\n(.*?)```", (ROOT / page).read_text(), flags=re.DOTALL)
    assert blocks
    done = run(["-c", "\n".join(blocks)], tmp_path)
    assert done.returncode == 0, done.stderr[-2000:]
    assert "1-DP per record" in done.stdout
