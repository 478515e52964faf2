"""The models of the data folder that quantization is measured on, each with calibration samples and
others to measure on: no sample is used for both.

ImageNet: of the 500 images every fifth calibrates (100), the other 400 are measured. CIFAR-10 and
MNIST: training samples calibrate, test samples are measured. magika: 38 of its 76 files each. The
two language models: the first and the second half of one text. Detectors and segmentation have no
labels here: 50 images calibrate, 50 others are measured by signal to noise against float32.
"""

import dataclasses
import json
import os

PLAIN = {"scale": 1.0, "mean": 0, "std": 1}  # pixels of 0 to 255
DETECTORS = {
    "yolox_nano_bigisland": {"color": "BGR", "resize": [416, 416], **PLAIN},
    "fastestdet": {"color": "BGR", "resize": [352, 352]},
    "yunet_n_dynamic": {"color": "BGR", "resize": [320, 320], **PLAIN},
    "ultraface_version-slim-320_simplified": {
        "resize": [240, 320],
        "scale": 1.0,
        "mean": 127,
        "std": 128,
    },
    "deeplabv3_mnv2_pascal": {"resize": [257, 257], "scale": 1 / 127.5, "mean": 1, "std": 1},
}
IMAGENET = ("mobilenetv2", "squeezenet1.1", "tiny_darknet", "squeezenet_fp16_winml")
CIFAR = ("resnet20_cifar10", "resnet56_cifar10", "resnet8_cifar10_mlperf")
LANGUAGE = ("stories260K", "babyllama105")
DETECTED = 50  # images that calibrate, and that are measured


@dataclasses.dataclass(frozen=True)
class Case:
    """One model: what it is calibrated and measured on, as options of `quantize` and of `eval`."""

    name: str
    path: str
    kind: str  # "classes", "outputs" (signal to noise alone) or "text"
    calib: list  # of quantize
    score: list  # of eval
    preprocess: list  # of both


def split(paths, folder):
    """Every fifth file into folder/calib, the others into folder/score, as links."""
    parts = [os.path.join(folder, part) for part in ("calib", "score")]
    for part in parts:
        os.makedirs(part, exist_ok=True)
    for i, path in enumerate(sorted(paths)):
        link = os.path.join(parts[i % 5 != 0], os.path.basename(path))
        if not os.path.lexists(link):
            os.symlink(path, link)
    return parts


def halves_of_magika(data, folder):
    """Two .npz of every second file each: (calibration, measured)."""
    import numpy as np

    files = np.load(f"{data}/magika/tests_basic_v3_3.npz")
    with open(f"{data}/magika/labels_v3_3.json") as f:
        names = json.load(f)
    classes = np.array([names.index(label) for label in files["labels"]], np.int64)
    paths = []
    for part in range(2):
        paths.append(os.path.join(folder, f"magika_{part}.npz"))
        np.savez(paths[-1], bytes=files["bytes"][part::2], labels=classes[part::2])
    return paths


def halves_of_text(data, folder):
    """Two halves of a text: (calibration, measured)."""
    with open(f"{data}/text/tinystories_sample.txt") as f:
        text = f.read()
    cut = text.index("\n", len(text) // 2)
    paths = []
    for part, half in enumerate((text[:cut], text[cut:])):
        paths.append(os.path.join(folder, f"text_{part}.txt"))
        with open(paths[-1], "w") as f:
            f.write(half)
    return paths


def cases(data, folder):
    """All of them; what they need is written below the folder."""
    images = f"{data}/images/imagenet"
    calib, score = split([f"{images}/{n}" for n in os.listdir(images)], folder)
    labels = ["--labels", f"{data}/images/labels.tsv"]
    found = []

    def add(name, kind, calib, score, preprocess=""):
        path = f"{data}/models/{name}.onnx"
        own = f"{data}/models/{name}.preprocess.json"
        file = preprocess or (own if os.path.exists(own) else "")
        found.append(Case(name, path, kind, calib, score, ["--preprocess", file] if file else []))

    hundred = ["--calib-limit", "100"]
    for name in IMAGENET:
        add(name, "classes", ["--calib", calib, *hundred], ["--data", score, *labels])
    for name in CIFAR:
        cifar = f"{data}/cifar10"
        add(
            name,
            "classes",
            ["--calib", f"{cifar}/train_5000.bin", "--calib-limit", "200"],
            ["--data", f"{cifar}/test_1000.bin"],
        )
    digits = f"{data}/mnist"
    add(
        "mnist_cntk",
        "classes",
        ["--calib", f"{digits}/train-images-idx3-ubyte.gz", *hundred],
        [
            "--data",
            f"{digits}/t10k-images-idx3-ubyte.gz",
            "--labels",
            f"{digits}/t10k-labels-idx1-ubyte.gz",
        ],
    )
    known, unknown = halves_of_magika(data, folder)
    add("magika_standard_v3_3", "classes", ["--calib", known], ["--data", unknown])
    for name, steps in DETECTORS.items():
        file = os.path.join(folder, f"{name}.preprocess.json")
        with open(file, "w") as f:
            json.dump(steps, f)
        limit = ["--calib-limit", str(DETECTED)]
        score_limit = ["--data", score, "--limit", str(DETECTED)]
        add(name, "outputs", ["--calib", calib, *limit], score_limit, file)
    return found


def texts(data, folder):
    """The language models: measured by perplexity."""
    known, unknown = halves_of_text(data, folder)
    tokenizers = {"stories260K": "tok512.bin", "babyllama105": "tok105.model"}
    found = []
    for name in LANGUAGE:
        tokenizer = ["--tokenizer", f"{data}/llm/{tokenizers[name]}"]
        found.append(
            Case(
                name,
                f"{data}/models/{name}.onnx",
                "text",
                ["--text", known, *tokenizer],
                ["--text", unknown, *tokenizer],
                [],
            )
        )
    return found
