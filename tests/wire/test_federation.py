"""Asking, gathering, quorum; and the engines of one process agree with each other."""

from dataclasses import replace

import pytest

from confrere.data.frame import Frame
from confrere.errors import BudgetExceeded, QuorumMissed
from confrere.methods.asking import Sizes
from confrere.methods.average import Averaging
from confrere_federation.parties.federation import LocalFederation, Round, expected
from confrere_federation.parties.messages import PartyError, Payload
from confrere_federation.parties.requests import request_for


def plan(**changes):
    return Averaging(**{"frame": Frame(3), "epsilon": 1.0} | changes)


def test_errors_are_codes_without_words(make_party):
    allowed = make_party("a")
    poor = make_party("b", cap=0.1)
    strict = make_party("c", operations={"size"})
    federation = LocalFederation([allowed, poor, strict])
    request = request_for(plan().request(Sizes(dict.fromkeys("abc", 20)), None))
    sizes = dict.fromkeys("abc", 20)
    asked = Round(request, tuple("abc"), expect=expected(request, sizes))
    answers = federation._asked(asked)
    assert isinstance(answers["a"], Payload)
    assert answers["b"] == PartyError("BudgetExceeded")
    assert answers["c"] == PartyError("OperationRefused:operation")
    with pytest.raises(QuorumMissed, match=r"1 of 3.*b \(BudgetExceeded\)"):
        federation._gathered(replace(asked, quorum=0.5))
    assert list(federation._gathered(replace(asked, quorum=0.3))) == ["a"]
    with pytest.raises(BudgetExceeded):
        LocalFederation([poor], on_error="raise")._asked(replace(asked, to=("b",)))
