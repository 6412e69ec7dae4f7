"""Results are objects: rows for Arrow, drawings, pages, records with units."""

import copy
import json
import pathlib
import pickle

import kpps
import pytest

pyarrow = pytest.importorskip("pyarrow")


@pytest.fixture(scope="module")
def curve():
    return kpps.curve(driver=["kpps", "intel-5.7.6"], load="200kpps,400kpps", duration="5ms")


def test_rows_are_typed_and_absent_values_are_null(curve):
    table = curve.to_arrow()
    assert table.num_rows == len(curve.rows) == 4
    types = {field.name: str(field.type) for field in table.schema}
    assert (types["series.name"], types["delivered_pps"], types["sent"]) == ("string", "double", "int64")
    assert str(table.schema.field("latency_ns.p50").type) == "int64"
    # Nothing was delivered: no latency, and not 0.
    livelock = table.column("latency_ns.p50").to_pylist()[3]
    assert table.column("delivered_pps").to_pylist()[3] == 0 and livelock is None


def test_rows_are_handed_over_without_a_copy(curve):
    once, again = curve.to_arrow(), curve.to_arrow()
    buffers = [table.column("delivered_pps").chunk(0).buffers()[1].address for table in (once, again)]
    assert buffers[0] == buffers[1]


def test_pandas_and_polars_have_the_same_rows(curve):
    pandas, polars = pytest.importorskip("pandas"), pytest.importorskip("polars")
    one, two = curve.to_pandas(), curve.to_polars()
    assert isinstance(one, pandas.DataFrame) and isinstance(two, polars.DataFrame)
    assert one["delivered_pps"].tolist() == two["delivered_pps"].to_list()


def test_rows_are_those_of_the_csv(curve, command):
    csv = command("curve", "--driver", "kpps,intel-5.7.6", "--load", "200kpps,400kpps", "--duration", "5ms", "--csv", "-")
    assert csv.splitlines()[0].split(",") == curve.rows.columns
    assert csv.splitlines()[1].split(",")[:3] == ["kpps", "200000", "200000"]


def test_fields_are_attributes_with_units_and_described(curve):
    point = curve.series[0].points[0]
    assert point.offered_pps == point["offered_pps"] == 200e3
    assert point.latency_ns.p50 > 0
    assert "per second" in point.describe("delivered_pps")
    assert "series" in dir(curve)
    with pytest.raises(AttributeError, match="offered_pps"):
        point.offered
    assert json.loads(curve.to_json())["kind"] == curve.kind == "curve"


def test_a_document_is_drawn_in_the_colours_of_its_page(curve):
    matplotlib = pytest.importorskip("matplotlib")
    matplotlib.use("Agg")
    axes = curve.plot()
    assert [line.get_label() for line in axes.get_lines()] == ["kpps", "intel-5.7.6"]
    assert kpps.grid(vary={"load": ["50%", "100%"]}, duration="2ms").plot().get_lines()
    assert kpps.ndr(testbed="known:700kpps").plot().get_lines()
    drawn = kpps.study("morris2000", claim=["M1", "M2"]).plot()
    assert [label.get_text().partition(" ")[0] for label in drawn.get_yticklabels()].count("M1") >= 1
    trial = kpps.trial(load="1Mpps", driver="intel-5.7.6", duration="5ms")
    widths = sum(bar.get_width() for bar in trial.plot().patches)
    assert widths == trial.ledger.sent, "every frame has a place"
    with pytest.raises(kpps.InputError, match="is not drawn"):
        kpps.profiles().plot()


def test_the_palette_is_that_of_the_pages():
    from kpps import plots

    sheet = pathlib.Path(__file__).parents[2] / "crates/shared/rendering/assets/page.css"
    for at, colour in enumerate(plots.SERIES):
        assert f"--s{at}: light-dark({colour}," in sheet.read_text()


def test_notebooks_show_the_page(curve):
    shown = curve._repr_html_()
    assert shown.startswith("<iframe srcdoc=") and "Delivered against offered load" in shown
    assert "kpps" in str(curve) and repr(curve) == "<kpps curve: 4 rows>"


def test_results_can_be_pickled(curve):
    again = pickle.loads(pickle.dumps(curve))
    assert again.to_json() == curve.to_json() and again.to_arrow() == curve.to_arrow()
    assert again.series[0].name == "kpps"
    assert again.rows.columns == curve.rows.columns and len(again.rows) == len(curve.rows)
    point = curve.series[0].points[0]
    assert copy.deepcopy(point) == copy.copy(point) == pickle.loads(pickle.dumps(point)) == point
