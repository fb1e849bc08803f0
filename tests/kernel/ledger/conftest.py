import pytest

from confrere.kernel.guarantee import Guarantee
from confrere.ledger import Ledger, LedgerReader


@pytest.fixture(scope="session")
def one_account(tmp_path_factory):
    """A file with one account, capped at 1: copied, not made for each test, to spare the disk."""
    ledger = Ledger(tmp_path_factory.mktemp("one account") / "books.ledger")
    ledger.open_account("study", epsilon=1.0)
    return ledger.path.read_bytes()


@pytest.fixture
def path(tmp_path):
    return tmp_path / "books.ledger"


@pytest.fixture
def ledger(path, one_account):
    """A durable ledger with one account, capped at 1."""
    path.write_bytes(one_account)
    return Ledger(path)


@pytest.fixture
def tenth():
    return Guarantee(0.1, theorem="objective_perturbation", public=("n_samples",))


@pytest.fixture
def audit(tmp_path):
    """Count the rows of a chain that nobody has looked at, or say what is wrong with it."""

    def check(rows, rest=b""):
        file = tmp_path / f"{len(rows)} rows"
        file.write_bytes(b"".join(row.line for row in rows) + rest)
        return LedgerReader.look(file).verify()

    return check
