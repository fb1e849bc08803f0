r"""What to expect of a fit, by public sizes or a schema, and which method to take.

One formula says it (:class:`~confrere.methods.geometry.ExpectedArea`). The share of the signal
that survives noise is the number that the estimators' public rule goes by
(:mod:`confrere.methods.geometry`); a best area :math:`a`, which the user guesses, becomes
:math:`\Phi(\Phi^{-1}(a)\,\text{share}^{g/2})`. One release is one draw: its deviation over draws is
about .3 of what is lost, right within a factor of two.

**Several organisations**: an average of releases has noise of every party, K times the variance of
one with all records, where K is how many parties of one size theirs are worth. *One message* has
the noise of one sum, whatever the number of parties, but on the weights themselves, and its ridge
shrinks them. Which to take is a rule of public facts, see :func:`choose`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike
from scipy import stats
from typing_extensions import override

from confrere.data.features import Form, Number
from confrere.data.frame import Frame
from confrere.data.schema import PublicSchema
from confrere.errors import InvalidData, InvalidParameter
from confrere.kernel.guarantee import check_epsilon
from confrere.kernel.measurements import Objective
from confrere.methods.allowance import (
    CURVATURE,
    LOG_ODDS,
    LOSSES,
    SEEN,
    Allowance,
    LossName,
    alike,
    allowance,
)
from confrere.methods.asking import Colluding, Sizes
from confrere.methods.average import Averaging
from confrere.methods.design import Settings, declared_number, design_protocol
from confrere.methods.geometry import (
    BEST,
    GAIN,
    OF_EXPERTS,
    PLAIN,
    ExpectedArea,
    choose_form,
    curvature_of,
    expect,
    expected_in,
    exponent_of,
    kept_in_ball,
)
from confrere.methods.plan import Target, plan_linear
from confrere.methods.sums import LabelContrast, OneMessage
from confrere.methods.votes import HalfWhite, cells_for
from confrere.trust import OWN_NOISE, Trust
from confrere.views import Pairs, Panel, Shown, Span


@dataclass(frozen=True, kw_only=True)
class Forecast(Shown):
    """What to expect of a private fit on plain rows, planned without touching data.

    Parameters
    ----------
    n_samples, n_features : int
        Records of every party, and features.
    epsilon : float, default=1.0
        What every party spends.
    delta : float, default=0.0
        Spent besides; with one the noise is Gaussian. Below one over the records of a party.
    parties : int, default=1
        Each releases one model and the average is used.
    auc : float, default=0.8
        What the best linear model reaches without privacy: a guess, from the literature.
    base_rate : float, default=0.5
        Share of positive rows: a guess, as declared in a schema.
    loss : {"capped", "logistic"}, default="capped"
        The loss.
    """

    n_samples: int
    n_features: int
    epsilon: float = 1.0
    delta: float = 0.0
    parties: int = 1
    auc: float = BEST
    base_rate: float = 0.5
    loss: LossName = "capped"

    def __post_init__(self) -> None:
        check_epsilon(self.epsilon)
        if min(self.n_samples, self.n_features, self.parties) < 1:
            raise InvalidParameter("n_samples, n_features and parties must be at least 1.")
        if not 0 < self.base_rate < 1:
            raise InvalidParameter("base_rate must lie strictly between 0 and 1.")
        _ = self.expected, self.act  # say so if there are none

    @cached_property
    def act(self) -> Any:
        """What every party draws: its law and its ridge."""
        frame = Frame(self.n_features)
        if self.parties == 1:
            allowed = allowance(self.epsilon, self.n_samples, delta=self.delta, loss=self.loss)
            return plan_linear(allowed, frame).mechanism.act
        loss = Target(LOSSES[self.loss])
        averaging = Averaging(frame=frame, epsilon=self.epsilon, delta=self.delta, target=loss)
        sizes = Sizes({f"party {k}": self.n_samples for k in range(self.parties)})
        mechanism = averaging.asked(sizes).mechanism(self.n_samples)
        assert isinstance(mechanism, Objective)
        return mechanism.act

    @cached_property
    def expected(self) -> ExpectedArea:
        """The expected area, and between what 8 of 10 draws lie."""
        each = self.epsilon / math.sqrt(self.parties)
        allowed = allowance(each, self.n_samples * self.parties, delta=self.delta, loss=self.loss)
        curvature = self.base_rate * (1 - self.base_rate)
        kept = kept_in_ball(allowed, self.n_features + 1, curvature)
        return ExpectedArea(kept, self.auc, PLAIN)

    def noise(self, probability: float = 0.5) -> float:
        """Return the norm that a party's noise stays below with this probability."""
        law = stats.chi if self.delta else stats.gamma
        return float(law.ppf(probability, self.act.norm.size)) / float(self.act.law.rate)

    @property
    def _sizes(self) -> str:
        cost = f"epsilon {self.epsilon:g}" + (f", delta {self.delta:g}" if self.delta else "")
        sizes = f"{self.parties} x {self.n_samples} records, {self.n_features} features"
        return f"{sizes}, {cost} each"

    def __str__(self) -> str:
        noise = f"||b|| about {self.noise():.4g}, below {self.noise(0.99):.4g} in 99% of runs"
        return "\n".join(
            [
                self._sizes,
                f"{noise} (ridge {self.act.ridge:.4g})",
                f"expected AUC {self.expected}; {self.auc:.3f} at best",
            ]
        )

    @override
    def view(self) -> Panel:
        area = self.expected
        told = {
            "expected AUC": f"{area}; {self.auc:.3f} at best",
            "": Span(area.auc, area.low, area.high),
            "noise": f"about {self.noise():.4g}, below {self.noise(0.99):.4g} in 99% of runs",
            "ridge": f"{self.act.ridge:.4g}",
        }
        note = "From public sizes alone; nothing was spent."
        return Panel(f"Forecast: {self._sizes}", [Pairs(told)], note)


