"""A method that is registered is audited, deployable or not for a reason, and documented."""

from pathlib import Path

import numpy as np
import pytest

from confrere.assurance.audit.densities import densities
from confrere.assurance.audit.estimator import prepared
from confrere.audit import hardest_case
from confrere.catalogue import CATALOGUE, find_method
from confrere.errors import InvalidParameter
from confrere.simulation import SeededSource
from confrere_federation.parties.requests import OPERATIONS
from confrere_federation.studies import running as protocols
from tests.contracts.catalogue import FREE, MAKERS, PRIVATE, X, Y, as_is

ROOT = Path(__file__).parents[2]
PAGES = "\n".join(page.read_text() for page in (ROOT / "docs").rglob("*.md"))


def every(methods):
    return pytest.mark.parametrize("method", methods.values(), ids=methods)


def test_what_is_no_method_says_what_it_is_or_what_is_near():
    for name, told in (("batch", "no privacy"), ("Indiv", "individual"), ("PST-G", "pst-")):
        with pytest.raises(InvalidParameter, match=told):
            find_method(name)
    assert find_method("PLR-FS").make().combiner == "vote"


def test_every_private_method_has_a_maker():
    assert set(PRIVATE) <= set(MAKERS)
    assert set(PRIVATE) | set(FREE) == set(CATALOGUE)


@every(PRIVATE)
def test_the_plan_that_fit_runs_is_what_audits_ask(method):
    case = hardest_case(method.make(epsilon=1.0))
    plan, records = prepared(case.estimator, case.pairs[0].first)
    assert plan.guarantee().epsilon == 1.0
    terms = plan.terms(records)
    assert terms
    assert all(densities(term.mechanism, term.data) for term in terms)
    drawn = plan.run_many(records, SeededSource(0), 3)
    assert drawn.shape[0] == 3
    assert np.all(np.ptp(drawn, axis=0) > 0)


@every(CATALOGUE)
class TestRegistered:
    def test_is_deployable_or_says_why_not(self, method):
        assert protocols.Learning.operation in OPERATIONS
        assert set(method.operations) <= set(OPERATIONS)
        assert bool(method.operations) != bool(method.not_between_machines)

    def test_is_documented(self, method):
        assert f"`{method.name}`" in PAGES or f'"{method.name}"' in PAGES, method.name
        assert method.estimator.__name__ in PAGES
        assert method.proof is None or (ROOT / method.proof).is_file()


@every(FREE)
def test_what_is_used_as_it_is_spends_nothing(method):
    model = as_is(method).fit(X, Y)
    assert not hasattr(model, "receipt_")
    assert model.predict(X).shape == Y.shape
