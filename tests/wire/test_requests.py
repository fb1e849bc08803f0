"""Every operation's request: the same for whoever derives it, and no other agrees with it."""

from dataclasses import replace

import numpy as np
import pytest

from confrere import PrivateLogisticRegression
from confrere.assurance.inference import Intervals, _ahead
from confrere.catalogue import find_method
from confrere.data.frame import Frame
from confrere.errors import InvalidMessage
from confrere.methods.asking import Size, Sizes
from confrere.methods.average import Averaging, Expansion, PriorQuestion
from confrere.methods.priors import Prior
from confrere.methods.sums import Addend, GradientRounds, LabelContrast, OneMessage
from confrere.methods.votes import Voting
from confrere.schema import Label, Number, PublicSchema
from confrere_federation.parties.cohort import Cohort, CohortOfAll
from confrere_federation.parties.federation import agree
from confrere_federation.parties.messages import Payload
from confrere_federation.parties.requests import OPERATIONS, request_for
from confrere_federation.studies.running import Learning
from confrere_federation.studies.study_file import study_from_bytes, template

D = 3
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
    yield replace(one, prior=np.ones(D + 1)).asked(SIZES)
    yield Addend(rounds, SIZES, rounds.centre, 1)
    yield Addend(LabelContrast(**common, share=0.1), SIZES, np.ones(D + 1))
    cohort = {"neighbours": "replace-one", "schema": SCHEMA}
    yield Cohort(epsilon=1.0, **cohort)
    yield CohortOfAll(**COUNTED, n_parties=3, max_retries=1, **cohort)
    read = PrivateLogisticRegression(purpose="inference", schema=SCHEMA)
    told = {"model": "a" * 64, "space": _ahead(read, 400), "n_samples": 400}
    yield Intervals(**told, epsilon=0.1, sums=np.array([20, 300]))
    rows = np.random.default_rng(0).normal(size=(40, D)) / 3
    for method in ("statistic", "weights", "cells"):
        own = None if method == "weights" else rows
        yield Voting(**common, method=method, auxiliary=own, n_parties=5)
    yield Voting(**common, auxiliary=rows, trust="sum", n_parties=5)
    yield Learning(study_from_bytes(template("study.toml").encode()), find_method("plr"))


EXAMPLES = {one.operation: request_for(one) for one in examples()}
every = pytest.mark.parametrize("asked", EXAMPLES.values(), ids=EXAMPLES)


def test_every_operation_is_looked_at():
    assert EXAMPLES.keys() == OPERATIONS.keys()


def refused(asked, values, arrays):
    assert not agree(Payload(values, arrays), asked.payload)


@every
def test_another_array_is_another_question(asked):
    values, arrays = (dict(asked.payload.values), dict(asked.payload.arrays))
    for name, array in arrays.items():
        wrong = [array[:0], array[None, None], array.astype(np.float32), array > 0, array + 1]
        wrong += [np.full_like(array, 1e300)] if array.dtype == np.float64 else []
        for one in wrong:
            refused(asked, values, {**arrays, name: one})
    refused(asked, values, {**arrays, "more": np.ones(1)})


@every
def test_what_is_for_other_rows_is_refused(asked, make_party):
    asked_of = getattr(asked.holder, "frame", None) or getattr(asked.asked, "prior", None)
    if asked_of is not None:
        with pytest.raises(InvalidMessage, match="columns"):
            asked.check(make_party(d=D + 1))
