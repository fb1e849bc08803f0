"""Every operation's request: read as it was written, and refused if anything in it is otherwise."""

from dataclasses import replace

import numpy as np
import pytest

from confrere.catalogue import find_method
from confrere.data.frame import Frame
from confrere.errors import InvalidMessage
from confrere.methods.asking import Size, Sizes
from confrere.methods.average import Averaging, Expansion, PriorQuestion
from confrere.methods.priors import Prior
from confrere.methods.sums import (
    Contrast,
    Gradient,
    GradientRounds,
    LabelContrast,
    Minimiser,
    OneMessage,
)
from confrere.methods.votes import Voting
from confrere.schema import Label, Number, PublicSchema
from confrere_federation.parties.cohort import Cohort, CohortOfAll
from confrere_federation.parties.messages import Payload
from confrere_federation.parties.requests import OPERATIONS, PartyFacts, request_for
from confrere_federation.studies.running import Learning

D, FACTS = 3, PartyFacts(40, 3)
FRAME = Frame(D, feature_scale=np.array([1.0, 0.5, 2.0]))
SIZES = Sizes({"a": 40, "b": 60, "c": 50})
COUNTED = {"collusion_threshold": 1, "quorum": 1.0, "epsilon": 1.0, "largest": 100}
SCHEMA = PublicSchema([Number("age", bounds=(0, 100))], Label("ill", positive=("yes",)))


def examples():
    common = {"frame": FRAME, "epsilon": 0.5}
    asked = Averaging(**common).request(SIZES, np.ones(D + 1))
    yield Size()
    prior = Prior(np.ones(D), 0.3, data_norm=1.0)
    yield PriorQuestion(prior=prior, epsilon=0.1)
    yield asked
    yield Averaging(**common, delta=1e-6, perturb="output").request(SIZES, None)
    yield Expansion(**common).asked(SIZES)
    one, rounds = OneMessage(**common), GradientRounds(**common, delta=1e-6, rounds=3)
    yield Minimiser(replace(one, prior=np.ones(D + 1)), SIZES)
    yield Gradient(rounds, SIZES, rounds.centre, 1)
    yield Contrast(LabelContrast(**common, share=0.1), SIZES, np.ones(D + 1))
    cohort = {"neighbours": "replace-one", "schema": SCHEMA}
    yield Cohort(epsilon=1.0, **cohort)
    yield CohortOfAll(**COUNTED, n_parties=3, max_retries=1, **cohort)
    rows = np.random.default_rng(0).normal(size=(40, D)) / 3
    for method in ("statistic", "weights", "cells"):
        voting = Voting(**common, method=method, auxiliary=None if method == "weights" else rows)
        yield voting.asked(5)
    yield Voting(**common, auxiliary=rows, trust="sum").asked(5)
    yield Learning(find_method("plr"), {"epsilon": 1.0}, (-1, 1), SCHEMA)


EXAMPLES = {one.operation: request_for(one) for one in examples()}
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
    assert EXAMPLES.keys() == OPERATIONS.keys()


@every
def test_what_is_written_is_read_back(asked):
    payload = asked.write()
    read = OPERATIONS[asked.operation].read(Payload.decode(payload.encode()), FACTS)
    assert read.write() == payload
    assert read.cost(40) == asked.cost(40)


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