#: Plan a private fit without touching data.
plan = Forecast


@dataclass(frozen=True, kw_only=True)
class SchemaForecast:
    """What to expect of one organisation's model by its schema. Nothing in it comes from data."""

    lines: ExpectedArea  #: Of straight lines
    curves: ExpectedArea  #: Of curves, where numbers have no word of their own
    used: Literal["lines", "curves"]  #: What ``geometry="auto"`` and ``"schema"`` take
    ball: bool  #: Whether importances make ``geometry="auto"`` leave the schema to the ball
    declared: ExpectedArea | None  #: The same if mean and sd of every number were declared
    experts: ExpectedArea | None  #: Of the experts' signs alone, without any data

    @property
    def expected(self) -> ExpectedArea:
        """What is used."""
        return self.curves if self.used == "curves" else self.lines

    def __str__(self) -> str:
        forms = {"lines": self.lines, "curves": self.curves}
        lines = [
            f"{name}: {area.kept:.0%} of the signal, expected AUC {area}"
            for name, area in forms.items()
        ]
        if self.ball:
            lines.append("geometry='auto' leaves declared importances to the L2 ball; of 'schema':")
        lines.append(f"used: {self.used}")
        if self.declared is not None:
            lines.append(
                f"with mean and sd of every number declared: expected AUC {self.declared}; and no "
                "curve would cost what a line does not"
            )
        if self.experts is not None and self.expected.auc - self.experts.auc < GAIN:
            lines.append(f"the experts' signs alone, for nothing: {self.experts.auc:.3f}")
        return "\n".join(lines)


def plan_schema(
    schema: PublicSchema,  # What everyone may know about the columns
    *,
    n_samples: int,  # Records
    epsilon: float = 1.0,  # The cost
    auc: float = BEST,  # Of their best model without privacy: a guess, from the literature
) -> SchemaForecast:
    """Say whether numbers become curves, what is expected of it, and what declaring would bring."""
    check_epsilon(epsilon)
    if n_samples < 1:
        raise InvalidParameter("n_samples must be at least 1.")
    allowed = allowance(epsilon, n_samples)

    told = partial(_expected, allowed=allowed, auc=auc)
    known = replace(schema, features=tuple(map(_with_moments, schema.features)))
    declared = None
    if known.features != schema.features:
        declared = told(known, choose_form(known, "schema", allowed))
    return SchemaForecast(
        lines=told(schema, "linear"),
        curves=told(schema, "curves"),
        used="curves" if choose_form(schema, "schema", allowed) == "curves" else "lines",
        ball=schema.has_importances,
        declared=declared,
        experts=OF_EXPERTS.at(auc) if schema.has_signs else None,
    )


def _expected(schema: PublicSchema, form: Form, allowed: Allowance, auc: float) -> ExpectedArea:
    """Return what a form is expected to rank with, of one and the same log odds."""
    return ExpectedArea(expect(schema, form, allowed).kept, auc, exponent_of(schema))


def _with_moments(feature: Any) -> Any:
    """Return a number as if its mean were in the middle, and six deviations between its bounds."""
    if not isinstance(feature, Number) or feature.mean is not None:
        return feature
    low, high = feature.range()
    return replace(feature, mean=(low + high) / 2, sd=(high - low) / 6)


# --- which method ---------------------------------------------------------------------------------

#: Beside an average in a body, sums in a ball are taken of so many parties of one size.
MANY = 15

#: Rows by label are taken of so many where their average keeps less than so much of the signal:
#: from six on, of whom most are honest, a sum has less noise; above, its error is another, that it
#: takes columns for independent.
SIX, CLEAR = 6, 0.6

