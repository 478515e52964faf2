// LSTM, GRU and RNN over all steps of a sequence (backpropagation through time; Werbos, 1990).
//
// With W and R the rows of all gates, x and h a step's input and the state that it enters with, the
// sums of a step are a = x W^T + h R^T + Wb + Rb. Of a loss whose derivatives by the sums are da,
//   dx = da W,  dW = sum over steps of da^T x,  dR = da^T h,  dWb = dRb = sum da,  dh += da R.
// LSTM (Hochreiter and Schmidhuber, 1997; gates i, o, f, c as ONNX orders them):
//   c' = f c + i g, h' = o tanh(c'); do = dh' tanh(c'), dc' += dh' o (1 - tanh(c')^2),
//   di = dc' g, dg = dc' i, df = dc' c, dc = dc' f.
// GRU (Cho et al., 2014; gates z, r, h): h' = (1 - z) n + z h with n = tanh of x W^T and of
//   (r h) R^T, or with linear_before_reset of r (h R^T + Rb); what the state's rows see is then
//   another da: dq = r da, and dr = da (h R^T + Rb).
#include <algorithm>
#include <cmath>

#include "kernels/math/math.h"
#include "ops/util.h"
#include "train/gradients/product.h"

namespace evoq {
namespace {

enum class Cell { kRnn, kGru, kLstm };

// Of one node. Rows of saved memory are [steps, batch], whatever the layout.
struct Recurrence {
  Cell cell = Cell::kLstm;
  int64_t gates = 4, steps = 0, batch = 0, input = 0, hidden = 0, directions = 1;
  bool batch_first = false, reverse = false;
  bool linear_first = false;  // of a GRU
  bool relu = false;          // of an RNN, in place of tanh

  int64_t rows() const { return steps * batch; }
  int64_t sums() const { return gates * hidden; }
  int64_t X(int64_t t) const { return (batch_first ? t : t * batch) * input; }
  int64_t x_stride() const { return batch_first ? steps * input : input; }
  int64_t Y(int64_t t, int64_t d, int64_t b) const {
    return (batch_first ? (b * steps + t) * directions + d : (t * directions + d) * batch + b) *
           hidden;
  }
  int64_t State(int64_t d, int64_t b) const {
    return (batch_first ? b * directions + d : d * batch + b) * hidden;
  }
  bool Backwards(int64_t d) const { return reverse || d == 1; }
  // The i-th step that a direction takes.
  int64_t Step(int64_t d, int64_t i) const { return Backwards(d) ? steps - 1 - i : i; }
};

// What forward saves of one direction: gates after their functions, the states that a step enters
// with (of the last, those it leaves with lie behind), and of a GRU whose reset comes late the
// state's sums of n.
struct Saved {
  float *gates, *h, *c, *late;

  static int64_t Floats(const Recurrence& s) {
    const int64_t states = (s.steps + 1) * s.batch * s.hidden;
    return s.rows() * s.sums() + states * (s.cell == Cell::kLstm ? 2 : 1) +
           (s.linear_first ? s.rows() * s.hidden : 0);
  }
  Saved(const Recurrence& s, float* at, int64_t d) {
    const int64_t states = (s.steps + 1) * s.batch * s.hidden;
    gates = at + d * Floats(s);
    h = gates + s.rows() * s.sums();
    c = h + states;
    late = s.cell == Cell::kLstm ? c + states : c;
  }
};

// The state that step t enters with: `states` of [steps + 1, batch, hidden], the last behind.
float* Entered(const Recurrence& s, float* states, int64_t t) {
  return states + t * s.batch * s.hidden;
}
// The state that the i-th step leaves.
float* Left(const Recurrence& s, float* states, int64_t d, int64_t i) {
  return Entered(s, states, i + 1 < s.steps ? s.Step(d, i + 1) : s.steps);
}

// The weights of a direction; w and r may be gradients.
template <typename T>
struct Weights {
  T *w = nullptr, *r = nullptr, *wb = nullptr, *rb = nullptr;

