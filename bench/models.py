"""The whole models that are compared, and their files: float32, evoq's .etm, and QDQ ONNX from the
same ranges for peers."""

import os
import shutil
import subprocess
import sys
from dataclasses import dataclass, field

import numpy as np
import onnx
from onnx import numpy_helper

from runners import one_line, run_evoq


@dataclass(frozen=True)
class Model:
    name: str
    file: str = ""  # in the data folder's models/; empty: from evoq's zoo
    # sizes of inputs that the file leaves free beside the batch
    shapes: dict = field(default_factory=dict)
    fixed_batch: bool = False  # the file says 1: the benchmark writes other batches into it


MODELS = [
    Model("resnet18"),
    Model("resnet50"),
    Model("mobilenetv2", "mobilenetv2.onnx"),
    Model("squeezenet1.1", "squeezenet1.1.onnx"),
    Model("tiny_darknet", "tiny_darknet.onnx"),
    Model("yolox_nano", "yolox_nano_bigisland.onnx", fixed_batch=True),
    Model("deeplabv3", "deeplabv3_mnv2_pascal.onnx", {"input": [1, 3, 513, 513]}, fixed_batch=True),
    Model("ultraface", "ultraface_version-slim-320_simplified.onnx", fixed_batch=True),
    Model("bert-base"),
]


def set_batch(model, batch):
    """Writes another batch into a model that says 1. Constant shapes with 1 in front follow:
    Reshape copies the input's first size, Resize takes the batch. Whether the result is right is
    checked by running it (same_samples)."""
    graph = model.graph
    constants = {i.name: i for i in graph.initializer}
    for node in graph.node:
        if node.op_type == "Constant":
            constants.update({node.output[0]: a.t for a in node.attribute if a.name == "value"})
    producers = {o: node for node in graph.node for o in node.output}
    changed = {}

    def replace_first(node, index, first):
        """A copy of a constant input whose first element is 1 gets another one; of a Concat, its
        first input's."""
        name = node.input[index] if len(node.input) > index else ""
        if name in producers and producers[name].op_type == "Concat":
            replace_first(producers[name], 0, first)
        if name in constants:
            value = numpy_helper.to_array(constants[name]).copy()
            if value.ndim == 1 and value.size and value[0] == 1:
                value[0] = first
                node.input[index] = f"{name}_batch{first}"
                changed[node.input[index]] = numpy_helper.from_array(value, node.input[index])

    for node in graph.node:
        if node.op_type == "Reshape":
            replace_first(node, 1, 0)
        if node.op_type == "Resize":
            replace_first(node, 3, batch)
    graph.initializer.extend(changed.values())
    weights = {i.name for i in graph.initializer}
    for i in graph.input:
        if i.name not in weights:
            i.type.tensor_type.shape.dim[0].ClearField("dim_param")
            i.type.tensor_type.shape.dim[0].dim_value = batch
    for o in graph.output:
        o.type.tensor_type.ClearField("shape")
    del graph.value_info[:]
    return model


def same_samples(one, many, batch, shapes):
    """Whether each sample of the batched model gives what the single model gives (ONNX Runtime runs
    both). Returns why not."""
    import onnxruntime as ort

    options = ort.SessionOptions()
    options.log_severity_level = 4
    try:
        a, b = (
            ort.InferenceSession(m, options, providers=["CPUExecutionProvider"])
            for m in (one, many)
        )
        i = a.get_inputs()[0]
        shape = list(shapes.get(i.name) or i.shape)
        x = np.random.default_rng(3).uniform(-1, 1, [batch] + shape[1:]).astype(np.float32)
        together = b.run(None, {i.name: x})
        for k in (0, batch - 1):
            for alone, all_ in zip(a.run(None, {i.name: x[k : k + 1]}), together):
                if all_.shape[0] != batch or not np.allclose(
                    alone[0], all_[k], rtol=1e-3, atol=1e-3
                ):
                    return "the model's batch is 1 and cannot be changed: samples differ"
    except Exception as e:
        return "the model's batch is 1 and cannot be changed: " + one_line(e)
    return None


