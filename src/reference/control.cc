// If, Loop, Scan, SequenceMap: operators that evaluate subgraphs.
#include "ops/control.h"

#include <algorithm>
#include <cstring>
#include <limits>

#include "base/memory.h"
#include "ops/driver.h"
#include "reference/control.h"
#include "reference/definition.h"
#include "reference/reference.h"
#include "reference/util.h"

namespace evoq {
namespace {

// Subgraphs by their definition.
RunBody ByDefinition(const Node& node) {
  return [&node](size_t body, std::span<const Tensor> inputs) {
    return EvaluateGraph(*node.bodies[body], inputs);
  };
}

Result<std::vector<Tensor>> Run(const RunBody& run, const Node& node, size_t body,
                                std::span<const Tensor> inputs) {
  return WithContext(run(body, inputs), [&] { return "subgraph " + node.bodies[body]->name; });
}

// What the rounds of a loop keep: states, of which the next ones are made, and rows, which are
// stacked in the end.
class Held {
 public:
  void AddRow(const Tensor& row) { rows_ += FootprintBytes(row); }
  // Errors: kTooLarge where the next round or the end could exceed what the process may hope for.
  Status Check(std::span<const Tensor> states, int64_t round) const {
    int64_t bytes = 0;
    for (const Tensor& state : states) bytes += FootprintBytes(state);
    if (bytes <= limit_ && rows_ <= limit_) return {};
    return Fail(
        ErrorCode::kTooLarge,
        "after {} rounds its states take {} bytes and its rows {}, expected at most {} each",
        round + 1, bytes, rows_, limit_);
  }

