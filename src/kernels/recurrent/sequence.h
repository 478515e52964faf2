// What the kernels of RNN, GRU and LSTM share, whatever their products compute in. One product
// makes what all steps' inputs give to the gates; each step then multiplies the state by its packed
// weights and finishes the gates of a row while they are in the L1 cache.
//
//   pre[t, b, :] = W x[t, b, :] + Wb     (rows of W and R: gate g of unit j is row g * hidden + j)
//   RNN:   h = f(pre + R h + Rb)
//   GRU:   z, r = f(pre + R h + Rb); h = (1 - z) * g(pre_h + R_h (r * h) + Rb_h) + z * h, or with
//   linear_before_reset
//          g(pre_h + r * (R_h h + Rb_h))
//   LSTM:  i, o, f = f(...); c = f * c + i * g(...); h = o * h(c)
// The sum of a gate is (R h) + pre, then + P * c where an LSTM has peepholes, then clipped. Wb + Rb
// are added first and belong to pre, but for the gate that linear_before_reset multiplies. A kernel
// cannot fail: the executor refuses a run with a length outside [0, steps] (runtime/guard.h), and
// here it is clamped.
#pragma once

#include <algorithm>
#include <cstring>
#include <optional>
#include <utility>
#include <vector>

#include "kernels/gemm/curves_f32.h"
#include "kernels/kernel.h"
#include "kernels/recurrent/gates.h"

namespace evoq {

enum RecurrentInput : size_t {
  kRecurrentX,
  kRecurrentW,
  kRecurrentR,
  kRecurrentB,
  kRecurrentLengths,
  kRecurrentH,
  kRecurrentC,
  kRecurrentPeepholes
};
enum class Cell { kRnn, kGru, kLstm };

struct RecurrentShape {
  Cell cell;
  int64_t steps, batch, input, hidden, gates, directions;
  bool batch_first, linear_before_reset, input_forget, reverse;
  float clip;
  bool has_lengths, has_h, has_c, has_peepholes;
  bool gives[3];  // outputs that are read: all states, the last h, the last c
  std::vector<GateFn> functions;

  int64_t columns() const { return gates * hidden; }
  // GRU whose third gate has a product of its own, of the reset state.
  bool apart() const { return cell == Cell::kGru && !linear_before_reset; }
  int64_t Row(int64_t t, int64_t b) const { return batch_first ? b * steps + t : t * batch + b; }
  int64_t Y(int64_t t, int64_t d, int64_t b) const {
    return (batch_first ? (b * steps + t) * directions + d : (t * directions + d) * batch + b) *
           hidden;
  }
  int64_t StateAt(int64_t d, int64_t b) const {
    return (batch_first ? b * directions + d : d * batch + b) * hidden;
  }

  // Scratch, in floats: what inputs give to gates, gates of one step, the states, the reset state.
  int64_t pre_floats() const { return steps * batch * columns(); }
  int64_t scratch_floats() const { return pre_floats() + batch * (gates + 3) * hidden; }
};

// A function of a gate: a curve of an instruction set, or the definition.
struct GateCurve {
  CurveF32 curve = nullptr;
  GateFn fn;
  const UnaryTable* table = nullptr;

  void operator()(float* y, int64_t n) const {
    if (curve != nullptr) return curve(y, n);
    ApplyGate(fn, *table, y, n);
  }
};

// Why the call is none that these kernels take, whatever the types of its weights: those of the
// other operands, what is not constant, ranks, constant lengths, activations.
std::optional<Reason> RejectRecurrent(const KernelCall& call, Cell cell);
// Of a call that passed. Errors: kTooLarge.
Result<RecurrentShape> RecurrentShapeOf(const KernelCall& call, Cell cell);

// The biases of direction d: of the product of the input, and of that of the state, which is empty
// where all joined the input's. Errors: those of ToFloat32.
struct RecurrentBiases {
  std::vector<float> input, state;
};
Result<RecurrentBiases> RecurrentBiasesOf(const KernelCall& call, const RecurrentShape& shape,
                                          int64_t d);

// Product: Run(a, y, scratch, pool), y = a w + bias for rows of a beside each other; columns(),
// scratch_bytes().
template <typename Product>
class Recurrent : public RecurrentShape {
 public:
  struct Direction {
    Product input, state;  // state: where the third gate is apart the gates z and r only,
    Product candidate;     // and here the third one
    std::vector<GateCurve> functions;
    bool backwards = false;
  };

  explicit Recurrent(RecurrentShape shape) : RecurrentShape(std::move(shape)) {}

