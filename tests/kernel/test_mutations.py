"""Breaking the code that ships is found by a tool that an officer would run.

The table of mutations and tools is in docs/audit.md, made by ``python -m benchmarks mutations``.
"""

import pytest

from confrere.assurance.audited import AUDITED
from confrere.assurance.table import COMPARED
from tests.kernel.mutations import MUTATIONS, TOOLS, broken, draws_before_paying, verdict

#: Tools that need a second or less for most methods, cheapest first.
QUICK = (*COMPARED, "lattice", "events", "densities", "charging contract")

#: What is tried by default: half of the noise on every method, others on their first and last.
TRIED = [
    pytest.param(
        name,
        method,
        marks=()
        if name == "noise / 2" or method in (mutation.methods[0], mutation.methods[-1])
        else pytest.mark.slow,
    )
    for name, mutation in MUTATIONS.items()
    for method in mutation.methods
]


@pytest.mark.parametrize(("name", "method"), TRIED)
def test_a_mutation_is_found(name, method):
    mutation = MUTATIONS[name]
    tools = [tool for tool in QUICK if tool in mutation.found_by][:1]
    assert tools
    with broken(name):
        for tool in tools:
            assert verdict(tool, method, runs=mutation.runs, row=mutation.row), tool


@pytest.mark.slow
@pytest.mark.parametrize("name", MUTATIONS)
def test_every_tool_that_should_find_it_does(name):
    mutation = MUTATIONS[name]
    with broken(name):
        for tool in mutation.found_by:
            assert verdict(tool, mutation.methods[0], runs=mutation.runs, row=mutation.row), tool


def test_every_mutation_but_one_is_found_by_what_the_command_runs():
    left = [name for name, one in MUTATIONS.items() if one.found_by == ("charging contract",)]
    assert left == ["draw before paying"]
    assert all(set(one.found_by) <= set(TOOLS) for one in MUTATIONS.values())


@pytest.mark.parametrize("method", AUDITED)
def test_sound_code_keeps_to_its_lattice(method):
    assert verdict("lattice", method, runs=0) == ""


def test_sound_code_pays_before_it_draws():
    assert not draws_before_paying()
