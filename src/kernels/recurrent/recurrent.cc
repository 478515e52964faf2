// lstm_f32, gru_f32 and rnn_f32: ONNX's recurrent operators in float32. One product makes what all
// steps' inputs give to the gates; each step then multiplies the state by its packed weights and
// finishes the gates of a row while they are in the L1 cache.
//
//   pre[t, b, :] = W x[t, b, :] + Wb     (rows of W and R: gate g of unit j is row g * hidden + j)
//   RNN:   h = f(pre + R h + Rb)
//   GRU:   z, r = f(pre + R h + Rb); h = (1 - z) * g(pre_h + R_h (r * h) + Rb_h) + z * h, or with
//   linear_before_reset
//          g(pre_h + r * (R_h h + Rb_h))
//   LSTM:  i, o, f = f(...); c = f * c + i * g(...); h = o * h(c)
#include <algorithm>
#include <cstring>

#include "base/aligned.h"
#include "base/math.h"
#include "kernels/call_util.h"
#include "kernels/gemm/gemm_float.h"
#include "kernels/gemm/pack_f32.h"
#include "kernels/kernel.h"

namespace evoq {
namespace {

enum Input : size_t { kX, kW, kR, kB, kLengths, kInitialH, kInitialC, kPeepholes };
enum class Cell { kRnn, kGru, kLstm };

constexpr int GatesOf(Cell cell) { return cell == Cell::kLstm ? 4 : cell == Cell::kGru ? 3 : 1; }
constexpr int FunctionsOf(Cell cell) {
  return cell == Cell::kLstm ? 3 : cell == Cell::kGru ? 2 : 1;
}

// y = a b + bias for `rows` rows of a beside each other; b is constant and packed.
struct Product {
  GemmPlan plan;
  int64_t depth = 0, columns = 0;
  std::shared_ptr<AlignedBuffer> panels;
  std::vector<float> bias;  // empty: none

  void Run(const float* a, float* y, ThreadPool& pool) const {
    const DenseRowsF32 rows = {a, depth, columns, kPanelF32};
    const GemmJob job = {&rows,
                         DenseRowsF32::Fill,
                         reinterpret_cast<const float*>(panels->data()),
                         0,
                         columns,
                         y,
                         bias.empty() ? nullptr : bias.data(),
                         nullptr};
    pool.ParallelFor(plan.tasks(), plan.grain, [&](int64_t begin, int64_t end) {
      for (int64_t task = begin; task < end; ++task) RunGemmTask(plan, job, task);
    });
  }
};

// `weights` [columns, depth] row-major.
Product MakeProduct(const float* weights, int64_t rows, int64_t columns, int64_t depth,
                    std::vector<float> bias, const BindOptions& options) {
  const PanelShapeF32 shape{.columns = columns,
                            .taps = 1,
                            .depth = depth,
                            .column_stride = depth,
                            .tap_stride = 0,
                            .depth_stride = 1};
  Product product;
  product.depth = depth;
  product.columns = columns;
  product.bias = std::move(bias);
  product.panels =
      std::make_shared<AlignedBuffer>(static_cast<size_t>(shape.floats()) * sizeof(float));
  PackPanelsF32(shape, weights, 0, shape.panels(),
                reinterpret_cast<float*>(product.panels->data()));
  GemmSizes sizes;
  sizes.rows = rows;
  sizes.columns = columns;
  sizes.taps = 1;
  sizes.depth = depth;
  sizes.panel_stride = shape.panel_stride();
  sizes.row_bytes = depth * static_cast<int64_t>(sizeof(float));
  product.plan = PlanGemm(sizes, GemmTypesF32(options.isa), Activation(), options);
  return product;
}

void Relu(float* y, int64_t n) {
  for (int64_t i = 0; i < n; ++i) y[i] = 0 > y[i] ? 0.0f : y[i];  // a NaN stays
}

// Null for a function that this kernel does not have.
CurveF32 FunctionOf(const std::string& name, Isa isa) {
  const CurveTable& table = CurveTableFor(isa);
  return name == "Sigmoid" ? table.sigmoid
         : name == "Tanh"  ? table.tanh
         : name == "Relu"  ? Relu
                           : nullptr;
}

struct Direction {
  Product input, state;  // state: of GRU without linear_before_reset the gates z and r only,
  Product candidate;     // and here the third one
  CurveF32 functions[3] = {nullptr, nullptr, nullptr};
  bool backwards = false;
};

struct Recurrent {
  Cell cell;
  int64_t steps, batch, hidden, gates;
  bool batch_first, linear_before_reset;
  float clip;
  bool has_h, has_c;             // initial states
  bool gives[3];                 // outputs that are read: all states, the last h, the last c
  std::vector<int64_t> lengths;  // empty: all are `steps`
  std::vector<Direction> directions;