_PLAIN: Form = "standardised"


@dataclass(frozen=True, kw_only=True)
class Way:
    """What one way to a model is expected to bring."""

    name: Literal["alone", "average", "with experts", "sums"]
    expected: ExpectedArea
    settings: Mapping[str, Any]  #: Of an estimator, and of a study's method
    trust: Trust = OWN_NOISE  #: What every party's policy must be content with

    def __str__(self) -> str:
        return f"{self.name}: expected AUC {self.expected}"


@dataclass(frozen=True, kw_only=True)
class Choice:
    """Ways compared, from public facts alone."""

    parties: int
    alike: float  #: How many parties of one size they are worth
    ways: tuple[Way, ...]  #: All that are offered
    best: Way  #: The one to take, of what policies allow
    said: tuple[str, ...]  #: What else there is to know

    def __str__(self) -> str:
        told = ", ".join(f"{name} = {value!r}" for name, value in self.best.settings.items())
        who = f"{self.parties} parties, worth {self.alike:.1f} of one size"
        lines = [who if self.parties > 1 else "one organisation", *map(str, self.ways)]
        return "\n".join([*lines, f"choose {self.best.name}: {told}", *self.said])


def choose(
    *,
    n_samples: Sequence[int],
    schema: PublicSchema | None = None,
    n_features: int | None = None,
    epsilon: float = 1.0,
    auc: float = BEST,
    collusion_threshold: Colluding = "auto",
    trust: str = "own noise",
) -> Choice:
    """Choose how organisations learn one model; touches no data.

    From declared signs; average, or rows by label of many where noise hides much. Never a delta,
    or forbidden trust.

    Parameters
    ----------
    n_samples : sequence of int
        Records of every party; of one, what it may do alone.
    schema : PublicSchema, optional
        What is declared about the columns.
    n_features : int, optional
        The number of columns, where there is no schema.
    epsilon : float, default=1.0
        What every party spends.
    auc : float, default=0.8
        What the best model reaches without privacy: a guess, from the literature.
    collusion_threshold : int or "auto", default="auto"
        How many parties of a sum may pool what they know; by default a minority.
    trust : str, default="own noise"
        The weakest that all parties' policies are content with: ``"1 of 3"``, ``"coordinator"``.
    """
    check_epsilon(epsilon)
    if not len(n_samples) or min(n_samples) < 1:
        raise InvalidParameter("n_samples must hold parties with at least one record.")
    if schema is None and (n_features is None or n_features < 1):
        raise InvalidParameter("n_features must be at least 1 where there is no schema.")
    content, parties = Trust.parse(trust), alike(n_samples)
    allowed = allowance(epsilon / math.sqrt(parties), sum(n_samples))
    ball = Frame(n_features or 1) if schema is None else Frame(len(schema.feature_names))
    signs, form = schema is not None and schema.has_signs, _PLAIN
    plain = expected_in(ball, allowed).at(auc)
    if schema is not None:
        form = choose_form(schema, "schema" if signs else "auto", allowed)
        plain = plain if form == _PLAIN else _expected(schema, form, allowed, auc)
    settings: dict[str, Any] = {"epsilon": float(epsilon)}
    several = len(n_samples) > 1
    settings |= {"method": "average"} if several else {}
    first = Way(name="average" if several else "alone", expected=plain, settings=settings)
    best, ways, said = first, [first], []
    if signs:
        told = settings | {"prior": "experts"}
        best = Way(name="with experts", expected=plain.with_experts(), settings=told)
        ways.append(best)
    if several:
        counts = Sizes({f"party {k}": int(n) for k, n in enumerate(n_samples)})
        rows = _by_label(schema, counts, epsilon, collusion_threshold)
        sums = _sums(schema, rows or ball, counts, epsilon, auc, collusion_threshold)
        ways.append(sums)
        if schema is not None and rows is not None:
            better = parties >= SIX and plain.kept < CLEAR
        elif signs or form != _PLAIN:
            better = not signs and parties >= MANY
        else:
            better = sums.expected.auc > plain.auc + GAIN
        if better:
            if content.allows(sums.trust):
                best = sums
            else:
                said.append(
                    f'sums would be chosen if every policy said trust = "{sums.trust}", or weaker; '
                    f'"{content}" forbids them'
                )
    experts = OF_EXPERTS.at(auc).auc
    if signs and best.expected.auc - experts < GAIN:
        said.append(f"the experts' signs alone, for nothing, are expected to reach {experts:.3f}")
    count = len(n_samples)
    return Choice(parties=count, alike=parties, ways=tuple(ways), best=best, said=tuple(said))


