"""A ledger that goes back is noticed by itself, whatever way it went."""

import pickle
import shutil

import pytest

from confrere.errors import BudgetExceeded, LedgerError, WitnessMismatch
from confrere.kernel.guarantee import Guarantee
from confrere.ledger import Ledger, reset_witness, witnessed

TENTH = Guarantee(0.1)


@pytest.fixture
def spent(ledger):
    ledger.charge("study", TENTH, purpose="fit")
    return ledger


def put_back(path, content):
    """Another file under the same name, as from a backup: nothing in memory knows it."""
    path.unlink()
    path.write_bytes(content)


def in_another_process(ledger):
    other = pickle.loads(pickle.dumps(ledger))
    other._store.ledger_id = None
    return other


class TestWhatIsNoticed:
    def test_a_restored_copy(self, spent, path):
        copy = path.read_bytes()
        spent.charge("study", TENTH, purpose="fit")
        put_back(path, copy)
        with pytest.raises(WitnessMismatch, match=r"had row 4 .* now it has 3: an older copy"):
            Ledger(path)
        with pytest.raises(WitnessMismatch, match=r"ledger witness books.ledger --reset"):
            in_another_process(spent).charge("study", TENTH, purpose="fit")
        assert path.read_bytes() == copy

    def test_two_copies_that_both_go_on(self, spent, path, tmp_path):
        copy = tmp_path / "copy.ledger"
        shutil.copy(path, copy)
        Ledger(copy).charge("study", TENTH, purpose="fit")
        with pytest.raises(WitnessMismatch):
            spent.charge("study", TENTH, purpose="fit")
        assert spent.spent("study") == 0.1

    @pytest.mark.parametrize("torn", [False, True])
    def test_a_cut_or_torn_tail_that_had_been_acknowledged(self, spent, path, torn):
        content = path.read_bytes()
        put_back(path, content[: -10 if torn else content.rindex(b"\n", 0, -1) + 1])
        with pytest.raises(WitnessMismatch, match="rows were cut from its end"):
            Ledger(path)

    def test_a_deleted_file_is_not_made_anew(self, spent, path):
        path.unlink()
        with pytest.raises(WitnessMismatch, match="now there is none"):
            Ledger(path)
        assert not path.exists()

    def test_a_file_deleted_and_made_anew_elsewhere(self, spent, path, tmp_path):
        other = Ledger(tmp_path / "other.ledger", witness=tmp_path / "another witness")
        path.unlink()
        other.path.rename(path)
        with pytest.raises(WitnessMismatch, match="now there is another one"):
            Ledger(path)


class TestWhatIsFine:
    def test_a_witness_that_is_behind(self, spent, path, witness_of_this_test):
        """The kill came between the row and the witness."""
        (kept,) = witness_of_this_test.glob("*.head")
        before = kept.read_bytes()
        spent.charge("study", TENTH, purpose="fit")
        kept.write_bytes(before)
        Ledger(path).charge("study", TENTH, purpose="fit")
        assert b'"row": 5' in kept.read_bytes()

    def test_a_ledger_from_another_machine_is_kept_from_its_first_use(self, spent, path, tmp_path):
        here = tmp_path / "arrived.ledger"
        shutil.copy(path, here)
        arrived = Ledger(here, witness=tmp_path / "home")
        copy = here.read_bytes()
        arrived.charge("study", TENTH, purpose="fit")
        put_back(here, copy)
        with pytest.raises(WitnessMismatch):
            Ledger(here, witness=tmp_path / "home")

    def test_a_kill_between_making_and_writing(self, spent, path, witness_of_this_test):
        (kept,) = witness_of_this_test.glob("*.head")
        kept.write_bytes(b"")
        Ledger(path)
        assert kept.read_bytes()


