// LayerNormalization, RMSNormalization, BatchNormalization, InstanceNormalization,
// GroupNormalization in float32.
#include <cmath>

#include "kernels/call_util.h"
#include "kernels/norm/norm.h"
#include "kernels/parallel.h"

namespace evoq {
namespace {

std::optional<Reason> RejectTypes(const KernelCall& call) {
  for (size_t i = 0; i < call.inputs.size(); ++i) {
    if (call.has_input(i) && !PlainFloat(call.inputs[i])) {
      return Reject("types", "input {} is {}, expected float32", i, call.inputs[i].ToString());
    }
  }
  if (!PlainFloat(call.outputs[0]))
    return Reject("types", "output is {}, expected float32", call.outputs[0].ToString());
  if (auto unknown = RejectUnknownShapes(call)) return unknown;
  if (call.inputs[0].shape != call.outputs[0].shape) {
    return Reject("shape", "{} -> {}", call.inputs[0].shape.ToString(),
                  call.outputs[0].shape.ToString());
  }
  return std::nullopt;
}

// ---- over the axes from `axis` on

Result<int64_t> RowOf(const KernelCall& call) {
  const Shape& x = call.inputs[0].shape;
  EVOQ_ASSIGN(const int axis, NormalizeAxis(call.attrs.Int("axis", -1), x.rank()));
  int64_t n = 1;
  for (int i = axis; i < x.rank(); ++i) n *= x[i].value;
  return n;
}

std::optional<Reason> RejectLayer(const KernelCall& call) {
  if (auto rejection = RejectTypes(call)) return rejection;
  const auto n = RowOf(call);
  if (!n) return Reject("attribute", "{}", n.error().message());
  for (size_t i = 1; i < call.inputs.size(); ++i) {
    if (call.has_input(i) && ElementsOf(call.inputs[i]) != *n) {
      return Reject("shape", "input {} is {}, expected {} elements", i, call.inputs[i].ToString(),
                    *n);
    }
  }
  return std::nullopt;
}

struct LayerState {
  int64_t rows, n, grain;
  float epsilon;
  bool has_bias, rms, writes_mean, writes_inverse;
  Isa isa;

  void Run(const void* const* in, void* const* out, const RunContext& context) const {
    const auto *x = static_cast<const float*>(in[0]), *scale = static_cast<const float*>(in[1]);
    const auto* bias = has_bias ? static_cast<const float*>(in[2]) : nullptr;
    auto* y = static_cast<float*>(out[0]);
    const NormTable& table = NormTableFor(isa);
    context.pool.ParallelFor(rows, grain, [&](int64_t begin, int64_t end) {
      if (!rms) {
        table.layer_norm_rows(x + begin * n, scale, bias, y + begin * n, end - begin, n, epsilon,
                              writes_mean ? static_cast<float*>(out[1]) + begin : nullptr,
                              writes_inverse ? static_cast<float*>(out[2]) + begin : nullptr);
        return;
      }
      for (int64_t r = begin; r < end; ++r)
        table.rms_norm_row(x + r * n, scale, y + r * n, n, epsilon);
    });
  }
};

Result<BoundKernel> BindLayer(const KernelCall& call, const BindOptions& options) {
  LayerState state;
  EVOQ_ASSIGN(state.n, RowOf(call));
  state.rows = state.n == 0 ? 0 : ElementsOf(call.inputs[0]) / state.n;
  state.grain = Grain(state.rows, static_cast<double>(state.n) * 0.3 + 5, options.threads);
  state.epsilon = call.attrs.Float("epsilon", 1e-5f);
  state.has_bias = call.has_input(2);
  state.rms = call.op == "RMSNormalization";
  const auto written = [&](size_t i) {
    return call.outputs.size() > i && call.outputs[i].dtype != DType::kUndefined;
  };
  state.writes_mean = written(1);
  state.writes_inverse = written(2);
  state.isa = options.isa;
  return BoundKernel::Of(state);
}

// ---- per channel

struct Channels {
  int64_t batch, channels, pixels;
  bool last;
};

Channels ChannelsOf(const KernelCall& call) {
  const Shape& x = call.inputs[0].shape;
  const bool last = call.attrs.Int("channels_last") == 1;
  const int64_t channels = x[last ? x.rank() - 1 : 1].value, image = x[0].value * channels;
  return {x[0].value, channels, image == 0 ? 0 : ElementsOf(call.inputs[0]) / image, last};
}

std::optional<Reason> RejectChannels(const KernelCall& call, size_t parameters) {
  if (auto rejection = RejectTypes(call)) return rejection;
  if (call.inputs[0].shape.rank() < 2)
    return Reject("shape", "input 0 is {}, expected rank 2 or more", call.inputs[0].ToString());
  for (size_t i = 1; i <= parameters; ++i) {
    if (!call.has_input(i) || ElementsOf(call.inputs[i]) != ChannelsOf(call).channels) {
      return Reject("shape", "input {} is {}, expected one per channel", i,
                    call.has_input(i) ? call.inputs[i].ToString() : "missing");
    }
  }
  return std::nullopt;
}

std::optional<Reason> RejectBatch(const KernelCall& call) {
  if (auto rejection = RejectChannels(call, 4)) return rejection;
  if (call.outputs.size() > 1 || call.attrs.Int("training_mode") != 0)
    return Reject("attribute", "training mode");
  for (size_t i = 1; i <= 4; ++i) {
    if (call.constant(i) == nullptr)
      return Reject("not-constant", "input {} is computed at run time", i);
  }
  return std::nullopt;
}

// y = x * a + b, a = scale / sqrt(var + epsilon), b = bias - mean * a.
struct BatchState {
  Channels shape;
  std::vector<float> a, b;
  Isa isa;
  int64_t grain;

