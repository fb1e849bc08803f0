"""Loaders that return tables, on small files with the real layout."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from confrere.errors import InvalidData, InvalidParameter
from confrere_research.loaders import (
    bank_marketing,
    brfss2015,
    brfss2022,
    credit_default,
    load_bank_marketing,
    load_brfss2015,
    load_brfss2022,
    load_credit_default,
)

FULL = b""""age";"job";"marital";"education";"default";"balance";"housing";"loan";"contact";"day";\
"month";"duration";"campaign";"pdays";"previous";"poutcome";"y"
58;"management";"married";"tertiary";"no";2143;"yes";"no";"unknown";5;"may";261;1;-1;0;"unknown";"no"
33;"admin.";"single";"secondary";"no";-20;"yes";"yes";"cellular";9;"jan";76;1;99;2;"success";"yes"
"""
ADDITIONAL = b""""age";"job";"marital";"education";"default";"housing";"loan";"contact";"month";\
"day_of_week";"duration";"campaign";"pdays";"previous";"poutcome";"emp.var.rate";"cons.price.idx";\
"cons.conf.idx";"euribor3m";"nr.employed";"y"
56;"housemaid";"married";"basic.4y";"unknown";"no";"no";"telephone";"may";"mon";261;1;999;0;\
"nonexistent";1.1;93.994;-36.4;4.857;5191;"yes"
"""
CREDIT = b""""ID","LIMIT_BAL","SEX","EDUCATION","MARRIAGE","AGE","PAY_0","PAY_2","PAY_3","PAY_4",\
"PAY_5","PAY_6","BILL_AMT1","BILL_AMT2","BILL_AMT3","BILL_AMT4","BILL_AMT5","BILL_AMT6","PAY_AMT1",\
"PAY_AMT2","PAY_AMT3","PAY_AMT4","PAY_AMT5","PAY_AMT6","default.payment.next.month"
1,20000,2,2,1,24,2,2,-1,-1,-2,-2,3913,3102,689,0,0,0,0,689,0,0,0,0,1
2,120000,1,0,2,26,-1,2,0,0,0,2,2682,1725,2682,3272,3455,3261,0,1000,1000,1000,0,2000,0
"""
DIABETES = b"""Diabetes_binary,HighBP,HighChol,CholCheck,BMI,Smoker,Stroke,HeartDiseaseorAttack,\
PhysActivity,Fruits,Veggies,HvyAlcoholConsump,AnyHealthcare,NoDocbcCost,GenHlth,MentHlth,PhysHlth,\
DiffWalk,Sex,Age,Education,Income
0.0,1.0,1.0,1.0,40.0,1.0,0.0,0.0,0.0,0.0,1.0,0.0,1.0,0.0,5.0,18.0,15.0,1.0,0.0,9.0,4.0,3.0
1.0,0.0,0.0,0.0,25.0,1.0,0.0,0.0,1.0,0.0,0.0,0.0,0.0,1.0,3.0,0.0,0.0,0.0,1.0,7.0,6.0,1.0
"""
STATES = """State,Sex,GeneralHealth,PhysicalHealthDays,MentalHealthDays,LastCheckupTime,\
PhysicalActivities,SleepHours,RemovedTeeth,HadHeartAttack,HadAngina,HadStroke,HadAsthma,\
HadSkinCancer,HadCOPD,HadDepressiveDisorder,HadKidneyDisease,HadArthritis,HadDiabetes,\
DeafOrHardOfHearing,BlindOrVisionDifficulty,DifficultyConcentrating,DifficultyWalking,\
DifficultyDressingBathing,DifficultyErrands,SmokerStatus,ECigaretteUsage,ChestScan,\
RaceEthnicityCategory,AgeCategory,HeightInMeters,WeightInKilograms,BMI,AlcoholDrinkers,HIVTesting,\
FluVaxLast12,PneumoVaxEver,TetanusLast10Tdap,HighRiskLastYear,CovidPos
"""
PERSON = (
    "{state},Female,Very good,4.0,0.0,Within past year (anytime less than 12 months ago),Yes,9.0,"
    'None of them,No,No,No,No,No,No,No,No,Yes,"{diabetes}",No,No,No,No,No,No,Former smoker,'
    'Never used e-cigarettes in my entire life,No,"White only, Non-Hispanic",Age 65 to 69,1.6,'
    '71.67,27.99,No,No,Yes,Yes,"Yes, received Tdap",No,No\n'
)


def encoded(data) -> np.ndarray:
    assert data.schema is not None
    return data.schema.encoder().fit_transform(data.train.X)


class TestBankMarketing:
    def test_the_table_is_as_published(self, publish, monkeypatch, tmp_path):
        files = bank_marketing.FILES
        monkeypatch.setitem(files, "full", publish(files["full"], FULL))
        data = load_bank_marketing(tmp_path)
        assert data.train.y.tolist() == [0, 1]
        assert data.feature_names == bank_marketing.SCHEMAS["full"].columns
        assert data.train.X["balance"].tolist() == [2143, -20]
        assert data.train.X["job"].tolist() == ["management", "admin."]
        assert isinstance(data.train.X["job"].dtype, pd.CategoricalDtype)
        assert np.isfinite(encoded(data)).all()

    def test_the_version_with_economic_indicators(self, publish, monkeypatch, tmp_path):
        files = bank_marketing.FILES
        monkeypatch.setitem(files, "additional", publish(files["additional"], ADDITIONAL))
        data = load_bank_marketing(tmp_path, version="additional")
        assert data.feature_names == bank_marketing.SCHEMAS["additional"].columns
        assert data.train.X["euribor3m"].tolist() == [4.857]
        assert data.train.y.tolist() == [1]
        assert np.isfinite(encoded(data)).all()

    def test_another_version_is_refused(self, tmp_path):
        with pytest.raises(InvalidParameter, match="version"):
            load_bank_marketing(tmp_path, version="small")

    def test_an_undeclared_label_is_refused_without_showing_it(
        self, publish, monkeypatch, tmp_path
    ):
        files = bank_marketing.FILES
        content = FULL.replace(b'"yes"\n', b'"perhaps"\n')
        monkeypatch.setitem(files, "full", publish(files["full"], content))
        with pytest.raises(InvalidData, match="'y'") as caught:
            load_bank_marketing(tmp_path)
        assert "perhaps" not in str(caught.value)


class TestCreditDefault:
    def test_the_identifier_is_no_feature(self, publish, monkeypatch, tmp_path):
        monkeypatch.setattr(credit_default, "FILE", publish(credit_default.FILE, CREDIT))
        data = load_credit_default(tmp_path)
        assert data.feature_names == credit_default.SCHEMA.columns
        assert len(data.feature_names) == 23
        assert data.train.y.tolist() == [1, 0]
        assert data.train.X["LIMIT_BAL"].tolist() == [20_000, 120_000]
        assert np.isfinite(encoded(data)).all()

    def test_the_archives_table_becomes_the_published_one(self):
        """UCI calls the columns ID, X1 to X23 and Y."""
        header = ",".join(["ID", *(f"X{n}" for n in range(1, 24)), "Y"])
        official = header.encode() + b"\n" + CREDIT.split(b"\n", 1)[1]
        assert credit_default._renamed(official) == CREDIT

    @pytest.mark.parametrize(
        ("value", "text"),
        [
            (0, "0"),
            (7, "7"),
            (-2, "-2"),
            (10_000, "10000"),
            (100_000, "1e+05"),
            (-200_000, "-2e+05"),
            (120_000, "120000"),
            (1_000_000, "1e+06"),
            (1_100_000, "1100000"),
            (11_000_000, "1.1e+07"),
        ],
    )
    def test_round_numbers_are_abbreviated_when_that_is_shorter(self, value, text):
        assert credit_default._shortest(value) == text
        assert float(text) == value


class TestBrfss2015:
    def test_the_table_is_as_published(self, publish, monkeypatch, tmp_path):
        monkeypatch.setattr(brfss2015, "FILE", publish(brfss2015.FILE, DIABETES))
        data = load_brfss2015(tmp_path)
        assert data.train.X.shape == (2, 21)
        assert data.train.y.tolist() == [0, 1]
        assert data.schema is not None
        assert set(data.schema.columns) == set(data.feature_names)
        assert np.isfinite(encoded(data)).all()

    def test_the_archives_table_becomes_the_published_one(self):
        """UCI adds an identifier, writes whole numbers and may order columns in its own way."""
        lines = [line.split(",") for line in DIABETES.decode().split()]
        header, *rows = lines
        turned = [["ID", *header[::-1]]]
        turned += [[str(n), *(value[:-2] for value in row[::-1])] for n, row in enumerate(rows)]
        official = "\n".join(",".join(line) for line in turned) + "\n"
        assert brfss2015._reordered(official.encode()) == DIABETES


class TestBrfss2022:
    @pytest.fixture(autouse=True)
    def files(self, publish, monkeypatch):
        answers = ("Yes", "No", "No, pre-diabetes or borderline diabetes", "Yes")
        people = [
            PERSON.format(state=state, diabetes=answer)
            for state, answer in zip(("Ohio", "Utah", "Utah", "Guam"), answers, strict=True)
        ]
        content = (STATES + "".join(people)).encode()
        monkeypatch.setattr(brfss2022, "FILE", publish(brfss2022.FILE, content))

    def test_only_yes_is_diabetes_and_the_state_stays(self, tmp_path):
        data = load_brfss2022(tmp_path)
        assert data.train.X.shape == (4, 39)
        assert data.train.y.tolist() == [1, 0, 0, 1]
        assert data.train.X["State"].tolist() == ["Ohio", "Utah", "Utah", "Guam"]
        assert "HadDiabetes" not in data.feature_names

    def test_the_state_is_no_feature_of_the_schema(self, tmp_path):
        data = load_brfss2022(tmp_path)
        assert data.schema is not None
        assert set(data.feature_names) - set(data.schema.columns) == {"State"}
        assert np.isfinite(encoded(data)).all()

    def test_answers_that_look_like_gaps_stay_answers(self, tmp_path):
        data = load_brfss2022(tmp_path)
        assert set(data.train.X["RemovedTeeth"]) == {"None of them"}
        assert not data.train.X.isna().any().any()


@pytest.mark.parametrize(
    ("convert", "content"),
    [(credit_default._renamed, CREDIT), (brfss2015._reordered, b"a,b\n1,2\n")],
)
def test_another_table_is_not_converted(convert, content):
    with pytest.raises(ValueError, match="Usecols"):
        convert(content)
