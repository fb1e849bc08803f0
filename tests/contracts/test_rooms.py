"""Rooms keep to themselves: private names stay inside, and words mean one thing."""

import ast
import sys
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT))

from benchmarks.private_names import trespasses  # noqa: E402


def test_no_room_takes_private_names_of_another():
    assert trespasses() == []


def test_a_trespass_is_found(tmp_path):
    package = tmp_path / "confrere"
    for room, text in {
        "estimators": "class Model:\n    def _plan(self):\n        return self._facts\n",
        "audit": "def draw(model):\n    return model._plan()\n",
        "study": "from confrere.estimators.face import _helper\n",
        "planning": "import os\n\n\ndef plan(self):\n    return os._exit\n",
    }.items():
        (package / room).mkdir(parents=True)
        (package / room / "face.py").write_text(text)
    (package / "estimators" / "help.py").write_text("def _helper():\n    pass\n")
    found = trespasses((package,))
    assert [line.split(": ")[1] for line in found] == [
        "_plan belongs to confrere.estimators",
        "_helper belongs to confrere.estimators",
    ]


def test_class_names_are_unique():
    """A reader who searches for a class finds one; names with an underscore stay in their file."""
    names = Counter(
        node.name
        for source in ("src", "federation/src")
        for path in (ROOT / source).rglob("*.py")
        for node in ast.parse(path.read_text()).body
        if isinstance(node, ast.ClassDef) and not node.name.startswith("_")
    )
    assert [name for name, count in names.items() if count > 1] == []
