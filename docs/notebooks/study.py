# ---
# jupyter:
#   jupytext: {text_representation: {extension: .py, format_name: percent}}
# ---

# %% [markdown]
# # Fit and cross-validation of a study
# Constants of the simulation were fitted on some claims of a paper (`fit`). The others were kept back: whether
# they hold says whether the model is more than its fit.

# %%
import kpps

study = kpps.study("morris2000", claim=["M1", "M2", "M14"])
table = study.to_pandas()[["id", "kind", "says", "verdict"]]
table

# %% [markdown]
# Which constants were fitted, and on which claims? The search is a program: it starts from the bounds that the
# literature gives, and finds what the profiles have.

# %%
fit = kpps.study("morris2000", fit=True)
assert all(row.value == row.committed for row in fit["rows"])
fit.to_pandas()[["constant", "value", "claims"]]

# %% [markdown]
# Each of these claims is left out in turn and predicted from the others. A constant that only the claim left out
# tells of is then in the middle of its bounds.

# %%
left_out = kpps.study("morris2000", cross_validate=True)
errors = {row.claim: f"{100 * row.error:.1f} %" for row in left_out["rows"]}
assert len(errors) == 7
errors

# %% [markdown]
# How much do verdicts depend on a constant? Here one constant is moved by a tenth.

# %%
try:
    moved = kpps.study("morris2000", claim=["M14"], set={"host.interrupt_cycles": "*1.1"})
except kpps.CheckFailed as error:
    # A claim is missed now; the error has what was measured.
    moved = error.result
before = next(claim for claim in study.claims if claim.id == "M14")
after = moved.claims[0]
print(before.verdict, dict(before.get("values") or {}), "->", after.verdict, dict(after.get("values") or {}))
assert before.id == after.id == "M14" and "failed" not in (before.verdict, after.verdict)