  // The products of one direction after the other.
  void Add(Direction direction) {
    direction.backwards = !all_.empty() || reverse;
    for (const Product* p : {&direction.input, &direction.state, &direction.candidate})
      product_bytes_ = std::max(product_bytes_, p->scratch_bytes());
    all_.push_back(std::move(direction));
  }
  const std::vector<Direction>& all() const { return all_; }
  int64_t float_bytes() const {
    return RoundUp(scratch_floats() * static_cast<int64_t>(sizeof(float)), 64);
  }
  int64_t scratch_bytes() const { return float_bytes() + product_bytes_; }

  void Run(const void* const* in, void* const* out, const RunContext& context) const {
    float* pre = reinterpret_cast<float*>(context.scratch);
    float* gate = pre + pre_floats();
    float* h = gate + batch * columns();
    State state = {
        .gate = gate,
        .h = h,
        .c = h + batch * hidden,
        .reset = h + 2 * batch * hidden,
        .y = gives[0] ? static_cast<float*>(out[0]) : nullptr,
        .lengths = has_lengths ? static_cast<const int32_t*>(in[kRecurrentLengths]) : nullptr,
        .scratch = context.scratch + float_bytes(),
        .pool = context.pool};
    if (state.y != nullptr && has_lengths)
      std::memset(state.y, 0,
                  static_cast<size_t>(steps * directions * batch * hidden) * sizeof(float));
    const auto* peepholes =
        has_peepholes ? static_cast<const float*>(in[kRecurrentPeepholes]) : nullptr;
    for (int64_t d = 0; d < directions; ++d) {
      const Direction& direction = all_[static_cast<size_t>(d)];
      direction.input.Run(static_cast<const float*>(in[kRecurrentX]), pre, state.scratch,
                          context.pool);
      state.pre = pre;
      state.peepholes = peepholes == nullptr ? nullptr : peepholes + d * 3 * hidden;
      Load(has_h ? static_cast<const float*>(in[kRecurrentH]) : nullptr, d, state.h);
      Load(has_c ? static_cast<const float*>(in[kRecurrentC]) : nullptr, d, state.c);
      for (int64_t i = 0; i < steps; ++i) Step(direction, d, i, state);
      if (gives[1]) Store(state.h, d, static_cast<float*>(out[1]));
      if (gives[2]) Store(state.c, d, static_cast<float*>(out[2]));
    }
  }

 private:
  struct State {
    const float *pre = nullptr, *peepholes = nullptr;
    float *gate, *h, *c, *reset, *y;
    const int32_t* lengths;  // null: all are `steps`
    std::byte* scratch;
    ThreadPool& pool;
  };

  void Load(const float* from, int64_t d, float* state) const {
    for (int64_t b = 0; b < batch; ++b) {
      if (from != nullptr) std::copy_n(from + StateAt(d, b), hidden, state + b * hidden);
      if (from == nullptr) std::fill_n(state + b * hidden, hidden, 0.0f);
    }
  }
  void Store(const float* state, int64_t d, float* to) const {
    for (int64_t b = 0; b < batch; ++b) std::copy_n(state + b * hidden, hidden, to + StateAt(d, b));
  }

  void Step(const Direction& d, int64_t index, int64_t i, const State& s) const {
    d.state.Run(s.h, s.gate, s.scratch, s.pool);
    const int64_t width = d.state.columns();
    const auto each = [&](const auto& row) {
      for (int64_t b = 0; b < batch; ++b) {
        const int64_t length =
            s.lengths == nullptr ? steps : std::min<int64_t>(s.lengths[b], steps);
        if (i >= length) continue;
        const int64_t t = d.backwards ? length - 1 - i : i;
        row(b, s.pre + Row(t, b) * columns(), s.gate + b * width, s.h + b * hidden, t);
      }
    };
    const auto give = [&](int64_t b, const float* state, int64_t t) {
      if (s.y != nullptr) std::copy_n(state, hidden, s.y + Y(t, index, b));
    };
    if (apart()) {
      each([&](int64_t b, const float* from, float* g, const float* state, int64_t) {
        Finish(g, from, 2 * hidden, d.functions[0]);
        for (int64_t k = 0; k < hidden; ++k) s.reset[b * hidden + k] = g[hidden + k] * state[k];
      });
      float* candidates = s.gate + batch * width;
      d.candidate.Run(s.reset, candidates, s.scratch, s.pool);
      each([&](int64_t b, const float* from, const float* g, float* state, int64_t t) {
        float* candidate = candidates + b * hidden;
        Finish(candidate, from + 2 * hidden, hidden, d.functions[1]);
        Mix(g, candidate, state);
        give(b, state, t);
      });
      return;
    }
    each([&](int64_t b, const float* from, float* g, float* state, int64_t t) {
      if (cell == Cell::kLstm) StepLstm(d, from, s.peepholes, g, state, s.c + b * hidden);
      if (cell == Cell::kGru) StepGru(d, from, g, state);
      if (cell == Cell::kRnn) {
        Finish(g, from, hidden, d.functions[0]);
        std::copy_n(g, hidden, state);
      }
      give(b, state, t);
    });
  }

