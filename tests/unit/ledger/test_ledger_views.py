import json

import pandas as pd
import pytest

from confrere.kernel.guarantee import Guarantee, Promised
from confrere.ledger import Ledger


@pytest.fixture
def busy(ledger, tenth):
    receipt = ledger.charge("study", tenth, purpose='fit, "quoted"', event=Promised(0.1))
    ledger.mark_released(receipt, digest="00ff")
    ledger.open_account("open")
    ledger.charge("open", Guarantee(2.0, 1e-6), purpose="vote", key="k", simulated=True)
    return ledger


def test_the_frame_has_one_row_per_charge(busy, tmp_path):
    frame = busy.to_frame()
    assert frame.index.tolist() == [3, 6]
    assert frame["epsilon"].tolist() == frame["spent"].tolist() == [0.1, 2.0]
    assert frame["state"].tolist() == ["released", "open"]
    assert frame["unit"].tolist() == ["record", "record"]
    assert frame["event"].tolist() == [Promised(0.1).to_dict(), None]
    assert frame.loc[3, "ended"] > frame.loc[3, "time"]
    assert pd.isna(frame.loc[6, "ended"])
    assert busy.to_csv().count('"fit, ""quoted"""') == 1
    empty = Ledger(tmp_path / "empty.ledger").to_frame()
    assert empty.columns.tolist() == frame.columns.tolist()


def test_json_is_whole_and_of_one_moment(busy):
    document = json.loads(busy.to_json())
    assert document["head"] == busy.head()
    assert document["ledger_id"] == busy.charge("study", Guarantee(0.1), purpose="x").ledger_id
    study, unbounded = document["accounts"]
    assert (study["epsilon"], study["spent"], study["left"]) == (1.0, 0.1, 0.9)
    assert (unbounded["epsilon"], unbounded["left"], unbounded["unit"]) == (None, None, "record")
    assert [entry["guarantee"]["epsilon"] for entry in document["entries"]] == [0.1, 2.0]
    assert document["entries"][0]["state"] == "released"