  void Run(const void* const* in, void* const* out, const RunContext& context) const {
    const auto* x = static_cast<const float*>(in[0]);
    auto* y = static_cast<float*>(out[0]);
    const NormTable& table = NormTableFor(isa);
    if (shape.last) {
      return context.pool.ParallelFor(
          shape.batch * shape.pixels, grain, [&](int64_t begin, int64_t end) {
            const int64_t at = begin * shape.channels;
            table.affine_pixels(x + at, a.data(), b.data(), y + at, end - begin, shape.channels);
          });
    }
    context.pool.ParallelFor(shape.batch * shape.channels, grain, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        const int64_t c = i % shape.channels;
        table.affine_run(x + i * shape.pixels, a[c], b[c], y + i * shape.pixels, shape.pixels);
      }
    });
  }
};

Result<BoundKernel> BindBatch(const KernelCall& call, const BindOptions& options) {
  BatchState state;
  state.shape = ChannelsOf(call);
  const float epsilon = call.attrs.Float("epsilon", 1e-5f);
  const auto at = [&](size_t input, int64_t c) { return call.constant(input)->data<float>()[c]; };
  for (int64_t c = 0; c < state.shape.channels; ++c) {
    state.a.push_back(at(1, c) / std::sqrt(at(4, c) + epsilon));
    state.b.push_back(at(2, c) - at(3, c) * state.a.back());
  }
  state.isa = options.isa;
  const int64_t items =
      state.shape.batch * (state.shape.last ? state.shape.pixels : state.shape.channels);
  const int64_t each = state.shape.last ? state.shape.channels : state.shape.pixels;
  state.grain = Grain(items, static_cast<double>(each) * 0.2 + 2, options.threads);
  return BoundKernel::Of(std::move(state));
}

std::optional<Reason> RejectInstance(const KernelCall& call) { return RejectChannels(call, 2); }

struct InstanceState {
  static constexpr int64_t kGroup = 16;  // channels of a task
  Channels shape;
  float epsilon;
  Isa isa;
  int64_t grain;

  int64_t groups() const { return CeilDiv(shape.channels, kGroup); }
  void Run(const void* const* in, void* const* out, const RunContext& context) const {
    const int64_t image = shape.channels * shape.pixels;
    context.pool.ParallelFor(shape.batch * groups(), grain, [&](int64_t begin, int64_t end) {
      for (int64_t at = begin, count; at < end; at += count) {  // the groups of an image together
        const int64_t n = at / groups(), first = at % groups();
        count = std::min(groups() - first, end - at);
        NormTableFor(isa).instance_norm(
            static_cast<const float*>(in[0]) + n * image, static_cast<const float*>(in[1]),
            static_cast<const float*>(in[2]), static_cast<float*>(out[0]) + n * image, shape.pixels,
            shape.channels, shape.last, first * kGroup,
            std::min((first + count) * kGroup, shape.channels), epsilon);
      }
    });
  }
};

