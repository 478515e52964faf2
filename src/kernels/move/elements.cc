// GatherElements(x, indices) and ScatterElements(x, indices, updates): an index per element, which
// replaces the element's own place along one axis. y = x[.., indices[i], ..], and a copy of x in
// which y[.., indices[i], ..] is updates[i], or is added updates[i], in index order. Negative
// indices count from the end. A kernel cannot fail: the executor refuses a run with an index
// outside [-size, size) (runtime/guard.h), and here it is clamped into x.
#include <algorithm>

#include "kernels/move/move.h"
#include "kernels/move/move_call.h"

namespace evoq {
namespace {

// Rows of the last axis of the indices, and where they lie in x.
struct Places {
  std::vector<int64_t> rows, strides;  // of the axes before the last; the axis itself has stride 0
  int64_t count = 1, length = 1;       // rows; indices in each
  int64_t size = 1, stride = 1;        // of the axis
  int64_t step = 1;                    // from one index to the next: 0 along the axis itself
  bool wide = true;

  int64_t RowAt(int64_t row) const {
    int64_t at = 0;
    for (size_t d = rows.size(); d-- > 0; row /= rows[d]) at += row % rows[d] * strides[d];
    return at;
  }
};

Places PlacesOf(const KernelCall& call) {
  const std::vector<int64_t> sizes = call.inputs[1].shape.sizes(),
                             strides = RowMajorStrides(call.inputs[0].shape.sizes());
  const auto last = sizes.size() - 1;
  const auto axis = static_cast<size_t>(
      NormalizeAxis(call.attrs.Int("axis", 0), static_cast<int>(sizes.size())).value());
  Places places;
  for (size_t d = 0; d < last; ++d) {
    places.rows.push_back(sizes[d]);
    places.strides.push_back(d == axis ? 0 : strides[d]);
    places.count *= sizes[d];
  }
  places.length = sizes[last];
  places.size = call.inputs[0].shape[static_cast<int>(axis)].value;
  places.stride = strides[axis];
  places.step = axis == last ? 0 : 1;
  places.wide = call.inputs[1].dtype == DType::kInt64;
  return places;
}

std::optional<Reason> RejectElements(const KernelCall& call) {
  if (auto unknown = RejectUnknownShapes(call)) return unknown;
  if (auto rejection = RejectUnlessSame(call, 0)) return rejection;
  const TensorType &x = call.inputs[0], &indices = call.inputs[1];
  if (indices.dtype != DType::kInt64 && indices.dtype != DType::kInt32)
    return Reject("types", "indices are {}, expected int64 or int32", indices.ToString());
  const int rank = x.shape.rank();
  const auto axis = NormalizeAxis(call.attrs.Int("axis", 0), rank);
  if (!axis) return Reject("attribute", "{}", axis.error().message());
  bool fits = indices.shape.rank() == rank;
  for (int d = 0; fits && d < rank; ++d)
    fits = d == *axis || indices.shape[d].value <= x.shape[d].value;
  if (!fits || (x.shape[*axis].value == 0 && ElementsOf(indices) > 0))
    return Reject("shape", "{} at {}", x.ToString(), indices.ToString());
  return std::nullopt;
}

// Calls visit(i, at) for index i of rows [begin, end) and its element of x.
template <typename Index, typename Visit>
void ForEachPlace(const Places& p, const Index* indices, int64_t begin, int64_t end,
                  const Visit& visit) {
  const int64_t length = p.length, size = p.size, stride = p.stride, step = p.step;
  for (int64_t row = begin; row < end; ++row) {
    int64_t at = p.RowAt(row);
    for (int64_t i = row * length; i < (row + 1) * length; ++i, at += step) {
      const int64_t given = indices[i];
      const int64_t index = std::clamp<int64_t>(given < 0 ? given + size : given, 0, size - 1);
      visit(i, at + index * stride);
    }
  }
}
template <typename Visit>
void ForEachPlace(const Places& p, const void* indices, int64_t begin, int64_t end,
                  const Visit& visit) {
  if (p.wide) {
    ForEachPlace(p, static_cast<const int64_t*>(indices), begin, end, visit);
  } else {
    ForEachPlace(p, static_cast<const int32_t*>(indices), begin, end, visit);
  }
}

// function(an unsigned integer of `bytes` bytes)
template <typename Function>
void WithElement(int64_t bytes, const Function& function) {
  switch (bytes) {
    case 1: return function(uint8_t{});
    case 2: return function(uint16_t{});
    case 4: return function(uint32_t{});
    default: return function(uint64_t{});
  }
}

// ---- GatherElements

struct GatherElementsState {
  Places places;
  int64_t bytes = 4, grain = 1;

