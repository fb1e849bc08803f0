"""A real deployment whose processes are killed at random moments, and started again.

What must hold: the run ends; every party paid once per answer and no more than was agreed; what was
answered never changes; and the model is the one that those answers give.
"""

from __future__ import annotations

import random
import time

import numpy as np
import pytest

from confrere.federation import Payload
from confrere.federation.averaging import weighted_mean
from confrere.ledger import Ledger
from confrere.release import load_release
from tests.scenarios.deployment import PARTIES, Deployment

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1500)]

ROUNDS = 6
#: Seven links, seven times a party (with its command or the node alone), six coordinators.
VICTIMS = ["link"] * 7 + ["party"] * 4 + ["node"] * 3 + ["coordinator"] * 6
RUNS = 4
PER_RUN = len(VICTIMS) // RUNS


def victims_of(run: int) -> list[str]:
    order = random.Random(2026).sample(VICTIMS, len(VICTIMS))
    return order[run * PER_RUN : (run + 1) * PER_RUN]


def kill(deployment: Deployment, victim: str, chance: random.Random) -> None:
    """Kill, and give the same command again where a command was killed."""
    if victim == "link":  # the coordinator starts another
        deployment.kill_child("coordinator", "flower-superlink", family=False)
        return
    name = "coordinator" if victim == "coordinator" else chance.choice(PARTIES)
    if victim == "node":  # the party's command starts another
        deployment.kill_child(name, "flower-supernode", family=True)
        return
    deployment.kill(name)
    time.sleep(chance.uniform(0, 3))
    deployment.start(name)


@pytest.mark.parametrize("run", range(RUNS))
def test_killed_at_random_moments(tmp_path, run):
    chance = random.Random(run)
    seeded = run % 2 == 1
    seen: dict[str, dict] = {name: {} for name in PARTIES}
    began = time.monotonic()
    with Deployment(tmp_path, rounds=ROUNDS, seeded=seeded) as deployment:
        deployment.start_all(patiently=False)
        for victim in victims_of(run):
            time.sleep(chance.uniform(0, 20))
            before = len(deployment.gathered())
            moment = time.monotonic()
            kill(deployment, victim, chance)
            for name in PARTIES:
                seen[name] |= deployment.answers(name)
            deployment.wait(
                lambda before=before: deployment.finished or len(deployment.gathered()) > before,
                400,
            )
            steps = before // len(PARTIES)
            print(  # noqa: T201  the table that a reader wants
                f"run {run} | {victim:<11} | after {moment - began:5.0f} s, {steps} questions | "
                f"went on after {time.monotonic() - moment:4.0f} s",
                flush=True,
            )
        told = deployment.finish(600)
        assert deployment.remains() == []
    check_books(deployment, seen)
    release = load_release(told["folder"], allow_simulated=seeded)
    assert release.card.status == ("simulated" if seeded else "released")
    check_model(deployment, release)
    if seeded:
        np.testing.assert_array_equal(deployment.weights(), deployment.weights_in_one_process())


def check_books(deployment: Deployment, seen: dict[str, dict]) -> None:
    asked = {("size", 0), *(("objective", step) for step in range(ROUNDS))}
    runs = set()
    for name in PARTIES:
        answers = deployment.answers(name)
        assert {key[1:] for key in answers} == asked
        assert len(answers) == len(asked)
        runs |= {key[0] for key in answers}
        assert seen[name].items() <= answers.items()  # nothing that was given has changed
        ledger = Ledger(deployment.folder / f"local/{name}.ledger")
        ledger.verify()
        entries = ledger.entries()
        assert len(entries) == ROUNDS
        assert {entry.state for entry in entries} == {"released"}
        assert sum(entry.guarantee.epsilon for entry in entries) == pytest.approx(1.0)
        assert ledger.spent(entries[0].account) <= 1.0
    assert len(runs) == 1
    gathered = deployment.gathered()
    assert len(gathered) == len(asked) * len(PARTIES)
    (run_id,) = runs
    for (operation, step, name), answer in gathered.items():
        assert answer == deployment.answers(name)[run_id, operation, step]


def check_model(deployment: Deployment, release) -> None:
    gathered = {key: Payload.decode(answer) for key, answer in deployment.gathered().items()}
    sizes = {name: int(gathered["size", 0, name].arrays["size"]) for name in PARTIES}
    last = {
        key[2]: answer for key, answer in gathered.items() if key[:2] == ("objective", ROUNDS - 1)
    }
    weights = deployment.weights()
    np.testing.assert_array_equal(weights, weighted_mean(last, sizes, len(weights)))
    np.testing.assert_array_equal(
        release.model.coef[0], deployment.plan.frame.coefficients(weights)[0]
    )