Result<BoundKernel> BindInstance(const KernelCall& call, const BindOptions& options) {
  InstanceState state{ChannelsOf(call), call.attrs.Float("epsilon", 1e-5f), options.isa, 1};
  state.grain = Grain(state.shape.batch * state.groups(),
                      static_cast<double>(state.shape.pixels) * 8 + 5, options.threads);
  return BoundKernel::Of(state);
}

std::optional<Reason> RejectGroup(const KernelCall& call) {
  if (auto rejection = RejectChannels(call, 2)) return rejection;
  const int64_t groups = call.attrs.Int("num_groups");
  if (groups < 1 || ChannelsOf(call).channels % groups != 0)
    return Reject("attribute", "{} groups of {} channels", groups, ChannelsOf(call).channels);
  return std::nullopt;
}

struct GroupState {
  static constexpr int64_t kLeast = 16;  // channels of a task, which may be more than a group
  Channels shape;
  int64_t size;  // of a group
  float epsilon;
  Isa isa;
  int64_t grain = 1;

  int64_t task() const { return size * CeilDiv(kLeast, size); }
  int64_t tasks() const { return CeilDiv(shape.channels, task()); }
  void Run(const void* const* in, void* const* out, const RunContext& context) const {
    const int64_t image = shape.channels * shape.pixels;
    context.pool.ParallelFor(shape.batch * tasks(), grain, [&](int64_t begin, int64_t end) {
      for (int64_t at = begin; at < end;) {  // the tasks of an image together
        const int64_t n = at / tasks(), first = at % tasks(),
                      last = std::min(tasks(), first + end - at);
        auto* means = reinterpret_cast<float*>(context.scratch) + 2 * n * shape.channels;
        NormTableFor(isa).group_norm(
            static_cast<const float*>(in[0]) + n * image, static_cast<const float*>(in[1]),
            static_cast<const float*>(in[2]), static_cast<float*>(out[0]) + n * image, shape.pixels,
            shape.channels, size, shape.last, first * task(),
            std::min(last * task(), shape.channels), epsilon, means, means + shape.channels);
        at += last - first;
      }
    });
  }
};

Result<BoundKernel> BindGroup(const KernelCall& call, const BindOptions& options) {
  GroupState state{ChannelsOf(call), 1, call.attrs.Float("epsilon", 1e-5f), options.isa};
  if (state.shape.channels > 0) state.size = state.shape.channels / call.attrs.Int("num_groups");
  state.grain =
      Grain(state.shape.batch * state.tasks(),
            static_cast<double>(state.shape.pixels * state.task()) * 0.4 + 5, options.threads);
  const auto scratch =
      static_cast<size_t>(2 * state.shape.batch * state.shape.channels) * sizeof(float);
  return BoundKernel::Of(state, scratch);
}

}  // namespace

#define EVOQ_NORM(symbol, kernel_name, op_name, reject_call, bind_call) \
  extern const KernelDef symbol = {                                     \
      .name = kernel_name,                                              \
      .op = op_name,                                                    \
      .precision = Precision::kFloat32,                                 \
      .peak = Peak::kMemory,                                            \
      .reject = reject_call,                                            \
      .bind = bind_call,                                                \
  };
EVOQ_NORM(kLayerNormFloat, "layer_norm_f32", "LayerNormalization", RejectLayer, BindLayer)
EVOQ_NORM(kRmsNormFloat, "rms_norm_f32", "RMSNormalization", RejectLayer, BindLayer)
EVOQ_NORM(kBatchNormFloat, "batch_norm_f32", "BatchNormalization", RejectBatch, BindBatch)
EVOQ_NORM(kInstanceNormFloat, "instance_norm_f32", "InstanceNormalization", RejectInstance,
          BindInstance)
EVOQ_NORM(kGroupNormFloat, "group_norm_f32", "GroupNormalization", RejectGroup, BindGroup)
#undef EVOQ_NORM

}  // namespace evoq
