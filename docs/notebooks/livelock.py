# ---
# jupyter:
#   jupytext: {text_representation: {extension: .py, format_name: percent}}
# ---

# %% [markdown]
# # Receive livelock in ten lines
# Mogul and Ramakrishnan's problem on the machine of Morris 2000: with an interrupt for each frame the CPU does
# nothing else above some load, and delivers nothing.

# %%
import kpps

curve = kpps.curve(
    machine="morris2000",
    driver=["intel-2.5.11", "click-polling", "kpps"],
    load="100kpps..100%/200kpps",
    duration="10ms",
)
curve.plot()

# %%
table = curve.to_pandas()
peak = table.groupby("series.name")["delivered_pps"].max()
last = table.groupby("series.name")["delivered_pps"].last()
(last / peak).round(2)

# %% [markdown]
# The interrupt-driven driver ends at a small share of its peak; the others keep theirs.

# %%
assert last["intel-2.5.11"] < 0.2 * peak["intel-2.5.11"]
assert last["kpps"] > 0.95 * peak["kpps"]