  Weights(const Recurrence& s, const std::vector<T*>& x, int64_t d) {
    if (x[1] != nullptr) w = x[1] + d * s.sums() * s.input;
    if (x[2] != nullptr) r = x[2] + d * s.sums() * s.hidden;
    if (x.size() > 3 && x[3] != nullptr) wb = x[3] + d * 2 * s.sums(), rb = wb + s.sums();
  }
};

// The states of input or output `index`, between their own layout and [batch, hidden].
template <typename T>
T* StatesOf(const std::vector<T*>& values, size_t index) {
  return values.size() > index ? values[index] : nullptr;
}

// ---- forward

void InputSums(const Recurrence& s, const GradientRun& run, const Weights<const float>& weights,
               float* sums) {
  const int64_t n = s.sums();
  for (int64_t row = 0; row < s.rows(); ++row) {
    for (int64_t j = 0; j < n; ++j) {
      const bool late = s.linear_first && j >= 2 * s.hidden;  // Rb stays with the state's sums
      sums[row * n + j] = weights.wb == nullptr ? 0 : weights.wb[j] + (late ? 0.0f : weights.rb[j]);
    }
  }
  const Strided<float> w = Turned(weights.w, s.input);
  if (!s.batch_first)
    return Product(run, s.rows(), n, s.input, Rows(run.x[0], s.input), w, sums, {.beta = 1});
  for (int64_t t = 0; t < s.steps; ++t)
    Product(run, s.batch, n, s.input, {run.x[0] + s.X(t), s.x_stride(), 1}, w,
            sums + t * s.batch * n, {.beta = 1});
}

// One item of a batch: `a` its sums, which become the gates.
void LstmCell(const Recurrence& s, float* a, const float* c, float* next_c, float* next_h) {
  const int64_t n = s.hidden;
  for (int64_t j = 0; j < n; ++j) {
    for (int64_t g = 0; g < 3; ++g) a[g * n + j] = SigmoidF(a[g * n + j]);
    a[3 * n + j] = TanhF(a[3 * n + j]);
    next_c[j] = a[2 * n + j] * c[j] + a[j] * a[3 * n + j];
    next_h[j] = a[n + j] * TanhF(next_c[j]);
  }
}

// The state's product with the rows of n waits for r where the reset comes before it.
void GruStep(const Recurrence& s, const GradientRun& run, const Weights<const float>& weights,
             const Saved& saved, int64_t t, float* next) {
  const int64_t n = s.hidden, stride = s.sums(), first = t * s.batch;
  float *const a = saved.gates + first * stride, *const h = Entered(s, saved.h, t);
  Product(run, s.batch, 2 * n, n, Rows(h, n), Turned(weights.r, n), a,
          {.beta = 1, .c_stride = stride});
  for (int64_t b = 0; b < s.batch; ++b) {
    for (int64_t j = 0; j < 2 * n; ++j) a[b * stride + j] = SigmoidF(a[b * stride + j]);
  }
  const Strided<float> rows = Turned(weights.r + 2 * n * n, n);
  if (s.linear_first) {
    float* const late = saved.late + first * n;
    for (int64_t b = 0; b < s.batch; ++b) {
      for (int64_t j = 0; j < n; ++j)
        late[b * n + j] = weights.rb == nullptr ? 0 : weights.rb[2 * n + j];
    }
    Product(run, s.batch, n, n, Rows(h, n), rows, late, {.beta = 1});
    for (int64_t b = 0; b < s.batch; ++b) {
      for (int64_t j = 0; j < n; ++j)
        a[b * stride + 2 * n + j] += a[b * stride + n + j] * late[b * n + j];
    }
  } else {
    float* const reset = run.Scratch(s.batch * n);
    for (int64_t b = 0; b < s.batch; ++b) {
      for (int64_t j = 0; j < n; ++j) reset[b * n + j] = a[b * stride + n + j] * h[b * n + j];
    }
    Product(run, s.batch, n, n, Rows(reset, n), rows, a + 2 * n, {.beta = 1, .c_stride = stride});
  }
  for (int64_t b = 0; b < s.batch; ++b) {
    for (int64_t j = 0; j < n; ++j) {
      float& candidate = a[b * stride + 2 * n + j];
      candidate = TanhF(candidate);
      const float z = a[b * stride + j];
      next[b * n + j] = (1 - z) * candidate + z * h[b * n + j];
    }
  }
}

void ForwardStep(const Recurrence& s, const GradientRun& run, const Weights<const float>& weights,
                 const Saved& saved, int64_t d, int64_t i) {
  const int64_t t = s.Step(d, i), n = s.hidden, stride = s.sums();
  float* const next = Left(s, saved.h, d, i);
  if (s.cell == Cell::kGru) return GruStep(s, run, weights, saved, t, next);
  float* const a = saved.gates + t * s.batch * stride;
  Product(run, s.batch, stride, n, Rows(Entered(s, saved.h, t), n), Turned(weights.r, n), a,
          {.beta = 1});
  for (int64_t b = 0; b < s.batch; ++b) {
    if (s.cell == Cell::kLstm) {
      LstmCell(s, a + b * stride, Entered(s, saved.c, t) + b * n, Left(s, saved.c, d, i) + b * n,
               next + b * n);
      continue;
    }
    for (int64_t j = 0; j < n; ++j) {
      float& sum = a[b * stride + j];
      sum = s.relu ? std::max(sum, 0.0f) : TanhF(sum);
      next[b * n + j] = sum;
    }
  }
}

void Forward(const Recurrence& s, const GradientRun& run) {
  const int64_t n = s.hidden;
  for (int64_t d = 0; d < s.directions; ++d) {
    const Saved saved(s, run.saved, d);
    const Weights<const float> weights(s, run.x, d);
    InputSums(s, run, weights, saved.gates);
    const auto begin = [&](size_t index, float* states) {
      const float* const given = StatesOf(run.x, index);
      for (int64_t b = 0; b < s.batch; ++b) {
        float* const to = Entered(s, states, s.Step(d, 0)) + b * n;
        if (given == nullptr) {
          std::fill_n(to, n, 0.0f);
        } else {
          std::copy_n(given + s.State(d, b), n, to);
        }
      }
    };
    begin(5, saved.h);
    if (s.cell == Cell::kLstm) begin(6, saved.c);
    for (int64_t i = 0; i < s.steps; ++i) {
      ForwardStep(s, run, weights, saved, d, i);
      for (int64_t b = 0; b < s.batch && run.y[0] != nullptr; ++b)
        std::copy_n(Left(s, saved.h, d, i) + b * n, n, run.y[0] + s.Y(s.Step(d, i), d, b));
    }
    const auto end = [&](size_t index, float* states) {
      float* const to = StatesOf(run.y, index);
      for (int64_t b = 0; b < s.batch && to != nullptr; ++b)
        std::copy_n(Entered(s, states, s.steps) + b * n, n, to + s.State(d, b));
    };
    end(1, saved.h);
    if (s.cell == Cell::kLstm) end(2, saved.c);
  }
}

// ---- backward

// Memory of one direction's backward.
struct Back {
  float* da;       // of all steps, [rows, sums]
  float* dq;       // of a GRU, [rows, hidden]: what the state's rows of n see
  float *dh, *dc;  // of the state, [batch, hidden]
  float* reset;    // of a GRU, [rows, hidden]: r h