class TestReset:
    def test_on_the_owner_s_word_which_stays_in_the_chain(self, spent, path):
        copy = path.read_bytes()
        lost = spent.charge("study", TENTH, purpose="fit")
        put_back(path, copy)
        assert "an older copy" in witnessed(path)["complaint"]
        reset_witness(path, reason="the disk broke on Monday")
        ledger = Ledger(path)
        (reset,) = ledger.resets()
        assert (reset["reason"], reset["row"], reset["hash"]) == (
            "the disk broke on Monday",
            lost.row,
            lost.hash,
        )
        assert witnessed(path)["complaint"] is None
        assert ledger.verify() == 6
        ledger.charge("study", TENTH, purpose="fit")

    def test_gives_nothing_back(self, ledger, path):
        """Ten restores used to be ten times the cap."""
        copy = path.read_bytes()
        for _ in range(10):
            ledger.charge("study", TENTH, purpose="fit")
            put_back(path, copy)
            reset_witness(path, reason="restored")
            copy, ledger = path.read_bytes(), Ledger(path)
        assert ledger.spent("study") == 1.0
        assert {one.state for one in ledger.entries()} == {"failed"}
        ledger.verify()
        with pytest.raises(BudgetExceeded):
            ledger.charge("study", TENTH, purpose="fit")

    def test_books_above_a_cap_whose_raise_is_gone_too(self, spent, path):
        copy = path.read_bytes()
        spent.raise_cap("study", epsilon=3.0, delta=0.5, reason="board")
        spent.charge("study", Guarantee(2.5, 0.25), purpose="fit")
        put_back(path, copy)
        assert reset_witness(path, reason="restored") == {"study": 2.5}
        ledger = Ledger(path)
        (account,) = ledger.accounts()
        assert (account.spent, account.left, account.epsilon) == (2.6, 0.0, 1.0)
        assert ledger.verify() == 6
        with pytest.raises(BudgetExceeded, match="0 left"):
            ledger.charge("study", TENTH, purpose="fit")
        assert ledger.entries()[-1].guarantee.delta == 0.25

    def test_books_all_that_a_chain_had_spent_that_was_rebuilt(self, spent, path):
        copy = path.read_bytes()
        spent.charge("study", TENTH, purpose="fit")
        put_back(path, copy)
        elsewhere = Ledger(path, witness=path.parent / "another witness")
        elsewhere.charge("study", Guarantee(0.3), purpose="fit")
        assert "rebuilt" in witnessed(path)["complaint"]
        reset_witness(path, reason="two machines")
        assert Ledger(path).spent("study") == pytest.approx(0.1 + 0.3 + 0.2)

    def test_a_witness_of_heads_alone_learns_what_was_spent(
        self, spent, path, witness_of_this_test
    ):
        """Version 0.2 kept heads."""
        (kept,) = witness_of_this_test.glob("*.spent")
        kept.unlink()
        Ledger(path)
        assert kept.exists()

    def test_a_cap_of_a_year_counts_it_in_this_one(self, tmp_path):
        path = tmp_path / "years.ledger"
        ledger = Ledger(path)
        copy = path.read_bytes()
        ledger.open_account("yearly", epsilon=1.0, period="year", reason="board")
        ledger.charge("yearly", Guarantee(0.75), purpose="fit")
        put_back(path, copy)
        reset_witness(path, reason="restored")
        (account,) = Ledger(path).accounts()
        assert (account.period, account.counted, account.left) == ("year", 0.75, 0.25)


class TestFolder:
    def test_only_its_owner_may_look(self, path, tmp_path):
        Ledger(path, witness=tmp_path / "w")
        assert (tmp_path / "w").stat().st_mode & 0o777 == 0o700
        assert {file.stat().st_mode & 0o777 for file in (tmp_path / "w").iterdir()} == {0o600}

    def test_one_that_cannot_be_written_is_said(self, path, tmp_path):
        (tmp_path / "file").touch()
        with pytest.raises(LedgerError, match=r"cannot be kept in .*CONFRERE_WITNESS"):
            Ledger(path, witness=tmp_path / "file" / "w")

    def test_one_that_is_damaged_is_said(self, spent, path, witness_of_this_test):
        (kept,) = witness_of_this_test.glob("*.head")
        for content in (b"{}", b"[1]", b"\xff" * 512, b'{"ledger_id": 7}', b'{"ledger_id": "a"}'):
            kept.write_bytes(content)
            with pytest.raises(LedgerError, match="is damaged"):
                spent.charge("study", TENTH, purpose="fit")