def _by_label(
    schema: PublicSchema | None, sizes: Sizes, epsilon: float, colluding: Colluding
) -> LabelContrast | None:
    """Return the sum of rows by label, where sums are that."""
    if schema is None:
        return None
    how: dict[str, Any] = {"method": "sums", "geometry": "auto", "prior": "auto"}
    how |= {"epsilon": epsilon, "collusion_threshold": colluding}
    asked = Settings(kind="collaborative", schema=schema, **how)
    encoder = asked.encoder(sizes.total, sizes.counts.values())
    assert encoder is not None
    made = design_protocol(asked, len(encoder.names), declared_number(schema, None), encoder)
    return made if isinstance(made, LabelContrast) else None


def _sums(
    schema: PublicSchema | None,
    made: LabelContrast | Frame,
    sizes: Sizes,
    epsilon: float,
    auc: float,
    colluding: Colluding,
) -> Way:
    """Return what one sum of everybody is expected to bring.

    Of minimisers, in a ball, weights are shrunk by the ridge and have the noise of one sum on them.
    """
    settings: dict[str, Any] = {"epsilon": float(epsilon), "method": "sums"}
    if isinstance(made, LabelContrast):
        summed, area = made.at(sizes).mechanism(sizes), made.shown(sizes)
        if schema is not None and schema.has_signs:
            area, settings = area.with_experts(), settings | {"prior": "experts"}
    else:
        curvature = CURVATURE if schema is None else curvature_of(schema)
        how: dict[str, Any] = {"collusion_threshold": colluding, "curvature": curvature}
        one = OneMessage(frame=made, epsilon=epsilon, **how)
        summed, size = one.mechanism(sizes), one.space.size
        rate = summed.rate * (summed.parts / summed.n_parties) ** 0.5
        seen = SEEN * sizes.total * one.curvature / size
        left = (seen / (seen + one.ridge(sizes))) ** 2
        kept = LOG_ODDS * left / (LOG_ODDS * left + left / seen + (size + 1) / rate**2)
        area = ExpectedArea(kept, exponent=PLAIN)
    trust = Trust.sum_of(summed.n_parties - summed.parts, summed.n_parties)
    return Way(name="sums", expected=area.at(auc), settings=settings, trust=trust)


# --- many small parties ---------------------------------------------------------------------------

#: Two classes take cells where so many times as much of the public rows' spread is between cells as
#: in a cloud without clusters.
CLUSTERED = 1.25


@dataclass(frozen=True, kw_only=True)
class VotesChoice:
    """Which method many parties take, by public rows and sizes."""

    method: Literal["cells", "statistic"]
    n_cells: int  #: How many cells there would be
    explained: float  #: Share of the public rows' spread that lies between them
    clustered: float  #: How many times as much that is as in a cloud of normal rows

    def __str__(self) -> str:
        return (
            f"choose method = {self.method!r}: {self.n_cells} cells have {self.explained:.0%} of "
            f"the public rows' spread between them, {self.clustered:.2f} times as much as in one "
            "cloud"
        )


def choose_votes(
    auxiliary: ArrayLike, *, n_parties: int, n_classes: int = 2, epsilon: float = 1.0
) -> VotesChoice:
    """Choose between cells and votes for many parties, from public rows alone.

    Cells for three classes and more, whose noise they do not feel; and for two where rows are
    clustered: 1.25 times as much of their spread is between the cells that there would be as in a
    cloud of normal rows. In one cloud a class that follows a slope is hidden within cells, and
    votes see it.
    """
    check_epsilon(epsilon)
    rows = np.asarray(auxiliary, dtype=np.float64)
    if rows.ndim != 2 or rows.size == 0 or not np.isfinite(rows).all():
        raise InvalidData("auxiliary must hold rows of finite numbers, at least one.")
    if n_parties < 1 or n_classes < 2:
        raise InvalidParameter("n_parties must be at least 1 and n_classes at least 2.")
    frame = Frame(rows.shape[1], data_norm=max(1e-12, float(np.linalg.norm(rows, axis=1).max())))
    inside = np.ascontiguousarray(np.asarray(frame.rows(rows))[:, :-1])
    public = HalfWhite(inside, frame.constant)
    cells = public.cells(cells_for(epsilon, n_parties, len(rows), n_classes))
    explained = public.explained(cells)
    normal = np.random.default_rng(0).normal(size=(len(rows), public.turn.shape[1]))
    cloud = HalfWhite(normal, frame.constant)
    clustered = explained / cloud.explained(cloud.cells(len(cells)))
    better = n_classes > 2 or clustered >= CLUSTERED
    return VotesChoice(
        method="cells" if better else "statistic",
        n_cells=len(cells),
        explained=explained,
        clustered=clustered,
    )