class Files:
    """Makes files on demand in `folder`; an .etm again when evoq is newer. (Remove the folder to
    export QDQ files anew.)"""

    def __init__(self, evoq, data, folder):
        self.evoq, self.data, self.folder = evoq, data, folder
        os.makedirs(folder, exist_ok=True)

    def path(self, name):
        return os.path.join(self.folder, name)

    def stale(self, path, *sources):
        return not os.path.exists(path) or any(
            os.path.getmtime(path) < os.path.getmtime(s) for s in sources
        )

    def call(self, *arguments):
        return run_evoq([self.evoq, *arguments], self.path(f"call{os.getpid()}.json"))

    def shape_options(self, shapes):
        return [
            o
            for n, s in (shapes or {}).items()
            for o in ("--shape", f"{n}=" + "x".join(map(str, s)))
        ]

    def batched_shapes(self, model, batch):
        return {n: [batch] + s[1:] for n, s in model.shapes.items()}

    def source(self, model, batch=1):
        """The float32 ONNX of a model. ValueError says why there is none of this batch."""
        original = (
            os.path.join(self.data, "models", model.file)
            if model.file
            else self.path(model.name + ".onnx")
        )
        if model.file and not os.path.exists(original):
            raise ValueError(f"{original} is missing (--data)")
        if not os.path.exists(original):
            self.call("zoo", model.name, "-o", original)
        if batch == 1 or not model.fixed_batch:
            return original
        path = self.path(f"{model.name}.batch{batch}.onnx")
        if self.stale(path):
            onnx.save(set_batch(onnx.load(original), batch), path + ".new")
            why = same_samples(original, path + ".new", batch, model.shapes)
            if why:
                raise ValueError(why)
            os.rename(path + ".new", path)
        return path

    def compiled(self, source, name, shapes=None):
        """An .etm of a file as it is."""
        path = self.path(name + ".etm")
        if self.stale(path, self.evoq, source):
            self.call("compile", source, "-o", path, *self.shape_options(shapes))
        return path

    def quantized(self, model, batch=1, scheme="int8", target=None):
        """evoq's .etm, or the QDQ ONNX that it exports for a runtime, from random calibration: for
        speed, not accuracy."""
        single, source = self.source(model), self.source(model, batch)
        ranges = self.path(model.name + ".ranges.json")
        if scheme == "int8" and not os.path.exists(ranges):
            self.call(
                "quantize",
                single,
                "--calib-random",
                "4",
                "--save-ranges",
                ranges,
                "-o",
                self.path("ranges.onnx"),
                *self.shape_options(model.shapes),
            )
            os.remove(self.path("ranges.onnx"))
        suffix = f".batch{batch}" if model.fixed_batch and batch > 1 else ""
        path = self.path(
            f"{model.name}{suffix}.{scheme}" + (f"-{target}.onnx" if target else ".etm")
        )
        if self.stale(path, *([] if target else [self.evoq])):
            options = ["--ranges", ranges] if scheme == "int8" else ["--scheme", scheme]
            options += ["--target", target] if target else []
            self.call(
                "quantize",
                source,
                *options,
                "-o",
                path,
                *self.shape_options(self.batched_shapes(model, batch)),
            )
        return path

    def macs(self, model, batch=1):
        shapes = self.batched_shapes(model, batch)
        counted = self.call("inspect", self.source(model, batch), *self.shape_options(shapes))[
            "macs"
        ]
        return counted * (1 if model.fixed_batch else batch)

    def generated(self, kind):
        """The folder of the files that bench/generate.py writes."""
        here = os.path.dirname(os.path.abspath(__file__))
        scripts = [
            os.path.join(here, f)
            for f in ("generate.py", "onnx_graph.py", "networks.py", "blocks.py", "products.py")
        ]
        folder = self.path(kind)
        if self.stale(folder, *scripts):
            shutil.rmtree(folder, ignore_errors=True)
            subprocess.run(
                [sys.executable, scripts[0], kind, "-o", folder + ".new"],
                check=True,
                stdout=subprocess.DEVNULL,
            )
            os.rename(folder + ".new", folder)
            os.utime(folder)
        return folder
