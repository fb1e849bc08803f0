"""Faults put into the code that ships, and the tools that an officer would run on them.

Every mutation patches a module under ``confrere``; audits are told nothing of it. Some are a change
of a few words of a function's source, others replace something.
"""

import ast
import dataclasses
import functools
import importlib
import inspect
import math
import sys
import textwrap
from collections.abc import Callable
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import pytest

from confrere.assurance.audited import WHOLE_FITS
from confrere.assurance.table import COMPARED, ROWS, audit_row
from confrere.audit import audit, audit_cases, exact_audit, lattice_audit
from confrere.catalogue import CATALOGUE, find_method
from confrere.data.frame import BoundedRows
from confrere.errors import BudgetExceeded, InvalidData
from confrere.estimators.base import PrivateClassifier
from confrere.kernel import noise as laws
from confrere.kernel.guarantee import Guarantee
from confrere.kernel.noise import L2, RandomSource
from confrere.ledger import Ledger
from confrere.simulation import SeededSource
from confrere.solver.descent import Descent
from confrere.solver.row_blocks import SolverRows
from tests.world import forget

Patch = Callable[[Any, str, Any], None]

#: Tools of ``confrere audit --all``, and the one that is a test of every estimator.
TOOLS = ("events", "densities", "lattice", "whole fits", *COMPARED, "charging contract")


@dataclass(frozen=True)
class Mutation:
    """One fault: what it is, how it is made, where it is tried, and who must find it.

    ``found_by`` are the tools that find it surely; another one may, too. Of the audit's table
    ``row`` is one in which it shows.
    """

    title: str
    apply: tuple[Callable[[Patch], None], ...]
    methods: tuple[str, ...]
    found_by: tuple[str, ...]
    runs: int = 4_000
    row: dict[str, Any] | None = None


def _edited(where: str, *words: str) -> Callable[[Patch], None]:
    """Change words in the source of one function, wherever it was imported to."""

    def apply(patch: Patch) -> None:
        module_name, _, path = where.partition(":")
        module = importlib.import_module(f"confrere.{module_name}")
        *owners, name = path.split(".")
        owner = functools.reduce(getattr, owners, module)
        found = inspect.getattr_static(owner, name)
        function = getattr(found, "fget", None) or getattr(found, "func", found)
        source = textwrap.dedent(inspect.getsource(function))
        for old, new in zip(words[::2], words[1::2], strict=True):
            assert source.count(old) == 1, f"{where} reads otherwise now"
            source = source.replace(old, new)
        # A cached property is looked up anew: it would keep what sound code computed.
        scope = {**vars(module), "cached_property": property}
        exec(source, scope)
        if owners:
            patch(owner, name, scope[name])
            return
        for each in [m for n, m in sys.modules.items() if n.startswith("confrere")]:
            if vars(each).get(name) is found:
                patch(each, name, scope[name])

    return apply


def _constant_outside(patch: Patch) -> None:
    real = BoundedRows.__init__

    def framed(
        self: BoundedRows, X: Any, bound: float, *, constant: float = 0.0, **more: Any
    ) -> None:
        real(self, X, bound, constant=constant, **more)
        room = math.sqrt(1 - constant**2)
        inner = math.sqrt(max(0.0, self.longest**2 - self.constant**2)) / room
        longest = math.hypot(inner, self.constant)
        more = {"_base": self._base / room, "factors": self.factors / room}
        vars(self).update(more, longest=longest, certified=longest <= 1)

    patch(BoundedRows, "__init__", framed)


def _constant_outside_unchecked(patch: Patch) -> None:
    _constant_outside(patch)
    patch(laws, "certify_rows", lambda *_, **__: None)
    # A certified solver reckons with rows in the ball: it is told of longer ones.
    patch(Descent, "rows", lambda self, X, *_: SolverRows(X, 2.0))


def _shared_draws(patch: Patch) -> None:
    """Draws of one size are the same within a run: every group, part or party has them."""
    draw = L2.draw
    kept: dict[tuple[int, int, int], Any] = {}

    def shared(self: L2, rho: float, source: RandomSource, count: int) -> Any:
        # All terms of one batch of runs come from one source.
        key = (id(source), count, self.size)
        if key not in kept:
            kept.clear()
            kept[key] = source, draw(self, 1.0, source, count)
        return kept[key][1] / rho

    patch(L2, "draw", shared)


