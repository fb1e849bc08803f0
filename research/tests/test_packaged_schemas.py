import pytest

from confrere.errors import InvalidParameter
from confrere.schema import PublicSchema
from confrere_research.packaged_schemas import load_schema, schema_names


def test_packaged_schemas_are_whole():
    assert schema_names() == ["brfss2015", "brfss2022"]
    expected = {"brfss2015": (21, 21), "brfss2022": (38, 50)}
    for name, (columns, encoded) in expected.items():
        schema = load_schema(name)
        assert len(schema.columns) == columns
        assert len(schema.feature_names) == encoded
        assert schema.has_importances
        assert set(schema.signs()) == {-1, 0, 1}
        # Every scale is declared, so every encoded column has variance 1.
        assert schema.variances().tolist() == pytest.approx([1] * encoded)
        assert schema.note
        PublicSchema.from_toml(schema.to_toml()).require_same(schema)
    assert "State" not in load_schema("brfss2022").columns
    with pytest.raises(InvalidParameter, match="brfss2015, brfss2022"):
        load_schema("brfss1984")
