# ---
# jupyter:
#   jupytext: {text_representation: {extension: .py, format_name: percent}}
# ---

# %% [markdown]
# # The NDR of Linux's bridge
# Two veth pairs, and a bridge between their other ends in a network namespace. It takes root.

# %%
import os
import subprocess

import kpps

if os.geteuid() != 0:
    raise PermissionError("skipped: network namespaces take root")


def ip(*words):
    subprocess.run(["ip", *words], check=True)


name = f"kpps{os.getpid()}"
ip("netns", "add", name)

# %%
try:
    ip("-n", name, "link", "add", "br0", "type", "bridge")
    ip("-n", name, "link", "set", "br0", "up")
    for at in (0, 1):
        mine = f"kn{at}p{os.getpid() % 100_000}"
        ip("link", "add", mine, "type", "veth", "peer", "name", f"p{at}", "netns", name)
        ip("-n", name, "link", "set", f"p{at}", "master", "br0", "up")
        ip("link", "set", mine, "up")
    ports = [f"packet:kn{at}p{os.getpid() % 100_000}" for at in (0, 1)]
    trial = kpps.trial(ports=ports, load="1kpps", duration="300ms", watch=f"{name}/")
    # A search takes half a minute; a precise one takes minutes.
    ndr = kpps.ndr(ports=ports, min="1kpps", max="20kpps", precision="20%", duration="50ms", max_time="5min")
finally:
    ip("netns", "del", name)

# %%
print(trial)
for goal in ndr.goals:
    print(goal.name, goal.lower_pps, "frames/s")
ledger = trial.ledger
dropped = sum(ledger.dropped[place] for place in ledger.dropped)
assert ledger.sent == ledger.delivered + ledger.in_flight + dropped + ledger.unexplained
