// Rotation of the residual stream: S. Ashkboos, A. Mohtashami, M. L. Croci, B. Li, P. Cameron,
// M. Jaggi, D. Alistarh, T. Hoefler, J. Hensman, "QuaRot: Outlier-Free 4-Bit Inference in Rotated
// LLMs", 2024, section 4, stage 1a. RMSNormalization without a scale turns with what it reads: with
// an orthogonal Q, rms(x Q) = rms(x) Q. So every table and layer that adds to the stream is
// multiplied by Q, scales of normalizations go into the weights behind them, and those are
// multiplied by Q^T. Nothing is computed at run time for it.
#include "quant/hadamard.h"

#include <algorithm>
#include <deque>
#include <set>

#include "ops/op.h"
#include "quant/channel_links.h"
#include "quant/method.h"
#include "quant/plan.h"
#include "quant/rounding_method.h"

namespace evoq {
namespace {

constexpr uint32_t kSeed = 1;

bool IsRmsNormalization(const Node& node) {
  return node.op == "RMSNormalization" && node.domain.empty();
}
bool IsSum(const Node& node) { return node.op == "Add" && node.domain.empty(); }

bool IsMatrixProduct(const Graph& graph, const Node& node) {
  return HasPlainWeights(graph, node) && LinearFormOf(node)->two_operands;
}

// Values that are sums of each other, and what makes and reads them.
struct Stream {
  int64_t size = 0;  // of the last axis of every value
  std::set<ValueId> values;
  std::set<NodeId> tables, writers, norms, readers;
  std::string stopped;  // why no rotation passes through all of it; "": one does
};

class StreamFinder {
 public:
  explicit StreamFinder(const Graph& graph) : graph_(graph) {}

  Stream From(ValueId value) {
    stream_ = {};
    const Shape& shape = graph_.value(value).type.shape;
    if (shape.ranked() && shape.rank() > 0 && shape[shape.rank() - 1].known())
      stream_.size = shape[shape.rank() - 1].value;
    Push(value);
    while (!open_.empty() && stream_.stopped.empty()) {
      const ValueId next = open_.front();
      open_.pop_front();
      Visit(next);
    }
    open_.clear();
    return std::move(stream_);
  }

 private:
  void Push(ValueId value) {
    if (stream_.values.insert(value).second) open_.push_back(value);
  }

  void Stop(ValueId value, const std::string& why) {
    if (stream_.stopped.empty())
      stream_.stopped = fmt::format("{} {}", graph_.value(value).name, why);
  }

  void Visit(ValueId value) {
    const Value& v = graph_.value(value);
    const Shape& shape = v.type.shape;
    if (!shape.ranked() || shape.rank() == 0 || !shape[shape.rank() - 1].known() ||
        shape[shape.rank() - 1].value != stream_.size || v.type.dtype != DType::kFloat32)
      return Stop(value, fmt::format("is {}, expected float32 with {} elements on the last axis",
                                     v.type.ToString(), stream_.size));
    if (graph_.IsOutput(value)) return Stop(value, "is an output of the model");
    if (!v.producer.valid())
      return Stop(value, v.is_constant() ? "is a constant" : "is an input of the model");
    if (!VisitMaker(v.producer))
      return Stop(value, fmt::format("is made by {}, which no rotation passes through",
                                     NodeLabel(graph_.node(v.producer))));
    for (NodeId user : v.users) {
      if (!VisitReader(user, value))
        return Stop(value, fmt::format("is read by {}, which no rotation passes through",
                                       NodeLabel(graph_.node(user))));
    }
  }

  bool VisitMaker(NodeId id) {
    const Node& node = graph_.node(id);
    if (IsConstantTable(graph_, node)) {
      const Tensor& table = *graph_.ConstantInput(node, 0);
      stream_.tables.insert(id);
      return node.attrs.Int("axis", 0) == 0 && table.dtype() == DType::kFloat32 &&
             table.layout().empty() && table.shape().rank() == 2;
    }
    if (IsMatrixProduct(graph_, node)) {
      const Result<Activation> activation = ActivationFromAttrs(node.attrs);
      if (!activation || activation->kind != ActivationKind::kNone) return false;
      stream_.writers.insert(id);
      if (node.input(3).valid()) Push(node.input(3));
      return true;
    }
    if (IsSum(node)) {
      Push(node.input(0));
      Push(node.input(1));
      return true;
    }
    if (!PicksRows(node)) return false;
    Push(node.input(0));
    return true;
  }

  bool VisitReader(NodeId id, ValueId value) {
    const Node& node = graph_.node(id);
    if (GivesSizes(node)) return true;
    if (IsRmsNormalization(node)) return VisitNorm(id);
    if (IsSum(node) || (PicksRows(node) && node.input(0) == value)) {
      Push(node.outputs[0]);
      return true;
    }
    if (!IsMatrixProduct(graph_, node)) return false;
    if (node.input(0) == value) stream_.readers.insert(id);
    if (node.input(3) == value) Push(node.outputs[0]);
    return true;
  }

  // Its scale goes into the weights behind it, which alone read it.
  bool VisitNorm(NodeId id) {
    const Node& node = graph_.node(id);
    const Tensor* scale = graph_.ConstantInput(node, 1);
    const int rank = graph_.value(node.outputs[0]).type.shape.rank();
    if (scale == nullptr || scale->dtype() != DType::kFloat32 || scale->shape().rank() != 1 ||
        scale->elements() != stream_.size)
      return false;
    const std::vector<NodeId> readers =
        ChannelReaders(graph_, node.outputs[0], rank - 1, rank, stream_.size);
    stream_.norms.insert(id);
    stream_.readers.insert(readers.begin(), readers.end());
    return !readers.empty() && std::ranges::all_of(readers, [&](NodeId reader) {
      return IsMatrixProduct(graph_, graph_.node(reader));
    });
  }

