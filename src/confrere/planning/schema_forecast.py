r"""What a schema leads to expect: lines or curves, with a delta or without, and which is used.

The share of the signal that survives is the number that the estimators' public rule goes by
(:mod:`confrere.maths.expected_signal`). A best area :math:`a` becomes
:math:`\Phi(\Phi^{-1}(a)\sqrt{\text{share}})`: a score that keeps this share of the log odds'
variance is so much less apart. It is cautious: columns that tell the same lose less.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

from scipy import special

from confrere.errors import InvalidParameter
from confrere.guarantee import check_epsilon
from confrere.plans.body_plan import choose_form, expect
from confrere.schema import PublicSchema
from confrere.schema.encoder import Form

_FORMS: dict[Literal["lines", "curves"], Form] = {"lines": "linear", "curves": "curves"}


@dataclass(frozen=True, slots=True)
class ExpectedForm:
    """What one way to encode numbers is expected to bring.

    Attributes
    ----------
    form : {"lines", "curves"}
        How numbers are encoded that have no word of their own.
    gaussian : bool
        Whether a delta is spent on Gaussian noise.
    kept : float
        Share of the signal that is expected to survive the noise.
    auc : float
        Expected area under the curve.
    """

    form: Literal["lines", "curves"]
    gaussian: bool
    kept: float
    auc: float

    def __str__(self) -> str:
        law = "Gaussian noise, with the delta" if self.gaussian else "noise shaped like the rows"
        return f"{self.form}, {law}: {self.kept:.0%} of the signal, expected AUC {self.auc:.3f}"


@dataclass(frozen=True, kw_only=True)
class SchemaForecast:
    """What to expect of one organisation's model by its schema. Nothing in it comes from data.

    Attributes
    ----------
    expected : tuple of ExpectedForm
        Lines and curves, without the delta and where it would be spent with it.
    used : ExpectedForm
        What ``noise="auto"`` and ``"schema"`` take.
    ball : bool
        Whether ``noise="auto"`` leaves the schema to the ball, because it declares importances.
    """

    expected: tuple[ExpectedForm, ...]
    used: ExpectedForm
    ball: bool

    def __str__(self) -> str:
        lines = [str(one) for one in self.expected]
        if self.ball:
            lines.append("noise='auto' leaves declared importances to the ball; of noise='schema':")
        return "\n".join([*lines, f"used: {self.used}"])


def plan_schema(
    schema: PublicSchema,
    *,
    n: int,
    epsilon: float = 1.0,
    delta: float = 0.0,
    auc: float = 0.85,
) -> SchemaForecast:
    """Say whether numbers become curves and a delta is spent, and what is expected of it.

    Parameters
    ----------
    schema : PublicSchema
        What everyone may know about the columns.
    n : int
        Records.
    epsilon, delta : float
        The price.
    auc : float, default=0.85
        What the best model of these columns reaches without privacy: a guess, from the literature.

    Returns
    -------
    SchemaForecast
    """
    check_epsilon(epsilon)
    if not 0.5 < auc < 1:
        raise InvalidParameter("auc must lie strictly between 0.5 and 1.")
    if n < 1:
        raise InvalidParameter("n must be at least 1.")
    best = float(special.ndtri(auc))

    def told(name: Literal["lines", "curves"], paid: float) -> ExpectedForm:
        expectation, noise = expect(schema, _FORMS[name], n, epsilon, delta=paid)
        area = float(special.ndtr(best * math.sqrt(expectation.kept)))
        return ExpectedForm(name, noise.gaussian, expectation.kept, area)

    found = {
        (name, paid > 0): told(name, paid) for name in _FORMS for paid in dict.fromkeys([0, delta])
    }
    form = choose_form(schema, "schema", n, epsilon, delta=delta)
    return SchemaForecast(
        expected=tuple(one for (_, paid), one in found.items() if not paid or one.gaussian),
        used=found["curves" if form == "curves" else "lines", delta > 0],
        ball=schema.has_importances,
    )
