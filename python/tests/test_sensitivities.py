"""Sensitivities of a study, and machines drawn at random."""

import math

import kpps
import pytest

CONSTANTS = ["host.interrupt_cycles", "host.cache_miss_ps"]


def test_a_constant_moves_the_values_of_a_claim():
    found = kpps.sensitivity("morris2000", constants=CONSTANTS, claim=["M9"], samples=2)
    assert found.constants == CONSTANTS and found.runs == 2 * (len(CONSTANTS) + 1)
    assert "M9.peak_pps" in found.indices and all(name.startswith("M9") for name in found.indices)
    assert all(len(index) == len(CONSTANTS) for of in found.indices.values() for index in of.values())
    assert any(effect > 0 for of in found.indices.values() for effect in of["mu_star"])


def test_the_fitted_constants_of_a_study_are_found():
    found = kpps.sensitivities.fitted("morris2000", ["M1"])
    assert "chip.rx_engine_ps" in found and len(found) >= 3


def test_a_value_that_nothing_moves_has_no_shares():
    found = kpps.sensitivity("morris2000", constants=["host.interrupt_cycles"], share=1e-9, method="sobol", samples=2, claim=["M9"])
    assert all(math.isnan(share) for share in found.indices["M9.peak_pps"]["S1"])


def test_a_constant_that_there_is_not_is_named():
    with pytest.raises(kpps.InputError, match="host profile 'p3-800': there is no entry 'nosuch'; it has cache_line_bytes"):
        kpps.sensitivity("morris2000", constants=["host.nosuch"], claim=["M9"])


def test_wrong_arguments_are_named():
    for wrong, line in [({"seed": "x"}, "seed= is 'x'"), ({"samples": 1}, "samples= is 1"), ({"samples": 3, "method": "sobol"}, "a power of two"),
                        ({"progress": 3}, "progress= is 3"),
                        ({"method": "guess"}, "method= is morris or sobol"), ({"share": 2}, "share= is between 0 and 1")]:
        with pytest.raises(kpps.InputError, match=line):
            kpps.sensitivity("morris2000", constants=CONSTANTS, **wrong)


def test_machines_are_measured_once(tmp_path):
    from kpps.campaigns import beyond

    first = beyond.campaign(1, store=tmp_path, first=301)
    assert first.column("seed").to_pylist() == [301]
    assert beyond.campaign(1, store=tmp_path, first=301).to_pylist() == first.to_pylist()