  void Run(const void* const* in, void* const* out, const RunContext& context) const {
    context.pool.ParallelFor(places.count, grain, [&](int64_t begin, int64_t end) {
      WithElement(bytes, [&](auto tag) {
        using T = decltype(tag);
        const T* x = static_cast<const T*>(in[0]);
        T* y = static_cast<T*>(out[0]);
        ForEachPlace(places, in[1], begin, end, [x, y](int64_t i, int64_t at) { y[i] = x[at]; });
      });
    });
  }
};

std::optional<Reason> RejectGatherElements(const KernelCall& call) {
  if (auto rejection = RejectElements(call)) return rejection;
  if (call.inputs[1].shape != call.outputs[0].shape)
    return Reject("shape", "indices {} -> {}", call.inputs[1].ToString(),
                  call.outputs[0].ToString());
  return std::nullopt;
}

constexpr double kElementNs = 1.0;

Result<BoundKernel> BindGatherElements(const KernelCall& call, const BindOptions& options) {
  GatherElementsState state{.places = PlacesOf(call), .bytes = ElementBytes(call.inputs[0].dtype)};
  state.grain = Grain(state.places.count, static_cast<double>(state.places.length) * kElementNs,
                      options.threads);
  return BoundKernel::Of(std::move(state));
}

// ---- ScatterElements

struct ScatterElementsState {
  Places places;
  int64_t bytes = 4, total = 0;
  bool add = false;

  // Indices may name a place twice, so one thread takes them all, in order.
  void Run(const void* const* in, void* const* out, const RunContext&) const {
    if (in[0] != out[0] && total > 0) std::memcpy(out[0], in[0], static_cast<size_t>(total));
    if (add) {
      const auto* updates = static_cast<const float*>(in[2]);
      auto* y = static_cast<float*>(out[0]);
      ForEachPlace(places, in[1], 0, places.count,
                   [=](int64_t i, int64_t at) { y[at] += updates[i]; });
      return;
    }
    WithElement(bytes, [&](auto tag) {
      using T = decltype(tag);
      const T* updates = static_cast<const T*>(in[2]);
      T* y = static_cast<T*>(out[0]);
      ForEachPlace(places, in[1], 0, places.count,
                   [=](int64_t i, int64_t at) { y[at] = updates[i]; });
    });
  }
};

std::optional<Reason> RejectScatterElements(const KernelCall& call) {
  if (auto rejection = RejectElements(call)) return rejection;
  if (auto rejection = RejectUnlessSame(call, 2)) return rejection;
  if (call.inputs[0].shape != call.outputs[0].shape || call.inputs[1].shape != call.inputs[2].shape)
    return Reject("shape", "{} in {} at {} -> {}", call.inputs[2].ToString(),
                  call.inputs[0].ToString(), call.inputs[1].ToString(), call.outputs[0].ToString());
  const std::string reduction = call.attrs.String("reduction", "none");
  if (reduction != "none" && (reduction != "add" || !PlainFloat(call.inputs[0])))
    return Reject("attribute", "reduction {} of {}", reduction, call.inputs[0].ToString());
  return std::nullopt;
}

Result<BoundKernel> BindScatterElements(const KernelCall& call, const BindOptions&) {
  ScatterElementsState state{.places = PlacesOf(call), .bytes = ElementBytes(call.inputs[0].dtype)};
  state.total = ElementsOf(call.inputs[0]) * state.bytes;
  state.add = call.attrs.String("reduction", "none") == "add";
  return BoundKernel::Of(std::move(state));
}

uint32_t InPlace(const KernelCall&) { return 1; }

}  // namespace

extern const KernelDef kGatherElementsKernel = {
    .name = "gather_elements",
    .op = "GatherElements",
    .precision = Precision::kAny,
    .peak = Peak::kMemory,
    .reject = RejectGatherElements,
    .bind = BindGatherElements,
};

extern const KernelDef kScatterElementsKernel = {
    .name = "scatter_elements",
    .op = "ScatterElements",
    .precision = Precision::kAny,
    .peak = Peak::kMemory,
    .reject = RejectScatterElements,
    .bind = BindScatterElements,
    .in_place = InPlace,
};

}  // namespace evoq
