"""Numbers of other types than doubles: nothing is computed in theirs, or taken for less."""

import numpy as np
import pytest

from confrere.errors import CalibrationError, InvalidData, InvalidParameter
from confrere.kernel.accountants import Logistic
from confrere.kernel.guarantee import Guarantee
from confrere.kernel.ledger import End
from confrere.kernel.measurements import SOLVER_SHARE, Columns, Objective, Point, SecureSum
from confrere.kernel.noise import L2, certify_rows
from confrere.ledger import Ledger
from confrere.methods.allowance import pure_rate
from confrere.solver.descent import Descent


@pytest.mark.parametrize("norm", ["l1", "l2"])
@pytest.mark.parametrize("row", [[16, 0], [-128, 0], [64, 64]])
def test_rows_of_bytes_are_as_long_as_their_numbers(row, norm):
    """Squares of bytes wrapped: these rows were taken for nothing."""
    with pytest.raises(InvalidData):
        certify_rows(np.array([row], dtype=np.int8), norm=norm)


def objective(epsilon, rate):
    how = {"loss": Logistic(0.5), "solver": Descent(), "n_samples": 10}
    return Objective(epsilon=epsilon, rate=rate, blocks=(Columns(L2(3), ridge=100.0),), **how)


def test_a_price_of_half_precision_is_kept_in_doubles():
    """The accountant was asked for .99 of it, rounded up to half precision."""
    prices = np.arange(0.5, 2.0, 0.01).astype(np.float16)
    epsilon = next(one for one in prices if float(one * 0.99) > float(one) * 0.99)
    fits = objective(float(epsilon), 0.1).exposure
    rate = pure_rate(float(epsilon * (1 - SOLVER_SHARE)), fits)
    with pytest.raises(CalibrationError):
        objective(epsilon, rate)
    assert type(objective(epsilon, rate / 1.01).epsilon) is float


@pytest.mark.parametrize("rate", [-1.0, 0.0, np.inf, np.nan])
def test_a_rate_is_refused_before_it_is_paid_for(rate):
    with pytest.raises(InvalidParameter, match="rate"):
        objective(1.0, rate)


def test_what_noise_follows_from_is_computed_in_doubles():
    two, half = np.float16(2.0), np.float16(0.7)
    assert Point(promise=Guarantee(0.3), sensitivity=two).scale >= 2 / 0.3
    assert Logistic(half).going(0.3, 1.0) == Logistic(float(half)).going(0.3, 1.0)
    sizes = {"size": 1, "n_parties": 3, "fewest": 3, "colluding": 1}
    sums = [SecureSum(epsilon=0.3, sensitivity=one, largest=1.0, **sizes) for one in (two, 2.0)]
    assert sums[0].rate == sums[1].rate
    assert sums[0].digest == sums[1].digest


def test_counts_of_parties_are_whole():
    with pytest.raises(InvalidParameter, match="size"):
        SecureSum(
            epsilon=1.0, sensitivity=1.0, largest=1.0, size=np.int8(100),
            n_parties=3, fewest=3, colluding=1,
        )  # fmt: skip


def test_a_number_that_no_double_holds():
    with pytest.raises(InvalidParameter, match="epsilon"):
        Guarantee(10**400)


class Loud(str):
    __slots__ = ()

    def __str__(self):
        return "x" * 10_000


def test_a_text_that_says_something_else_than_it_is():
    """What a ledger keeps was what it said."""
    ledger = Ledger()
    receipt = ledger.charge(None, Guarantee(1.0), purpose=Loud("fit"))
    assert receipt.purpose == "fit"
    assert End(1, code=Loud("Error")).code == "Error"
