# ---
# jupyter:
#   jupytext: {text_representation: {extension: .py, format_name: percent}}
# ---

# %% [markdown]
# # A campaign on a local Dask cluster
# The same call runs on a cluster of a hundred machines: only the client differs. What was measured is kept, so
# the second run measures nothing.

# %%
import tempfile

import kpps
from kpps.grids import Dask, Store


def main():
    from distributed import Client

    with Client(n_workers=2, threads_per_worker=1, dashboard_address=None) as client, tempfile.TemporaryDirectory() as folder:
        grid, again = (
            kpps.grid(
                machine="ols2005",
                driver="intel-5.7.6",
                duration="2ms",
                vary={"driver.rx_ring": [64, 128, 256], "load": "20%..100%/20%"},
                executor=Dask(client),
                store=f"{folder}/rows",
            )
            for _ in range(2)
        )
        rows = Store(f"{folder}/rows").read()
    assert grid.to_json() == again.to_json()
    return grid, rows


# %%
# Workers that are processes import this file when it is a script.
if __name__ == "__main__":
    grid, rows = main()
    print(rows.to_pandas()[["driver.rx_ring", "load", "delivered_pps", "loss_ratio"]])
    grid.plot()
