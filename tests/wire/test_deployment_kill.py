"""A real deployment whose processes are killed at random moments, and started again.

What must hold: the run ends; every party paid once per answer and no more than was agreed; what was
answered never changes; and the model is the one that those answers give.
"""

import random
import time

import numpy as np
import pytest

from confrere.ledger import Ledger
from confrere.methods import PublicFacts
from confrere.methods.asking import combine_weights
from confrere.release import load_rehearsal, load_release
from confrere_federation.studies.study_file import estimator_for
from tests.wire.deployment import PARTIES, Deployment

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1500)]

ROUNDS = 30
RUNS = 10
PER_RUN = 10
#: Answers in a whole run: a size and every round, of every party.
ALL = (1 + ROUNDS) * len(PARTIES)


@pytest.mark.parametrize("run", range(RUNS))
def test_killed_at_random_moments(tmp_path, run):
    """A hundred kills in all, at moments that chance gives: of a party, of what reads its rows,
    or of the coordinator.
    """
    chance = random.Random(run)
    seeded = run % 2 == 1
    seen: dict[str, dict] = {name: {} for name in PARTIES}
    with Deployment(tmp_path, rounds=ROUNDS, seeded=seeded, warm=True) as deployment:
        deployment.start_all()
        for moment in sorted(chance.randrange(ALL) for _ in range(PER_RUN)):
            deployment.wait(
                lambda moment=moment: deployment.finished or len(deployment.gathered()) >= moment,
                400,
            )
            time.sleep(chance.uniform(0, 0.5))
            name = chance.choice(["coordinator", *PARTIES])
            reader = name in PARTIES and chance.random() < 0.5
            before = len(deployment.gathered())
            (deployment.kill_reader if reader else deployment.kill)(name)
            for party in PARTIES:
                seen[party] |= deployment.answers(party)
            time.sleep(chance.uniform(0, 1))
            deployment.start(name)
            what = f"{name}, reader" if reader else name
            print(f"run {run} | {what:<16} | after {before} answers", flush=True)  # noqa: T201
        told = deployment.finish(600)
        assert deployment.remains() == []
    check_books(deployment, seen)
    release = (load_rehearsal if seeded else load_release)(told["folder"])
    assert release.card.status == ("simulated" if seeded else "released")
    check_model(deployment, release)
    if seeded:
        np.testing.assert_array_equal(deployment.released(), deployment.released_in_python())


def check_books(deployment: Deployment, seen: dict[str, dict]) -> None:
    asked = {("size", 0), *(("objective", step) for step in range(ROUNDS))}
    runs = set()
    for name in PARTIES:
        answers = deployment.answers(name)
        assert {key[1:] for key in answers} == asked
        assert len(answers) == len(asked)
        runs |= {key[0] for key in answers}
        assert seen[name].items() <= answers.items()  # nothing that was given has changed
        ledger = Ledger(deployment.ledger(name))
        ledger.verify()
        entries = ledger.entries()
        assert len(entries) == ROUNDS
        assert {entry.state for entry in entries} == {"released"}
        assert sum(entry.guarantee.epsilon for entry in entries) == pytest.approx(1.0)
        assert ledger.spent(entries[0].account) <= 1.0
    assert len(runs) == 1
    payloads = deployment.payloads()
    assert len(payloads) == len(asked) * len(PARTIES)
    (run_id,) = runs
    for (operation, step, name), payload in payloads.items():
        assert payload.encode() == deployment.answers(name)[run_id, operation, step]


def check_model(deployment: Deployment, release) -> None:
    """The release is the last round's average of what was gathered, and everybody has it."""
    payloads = deployment.payloads()
    sizes = {name: int(payloads["size", 0, name].arrays["size"]) for name in PARTIES}
    last = {key[2]: p for key, p in payloads.items() if key[:2] == ("objective", ROUNDS - 1)}
    facts = PublicFacts(n_samples=sum(sizes.values()), n_features=0, sizes=sizes)
    plan = estimator_for(deployment.study, deployment.study.method).plan(facts).protocol
    told = np.stack([last[name].arrays["weights"] for name in sorted(last)])
    weights = combine_weights(told, [sizes[name] for name in sorted(last)], "mean")
    np.testing.assert_array_equal(release.model.coef[0], plan.frame.coefficients(weights)[0])
    for name in PARTIES:
        had = load_rehearsal(deployment.folder / f"had/{name}/diabetes-2026")
        assert had.release_id == release.release_id