def _draw_before_paying(patch: Patch) -> None:
    fit = PrivateClassifier._fit

    def drawn(self: Any, X: Any, y: Any, **public: Any) -> Any:
        plan, data = self.prepare(X, y, **public)
        plan.run(data, None if self.random_state is None else SeededSource(self.random_state))
        return fit(self, X, y, **public)

    patch(PrivateClassifier, "_fit", drawn)


#: What makes the faults that are no change of a few words.
MADE: dict[str, Callable[[Patch], None]] = {
    "constant outside": _constant_outside,
    "constant unchecked": _constant_outside_unchecked,
    "shared: groups": _shared_draws,
    "shared: parties": _shared_draws,
    "draw before paying": _draw_before_paying,
}
OBJECTIVES = "plr, simcomb, pst-s, pst-f, pst-h, average, ofpa"
ADDED = "ofaa, laplace, vote, soft, statistic"

#: Name and title; where it is tried, who must find it, and of the audit's table a row in which it
#: shows; the function whose words are changed, with the old ones and the new.
TABLE = """
noise / 20 | a twentieth of the noise is drawn
    objectives, added | events, whole fits
    kernel.noise:L2.draw | return lengths[:, None] * normal | return lengths[:, None] * normal / 20
    kernel.noise:L1.draw | reshape(count, self.size) | reshape(count, self.size) / 20
noise / 2 | half of the noise is drawn
    objectives, laplace, vote, soft, statistic | events
    kernel.noise:L2.draw | return lengths[:, None] * normal | return lengths[:, None] * normal / 2
    kernel.noise:L1.draw | reshape(count, self.size) | reshape(count, self.size) / 2
rate * 2 | the calibration is wrong by two
    plr, average | events, densities
    kernel.measurements:Objective.__post_init__ | update(promise=promise) | update(promise=promise, rate=self.rate * (1 if self.delta else 2))
body noise / 3 | a third of the noise that is shaped like the rows is drawn
    plr, average | noise | "geometry": "body"
    kernel.noise:Body.draw | return self.coordinates(noise) | return self.coordinates(noise) / 3
body rate * 2 | the calibration of noise for a body is wrong by two
    plr, average | ratio | "geometry": "body"
    kernel.measurements:Objective.__post_init__ | update(promise=promise) | update(promise=promise, rate=self.rate * (1 if self.delta else 1 + (self.blocks[0].norm.leaf == "Max")))
body rates unshared | intervals and blocks have the whole rate each
    plr, average | ratio | "geometry": "body"
    kernel.noise:Body.__post_init__ | tuple((np.array(self.shares) / sum(self.shares)).tolist()) | (1.0,) * len(self.shares)
outside the body | rows are three times too long for their body, and no mechanism looks
    plr, average | ratio | "geometry": "body"
    data.frame:into_factors | rows = np.nan_to_num(np.asarray(X, dtype=np.float64)) | return np.clip(np.nan_to_num(3.0 * np.asarray(X, dtype=np.float64)), -3, 3)
    kernel.noise:Body.certify | not self._worst(rows) <= 1 | False
    kernel.noise:certify_rows | longest = 0.0 | return
    solver.descent:Descent.rows | SolverRows(X, row_norm) | SolverRows(X, 4.0)
L1 for L2 | Laplace noise where rows are bounded in L2
    plr | events | "runs": 20000
    kernel.noise:L2.draw | lengths = gamma_norm( | return L1(self.size).draw(rho, source, count); gamma_norm(
Gaussian for L2 | Gaussian noise at the pure rate
    plr, average | events
    kernel.noise:L2.draw | lengths = gamma_norm( | return Gaussian(1 / rho, self.size).draw(source, count); gamma_norm(
constant outside | the constant column comes on top of the bound
    plr | densities
constant unchecked | the same, and no mechanism looks at its rows
    plr | densities
no output step | floats leave as they are
    objectives, added | lattice
    kernel.noise:LatticeStep.release | steps = np.rint( | return point; np.rint(
no integer noise | the output step rounds only
    objectives, added | lattice
    kernel.noise:LatticeStep.release | discrete_laplace(self.scale, point.shape, own) | np.zeros(point.shape)
integer noise / 2 | the output step has half its noise
    objectives, added | lattice
    kernel.noise:LatticeStep.release | discrete_laplace(self.scale, | discrete_laplace(self.scale / 2,
shared: groups | groups and parts of a stack share their noise
    pst-f, pst-h | events
shared: classes | classes share their noise
    plr | noise | "classes": 4
    kernel.noise:Pure.draw | self.norm.draw(self.rho, source, count * self.copies) | np.repeat(self.norm.draw(self.rho, source, count), self.copies, axis=0)
classes: one norm's rate | every class's noise has the rate of one norm
    average | ratio | "classes": 4
    kernel.accountants:_worst_classwise | others = n_classes - 1 | others, r = n_classes - 1, r / math.sqrt(2)
    kernel.accountants:Exposure.reach | self.loss.reach * both | self.loss.reach * both / (math.sqrt(2) if self.loss.n_classes > 2 else 1)
classes: coefficients of two | coefficients of four classes move as far as those of two
    ofaa | ratio | "classes": 4
    methods.average:largest_moves | on_v, on_m = part_lengths(n_classes) | return 1.0, math.sqrt(2) / 8
classes: Laplace noise as of two | Laplace noise of four classes has the rate of two
    ofpa | ratio | "classes": 4
    kernel.measurements:Objective.__post_init__ | update(promise=promise) | update(promise=promise, rate=self.rate * (1 if self.delta else 1 + (self.blocks[0].norm.leaf == "L1" and self.loss.n_classes > 2)))
classes: groups pay for one record | groups of several classes pay for the record that goes, not for the one that comes
    pst-f | ratio | "classes": 4
    kernel.measurements:Objective.__post_init__ | update(promise=promise) | update(promise=promise, rate=self.rate * (1 if self.delta else 1 + (len(self.blocks) > 1)))
classes: votes of two | votes of four classes move as far as those of two
    statistic, soft, vote | ratio | "classes": 4
    methods.votes:_move | 1.0 if n_classes == 2 else math.sqrt(2) | 1.0
check: one of two records | the check of a prior pays for one of two records
    simcomb | ratio | "option": "check"
    methods.priors:PriorCheck.sensitivity | else 2 * one | else one
groups: one body pays | of groups with a body each only the first is paid for
    pst-f | ratio | "geometry": "bodies"
    kernel.measurements:Objective.__post_init__ | update(promise=promise) | update(promise=promise, rate=self.rate * (1 if self.delta else 1 / self.blocks[0].weight if self.blocks[0].norm.leaf == "Max" else 1))
shared: parties | parties share their noise
    average, laplace | events
shared: runs | every run has the same noise
    plr, average, vote | events, whole fits
    kernel.noise:L2.draw | return lengths[:, None] * normal | return np.full((count, self.size), 1 / rho)
sum: half shares | every party of a sum draws half of its share
    sums | events
    kernel.measurements:SecureSum._noise | return l2_shares(rate, self.size, parts, count, source=source) | return l2_shares(rate, self.size, parts, count, source=source) / 2
sum: wrong Gamma | shares of a sum have a quarter of their Gamma shape
    sums | events
    kernel.measurements:SecureSum._noise | return l2_shares(rate, self.size, parts, | return l2_shares(rate, self.size, 4 * parts,
cells: half the noise | half of the noise on counts is drawn
    cells | events | "runs": 20000
    kernel.measurements:Point.noised | discrete_laplace(self.scale, | discrete_laplace(self.scale / 2,
cells: moved once | the sensitivity of cells is one party's share, not two
    cells | events, densities | "runs": 20000
    methods.votes:noised_cells | moved=2.0 * WHOLE | moved=WHOLE
cells: rows not shared | every row of a party counts as a party
    cells | densities
    methods.votes:shares_of_cells | WHOLE // len(cells) | WHOLE
    methods.votes:noised_cells | upload.sum(dtype=np.float64) <= WHOLE and upload.min() >= 0 | True | _check_total(total, shape, | dict(
add-remove: body's rate | noise for a body, where records come and go, has 1.25 of its rate
    plr | ratio | "geometry": "body", "relation": "add-remove"
    kernel.measurements:Objective.__post_init__ | update(promise=promise) | update(promise=promise, rate=self.rate * (1 if self.delta else 1.25 if self.blocks[0].norm.leaf == "Max" and self.exposure.neighbours == "add-remove" else 1))
body: shares | the shares of a body's groups add up to 1.05
    plr | ratio | "geometry": "body"
    kernel.noise:Body.__post_init__ | np.array(self.shares) / sum(self.shares) | 1.05 * np.array(self.shares) / sum(self.shares)
delta: both records of one class | with a delta, both records of one class move the noise by sqrt 6, not sqrt 8
    plr | theorem, ratio | "classes": 3, "delta": True
    kernel.accountants:Softmax.moves | Move(math.sqrt(8), taken, k - 1) | Move(math.sqrt(6), taken, k - 1)
delta: corners of groups | of Gaussian groups the corners of one record are counted
    pst-f | theorem | "geometry": "apart", "delta": True
    kernel.accountants:corners | exposure.records * len | len
sums: reserve of one message | a sum that may be tried again has the price of one
    sums | price | "option": "reserve"
    methods.asking:Tries.tried | rounds + self.max_retries | rounds
sums: rows by label | rows by label have the sensitivity of one record's coming, though it is replaced
    sums | ratio | "geometry": "body", "option": "contrast"
    methods.sums:LabelContrast.mechanism | self._sum(sizes, half, | self._sum(sizes, half / 2,
sums: reserve of rounds | rounds that may be tried again have the price of the rounds alone
    sums | price | "option": "reserve", "delta": True
    methods.asking:Tries.tried | rounds + self.max_retries | rounds
check: the fit spends everything | the fit after a check spends the whole epsilon, and no kernel looks at what follows
    simcomb | price | "option": "check"
    methods.priors:rest_of | return at_most(minus(exact(epsilon), exact(spent))) | return epsilon
    ledger.compose:Then.after | follows = self.next(value) | return self.next(value)
check: classes | the check of three classes pays for one of two records
    simcomb | ratio | "option": "check", "classes": 3
    methods.priors:PriorCheck.sensitivity | if self.neighbours is Neighbours.ADD_REMOVE else | if self.neighbours is Neighbours.ADD_REMOVE or self.prior.several else
output step: L2 for L1 | the output step reckons with lengths where its noise is of a sum
    plr | theorem
    kernel.noise:LatticeStep.scale | move = 2 * math.sqrt(self.size) * self.radius / self.spacing + self.size | move = 2 * self.radius / self.spacing + math.sqrt(self.size)
table1: sizes of groups | the size of a record's group is not in the sensitivity of Table 1
    table1 | ratio
    assurance.cohort:CohortCounts.longest | STEPS * (len(self.columns) + 1) | STEPS * len(self.columns)
evaluate: a record moves once | a label that changes leaves its cell and comes into no other
    evaluate | ratio
    assurance.evaluation:evaluate | counts(part, _SENSITIVITY[name]) | counts(part, 1)
evaluate: one query for nothing | the last query has all of epsilon, whatever the others have
    evaluate | price
    assurance.evaluation:_parts | at_most(left) | epsilon
evaluate: integers | noise on whole numbers has half of its scale
    evaluate, table1 | noise
    kernel.measurements:Point.noised | discrete_laplace(self.scale, | discrete_laplace(self.scale / 2,
infer: one column | sums of all columns have the sensitivity of the widest
    infer | ratio | "geometry": "body"
    assurance.inference:_Space.sums | sum(_farthest | max(_farthest
infer: products | a product that changes its sign moves by its size
    infer | ratio | "geometry": "body", "option": "products"
    assurance.inference:_Space.largest | 2 * longest * most | longest * most
total: one Jacobian | stacks that are composed pay the Jacobian once
    pst-f | theorem | "geometry": "apart", "delta": True
    accounting:profile | - 2 * paid | - paid
total: once less | equal releases are composed once less than there are
    total | ratio
    accounting:_composed | one.self_compose(count) if count > 1 else one | one.self_compose(count - 1) if count > 2 else one
shares: integers | integer shares are made for one party more
    table1 | noise | "option": "sum"
    kernel.noise:integer_shares | Fraction(2 * size * blocks * count, parts) | Fraction(2 * size * blocks * count, parts + 1)
shares: Gamma shape | shares of L2 noise have the Gamma shape of a dimension less
    sums | noise
    kernel.noise:l2_shares | Fraction(size + 1, 2 * | Fraction(size, 2 *
groups: rates of bodies | groups with a body each have 1.2 of their rate
    pst-f | ratio | "geometry": "bodies"
    kernel.measurements:Objective.acts | Pure(norm, self.rate * float(block.weight), | Pure(norm, min(1.2 * block.weight, 1) * self.rate,
add-remove: two in a cell | a row is used with one other in its cell
    plr | theorem | "relation": "add-remove"
    kernel.noise:HiddenSize.used | many[which] == 1 | many[which] <= 2
classes: length of a gradient | a gradient of four classes is sqrt 3 long, not 2
    plr | ratio | "classes": 4
    kernel.accountants:Softmax.going | _worst_classwise(2 * r, | _worst_classwise(math.sqrt(3) * r,
body: bends | bends have four fifths of their noise
    plr | noise | "geometry": "body"
    kernel.noise:Body.draw | for part in mine])] = drawn | for part in mine])] = drawn * (0.8 if g == 2 else 1.0)
check: a promise without its delta | a check promises what a pure fit would, and a Gaussian one follows
    simcomb | ratio, price | "delta": True, "option": "check"
    methods.priors:CheckedPlan.priced | epsilon=self.epsilon, theorem=THEOREM | epsilon=self.epsilon, delta=0.0, theorem=THEOREM
sums: one try more | parties answer one try more than was priced
    sums | theorem, price
    methods.sums:check_try | if step >= mechanism.releases: | if step > mechanism.releases:
delta: rates of groups | rates of Gaussian groups are by the fourth root of their weights
    pst-f | ratio | "geometry": "apart", "delta": True
    kernel.accountants:gaussian_sigmas | (rate * math.sqrt(weight)) | (rate * weight**0.25)
sums: classes with a delta | gradients of three classes, with a delta, have the sensitivity of one record
    sums | ratio | "classes": 3, "delta": True
    methods.sums:Sums._sum | self.allowed(sizes).changed * move | (self.allowed(sizes).changed if self.n_classes == 2 else 1) * move
streams: lengths | noise of a norm is a tenth shorter than its Gamma law
    plr | noise
    kernel.noise:gamma_norm | sum(axis=1) / rho | sum(axis=1) / (1.1 * rho)
streams: a body's dimension | noise for a body has the Gamma shape of a dimension less
    plr | noise | "geometry": "body"
    kernel.noise:product_noise | sum(sizes) + 1 | sum(sizes)
streams: signs | every sign is the same
    plr | noise | "delta": True
    kernel.noise:RandomSource.signs | 1.0 - 2.0 * bits | 1.0 - 0.0 * bits
losses: no cap | slopes are not capped
    plr | theorem
    kernel.accountants:Logistic.residuals | np.minimum(scores, self.cap, out=scores) | np.minimum(scores, 1.0, out=scores)
losses: curvature | two classes bend twice as much as accountants take
    plr | theorem
    solver.descent:Curved.bends | rare * (1 - rare), 0.0) | 2 * rare * (1 - rare), 0.0)
losses: classes | a gradient of three classes is longer than the root of two
    plr | theorem | "classes": 3
    kernel.accountants:Softmax.residuals | np.arange(scores.shape[2])] -= 1.0 | np.arange(scores.shape[2])] -= 1.5
accountants: half of the record that comes | half of the record that comes is paid for
    plr | ratio
    kernel.accountants:Exposure.spent | coming = rho * | coming = 0.5 * rho *
points: a part's share | of two noised vectors each has the whole rate
    ofaa | ratio
    kernel.measurements:Point.prices | tuple(epsilon * part.share for part | tuple(epsilon for part
sums: the second price | who is left alone with its own noise is promised the price of all shares
    sums | theorem
    kernel.measurements:SecureSum.alone | return self.floor * self.epsilon | return self.epsilon
composition: the largest | of releases from the same records the dearest counts
    total | ratio
    ledger.compose:Together.guarantee | (self.parts, added, | (self.parts, max,
numbers: width | a residual of log-cosh is a tenth longer than its width
    linear | theorem | "classes": 0, "geometry": "ball"
    outcomes.losses:LogCosh.residuals | scores *= self.width | scores *= 1.1 * self.width
numbers: curvature of Huber's loss | the curvature of Huber's loss is not paid for
    linear | ratio | "classes": 0, "geometry": "ball", "option": "huber"
    outcomes.losses:Huber.going | + math.log1p(1 / m) | + 0.0
counts: curvature at the cap | where a cap is above all counts the curvature at it is not paid for
    poisson | ratio | "classes": 0, "geometry": "ball", "option": "cap"
    outcomes.losses:Poisson.going | r * self.cap + math.log1p(self.cap / m) | 0.0
counts: no cap | means go on beyond the cap, and the loss bends as they do
    poisson | theorem, ratio | "classes": 0, "geometry": "ball"
    outcomes.losses:Poisson._means | math.log(self.cap), out=scores) | 9.0, out=scores) | return np.minimum(scores, self.cap, out=scores) | return scores
counts: corners | with a delta, counts and means are taken for equally long
    poisson | theorem, ratio | "classes": 0, "geometry": "ball", "delta": True
    outcomes.losses:Poisson.moves | for a in ends for b in ends | for a, b in zip(ends, ends[::-1])
numbers: corners of log-cosh | with a delta, half of the corners of two residuals are counted
    linear | theorem | "classes": 0, "geometry": "ball", "delta": True
    outcomes.losses:LogCosh.moves | Move(2 * c, ends, 4) | Move(2 * c, ends, 2)
numbers: sums | of numbers a sum has the sensitivity of half a record
    linear, poisson, survival | ratio | "classes": 0, "geometry": "ball", "option": "sums"
    methods.sums:Sums.slope | return min( | return 0.5 * min(
survival: gradient | a person moves the noise by half of what it can
    survival | ratio | "classes": 0, "geometry": "ball"
    outcomes.pieces:PiecewiseExponential.__post_init__ | reach=cap, | reach=cap / 2,
survival: determinant | the curvature of a person is that of one of its pieces
    survival | ratio | "classes": 0, "geometry": "ball", "relation": "add-remove"
    outcomes.pieces:PiecewiseExponential.jacobian | pieces * (1 - self.share) | (1 - self.share)
survival: rank | the curvature of a person has one direction
    survival | theorem | "classes": 0, "geometry": "ball", "delta": True
    outcomes.pieces:PiecewiseExponential.jacobian | levels = (pieces - 1) * math.log1p(self.share * each) | levels = 0.0
survival: corners | with a delta, one of two persons has its events in every piece
    survival | theorem | "classes": 0, "geometry": "ball", "delta": True
    outcomes.pieces:PiecewiseExponential.moves | corners**records | corners
survival: levels | levels of pieces are taken for half as long as they are in a body
    survival | ratio | "classes": 0, "geometry": "body"
    outcomes.pieces:PiecewiseExponential.noised | float(norm.roots | 0.5 * float(norm.roots
survival: share of the constant | a body's constant takes more of a row than levels may
    survival | noise | "classes": 0, "geometry": "body"
    methods.geometry:SchemaGeometry.frame | loss.share**0.5 | 0.95
survival: no cap | expected events go on beyond the cap
    survival | theorem, ratio | "classes": 0, "geometry": "ball"
    outcomes.pieces:PiecewiseExponential._means | most = self.cap / | most = 9.0 /
curve: a person moves once | who changes leaves a cell and comes into no other
    curve | ratio | "classes": 0
    outcomes.curve:SurvivalCounts.point | sensitivity=1 + replaced | sensitivity=1
curve: integers | noise on the counts of a curve has half of its scale
    curve | noise | "classes": 0
    kernel.measurements:Point.noised | discrete_laplace(self.scale, | discrete_laplace(self.scale / 2,
counts: beyond the largest | counts above the largest are taken as they are, and no loss looks at them
    poisson | ratio | "classes": 0, "geometry": "ball"
    outcomes.kinds:Count.encode | self.column), 0.0, self.most) | self.column), 0.0, 9.0)
    outcomes.losses:Poisson.check_labels | low, high = self.offsets | return
draw before paying | noise is drawn before the charge
    plr | charging contract
"""  # noqa: E501


