# %% [markdown]
# # Where did the time go, layer by layer?
# Quantize a model to int8, compare it with its float form, and plot the ledger of every step.
# The cells run in any editor that knows `# %%`, or all at once:
#
#     python examples/python/ledger.py [MODEL.onnx [CALIBRATION.npy]] [--output ledger.png]
#
# Needs `pip install . matplotlib`. Without a model it takes ResNet-18 with random weights.

# %%
import argparse
import os
import tempfile

import matplotlib
import numpy as np

import evoq

matplotlib.use("Agg")
from matplotlib import pyplot  # noqa: E402

parser = argparse.ArgumentParser()
parser.add_argument("model", nargs="?")
parser.add_argument("calibration", nargs="?")
parser.add_argument("--output", default="ledger.png")
parser.add_argument("--duration-s", type=float, default=2)
arguments = parser.parse_args()
folder = tempfile.mkdtemp(prefix="evoq-ledger-")

# %% [markdown]
# ## The model

# %%
model = arguments.model
if model is None:
    model = os.path.join(folder, "resnet18.onnx")
    evoq.tool("zoo", "resnet18", output=model)
facts = evoq.inspect(model)
print(
    f"{os.path.basename(model)}: {facts['nodes']} nodes, {facts['parameters'] / 1e6:.1f} M "
    "parameters"
)
for value in facts["inputs"]:
    print("  input", value["name"], value["dtype"], value["shape"])

# %% [markdown]
# ## Quantize it
# Calibration data is an array whose first axis counts samples. Real images belong here; noise will
# do for a model of noise.

# %%
if arguments.calibration:
    samples = np.load(arguments.calibration)
else:
    sizes = [size if isinstance(size, int) else 1 for size in facts["inputs"][0]["shape"]]
    samples = np.random.default_rng(0).standard_normal([8, *sizes[1:]], dtype=np.float32)
quantized = os.path.join(folder, "quantized.etm")
result = evoq.quantize(model, quantized, calibration=samples)
print(
    f"{result['steps_int8']} of {result['steps_total']} steps are int8, "
    f"{result['input_bytes'] / 1e6:.1f} MB -> {result['output_bytes'] / 1e6:.1f} MB"
)

# %% [markdown]
# ## Do they agree?

# %%
x = samples[:1]
exact = evoq.load(model)(x)
rounded = evoq.load(quantized)(x)
noise = np.linalg.norm(exact - rounded) / np.linalg.norm(exact)
print(f"relative error of the first sample's output: {noise:.3f}")

# %% [markdown]
# ## The ledger

# %%
ledger = evoq.explain(quantized, baseline=model, duration_s=arguments.duration_s)
time = ledger["time"]
print(
    f"float {time['float_ms']:.2f} ms -> ideal {time['ideal_ms']:.2f} ms -> measured "
    f"{time['actual_ms']:.2f} ms"
)
for cause in time["causes"]:
    print(f"  {cause['ms']:+.3f} ms  {cause['code']}: {cause['sentence']}")

# %% [markdown]
# ## The plot: each step's time in int8 and in float, and what was lost on the way

# %%
float_ms = {
    step["name"]: step["ms"]
    for step in evoq.profile(model, duration_s=arguments.duration_s)["steps"]
}
steps = ledger["profile"]["steps"]
height = max(4, 0.16 * len(steps))
figure, (left, right) = pyplot.subplots(
    1, 2, figsize=(13, height), gridspec_kw={"width_ratios": [3, 2]}, layout="constrained"
)
rows = range(len(steps))
left.barh(
    rows,
    [float_ms.get(step["name"], 0) for step in steps],
    height=0.85,
    color="#d5d9e0",
    label="float32",
)
colors = {"int8": "#2f7ed8", "float32": "#d8572f"}
left.barh(
    rows,
    [step["ms"] for step in steps],
    height=0.5,
    color=[colors.get(step["precision"], "#7a8699") for step in steps],
    label="quantized (blue: int8, red: float32)",
)
left.set_yticks(rows, [step["name"][:40] for step in steps], fontsize=6)
left.invert_yaxis()
left.set_xlabel("ms")
left.set_title("time per step")
left.legend(loc="lower right")
causes = [(cause["code"], cause["ms"]) for cause in time["causes"]] + [
    ("unexplained", time["unexplained_ms"])
]
right.barh([code for code, _ in causes], [ms for _, ms in causes], color="#d8572f")
right.invert_yaxis()
right.axvline(0, color="black", linewidth=0.5)
right.set_xlabel("ms over ideal")
right.set_title(f"{time['ideal_ms']:.2f} ms ideal, {time['actual_ms']:.2f} ms measured")
figure.savefig(arguments.output, dpi=110)
print(f"wrote {arguments.output}")