 private:
  const int64_t limit_ = MemoryLimitBytes() / 4;
  int64_t rows_ = 0;
};

// ---- If(condition, captured...): the outputs of bodies[0] when true, else of bodies[1].

EvalResult RunIf(const EvalArgs& args, const RunBody& run) {
  EVOQ_ASSIGN(const bool taken, ConditionOf(args.inputs[0]));
  return Run(run, args.node, taken ? 0 : 1, args.inputs.subspan(1));
}

// ---- Loop(count?, condition?, states..., captured...): body(i, condition, states..., captured...)
// -> condition, states..., rows...; while the condition holds and i < count. Outputs: the last
// states, then the rows of all rounds stacked.

EvalResult RunLoop(const EvalArgs& args, const RunBody& run) {
  EVOQ_ASSIGN(const LoopSizes sizes, LoopSizesOf(args.node));
  const int64_t count =
      args.has(0) ? args.inputs[0].data<int64_t>()[0] : std::numeric_limits<int64_t>::max();
  bool condition = true;
  if (args.has(1)) {
    EVOQ_ASSIGN(condition, ConditionOf(args.inputs[1]));
  }
  std::vector<Tensor> inputs(args.inputs.begin(), args.inputs.end());
  std::vector<std::vector<Tensor>> rows(sizes.rows);
  Held held;
  for (int64_t i = 0; i < count && condition; ++i) {
    inputs[0] = Tensor::Scalar<int64_t>(i);
    inputs[1] = Tensor::Scalar(condition);
    EVOQ_ASSIGN(std::vector<Tensor> outputs, Run(run, args.node, 0, inputs));
    EVOQ_ASSIGN(condition, ConditionOf(outputs[0]));
    for (size_t s = 0; s < sizes.states; ++s) inputs[2 + s] = outputs[1 + s];
    for (size_t r = 0; r < sizes.rows; ++r) {
      rows[r].push_back(outputs[1 + sizes.states + r]);
      held.AddRow(rows[r].back());
    }
    EVOQ_TRY(held.Check(std::span(inputs).subspan(2, sizes.states), i));
  }
  std::vector<Tensor> results(inputs.begin() + 2,
                              inputs.begin() + 2 + static_cast<int64_t>(sizes.states));
  for (size_t r = 0; r < sizes.rows; ++r) {
    TensorType empty = sizes.states + r < args.output_types.size()
                           ? args.output_types[sizes.states + r]
                           : TensorType();
    EVOQ_ASSIGN(Tensor stacked, Stacked(rows[r], 0, empty));
    results.push_back(std::move(stacked));
  }
  return results;
}

// ---- Scan(states..., sequences..., captured...): body(states..., rows..., captured...) ->
// states..., rows...; once for each row of the sequences along their axes. Outputs: the last
// states, then the rows of all rounds stacked along their axes.

EvalResult RunScan(const EvalArgs& args, const RunBody& run) {
  EVOQ_ASSIGN(const ScanPlan p, ScanPlanOf(args.node));
  std::vector<Tensor> inputs(args.inputs.begin(), args.inputs.end());
  std::vector<int> axes;
  int64_t length = -1;
  for (size_t s = 0; s < p.sequences; ++s) {
    const Tensor& x = args.inputs[p.states + s];
    EVOQ_ASSIGN(const int axis, NormalizeAxis(p.in_axes[s], x.shape().rank()));
    axes.push_back(axis);
    if (length >= 0 && x.sizes()[axis] != length)
      return InvalidInput("sequences of {} and {} rows, expected equal lengths", length,
                          x.sizes()[axis]);
    length = x.sizes()[axis];
  }
  std::vector<std::vector<Tensor>> rows(p.rows);
  Held held;
  for (int64_t i = 0; i < length; ++i) {
    for (size_t s = 0; s < p.sequences; ++s) {
      EVOQ_ASSIGN(inputs[p.states + s], TakeAlong(args.inputs[p.states + s], axes[s],
                                                  p.in_backwards[s] ? length - 1 - i : i));
    }
    EVOQ_ASSIGN(std::vector<Tensor> outputs, Run(run, args.node, 0, inputs));
    std::copy_n(outputs.begin(), p.states, inputs.begin());
    for (size_t r = 0; r < p.rows; ++r) {
      rows[r].push_back(outputs[p.states + r]);
      held.AddRow(rows[r].back());
    }
    EVOQ_TRY(held.Check(std::span(inputs).first(p.states), i));
  }
  std::vector<Tensor> results(inputs.begin(), inputs.begin() + static_cast<int64_t>(p.states));
  for (size_t r = 0; r < p.rows; ++r) {
    if (p.out_backwards[r]) std::reverse(rows[r].begin(), rows[r].end());
    const TensorType empty =
        p.states + r < args.output_types.size() ? args.output_types[p.states + r] : TensorType();
    const int rank = rows[r].empty() ? 0 : rows[r][0].shape().rank();
    EVOQ_ASSIGN(const int axis,
                rows[r].empty() ? Result<int>(0) : NormalizeAxis(p.out_axes[r], rank + 1));
    EVOQ_ASSIGN(Tensor stacked, Stacked(rows[r], axis, empty));
    results.push_back(std::move(stacked));
  }
  return results;
}

// ---- SequenceMap(sequence, others..., captured...): body once for each item of the sequence, and
// of the others that are sequences, which have as many. Outputs: sequences of what the body gives.

EvalResult RunSequenceMap(const EvalArgs& args, const RunBody& run) {
  EVOQ_ASSIGN(const size_t own, OwnInputs(args.node, 1));
  const size_t count = args.inputs[0].items().size();
  std::vector<std::vector<Tensor>> results(args.node.bodies[0]->outputs().size());
  std::vector<Tensor> inputs(args.inputs.begin(), args.inputs.end());
  Held held;
  for (size_t k = 0; k < count; ++k) {
    for (size_t i = 0; i < own; ++i) {
      if (args.inputs[i].type().is_tensor()) continue;
      if (args.inputs[i].items().size() != count)
        return InvalidInput("sequences of {} and {} items", count, args.inputs[i].items().size());
      inputs[i] = args.inputs[i].items()[k];
    }
    EVOQ_ASSIGN(std::vector<Tensor> outputs, Run(run, args.node, 0, inputs));
    for (size_t i = 0; i < outputs.size(); ++i) {
      held.AddRow(outputs[i]);
      results[i].push_back(std::move(outputs[i]));
    }
    EVOQ_TRY(held.Check({}, static_cast<int64_t>(k)));
  }
  std::vector<Tensor> sequences;
  for (size_t i = 0; i < results.size(); ++i) {
    const TensorType type = i < args.output_types.size() ? args.output_types[i] : TensorType();
    sequences.push_back(Tensor::Of(ValueKind::kSequence, TensorType(type.dtype, type.shape),
                                   std::move(results[i])));
  }
  return sequences;
}

}  // namespace

Result<Tensor> TakeAlong(const Tensor& x, int axis, int64_t i) {
  EVOQ_ASSIGN(const int64_t width, ElementBytes(x));
  std::vector<int64_t> sizes = x.sizes();
  const AxisSplit split = SplitAt(sizes, axis);
  sizes.erase(sizes.begin() + axis);
  Tensor y = Tensor::Allocate(TensorType(x.dtype(), Shape(sizes)));
  const size_t bytes = static_cast<size_t>(split.inner * width);
  for (int64_t o = 0; o < split.outer && bytes > 0; ++o)
    std::memcpy(y.mutable_raw() + static_cast<size_t>(o) * bytes,
                x.raw() + static_cast<size_t>(o * split.size + i) * bytes, bytes);
  return y;
}

Result<Tensor> Stacked(std::span<const Tensor> rows, int axis, const TensorType& empty) {
  if (rows.empty()) {
    TensorType type(empty.dtype, empty.shape);
    if (!type.shape.ranked()) type.shape = Shape{0};
    for (Dim& dim : type.shape.mutable_dims()) dim = dim.known() ? dim : Dim(0);
    return AllocateOutput(type);
  }
  EVOQ_ASSIGN(const int64_t width, ElementBytes(rows[0]));
  std::vector<int64_t> sizes = rows[0].sizes();
  const int64_t count = static_cast<int64_t>(rows.size());
  sizes.insert(sizes.begin() + axis, count);
  EVOQ_ASSIGN(Tensor y, AllocateOutput(TensorType(rows[0].dtype(), Shape(sizes))));
  const AxisSplit split = SplitAt(sizes, axis);
  const size_t bytes = static_cast<size_t>(split.inner * width);
  for (int64_t i = 0; i < count; ++i) {
    if (rows[i].type() != rows[0].type())
      return InvalidInput("rows of {} and {}, expected equal shapes", rows[0].type().ToString(),
                          rows[i].type().ToString());
    for (int64_t o = 0; o < split.outer && bytes > 0; ++o)
      std::memcpy(y.mutable_raw() + static_cast<size_t>(o * count + i) * bytes,
                  rows[i].raw() + static_cast<size_t>(o) * bytes, bytes);
  }
  return y;
}

namespace {

using RunControl = EvalResult (*)(const EvalArgs& args, const RunBody& run);

template <RunControl kRun>
EvalResult Evaluate(const EvalArgs& args) {
  return kRun(args, ByDefinition(args.node));
}

constexpr std::pair<std::string_view, RunControl> kControls[] = {
    {"If", RunIf}, {"Loop", RunLoop}, {"Scan", RunScan}, {"SequenceMap", RunSequenceMap}};

}  // namespace

Result<std::vector<Tensor>> EvaluateControl(const Node& node, std::span<const Tensor> inputs,
                                            std::span<const TensorType> output_types,
                                            const RunBody& run) {
  const auto control = std::find_if(std::begin(kControls), std::end(kControls),
                                    [&](const auto& c) { return node.op == c.first; });
  EVOQ_CHECK(control != std::end(kControls), "{} has no subgraphs", node.op);
  std::vector<Tensor> real(inputs.begin(), inputs.end());
  for (Tensor& t : real) {
    if (!t.defined() || !t.type().quantized()) continue;
    EVOQ_ASSIGN(t, ToFloat32(t));
  }
  EVOQ_ASSIGN(std::vector<Tensor> outputs,
              WithContext(control->second(
                              {.node = node, .inputs = real, .output_types = output_types}, run),
                          [&] { return NodeLabel(node); }));
  for (size_t i = 0; i < outputs.size() && i < output_types.size(); ++i) {
    if (!output_types[i].quantized() || !outputs[i].defined()) continue;
    TensorType type = output_types[i];
    type.shape = outputs[i].shape();
    EVOQ_ASSIGN(outputs[i], QuantizeTensor(outputs[i], type));
  }
  return outputs;
}

namespace reference {

extern const Definition kIf = {.name = "If", .evaluate = Evaluate<RunIf>};
extern const Definition kLoop = {.name = "Loop", .evaluate = Evaluate<RunLoop>};
extern const Definition kScan = {.name = "Scan", .evaluate = Evaluate<RunScan>};
extern const Definition kSequenceMap = {.name = "SequenceMap",
                                        .evaluate = Evaluate<RunSequenceMap>};

}  // namespace reference
}  // namespace evoq