def _read(table: str) -> dict[str, Mutation]:
    found, edits, last = {}, {}, ""
    for line in table.strip().splitlines():
        cells = line.strip().split(" | ")
        if not line.startswith("    "):
            last, title = cells
        elif last not in found:
            methods, by, *row = cells
            told = ast.literal_eval(f"{{{row[0]}}}") if row else {}
            methods = methods.replace("objectives", OBJECTIVES).replace("added", ADDED)
            runs, tried = told.pop("runs", 4_000), tuple(methods.split(", "))
            made = (MADE[last],) if last in MADE else ()
            found[last] = Mutation(title, made, tried, tuple(by.split(", ")), runs, told or None)
        else:
            edits[last] = (*edits.get(last, ()), _edited(*cells))
            found[last] = dataclasses.replace(found[last], apply=edits[last])
    return found


MUTATIONS = _read(TABLE)


@contextmanager
def broken(name: str) -> Any:
    """Break the shipping code for a while."""
    with pytest.MonkeyPatch.context() as patch:
        if name:
            for apply in MUTATIONS[name].apply:
                apply(patch.setattr)
        forget()
        yield
    forget()


def compared(method: str, row: dict[str, Any] | None = None) -> dict[str, str]:
    """Return what is found in a row of the audit's table, by what is compared."""
    wanted = {"method": method, "relation": "replace-one", "classes": 2, "delta": False}
    wanted |= {"option": ""} | (row or {})
    found = next(
        one
        for one in ROWS
        if all(getattr(one, name) == value for name, value in wanted.items())
        and ("geometry" in wanted or one.geometry in ("ball", "joint"))
    )
    shares = audit_row(found).shares
    return {tool: "found" if shares.get(tool, 0.0) > 1 + 1e-9 else "" for tool in COMPARED}


