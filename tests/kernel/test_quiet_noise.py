"""A twentieth of the noise, in any one measurement of the audit's table, is found by the audit."""

import sys

import pytest

from confrere.assurance.noise_law import noise_audit
from confrere.assurance.table import ROWS, sides_of
from confrere.kernel import noise as laws

QUIET = 20

#: What noise is made of where it has no law of the kernel's: whole numbers, and shares of parties.
SAMPLERS = ("discrete_laplace", "l2_shares", "normals", "integer_shares")

#: Tried by default: one row of each method and law; the others are slow.
FIRST = {(row.method, row.law): row for row in reversed(ROWS)}.values()


def divided(draw):
    def quietly(*args, **facts):
        drawn = draw(*args, **facts)
        return (drawn / QUIET).astype(drawn.dtype)

    return quietly


def make_quiet(monkeypatch):
    """Divide what is drawn and not what is declared."""
    for law in (laws.Pure, laws.Gaussian):
        monkeypatch.setattr(law, "draw", divided(law.draw))
    rooms = [module for name, module in sys.modules.items() if name.startswith("confrere.")]
    for name in SAMPLERS:
        real = getattr(laws, name)
        for module in rooms:
            if module is not laws and vars(module).get(name) is real:
                monkeypatch.setattr(module, name, divided(real))


@pytest.mark.parametrize(
    "row",
    [
        pytest.param(row, marks=() if row in FIRST else pytest.mark.slow)
        for row in ROWS
        if row.method != "total"
    ],
    ids=str,
)
def test_a_twentieth_of_the_noise_is_found(row, monkeypatch):
    # Parties that do the same are one measurement; a law that is far off is refuted at first look.
    terms = {repr(one.mechanism): one for one in sides_of(row).first}.values()
    make_quiet(monkeypatch)
    for term in terms:
        share, where = noise_audit([term])
        assert share > 1, (term.name, where)
