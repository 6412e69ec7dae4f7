"""The forms of a document say the same: JSON, comma-separated values, Arrow, pandas, polars."""

import csv
import io
import json
import math

import kpps
import pytest

pytest.importorskip("pyarrow")
CASES = {
    "curve": dict(driver=["kpps", "intel-2.5.11"], load="300kpps,1400kpps", duration="5ms"),
    "trial": dict(driver="intel-2.5.11", load="700kpps", duration="5ms"),
    "grid": dict(vary={"driver.rx_ring": [12, 64], "load": ["30%", "100%"]}, duration="2ms"),
    "ndr": dict(testbed="known:700kpps"),
    "sizes": dict(testbed="known:700kpps", size=[64, 512]),
    "scale": dict(cpu_counts=[1, 2], duration="1ms"),
    "transmit": dict(driver=["kpps", "click-polling"], duration="1ms"),
    "profile": dict(duration="1ms"),
}


def same(field, value):
    """Whether a field of the comma-separated values is this value of a table."""
    if value is None:
        return field == ""
    if isinstance(value, bool):
        return field == str(value).lower()
    return float(field) == value if isinstance(value, (int, float)) else field == value


def flat(value, name=""):
    """The values of an object by the names of their columns."""
    if not isinstance(value, dict):
        return {name: value}
    return {k: v for inner in value for k, v in flat(value[inner], f"{name}.{inner}" if name else inner).items()}


@pytest.mark.parametrize("command", CASES)
def test_every_form_has_the_same_names_and_values(command, tmp_path):
    pandas, polars = pytest.importorskip("pandas"), pytest.importorskip("polars")
    table = tmp_path / "table.csv"
    result = getattr(kpps, command)(**CASES[command], csv=table)
    header, *lines = csv.reader(io.StringIO(table.read_text()))
    arrow, frame, other = result.to_arrow(), result.to_pandas(), result.to_polars()
    assert header == result.rows.columns == arrow.column_names == list(frame.columns) == other.columns
    assert len(lines) == len(arrow) == len(frame) == len(other) > 0
    for number, (line, row) in enumerate(zip(lines, arrow.to_pylist())):
        for name, field in zip(header, line):
            value, of_pandas, of_polars = row[name], frame[name][number], other[name][number]
            assert same(field, value), (name, field, value)
            assert of_polars == value, (name, value)
            assert pandas.isna(of_pandas) if value is None else of_pandas == value, (name, value)
    assert isinstance(other, polars.DataFrame)


def test_a_name_of_a_row_is_that_of_the_result():
    """What is measured and what is of the whole trial, its warm-up among it, have names of their own."""
    trial = kpps.trial(**CASES["trial"])
    row, values = trial.to_arrow().to_pylist()[0], flat(json.loads(trial.to_json()))
    assert (row["sent"], row["ledger.sent"]) == (trial.sent, trial.ledger.sent) and row["sent"] < row["ledger.sent"]
    assert (row["latency_ns.p50"], row["delivered"], row["received"]) == (
        trial.latency_ns.p50, trial.delivered, trial.received
    )
    for name, value in row.items():
        assert values.get(name) == value or math.isclose(values[name], value), name
