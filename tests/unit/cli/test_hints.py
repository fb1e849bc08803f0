"""One hint per error: the next step, and nothing that sends people the wrong way."""

from pathlib import Path

import pytest

from confrere.errors import InvalidParameter
from confrere.estimators import ReleasedClassifier, TransferClassifier


def changed(name, old, new):
    path = Path(name)
    text = Path("study.toml").read_text()
    assert old in text
    path.write_text(text.replace(old, new))
    return name


def failed(line, *arguments, code):
    answer = line.json(*arguments, code=code)
    return answer["message"], answer["hint"]


def test_a_ledger_that_is_not_there(line, fitted):
    for words in (["ledger", "show"], ["verify", fitted, "--ledger"]):
        message, hint = failed(line, *words, "no.ledger", code=3)
        assert message == "there is no ledger no.ledger."
        assert "confrere ledger open no.ledger" in hint
        assert not Path("no.ledger").exists()


def test_the_folder_above_a_release_and_a_file_in_it(line, fitted):
    words = ["verify"]
    message, hint = failed(line, *words, fitted.parent, code=5)
    assert "is a folder above a release" in message
    assert hint == f"give the release itself: {fitted}"
    message, hint = failed(line, *words, fitted / "card.json", code=5)
    assert "is a file of a release" in message
    assert str(fitted) in hint
    message, hint = failed(line, *words, "nowhere", code=5)
    assert message.startswith("'nowhere' is not there")
    assert "folder of a release" in hint


def test_a_misspelt_key_a_missing_study_and_an_engine(line, folder):
    message, _ = failed(
        line, "check", changed("e.toml", "epsilon = 1.0   ", "epsilom = 1.0   "), code=3
    )
    assert "did you write 'epsilom' for it" in message
    message, hint = failed(line, "check", "nowhere.toml", code=3)
    assert "confrere init" in hint
    flower = changed("f.toml", 'engine = "local"', 'engine = "flower"')
    changed("study.toml", 'engine = "local"', 'engine = "flower"')
    changed("plr.toml", 'name = "average"', 'name = "plr"')
    assert "confrere coordinator plr.toml" in line("price", "plr.toml").stdout
    message, hint = failed(line, "fit", flower, code=3)
    assert "between machines" in message
    assert "confrere coordinator STUDY" in hint
    assert 'engine = "local"' in hint


@pytest.mark.parametrize(
    ("words", "message", "hint"),
    [
        (["ledger"], "confrere ledger needs one of show, verify", "confrere ledger show"),
        (["chekc"], "did you mean 'check'?", "confrere check"),
        (["ledger", "shwo"], "did you mean 'show'?", "confrere ledger show"),
        (["fit", "x", "--yess"], "did you mean '--yes'?", "confrere fit --yes"),
        (["plan"], "'--records'", "confrere plan --help"),
    ],
)
def test_words_that_the_command_line_does_not_know(line, words, message, hint):
    result = line(*words, code=2)
    told = result.stderr.splitlines()[-1]
    assert message in told
    assert hint in told
    assert told.count("did you mean") <= 1


@pytest.mark.parametrize("kind", [TransferClassifier, ReleasedClassifier])
def test_a_classifier_is_not_its_release(kind):
    model = TransferClassifier()
    with pytest.raises(InvalidParameter, match=r"source=model.to_release\(\)"):
        kind(source=model).fit([[0.0], [1.0]], [0, 1])
    with pytest.raises(InvalidParameter, match="got a int"):
        kind(source=3).fit([[0.0], [1.0]], [0, 1])
