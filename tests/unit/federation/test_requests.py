"""Every operation's request: read as it was written, and refused if anything in it is otherwise."""

import numpy as np
import pytest

from confrere.catalogue import find_method
from confrere.errors import InvalidMessage
from confrere.federation import OPERATIONS, Averaging, Expansion, Frame, PartyFacts, Payload, Voting
from confrere.federation.protocols import (
    Check,
    Coefficients,
    Count,
    Errors,
    ObjectiveWeights,
    OutputWeights,
    Size,
)
from confrere.federation.sums import (
    ErrorsOfAll,
    FactsOfAll,
    Gradient,
    Minimiser,
    RecordsOfAll,
    sent_schema,
)
from confrere.federation.votes import Ballot, PartyShare, Shares, Upload
from confrere.methods.party_rows import Sizes
from confrere.methods.plan import Names
from confrere.methods.sums import GradientRounds, OneMessage
from confrere.schema import Label, Number, PublicSchema
from confrere.study.protocols import Learn, Learning

D, FACTS = 3, PartyFacts(40, 3)
FRAME = Frame(D, feature_scale=np.array([1.0, 0.5, 2.0]))
SIZES = Sizes({"a": 40, "b": 60, "c": 50})
MODEL = {"coef": np.ones(D), "intercept": 0.5}
COUNTED = {"epsilon": 1.0, "reserve": 1, "largest": 100}
SCHEMA = PublicSchema([Number("age", bounds=(0, 100))], Label("ill", positive=("yes",)))


def examples():
    common = {"frame": FRAME, "epsilon": 0.5}
    asked = Averaging(**common).request(0.5, SIZES, np.ones(D + 1))
    yield from (Size(), Count(epsilon=0.5), Errors(epsilon=0.5, **MODEL))
    yield Check(
        coef=np.ones(D), epsilon=0.1, base_rate=0.3, deviation=1.0, data_norm=1.0,
        neighbours="replace-one", declared=0, feature_scale=np.ones(D),
    )  # fmt: skip
    yield ObjectiveWeights.of(asked)
    yield OutputWeights.of(
        Averaging(**common, delta=1e-6, perturb="output").request(0.5, SIZES, None)
    )
    yield Coefficients.of(Expansion(**common))
    one, rounds = OneMessage(**common), GradientRounds(**common, delta=1e-6, rounds=3)
    yield Minimiser.at(one, SIZES, one.mechanism(SIZES), np.ones(D + 1))
    yield Gradient.at(rounds, SIZES, rounds.mechanism(SIZES), rounds.centre, round=1)
    yield RecordsOfAll.among(3, 1, 1.0, **COUNTED)
    yield ErrorsOfAll.among(3, 1, 1.0, **COUNTED, **MODEL)
    yield FactsOfAll.among(3, 1, 1.0, **COUNTED, hides="record", schema=sent_schema(SCHEMA))
    rows = np.random.default_rng(0).normal(size=(40, D)) / 3
    for method, kind in (("statistic", Ballot), ("weights", Upload), ("cells", Shares)):
        voting = Voting(**common, method=method, auxiliary=None if kind is Upload else rows)
        yield kind.at(voting, 5, "a" * 64, "b" * 32)
    yield PartyShare.at(Voting(**common, auxiliary=rows, trust="sum"), 5)
    names = Names(("no", "yes"), ("x", "y", "z"))
    yield Learn.at(Learning(find_method("plr"), {"epsilon": 1.0}, names))


EXAMPLES = {one.operation: one for one in examples()}
every = pytest.mark.parametrize("asked", EXAMPLES.values(), ids=EXAMPLES)

#: Of the type that stands there, what no request may hold.
WRONG = {
    float: (1, True, "1", None, [1.0], -1e300),
    int: (1.0, True, "1", None, -1, 2**62),
    str: (1, None, [], "nothing of the kind"),
    bool: (1, 0, None, "yes"),
    dict: (None, [], 3, "a", {"more": {}}),
    list: (None, 3, "a", {}),
}
#: What has no bounds but those of its type.
FREE = {"intercept", "classes", "features", "sources", "settings", "alpha"}
#: Without it, a request says something else.
LEFT_OUT = {"delta"}


def test_every_operation_is_looked_at():
    assert EXAMPLES.keys() | {"ready"} == OPERATIONS.keys()


@every
def test_what_is_written_is_read_back(asked):
    payload = asked.write()
    read = OPERATIONS[asked.operation].read(Payload.decode(payload.encode()), FACTS)
    assert read.write() == payload
    assert read.price(40) == asked.price(40)


def refused(asked, values, arrays):
    with pytest.raises(InvalidMessage):
        OPERATIONS[asked.operation].read(Payload(values, arrays), FACTS)


@every
def test_a_value_of_another_kind_or_out_of_bounds_is_refused(asked):
    values, arrays = (dict(asked.write().values), dict(asked.write().arrays))
    for name, value in values.items():
        for wrong in WRONG[type(value)][: 4 if name in FREE else None]:
            refused(asked, {**values, name: wrong}, arrays)
        if name not in LEFT_OUT:
            refused(asked, {n: told for n, told in values.items() if n != name}, arrays)
    refused(asked, {**values, "more": 1}, arrays)


@every
def test_an_array_of_another_kind_or_for_other_rows_is_refused(asked):
    values, arrays = (dict(asked.write().values), dict(asked.write().arrays))
    for name, array in arrays.items():
        wrong = [array[:0], array[None, None], array.astype(np.float32), array > 0]
        wrong += [np.full_like(array, 1e300)] if array.dtype == np.float64 else []
        for one in wrong:
            refused(asked, values, {**arrays, name: one})
    refused(asked, values, {**arrays, "more": np.ones(1)})
    if asked.n_features is not None:
        with pytest.raises(InvalidMessage, match="columns"):
            OPERATIONS[asked.operation].read(asked.write(), PartyFacts(40, D + 1))