  int64_t count() const { return static_cast<int64_t>(directions.size()); }
  int64_t Row(int64_t t, int64_t b) const { return batch_first ? b * steps + t : t * batch + b; }
  int64_t Y(int64_t t, int64_t d, int64_t b) const {
    return (batch_first ? (b * steps + t) * count() + d : (t * count() + d) * batch + b) * hidden;
  }
  int64_t StateAt(int64_t d, int64_t b) const {
    return (batch_first ? b * count() + d : d * batch + b) * hidden;
  }

  // Scratch, in floats: what inputs give to gates, gates of one step, the states, the reset state.
  int64_t pre_floats() const { return steps * batch * gates * hidden; }
  int64_t scratch_floats() const { return pre_floats() + batch * (gates + 3) * hidden; }

  void Run(const void* const* in, void* const* out, const RunContext& context) const {
    float* pre = reinterpret_cast<float*>(context.scratch);
    float* gate = pre + pre_floats();
    float* h = gate + batch * gates * hidden;
    float *c = h + batch * hidden, *reset = c + batch * hidden;
    float* y = gives[0] ? static_cast<float*>(out[0]) : nullptr;
    if (y != nullptr && !lengths.empty())
      std::memset(y, 0, static_cast<size_t>(steps * count() * batch * hidden) * sizeof(float));
    for (int64_t d = 0; d < count(); ++d) {
      const Direction& direction = directions[static_cast<size_t>(d)];
      direction.input.Run(static_cast<const float*>(in[kX]), pre, context.pool);
      Load(has_h ? static_cast<const float*>(in[kInitialH]) : nullptr, d, h);
      Load(has_c ? static_cast<const float*>(in[kInitialC]) : nullptr, d, c);
      for (int64_t i = 0; i < steps; ++i)
        Step(direction, d, i, pre, gate, h, c, reset, y, context.pool);
      if (gives[1]) Store(h, d, static_cast<float*>(out[1]));
      if (gives[2]) Store(c, d, static_cast<float*>(out[2]));
    }
  }

  void Load(const float* from, int64_t d, float* state) const {
    for (int64_t b = 0; b < batch; ++b) {
      if (from != nullptr) std::copy_n(from + StateAt(d, b), hidden, state + b * hidden);
      if (from == nullptr) std::fill_n(state + b * hidden, hidden, 0.0f);
    }
  }
  void Store(const float* state, int64_t d, float* to) const {
    for (int64_t b = 0; b < batch; ++b) std::copy_n(state + b * hidden, hidden, to + StateAt(d, b));
  }

  void Step(const Direction& d, int64_t index, int64_t i, const float* pre, float* gate, float* h,
            float* c, float* reset, float* y, ThreadPool& pool) const {
    d.state.Run(h, gate, pool);
    const int64_t width = d.state.columns;
    const auto each = [&](const auto& row) {
      for (int64_t b = 0; b < batch; ++b) {
        const int64_t length = lengths.empty() ? steps : lengths[static_cast<size_t>(b)];
        if (i >= length) continue;
        const int64_t t = d.backwards ? length - 1 - i : i;
        row(b, pre + Row(t, b) * gates * hidden, gate + b * width, h + b * hidden, t);
      }
    };
    const auto give = [&](int64_t b, const float* state, int64_t t) {
      if (y != nullptr) std::copy_n(state, hidden, y + Y(t, index, b));
    };
    if (cell == Cell::kGru && !linear_before_reset) {
      each([&](int64_t b, const float* from, float* g, const float* state, int64_t) {
        Finish(g, from, 2 * hidden, d.functions[0]);
        for (int64_t k = 0; k < hidden; ++k) reset[b * hidden + k] = g[hidden + k] * state[k];
      });
      float* candidates = gate + batch * width;
      d.candidate.Run(reset, candidates, pool);
      each([&](int64_t b, const float* from, const float* g, float* state, int64_t t) {
        float* candidate = candidates + b * hidden;
        Finish(candidate, from + 2 * hidden, hidden, d.functions[1]);
        Mix(g, candidate, state);
        give(b, state, t);
      });
      return;
    }
    each([&](int64_t b, const float* from, float* g, float* state, int64_t t) {
      if (cell == Cell::kLstm) StepLstm(d, from, g, state, c + b * hidden);
      if (cell == Cell::kGru) StepGru(d, from, g, state);
      if (cell == Cell::kRnn) {
        Finish(g, from, hidden, d.functions[0]);
        std::copy_n(g, hidden, state);
      }
      give(b, state, t);
    });
  }

