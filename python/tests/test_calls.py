"""The functions are the command: the same words, the same documents."""

import inspect
import json

import kpps
import pytest
from kpps.commands import COMMANDS, in_python


@pytest.mark.parametrize(
    "call, words",
    [
        (
            lambda: kpps.curve(driver=["kpps", "intel-5.7.6"], load="100kpps..300kpps/100kpps", duration="2ms"),
            "curve --driver kpps,intel-5.7.6 --load 100kpps..300kpps/100kpps --duration 2ms",
        ),
        (lambda: kpps.trial(load="50%", duration="2ms", set={"driver.rx_ring": 64}), "trial --load 50% --duration 2ms --set driver.rx_ring=64"),
        (lambda: kpps.ndr(testbed="known:700kpps", bisection=True), "ndr --testbed known:700kpps --bisection"),
        (
            lambda: kpps.grid(vary={"driver.rx_ring": [64, 128], "load": ["50%", "100%"]}, duration="2ms"),
            "grid --vary driver.rx_ring=64,128 --vary load=50%,100% --duration 2ms",
        ),
        (lambda: kpps.profiles("chip", "82542"), "list chip 82542"),
        (lambda: kpps.study(claim=["M14"]), "study --claim M14"),
        (lambda: kpps.scale(cpu_counts=[1, 2], duration="1ms"), "scale --cpu-counts 1,2 --duration 1ms"),
        (lambda: kpps.simulate_faults(worlds=2), "simulate-faults --worlds 2"),
    ],
)
def test_a_function_has_the_document_of_its_command(call, words, command):
    result = call()
    assert result.to_json() == command(*words.split(), "--json")
    assert len(result.rows.columns) > 0


def test_every_command_is_a_function_with_all_its_options():
    assert {"curve", "trial", "ndr", "grid", "study", "profiles", "compare", "device_list"} <= set(COMMANDS)
    for name, command in COMMANDS.items():
        function = getattr(kpps, name)
        named = set(inspect.signature(function).parameters)
        # A server is returned when it listens: there is no progress to show.
        progress = set() if name == "otg" else {"progress"}
        assert set(command.parameters) | progress <= named, name
        assert command.about in inspect.getdoc(function).replace("\n", " ") or "--" in command.about, name
        assert "--" not in function.__doc__, f"{name}: {function.__doc__}"
        assert "json" not in named, "results are returned"


def test_results_are_compared_without_files(command, tmp_path):
    # Eight of a side are enough for the test to decide.
    better = [kpps.trial(testbed="known:700kpps", load=f"{800 + at}kpps", duration="1s") for at in range(2)]
    with pytest.raises(kpps.Error):
        kpps.compare(better[0], 3)
    same = kpps.compare(better[0], better[0])
    assert same.kind == "comparison"
    path = tmp_path / "one.json"
    path.write_text(better[0].to_json())
    assert kpps.compare(path, better[0]).rows.columns == same.rows.columns


def test_what_is_not_measured_is_returned_too():
    drawn = kpps.study("beyond", drawn=44)
    assert drawn.kind == "drawn" and drawn.to_json().count("--set ") > 5
    assert kpps.schema()["$id"] == "urn:kpps:schema:3"


def test_files_are_written_as_by_the_command(tmp_path):
    result = kpps.trial(load="50%", duration="2ms", results=tmp_path / "t.json", csv=tmp_path / "t.csv", report=tmp_path / "t.html")
    assert (tmp_path / "t.json").read_text() == result.to_json()
    assert (tmp_path / "t.csv").read_text().startswith(",".join(result.rows.columns[:3]))
    assert (tmp_path / "t.html").read_text() == result.page()


def test_a_second_call_knows_nothing_of_the_first(tmp_path):
    before = kpps.trial(load="50%", duration="2ms").to_json()
    assert "provenance" in json.loads(kpps.device_list().to_json())
    assert kpps.trial(load="50%", duration="2ms").to_json() == before


def test_flags_in_texts_are_keywords():
    assert in_python("unexpected --load <LOAD> and --rx-ring=<N>") == "unexpected load= and rx_ring="