  // Of input 0 rows along its last axis, whole.
  bool PicksRows(const Node& node) const {
    if (node.op != "GatherND" || !node.domain.empty()) return false;
    const Shape& indices = graph_.value(node.input(1)).type.shape;
    const Shape& data = graph_.value(node.input(0)).type.shape;
    if (!indices.ranked() || !data.ranked() || !indices[indices.rank() - 1].known()) return false;
    return node.attrs.Int("batch_dims", 0) + indices[indices.rank() - 1].value < data.rank();
  }

  const Graph& graph_;
  Stream stream_;
  std::deque<ValueId> open_;
};

class Rotator {
 public:
  Rotator(Graph& graph, const Rotation& rotation) : graph_(graph), rotation_(rotation) {}

  void Run(const Stream& stream) {
    for (NodeId id : stream.norms) FoldScale(id);
    for (NodeId id : stream.readers) Replace(id, 1, [&](Tensor& w) { RotateColumns(w); });
    for (NodeId id : stream.writers) {
      Replace(id, 1, [&](Tensor& w) { RotateRows(w); });
      if (graph_.node(id).input(2).valid()) Replace(id, 2, [&](Tensor& b) { RotateRows(b); });
    }
    for (NodeId id : stream.tables) Replace(id, 0, [&](Tensor& t) { RotateRows(t); });
  }

 private:
  template <typename Change>
  void Replace(NodeId id, size_t input, const Change& change) {
    const ValueId old = graph_.node(id).input(input);
    Tensor changed = graph_.value(old).constant.Clone();
    change(changed);
    graph_.SetInput(id, input,
                    graph_.AddConstant(graph_.value(old).name + ".rotated", std::move(changed)));
  }

  void FoldScale(NodeId id) {
    const Node& node = graph_.node(id);
    const auto scale = graph_.ConstantInput(node, 1)->values<float>();
    const std::vector<double> factors(scale.begin(), scale.end());
    const std::vector<NodeId> readers = graph_.value(node.outputs[0]).users;
    for (NodeId reader : readers) ScaleInputs(graph_, reader, factors);
    Replace(id, 1, [](Tensor& s) { std::fill_n(s.mutable_data<float>(), s.elements(), 1.0f); });
  }

  // Each row x becomes x Q.
  void RotateRows(Tensor& t) const {
    float* x = t.mutable_data<float>();
    std::vector<double> row(static_cast<size_t>(rotation_.size()));
    for (int64_t i = 0; i < t.elements(); i += rotation_.size(), x += rotation_.size()) {
      std::copy_n(x, rotation_.size(), row.begin());
      rotation_.Apply(row);
      std::ranges::transform(row, x, [](double v) { return static_cast<float>(v); });
    }
  }

  // Each column x becomes Q^T x.
  void RotateColumns(Tensor& t) const {
    const int64_t columns = t.sizes()[1];
    float* x = t.mutable_data<float>();
    std::vector<double> column(static_cast<size_t>(rotation_.size()));
    for (int64_t n = 0; n < columns; ++n) {
      for (int64_t k = 0; k < rotation_.size(); ++k) column[k] = x[k * columns + n];
      rotation_.Apply(column);
      for (int64_t k = 0; k < rotation_.size(); ++k)
        x[k * columns + n] = static_cast<float>(column[k]);
    }
  }

  Graph& graph_;
  const Rotation& rotation_;
};

Status Run(MethodRun& run) {
  if (!run.ranges.empty() && !run.data.samples)
    return Fail(ErrorCode::kUsage,
                "ranges are of values that it rotates: it needs samples to observe them anew");
  std::set<ValueId> seen;
  std::vector<std::string> stopped;
  int rotated = 0;
  const std::vector<NodeId> nodes = run.graph.order();
  for (NodeId id : nodes) {
    const Node& node = run.graph.node(id);
    if (!IsRmsNormalization(node) || seen.contains(node.input(0))) continue;
    Stream stream = StreamFinder(run.graph).From(node.input(0));
    seen.insert(stream.values.begin(), stream.values.end());
    const auto rotation = Rotation::Of(stream.size, kSeed);
    if (stream.stopped.empty() && !rotation)
      stream.stopped = fmt::format("{} has {} channels, for which it has no Hadamard matrix",
                                   run.graph.value(node.input(0)).name, stream.size);
    if (!stream.stopped.empty()) {
      stopped.push_back(stream.stopped);
      continue;
    }
    Rotator(run.graph, *rotation).Run(stream);
    ++rotated;
  }
  if (rotated == 0)
    return Fail(ErrorCode::kUnsupported, "it does not reach the values of this model: {}",
                stopped.empty() ? "there is no RMSNormalization" : stopped[0]);
  for (const std::string& why : stopped)
    run.warnings.push_back(fmt::format("hadamard leaves values as they are: {}", why));
  run.recalibrate = true;
  return {};
}

}  // namespace

extern const QuantMethod kMethodHadamard = {
    .name = "hadamard",
    .doc =
        "The values between layers of Llama-like models are rotated by a Hadamard matrix with "
        "random signs, which spreads outliers over all channels: folded into the tables and "
        "weights, scales of RMSNormalization into the weights behind them.",
    .paper = "Ashkboos et al. 2024, arXiv:2404.00456",
    .stage = MethodStage::kFloat,
    .refuses = RoundsNoWeights,
    .run = Run,
};

}  // namespace evoq
