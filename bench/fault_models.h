// Models with a fault that costs time or bytes, each beside the same model without it: for the
// benchmark that holds `explain` to the true cost, and for the tests of what it names.
#pragma once

#include <algorithm>
#include <cmath>
#include <functional>
#include <set>
#include <string>
#include <vector>

#include "certify/samples.h"
#include "engine/engine.h"
#include "models/models.h"
#include "onnx/onnx.h"
#include "program/etm.h"
#include "quant/quant.h"
#include "reference/reference.h"
#include "workflow/calibrate.h"
#include "zoo/zoo.h"

namespace evoq {

// Optimized graphs. `real`: the float model that `faulty` was made from: explain's baseline.
struct PlantedFault {
  std::string code;  // of the ExplainRule that must name it
  Graph real, sound, faulty;
};

struct FaultModel {
  Graph graph;  // float, optimized
  Ranges ranges;
};

// Deterministic weights in [-scale, scale].
inline Tensor FaultWeights(const Shape& shape, float scale, uint32_t state) {
  Tensor w = Tensor::Allocate(TensorType(DType::kFloat32, shape));
  for (float *v = w.mutable_data<float>(), *end = v + w.elements(); v != end; ++v) {
    state = state * 1664525u + 1013904223u;
    *v = (static_cast<float>(state >> 8) * 0x1p-23f - 1) * scale;
  }
  return w;
}

// Eight 1x1 convolutions of 64 channels on 56 x 56: little arithmetic for their bytes, so that
// conversions weigh.
inline Graph Pointwise() {
  Graph g;
  g.name = "pointwise";
  ValueId x = g.AddInput("input", TensorType(DType::kFloat32, Shape{1, 64, 56, 56}));
  for (int i = 1; i <= 8; ++i) {
    const Tensor w = FaultWeights(Shape{64, 64, 1, 1}, 0.3f, static_cast<uint32_t>(i));
    x = g.Apply("Conv", fmt::format("conv_{}", i),
                {x, g.AddConstant(fmt::format("conv_{}.w", i), w)});
    x = g.Apply("Relu", fmt::format("relu_{}", i), {x});
  }
  g.MarkOutput(x);
  return g;
}

// The shape of MLPerf Tiny's ResNet-8: three residual blocks of 16, 32 and 64 channels on 3 x 32 x
// 32, a pool, ten classes.
inline Graph Residual8() {
  Graph g;
  g.name = "resnet8";
  const auto conv = [&](const std::string& name, ValueId x, int64_t in, int64_t out, int64_t kernel,
                        int64_t stride) {
    const float scale = 1.7f / std::sqrt(static_cast<float>(in * kernel * kernel));
    const ValueId w =
        g.AddConstant(name + ".w", FaultWeights(Shape{out, in, kernel, kernel}, scale,
                                                static_cast<uint32_t>(in * 7 + out + kernel)));
    const int64_t pad = kernel / 2;
    Attrs attrs;
    attrs.Set("pads", std::vector<int64_t>{pad, pad, pad, pad});
    attrs.Set("strides", std::vector<int64_t>{stride, stride});
    return g.Apply("Conv", name, {x, w}, std::move(attrs));
  };
  ValueId x = g.AddInput("input", TensorType(DType::kFloat32, Shape{1, 3, 32, 32}));
  x = g.Apply("Relu", "relu_1", {conv("conv_1", x, 3, 16, 3, 1)});
  int64_t in = 16;
  for (int64_t out : {16, 32, 64}) {
    const std::string block = fmt::format("block_{}", out);
    const int64_t stride = out == in ? 1 : 2;
    ValueId y =
        g.Apply("Relu", block + ".relu_1", {conv(block + ".conv_1", x, in, out, 3, stride)});
    y = conv(block + ".conv_2", y, out, out, 3, 1);
    if (stride == 2) x = conv(block + ".shortcut", x, in, out, 1, 2);
    x = g.Apply("Relu", block + ".relu_2", {g.Apply("Add", block + ".sum", {y, x})});
    in = out;
  }
  x = g.Apply("Flatten", "flatten", {g.Apply("GlobalAveragePool", "pool", {x})});
  x = g.Apply("MatMul", "classes",
              {x, g.AddConstant("classes.w", FaultWeights(Shape{64, 10}, 0.2f, 5))});
  g.MarkOutput(x);
  return g;
}

// "pointwise", "resnet8", or a model of the zoo or of an ONNX file (NAME.onnx) on one image of 224
// x 224.
inline Result<FaultModel> MakeFaultModel(const std::string& name, int threads) {
  const ZooModel* zoo = FindZooModel(name);
  const bool file = name.ends_with(".onnx");
  if (zoo == nullptr && !file && name != "pointwise" && name != "resnet8")
    return Fail(ErrorCode::kUsage, "no model {}", name);
  FaultModel m;
  if (file) {
    EVOQ_ASSIGN(m.graph, ImportOnnx(name));
  } else {
    m.graph = zoo != nullptr ? zoo->build({}) : name == "resnet8" ? Residual8() : Pointwise();
  }
  InputShapes shapes;
  if (zoo != nullptr || file) shapes[m.graph.value(m.graph.inputs()[0]).name] = {1, 3, 224, 224};
  EVOQ_TRY(InferTypes(m.graph));
  EVOQ_TRY(BindShapes(m.graph, shapes));
  EVOQ_TRY(RunPasses(m.graph, Stage::kOptimize));
  EVOQ_ASSIGN(const Samples samples, RandomInputs(m.graph, {}, 1));
  EVOQ_ASSIGN(m.ranges, RangesOf(m.graph, samples.inputs[0], threads));
  return m;
}

inline Result<Graph> Quantized(Graph graph, const Ranges& ranges,
                               std::vector<std::string> exclude = {}) {
  QuantizeOptions options;
  options.exclude = std::move(exclude);
  EVOQ_ASSIGN(const QuantizeReport report, QuantizeStatic(graph, ranges, options));
  if (report.nodes[Precision::kInt8] == 0)
    return Fail(ErrorCode::kInternal, "nothing was quantized");
  return graph;
}

// The convolutions of a float graph in execution order.
inline std::vector<NodeId> Convolutions(const Graph& graph) {
  std::vector<NodeId> found;
  for (NodeId id : graph.order()) {
    if (graph.node(id).op == "Conv") found.push_back(id);
  }
  return found;
}

// A Q/DQ pair before each of the convolutions from `first` to `last`, which stay float: two passes
// over its input.
inline Result<PlantedFault> ExtraQdqBeforeFloat(const FaultModel& m, size_t first, size_t last) {
  std::vector<std::string> names;
  const std::vector<NodeId> convs = Convolutions(m.graph);
  for (size_t i = first; i <= last; ++i) names.push_back(m.graph.node(convs[i]).name);
  PlantedFault fault{"extra-conversion", m.graph, {}, {}};
  EVOQ_ASSIGN(fault.sound, Quantized(m.graph, m.ranges, names));
  fault.faulty = fault.sound;
  Graph& graph = fault.faulty;
  for (const std::string& name : names) {
    const NodeId id = graph.FindNode(name);
    const ValueId x = graph.node(id).input(0);
    const TensorType real = graph.value(x).type;
    const ValueId q =
        graph.Apply("QuantizeLinear", name + ".planted_q", {x}, {},
                    TensorType(DType::kUint8, real.shape, QuantParams::PerTensor(0.05f, 7)));
    graph.SetInput(id, 0, graph.Apply("DequantizeLinear", name + ".planted_dq", {q}, {}, real));
  }
  EVOQ_TRY(graph.Sort());
  return fault;
}

// A Q/DQ pair of another scale before a convolution of a chain of integers: a table in the
// convolution before it.
inline Result<PlantedFault> ExtraQdq(const FaultModel& m, size_t conv) {
  PlantedFault fault{"extra-conversion", m.graph, {}, {}};
  EVOQ_ASSIGN(fault.sound, Quantized(m.graph, m.ranges));
  fault.faulty = fault.sound;
  Graph& graph = fault.faulty;
  const NodeId id = graph.FindNode(m.graph.node(Convolutions(m.graph)[conv]).name);
  const ValueId x = graph.node(id).input(0);
  const TensorType bytes = graph.value(x).type;
  const ValueId dq = graph.Apply("DequantizeLinear", "planted_dq", {x}, {}, bytes.Dequantized());
  const TensorType other(
      bytes.dtype, bytes.shape,
      QuantParams::PerTensor(bytes.quant->scales[0] * 1.25f, bytes.quant->zero_points[0]));
  graph.SetInput(id, 0, graph.Apply("QuantizeLinear", "planted_q", {dq}, {}, other));
  EVOQ_TRY(graph.Sort());
  return fault;
}

inline Result<PlantedFault> ExcludedLayer(const FaultModel& m, size_t conv) {
  PlantedFault fault{"excluded", m.graph, {}, {}};
  EVOQ_ASSIGN(fault.sound, Quantized(m.graph, m.ranges));
  EVOQ_ASSIGN(fault.faulty,
              Quantized(m.graph, m.ranges, {m.graph.node(Convolutions(m.graph)[conv]).name}));
  return fault;
}

// An operator without integer arithmetic before a convolution.
inline Result<PlantedFault> NoIntegerKernel(const FaultModel& m, size_t conv,
                                            const std::string& op) {
  PlantedFault fault{"no-int8-kernel", m.graph, {}, {}};
  EVOQ_ASSIGN(fault.sound, Quantized(m.graph, m.ranges));
  Graph& real = fault.real;
  const NodeId id = Convolutions(real)[conv];
  const ValueId x = real.node(id).input(0);
  Attrs attrs;
  if (op == "LRN") attrs.Set("size", 3);
  if (op == "LpNormalization") attrs.Set("axis", 1);
  const ValueId y = real.Apply(op, "planted", {x}, attrs, real.value(x).type);
  for (NodeId user : std::vector<NodeId>(real.value(x).users)) {
    if (user != real.value(y).producer && user == id) real.SetInput(user, 0, y);
  }
  EVOQ_TRY(real.Sort());
  Ranges ranges = m.ranges;
  ranges[real.value(y).name] = ranges.at(real.value(x).name);
  EVOQ_ASSIGN(fault.faulty, Quantized(real, ranges));
  return fault;
}

// The convolutions from `first` to `last` find their inputs' scales at each run.
inline Result<PlantedFault> DynamicScales(const FaultModel& m, size_t first, size_t last) {
  PlantedFault fault{"scale-is-dynamic", m.graph, {}, {}};
  EVOQ_ASSIGN(fault.sound, Quantized(m.graph, m.ranges));
  QuantizeOptions others;
  const std::vector<NodeId> convs = Convolutions(m.graph);
  std::set<std::string> dynamic;
  for (size_t i = first; i <= last; ++i) dynamic.insert(m.graph.node(convs[i]).name);
  for (NodeId id : m.graph.order()) {
    if (!dynamic.count(m.graph.node(id).name)) others.exclude.push_back(m.graph.node(id).name);
  }
  Graph graph = m.graph;
  Ranges ranges = m.ranges;
  EVOQ_ASSIGN(const QuantizeReport report, QuantizeDynamic(graph, others));
  // What such a convolution writes has the range that the convolution's result had: the last node
  // of its chain writes it.
  for (const std::string& name : dynamic) {
    for (const char* last : {"_activation", "_sum", "_biased", "_scaled"}) {
      const NodeId id = graph.FindNode(name + last);
      if (!id.valid()) continue;
      ranges[graph.value(graph.node(id).outputs[0]).name] =
          m.ranges.at(m.graph.value(m.graph.node(m.graph.FindNode(name)).outputs[0]).name);
      break;
    }
  }
  EVOQ_ASSIGN(fault.faulty, Quantized(std::move(graph), ranges));
  return fault;
}

// Convolution `copy` has the weights of `original`: as the same initializer in `sound`, as one of
// its own in `faulty`.
inline Result<PlantedFault> WeightsTwice(const FaultModel& m, size_t original, size_t copy) {
  PlantedFault fault{"duplicates", m.graph, {}, {}};
  const std::vector<NodeId> convs = Convolutions(m.graph);
  const ValueId w = m.graph.node(convs[original]).input(1);
  Graph shared = m.graph, twice = m.graph;
  shared.SetInput(convs[copy], 1, w);
  twice.SetConstant(twice.node(convs[copy]).input(1), m.graph.value(w).constant);
  // Equalizing would scale the two differently.
  QuantizeOptions options;
  options.equalize = false;
  for (auto& [graph, to] :
       {std::pair<Graph*, Graph*>{&shared, &fault.sound}, {&twice, &fault.faulty}}) {
    EVOQ_ASSIGN(const QuantizeReport report, QuantizeStatic(*graph, m.ranges, options));
    *to = std::move(*graph);
  }
  return fault;
}

}  // namespace evoq