  // g = f(clip(g + from))
  void Finish(float* g, const float* from, int64_t n, CurveF32 f) const {
    for (int64_t k = 0; k < n; ++k) g[k] += from[k];
    if (clip > 0) {
      for (int64_t k = 0; k < n; ++k) g[k] = std::min(std::max(g[k], -clip), clip);
    }
    f(g, n);
  }

  void Mix(const float* z, const float* candidate, float* h) const {
    for (int64_t k = 0; k < hidden; ++k) h[k] = (1 - z[k]) * candidate[k] + z[k] * h[k];
  }

  void StepGru(const Direction& d, const float* from, float* g, float* h) const {
    Finish(g, from, 2 * hidden, d.functions[0]);
    float* candidate = g + 2 * hidden;
    for (int64_t k = 0; k < hidden; ++k) candidate[k] *= g[hidden + k];
    Finish(candidate, from + 2 * hidden, hidden, d.functions[1]);
    Mix(g, candidate, h);
  }

  void StepLstm(const Direction& d, const float* from, float* g, float* h, float* c) const {
    Finish(g, from, 3 * hidden, d.functions[0]);
    Finish(g + 3 * hidden, from + 3 * hidden, hidden, d.functions[1]);
    const float *in = g, *out = g + hidden, *forget = g + 2 * hidden, *candidate = g + 3 * hidden;
    for (int64_t k = 0; k < hidden; ++k) c[k] = forget[k] * c[k] + in[k] * candidate[k];
    std::copy_n(c, hidden, h);
    d.functions[2](h, hidden);
    for (int64_t k = 0; k < hidden; ++k) h[k] *= out[k];
  }
};

std::vector<std::string> FunctionNames(const KernelCall& call, Cell cell, int64_t directions) {
  std::vector<std::string> names = call.attrs.Strings("activations");
  const std::vector<std::string> defaults =
      cell == Cell::kRnn ? std::vector<std::string>{"Tanh"}
                         : std::vector<std::string>{"Sigmoid", "Tanh", "Tanh"};
  for (int64_t d = 0; call.attrs.Strings("activations").empty() && d < directions; ++d)
    names.insert(names.end(), defaults.begin(), defaults.begin() + FunctionsOf(cell));
  return names;
}

template <Cell kCell>
std::optional<Reason> RejectCell(const KernelCall& call) {
  if (auto unknown = RejectUnknownShapes(call)) return unknown;
  for (size_t i = 0; i < call.inputs.size(); ++i) {
    const bool weight = i == kW || i == kR || i == kB || i == kLengths;
    if (weight && call.has_input(i) && call.constant(i) == nullptr)
      return Reject("not-constant", "input {} is computed", i);
    if (call.has_input(i) && !weight && !PlainFloat(call.inputs[i]))
      return Reject("types", "input {} is {}, expected float32", i, call.inputs[i].ToString());
  }
  for (const TensorType& type : call.outputs) {
    if (type.dtype != DType::kUndefined && !PlainFloat(type))
      return Reject("types", "output {}, expected float32", type.ToString());
  }
  for (size_t i : {size_t{kX}, size_t{kW}, size_t{kR}}) {
    if (!call.has_input(i) || call.inputs[i].shape.rank() != 3)
      return Reject("shape", "input {} has not rank 3", i);
  }
  if (call.has_input(kPeepholes)) return Reject("attribute", "peepholes");
  if (call.attrs.Int("input_forget") != 0)
    return Reject("attribute", "input_forget={}", call.attrs.Int("input_forget"));
  const int64_t directions = call.inputs[kW].shape[0].value;
  const std::vector<std::string> names = FunctionNames(call, kCell, directions);
  if (static_cast<int64_t>(names.size()) != directions * FunctionsOf(kCell))
    return Reject("attribute", "{} activations", names.size());
  for (const std::string& name : names) {
    if (FunctionOf(name, Isa::kScalar) == nullptr)
      return Reject("attribute", "activation {}", name);
  }
  if (!call.has_input(kLengths)) return std::nullopt;
  const auto lengths = ToInt64s(*call.constant(kLengths));
  const int64_t steps = call.inputs[kX].shape[call.attrs.Int("layout") != 0 ? 1 : 0].value;
  for (int64_t n : lengths.value_or(std::vector<int64_t>{-1})) {
    if (n < 0 || n > steps) return Reject("shape", "a length of {} in {} steps", n, steps);
  }
  return std::nullopt;
}

// Floats from `first` on: `n` of them, or zeros where there are none.
std::vector<float> Some(const Tensor& from, int64_t first, int64_t n) {
  if (!from.defined()) return std::vector<float>(static_cast<size_t>(n), 0.0f);
  return {from.data<float>() + first, from.data<float>() + first + n};
}

template <Cell kCell>
Result<BoundKernel> BindCell(const KernelCall& call, const BindOptions& options) {
  constexpr int64_t kGates = GatesOf(kCell);
  Recurrent s{.cell = kCell,
              .steps = 0,
              .batch = 0,
              .hidden = call.inputs[kR].shape[2].value,
              .gates = kGates,
              .batch_first = call.attrs.Int("layout") != 0,
              .linear_before_reset = call.attrs.Int("linear_before_reset") != 0,
              .clip = call.attrs.Float("clip", 0),
              .has_h = call.has_input(kInitialH),
              .has_c = call.has_input(kInitialC),
              .gives = {},
              .lengths = {},
              .directions = {}};
  for (size_t i = 0; i < std::size(s.gives) && i < call.outputs.size(); ++i)
    s.gives[i] = call.outputs[i].dtype != DType::kUndefined;
  const std::vector<int64_t> x = call.inputs[kX].shape.sizes();
  s.steps = x[s.batch_first ? 1 : 0];
  s.batch = x[s.batch_first ? 0 : 1];
  if (call.has_input(kLengths)) {
    EVOQ_ASSIGN(s.lengths, ToInt64s(*call.constant(kLengths)));
  }
  EVOQ_ASSIGN(const Tensor w, ToFloat32(*call.constant(kW)));
  EVOQ_ASSIGN(const Tensor r, ToFloat32(*call.constant(kR)));
  Tensor b;
  if (call.has_input(kB)) {
    EVOQ_ASSIGN(b, ToFloat32(*call.constant(kB)));
  }
  const int64_t input = x[2], n = s.hidden, columns = kGates * n,
                count = call.inputs[kW].shape[0].value;
  const std::vector<std::string> names = FunctionNames(call, kCell, count);
  for (int64_t d = 0; d < count; ++d) {
    Direction direction;
    std::vector<float> wb = Some(b, d * 2 * columns, columns),
                       rb = Some(b, d * 2 * columns + columns, columns);
    // The state's bias joins the input's, but for the gate that is reset after it.
    const bool apart = kCell == Cell::kGru && s.linear_before_reset;
    for (int64_t k = 0; k < columns; ++k) {
      if (apart && k >= 2 * n) continue;
      wb[k] += rb[k];
      rb[k] = 0;
    }
    const float *w_d = w.data<float>() + d * columns * input,
                *r_d = r.data<float>() + d * columns * n;
    direction.input = MakeProduct(w_d, s.steps * s.batch, columns, input, std::move(wb), options);
    const bool split = kCell == Cell::kGru && !s.linear_before_reset;
    direction.state = MakeProduct(r_d, s.batch, split ? 2 * n : columns, n,
                                  apart ? std::move(rb) : std::vector<float>(), options);
    if (split) direction.candidate = MakeProduct(r_d + 2 * n * n, s.batch, n, n, {}, options);
    for (int f = 0; f < FunctionsOf(kCell); ++f)
      direction.functions[f] =
          FunctionOf(names[static_cast<size_t>(d * FunctionsOf(kCell) + f)], options.isa);
    direction.backwards = d == 1 || call.attrs.String("direction", "forward") == "reverse";
    s.directions.push_back(std::move(direction));
  }
  const int64_t sizes[] = {s.steps * s.batch + s.batch, kGates + 3, n,
                           static_cast<int64_t>(sizeof(float))};
  const auto bytes = CheckedProduct(sizes);
  if (!bytes)
    return Fail(ErrorCode::kTooLarge, "{}: {} steps of {} units", call.op, s.steps * s.batch, n);
  KernelPlan plan;
  if (count > 0) plan = s.directions[0].state.plan.Describe();
  plan.widened = true;
  const auto scratch = static_cast<size_t>(s.scratch_floats()) * sizeof(float);
  return BoundKernel::Of(std::move(s), scratch, std::move(plan));
}

}  // namespace

extern const KernelDef kLstmF32, kGruF32, kRnnF32;
const KernelDef kLstmF32 = {
    .name = "lstm_f32",
    .op = "LSTM",
    .precision = Precision::kFloat32,
    .peak = Peak::kFloat32,
    .reject = RejectCell<Cell::kLstm>,
    .bind = BindCell<Cell::kLstm>,
};
const KernelDef kGruF32 = {
    .name = "gru_f32",
    .op = "GRU",
    .precision = Precision::kFloat32,
    .peak = Peak::kFloat32,
    .reject = RejectCell<Cell::kGru>,
    .bind = BindCell<Cell::kGru>,
};
const KernelDef kRnnF32 = {
    .name = "rnn_f32",
    .op = "RNN",
    .precision = Precision::kFloat32,
    .peak = Peak::kFloat32,
    .reject = RejectCell<Cell::kRnn>,
    .bind = BindCell<Cell::kRnn>,
};

}  // namespace evoq
