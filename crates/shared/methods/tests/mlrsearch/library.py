"""Searches with the library of MLRsearch's authors, for the test beside it.

Reads "LOWEST HIGHEST" for each search. Writes "trial LOAD SECONDS" for each trial and reads "SENT DELIVERED"; at
the end writes "found" and the relevant lower bounds of NDR and PDR.
"""

import dataclasses
import sys

from MLRsearch import AbstractMeasurer, Config, MeasurementResult, MultipleLossRatioSearch, SearchGoal

NDR = SearchGoal(
    loss_ratio=0.0,
    exceed_ratio=0.5,
    relative_width=0.005,
    initial_trial_duration=1.0,
    final_trial_duration=1.0,
    duration_sum=21.0,
    preceding_targets=2,
    expansion_coefficient=2,
    fail_fast=False,
)
PDR = dataclasses.replace(NDR, loss_ratio=0.005)


class Measurer(AbstractMeasurer):
    def measure(self, intended_duration, intended_load):
        print("trial", intended_load, intended_duration, flush=True)
        sent, delivered = map(int, sys.stdin.readline().split())
        return MeasurementResult(
            intended_duration=intended_duration,
            intended_load=intended_load,
            offered_count=sent,
            forwarding_count=delivered,
        )


def lower_pps(result):
    return float(result.relevant_lower_bound or 0.0)


for line in sys.stdin:
    lowest, highest = map(float, line.split())
    config = Config(
        goals=[NDR, PDR], min_load=lowest, max_load=highest, search_duration_max=1e9, warmup_duration=None
    )
    found = MultipleLossRatioSearch(config=config).search(measurer=Measurer(), debug=lambda _: None)
    print("found", lower_pps(found[NDR]), lower_pps(found[PDR]), flush=True)