  // g = f(clip(g))
  void Through(float* g, int64_t n, const GateCurve& f) const {
    if (clip > 0) {
      for (int64_t k = 0; k < n; ++k) g[k] = std::min(std::max(g[k], -clip), clip);
    }
    f(g, n);
  }
  // g = f(clip(g + from))
  void Finish(float* g, const float* from, int64_t n, const GateCurve& f) const {
    for (int64_t k = 0; k < n; ++k) g[k] += from[k];
    Through(g, n, f);
  }
  // g = f(clip(g + from + p * c))
  void Finish(float* g, const float* from, const float* p, const float* c,
              const GateCurve& f) const {
    for (int64_t k = 0; k < hidden; ++k) g[k] += from[k];
    for (int64_t k = 0; k < hidden; ++k) g[k] += p[k] * c[k];
    Through(g, hidden, f);
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

  // Peepholes are of i, o and f; o sees the new c.
  void StepLstm(const Direction& d, const float* from, const float* peepholes, float* g, float* h,
                float* c) const {
    float *in = g, *out = g + hidden, *forget = g + 2 * hidden, *candidate = g + 3 * hidden;
    if (peepholes == nullptr) {
      Finish(g, from, 3 * hidden, d.functions[0]);
    } else {
      Finish(in, from, peepholes, c, d.functions[0]);
      Finish(forget, from + 2 * hidden, peepholes + 2 * hidden, c, d.functions[0]);
    }
    if (input_forget) {
      for (int64_t k = 0; k < hidden; ++k) forget[k] = 1 - in[k];
    }
    Finish(candidate, from + 3 * hidden, hidden, d.functions[1]);
    for (int64_t k = 0; k < hidden; ++k) c[k] = forget[k] * c[k] + in[k] * candidate[k];
    if (peepholes != nullptr) Finish(out, from + hidden, peepholes + hidden, c, d.functions[0]);
    std::copy_n(c, hidden, h);
    d.functions[2](h, hidden);
    for (int64_t k = 0; k < hidden; ++k) h[k] *= out[k];
  }

  std::vector<Direction> all_;
  int64_t product_bytes_ = 0;
};

// Rows [first, first + count) of input `from` (kRecurrentW or kRecurrentR) of direction `d`.
struct RecurrentRows {
  RecurrentInput from;
  int64_t d, first, count;
};

// make(rows of weights, rows of data, bias) gives a Result<Product>, function(GateFn) a GateCurve.
template <typename Product, typename Make, typename Function>
Result<Recurrent<Product>> MakeRecurrent(const KernelCall& call, Cell cell, const Make& make,
                                         const Function& function) {
  EVOQ_ASSIGN(RecurrentShape shape, RecurrentShapeOf(call, cell));
  Recurrent<Product> recurrent(std::move(shape));
  const RecurrentShape& s = recurrent;
  const int64_t n = s.hidden, columns = s.columns();
  const size_t functions = s.directions == 0 ? 0 : s.functions.size() / s.directions;
  for (int64_t d = 0; d < s.directions; ++d) {
    typename Recurrent<Product>::Direction direction;
    EVOQ_ASSIGN(RecurrentBiases biases, RecurrentBiasesOf(call, s, d));
    EVOQ_ASSIGN(direction.input, make(RecurrentRows{kRecurrentW, d, 0, columns}, s.steps * s.batch,
                                      std::move(biases.input)));
    EVOQ_ASSIGN(direction.state, make(RecurrentRows{kRecurrentR, d, 0, s.apart() ? 2 * n : columns},
                                      s.batch, std::move(biases.state)));
    if (s.apart()) {
      EVOQ_ASSIGN(direction.candidate,
                  make(RecurrentRows{kRecurrentR, d, 2 * n, n}, s.batch, std::vector<float>()));
    }
    for (size_t f = 0; f < functions; ++f)
      direction.functions.push_back(function(s.functions[static_cast<size_t>(d) * functions + f]));
    recurrent.Add(std::move(direction));
  }
  return recurrent;
}

template <typename Product>
BoundKernel BoundRecurrent(Recurrent<Product> recurrent, KernelPlan plan) {
  const auto scratch = static_cast<size_t>(recurrent.scratch_bytes());
  return BoundKernel::Of(std::move(recurrent), scratch, std::move(plan));
}

}  // namespace evoq