def verdict(tool: str, method: str, *, runs: int, row: dict[str, Any] | None = None) -> str:
    """Return "found", "refused" where the broken code refuses to run, or ""."""
    if tool == "charging contract":
        return "found" if draws_before_paying() else ""
    if tool in COMPARED:
        return compared(method, row)[tool]
    if method not in CATALOGUE:
        return ""
    try:
        return "found" if _refuted(tool, method, runs) else ""
    except InvalidData:
        return "refused"


def _refuted(tool: str, method: str, runs: int) -> bool:
    cases = audit_cases(find_method(method).make(epsilon=1.0))
    if tool == "whole fits":
        pair = cases[0].pairs[0]
        fits = min(runs, WHOLE_FITS)
        return audit(cases[0].estimator, pair, runs=fits, whole_fits=True, progress=False).refuted
    for case in cases:
        if tool == "events":
            most = min(runs, case.runs or runs)
            found = audit(case.estimator, case.pairs, runs=most, progress=False).refuted
        elif tool == "densities":
            found = exact_audit(case.estimator, case.pairs).refuted
        else:
            found = lattice_audit(case.estimator, case.pairs[0]).refuted
        if found:
            return True
    return False


def draws_before_paying(method: str = "plr") -> bool:
    """Whether a fit that cannot be paid has drawn anything when it is refused."""
    case = audit_cases(find_method(method).make(epsilon=1.0))[0]
    ledger = Ledger()
    ledger.open_account("empty", epsilon=0.1, neighbours=Guarantee(1.0).neighbours)
    drawn: list[int] = []
    words = SeededSource._words
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(
            SeededSource, "_words", lambda self, count: drawn.append(count) or words(self, count)
        )
        model = case.estimator.set_params(budget=ledger["empty"], random_state=0)
        with pytest.raises(BudgetExceeded):
            model.fit(**case.pairs[0].first)
    return bool(drawn)
