"""A plugin for pytest that gates a router or a driver: the fixture `kpps_bench`.

    def test_the_router_keeps_its_rate(kpps_bench):
        assert kpps_bench.ndr(ports=("packet:a", "packet:b")) > 400e3
        kpps_bench.keeps("router", lambda: kpps.trial(ports=("packet:a", "packet:b"), load="300kpps"))

`pytest --kpps-baseline FOLDER` compares with what is stored there, by the statistics of `kpps compare`;
`--kpps-store` stores what is measured instead.
"""

from __future__ import annotations

import pathlib

import pytest


def pytest_addoption(parser):
    group = parser.getgroup("kpps")
    group.addoption("--kpps-baseline", metavar="FOLDER", default="kpps-baseline", help="results to compare with")
    group.addoption("--kpps-store", action="store_true", help="store results as the baseline, and compare nothing")


class Bench:
    """Measures for a test. Every function of kpps is here, too: it fails the test as it raises."""

    def __init__(self, folder, stores: bool):
        self.folder, self.stores = pathlib.Path(folder), stores

    def __getattr__(self, name):
        import kpps

        return getattr(kpps, name)

    def ndr(self, **named) -> float:
        """The highest load without loss, in frames per second: its lower bound. Fails the test if the search found
        none."""
        import kpps

        found = kpps.ndr(**named).goals[0].lower_pps
        if found is None:
            pytest.fail("the search found no load without loss", pytrace=False)
        return found

    def keeps(self, name: str, measure, repetitions: int = 8, **criteria) -> None:
        """Fails if what `measure` returns is worse than the stored baseline of this name. Both sides are
        measured so often; `criteria` are arguments of `kpps.compare`, as threshold="2%"."""
        import kpps

        path = self.folder / f"{name}.json"
        results = [measure() for _ in range(repetitions)]
        if self.stores:
            self.folder.mkdir(parents=True, exist_ok=True)
            path.write_text("".join(result.to_json() for result in results))
            return
        if not path.exists():
            pytest.fail(f"there is no baseline {path}: make it with --kpps-store", pytrace=False)
        try:
            kpps.compare(path, results, **criteria)
        except kpps.CheckFailed as error:
            pytest.fail(f"{error}\n{error.result}", pytrace=False)


@pytest.fixture
def kpps_bench(request) -> Bench:
    """Measurements that gate a system under test."""
    return Bench(request.config.getoption("--kpps-baseline"), request.config.getoption("--kpps-store"))