  static int64_t Floats(const Recurrence& s) {
    const int64_t gru = s.cell == Cell::kGru ? 2 * s.rows() * s.hidden : 0;
    return s.rows() * s.sums() + gru + 2 * s.batch * s.hidden;
  }
  Back(const Recurrence& s, float* at) {
    da = at;
    dh = da + s.rows() * s.sums();
    dc = dh + s.batch * s.hidden;
    dq = dc + s.batch * s.hidden;
    reset = dq + s.rows() * s.hidden;
  }
};

void LstmBack(const Recurrence& s, const float* a, const float* c, const float* next_c, float* dh,
              float* dc, float* da) {
  const int64_t n = s.hidden;
  for (int64_t j = 0; j < n; ++j) {
    const float in = a[j], out = a[n + j], forget = a[2 * n + j], candidate = a[3 * n + j];
    const float through = TanhF(next_c[j]);
    const float of_c = dc[j] + dh[j] * out * (1 - through * through);
    da[j] = of_c * candidate * in * (1 - in);
    da[n + j] = dh[j] * through * out * (1 - out);
    da[2 * n + j] = of_c * c[j] * forget * (1 - forget);
    da[3 * n + j] = of_c * in * (1 - candidate * candidate);
    dc[j] = of_c * forget;
    dh[j] = 0;  // all of it went through the gates
  }
}

// What comes after the sums of n; dh keeps what goes by the gates.
void GruBack(const Recurrence& s, const GradientRun& run, const Weights<const float>& weights,
             const Saved& saved, const Back& back, int64_t t) {
  const int64_t n = s.hidden, stride = s.sums(), first = t * s.batch;
  const float *const a = saved.gates + first * stride, *const h = Entered(s, saved.h, t);
  float *const da = back.da + first * stride, *const dq = back.dq + first * n;
  for (int64_t b = 0; b < s.batch; ++b) {
    for (int64_t j = 0; j < n; ++j) {
      const int64_t at = b * stride + j, of = b * n + j;
      const float z = a[at], r = a[at + n], candidate = a[at + 2 * n], dh = back.dh[of];
      const float dn = dh * (1 - z) * (1 - candidate * candidate);
      da[at] = dh * (h[of] - candidate) * z * (1 - z);
      da[at + 2 * n] = dn;
      back.dh[of] = dh * z;
      dq[of] = s.linear_first ? dn * r : dn;
      if (s.linear_first) da[at + n] = dn * saved.late[first * n + of] * r * (1 - r);
    }
  }
  const float* const rows = weights.r + 2 * n * n;
  if (s.linear_first)
    return Product(run, s.batch, n, n, Rows(dq, n), Rows(rows, n), back.dh, {.beta = 1});
  float* const reset = back.reset + first * n;  // at first what it changes of the loss
  Product(run, s.batch, n, n, Rows(dq, n), Rows(rows, n), reset);
  for (int64_t b = 0; b < s.batch; ++b) {
    for (int64_t j = 0; j < n; ++j) {
      const int64_t at = b * stride + j, of = b * n + j;
      const float r = a[at + n], changed = reset[of];
      da[at + n] = changed * h[of] * r * (1 - r);
      back.dh[of] += changed * r;
      reset[of] = r * h[of];
    }
  }
}

void BackwardStep(const Recurrence& s, const GradientRun& run, const Weights<const float>& weights,
                  const Saved& saved, const Back& back, int64_t d, int64_t i) {
  const int64_t t = s.Step(d, i), n = s.hidden, stride = s.sums();
  const float* const dy = StatesOf(run.dy, 0);
  for (int64_t b = 0; b < s.batch && dy != nullptr; ++b) {
    for (int64_t j = 0; j < n; ++j) back.dh[b * n + j] += dy[s.Y(t, d, b) + j];
  }
  float* const da = back.da + t * s.batch * stride;
  const float* const a = saved.gates + t * s.batch * stride;
  if (s.cell == Cell::kGru) {
    GruBack(s, run, weights, saved, back, t);
    return Product(run, s.batch, n, 2 * n, Rows(da, stride), Rows(weights.r, n), back.dh,
                   {.beta = 1});
  }
  for (int64_t b = 0; b < s.batch; ++b) {
    if (s.cell == Cell::kLstm) {
      LstmBack(s, a + b * stride, Entered(s, saved.c, t) + b * n, Left(s, saved.c, d, i) + b * n,
               back.dh + b * n, back.dc + b * n, da + b * stride);
      continue;
    }
    for (int64_t j = 0; j < n; ++j) {
      const float y = a[b * stride + j], slope = s.relu ? (y > 0 ? 1.0f : 0.0f) : 1 - y * y;
      da[b * stride + j] = back.dh[b * n + j] * slope;
    }
    std::fill_n(back.dh + b * n, n, 0.0f);
  }
  Product(run, s.batch, n, stride, Rows(da, stride), Rows(weights.r, n), back.dh, {.beta = 1});
}

// What all steps change of the weights and of x.
void WeightGradients(const Recurrence& s, const GradientRun& run, const Saved& saved,
                     const Back& back, int64_t d) {
  const int64_t n = s.hidden, stride = s.sums(), rows = s.rows();
  const Weights<const float> weights(s, run.x, d);
  const Weights<float> into(s, run.dx, d);
  const bool gru = s.cell == Cell::kGru;
  for (int64_t t = 0; t < s.steps; ++t) {
    const float* const da = back.da + t * s.batch * stride;
    if (into.w != nullptr)
      Product(run, stride, s.input, s.batch, Turned(da, stride),
              {run.x[0] + s.X(t), s.x_stride(), 1}, into.w, {.beta = 1});
    if (run.dx[0] != nullptr)
      Product(run, s.batch, s.input, stride, Rows(da, stride), Rows(weights.w, s.input),
              run.dx[0] + s.X(t), {.beta = 1, .c_stride = s.x_stride()});
  }
  if (into.r != nullptr) {
    const int64_t of_state = gru ? 2 * n : stride;
    Product(run, of_state, n, rows, Turned(back.da, stride), Rows(saved.h, n), into.r, {.beta = 1});
    if (gru)
      Product(run, n, n, rows, Turned(back.dq, n), Rows(s.linear_first ? saved.h : back.reset, n),
              into.r + 2 * n * n, {.beta = 1});
  }
  for (int64_t row = 0; row < rows && into.wb != nullptr; ++row) {
    for (int64_t j = 0; j < stride; ++j) {
      const bool late = gru && j >= 2 * n;
      into.wb[j] += back.da[row * stride + j];
      into.rb[j] += late ? back.dq[row * n + j - 2 * n] : back.da[row * stride + j];
    }
  }
}

void Backward(const Recurrence& s, const GradientRun& run) {
  const int64_t n = s.hidden;
  for (int64_t d = 0; d < s.directions; ++d) {
    const Saved saved(s, run.saved, d);
    const Back back(s, run.Scratch(Back::Floats(s)));
    const auto begin = [&](size_t index, float* to) {
      const float* const given = StatesOf(run.dy, index);
      for (int64_t b = 0; b < s.batch; ++b) {
        if (given == nullptr) {
          std::fill_n(to + b * n, n, 0.0f);
        } else {
          std::copy_n(given + s.State(d, b), n, to + b * n);
        }
      }
    };
    begin(1, back.dh);
    begin(2, back.dc);
    const Weights<const float> weights(s, run.x, d);
    for (int64_t i = s.steps; i-- > 0;) BackwardStep(s, run, weights, saved, back, d, i);
    const auto end = [&](size_t index, const float* from) {
      float* const into = StatesOf(run.dx, index);
      for (int64_t b = 0; b < s.batch && into != nullptr; ++b) {
        for (int64_t j = 0; j < n; ++j) into[s.State(d, b) + j] += from[b * n + j];
      }
    };
    end(5, back.dh);
    if (s.cell == Cell::kLstm) end(6, back.dc);
    WeightGradients(s, run, saved, back, d);
  }
}

// ---- binding

// Whether every step counts: no lengths, or all of them are the steps.
Status CheckLengths(const GradientArgs& args, int64_t steps) {
  if (args.x.size() < 5 || args.x[4].dtype == DType::kUndefined) return {};
  if (args.constants[4] == nullptr) return Unsupported("lengths that are not known");
  EVOQ_ASSIGN(const std::vector<int64_t> lengths, ToInt64s(*args.constants[4]));
  if (std::ranges::all_of(lengths, [&](int64_t length) { return length == steps; })) return {};
  return Unsupported("lengths that differ from the {} steps", steps);
}

// The functions of its gates, as ONNX has them where none are named.
Status CheckFunctions(const Node& node, Recurrence& s) {
  static const std::vector<std::string> kDefaults[] = {
      {"tanh"}, {"sigmoid", "tanh"}, {"sigmoid", "tanh", "tanh"}};
  std::vector<std::string> names;
  for (std::string name : node.attrs.Strings("activations")) {
    std::ranges::transform(name, name.begin(), [](unsigned char c) { return std::tolower(c); });
    names.push_back(std::move(name));
  }
  if (names.empty()) return {};
  const std::vector<std::string>& usual = kDefaults[static_cast<int>(s.cell)];
  s.relu = s.cell == Cell::kRnn && names[0] == "relu";
  const std::vector<std::string> wanted = s.relu ? std::vector<std::string>{"relu"} : usual;
  for (size_t i = 0; i < names.size(); ++i) {
    if (names[i] != wanted[i % wanted.size()])
      return Unsupported("the function {} of its gates", names[i]);
  }
  return {};
}

Result<BoundGradient> Bind(const GradientArgs& args, Cell cell, int64_t gates) {
  const Attrs& attrs = args.node.attrs;
  Recurrence s{.cell = cell, .gates = gates};
  s.batch_first = attrs.Int("layout") != 0;
  const std::vector<int64_t> x = args.x[0].shape.sizes(), r = args.x[2].shape.sizes();
  s.steps = x[s.batch_first ? 1 : 0];
  s.batch = x[s.batch_first ? 0 : 1];
  s.input = x[2];
  s.hidden = r[2];
  s.directions = r[0];
  s.reverse = attrs.String("direction", "forward") == "reverse";
  s.linear_first = cell == Cell::kGru && attrs.Int("linear_before_reset") != 0;
  if (s.steps < 1 || s.batch < 1 || s.input < 1 || s.hidden < 1)
    return Unsupported("no step, or sizes of 0");
  EVOQ_TRY(CheckFunctions(args.node, s));
  EVOQ_TRY(CheckLengths(args, s.steps));
  if (args.x.size() > 7 && args.x[7].dtype != DType::kUndefined) return Unsupported("peepholes");
  if (attrs.Float("clip", 0) > 0) return Unsupported("clip");
  if (attrs.Int("input_forget") != 0) return Unsupported("input_forget");
  return BoundGradient{.forward = [s](const GradientRun& run) { Forward(s, run); },
                       .backward = [s](const GradientRun& run) { Backward(s, run); },
                       .saved = s.directions * Saved::Floats(s)};
}

Result<BoundGradient> BindRnn(const GradientArgs& args) { return Bind(args, Cell::kRnn, 1); }
Result<BoundGradient> BindGru(const GradientArgs& args) { return Bind(args, Cell::kGru, 3); }
Result<BoundGradient> BindLstm(const GradientArgs& args) { return Bind(args, Cell::kLstm, 4); }

constexpr uint32_t kWeights = 1u << 1 | 1u << 2 | 1u << 3, kStates = 1u << 5 | 1u << 6;

}  // namespace

extern const GradientDef kGradientGRU = {
    .op = "GRU", .differentiable = 1 | kWeights | 1u << 5, .given = kStates, .bind = BindGru};
extern const GradientDef kGradientLSTM = {
    .op = "LSTM", .differentiable = 1 | kWeights | kStates, .given = kStates, .bind = BindLstm};
extern const GradientDef kGradientRNN = {
    .op = "RNN", .differentiable = 1 | kWeights | 1u << 5, .given = kStates, .bind = BindRnn};

}  // namespace evoq
