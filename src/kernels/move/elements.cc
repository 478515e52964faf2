// GatherElements(x, indices) and ScatterElements(x, indices, updates): an index per element, which
// replaces the element's own place along one axis. y = x[.., indices[i], ..], and a copy of x in
// which y[.., indices[i], ..] is updates[i], or joined with it by `reduction`, in index order: the
// sum or product, or the larger or smaller one, NaN where one is NaN. Negative indices count from
// the end. A kernel cannot fail: the executor refuses a run with an index outside [-size, size)
// (runtime/guard.h), and here it is clamped into x.
#include <algorithm>

#include "kernels/move/joins.h"
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
  Places places;
  places.rows = call.inputs[1].shape.sizes();
  places.strides = RowMajorStrides(call.inputs[0].shape.sizes());
  const auto last = places.rows.size() - 1;
  const auto axis = static_cast<size_t>(
      NormalizeAxis(call.attrs.Int("axis", 0), static_cast<int>(last) + 1).value());
  places.length = places.rows[last];
  places.size = call.inputs[0].shape[static_cast<int>(axis)].value;
  places.stride = places.strides[axis];
  places.step = axis == last ? 0 : 1;
  places.wide = call.inputs[1].dtype == DType::kInt64;
  places.strides[axis] = 0;
  places.rows.pop_back();
  for (int64_t size : places.rows) places.count *= size;
  return places;
}

// The elements [i, i + count) of the indices and the elements of x that they name: at[k], or, where
// that is null, first + k.
struct Found {
  int64_t i, count, first;
  const int64_t* at;
};
using Move = void (*)(const void* x, void* to, const Found& found);

// to[at[k]] = join(to[at[k]], x[k])
template <typename Join>
void JoinAt(const void* x, void* to, const Found& found) {
  const float* __restrict from = static_cast<const float*>(x) + found.i;
  float* __restrict y = static_cast<float*>(to);
  if (found.at == nullptr) {
    y += found.first;
    for (int64_t k = 0; k < found.count; ++k) y[k] = Join()(y[k], from[k]);
    return;
  }
  for (int64_t k = 0; k < found.count; ++k) y[found.at[k]] = Join()(y[found.at[k]], from[k]);
}
struct PlaceJoins {
  template <typename Join>
  static Move Of() {
    return JoinAt<Join>;
  }
};

std::optional<Reason> RejectElements(const KernelCall& call) {
  if (auto unknown = RejectUnknownShapes(call)) return unknown;
  const bool scatters = call.inputs.size() > 2;
  for (size_t i = 0; i < call.inputs.size(); i += 2) {
    if (auto rejection = RejectUnlessSame(call, i)) return rejection;
  }
  const TensorType &x = call.inputs[0], &indices = call.inputs[1], &y = call.outputs[0];
  if (indices.dtype != DType::kInt64 && indices.dtype != DType::kInt32)
    return Reject("types", "indices are {}, expected int64 or int32", indices.ToString());
  const int rank = x.shape.rank();
  const auto axis = NormalizeAxis(call.attrs.Int("axis", 0), rank);
  if (!axis) return Reject("attribute", "{}", axis.error().message());
  bool fits = indices.shape.rank() == rank &&
              (x.shape[*axis].value > 0 || ElementsOf(indices) == 0) &&
              (scatters ? y.shape == x.shape && call.inputs[2].shape == indices.shape
                        : y.shape == indices.shape);
  for (int d = 0; fits && d < rank; ++d)
    fits = d == *axis || indices.shape[d].value <= x.shape[d].value;
  if (!fits)
    return Reject("shape", "{} at {} -> {}", x.ToString(), indices.ToString(), y.ToString());
  const std::string reduction = call.attrs.String("reduction", "none");
  if (reduction != "none" && (!PlainFloat(x) || JoinNamed<PlaceJoins>(reduction) == nullptr))
    return Reject("attribute", "reduction {} of {}", reduction, x.ToString());
  return std::nullopt;
}

constexpr int64_t kAtOnce = 256;  // places that are found before their elements move

// at[k] = the element of x that index `first` + k of a row names, for k < count; `base` is the
// row's, `first` included. Whether they lie beside one another, as where all indices of the row are
// the same: then at[0] alone is found.
template <typename Index>
__attribute__((noinline)) bool FindPlaces(const Places& p, const Index* indices, int64_t base,
                                          int64_t count, int64_t* at) {
  const int64_t size = p.size, stride = p.stride, step = p.step;
  Index differ = 0;
  for (int64_t k = 0; k < count; ++k) differ |= indices[k] ^ indices[0];
  const bool beside = differ == 0 && step == 1;
  for (int64_t k = 0; k < (beside ? 1 : count); ++k, base += step) {
    const int64_t given = indices[k];
    at[k] = base + std::clamp<int64_t>(given < 0 ? given + size : given, 0, size - 1) * stride;
  }
  return beside;
}

// Calls visit(found) for the indices of rows [begin, end), a part of a row at a time.
template <typename Visit>
void ForPlaces(const Places& p, const void* indices, int64_t begin, int64_t end,
               const Visit& visit) {
  int64_t at[kAtOnce];
  for (int64_t row = begin; row < end; ++row) {
    const int64_t base = p.RowAt(row);
    for (int64_t j = 0; j < p.length; j += kAtOnce) {
      const int64_t i = row * p.length + j, count = std::min(kAtOnce, p.length - j),
                    first = base + j * p.step;
      const bool beside =
          p.wide ? FindPlaces(p, static_cast<const int64_t*>(indices) + i, first, count, at)
                 : FindPlaces(p, static_cast<const int32_t*>(indices) + i, first, count, at);
      visit(Found{i, count, at[0], beside ? nullptr : at});
    }
  }
}

// to[k] = x[at[k]]
template <typename T>
void Pick(const void* x, void* to, const Found& found) {
  const T* const from = static_cast<const T*>(x);
  T* const y = static_cast<T*>(to) + found.i;
  if (found.at == nullptr) {
    std::copy_n(from + found.first, found.count, y);
    return;
  }
  for (int64_t k = 0; k < found.count; ++k) y[k] = from[found.at[k]];
}
// to[at[k]] = x[k]
template <typename T>
void Put(const void* x, void* to, const Found& found) {
  const T* const from = static_cast<const T*>(x) + found.i;
  T* const y = static_cast<T*>(to);
  if (found.at == nullptr) {
    std::copy_n(from, found.count, y + found.first);
    return;
  }
  for (int64_t k = 0; k < found.count; ++k) y[found.at[k]] = from[k];
}

Move PickOf(int64_t bytes) {
  return bytes == 1   ? Pick<uint8_t>
         : bytes == 2 ? Pick<uint16_t>
         : bytes == 4 ? Pick<uint32_t>
                      : Pick<uint64_t>;
}
Move PutOf(int64_t bytes) {
  return bytes == 1   ? Put<uint8_t>
         : bytes == 2 ? Put<uint16_t>
         : bytes == 4 ? Put<uint32_t>
                      : Put<uint64_t>;
}

struct ElementsState {
  Places places;
  Move move;
  int64_t copied = 0, grain = 1;  // bytes of x that come first
  bool scatters = false;

  void Rows(const void* const* in, void* const* out, int64_t begin, int64_t end) const {
    const void* from = in[scatters ? 2 : 0];
    ForPlaces(places, in[1], begin, end, [&](const Found& found) { move(from, out[0], found); });
  }

  void Run(const void* const* in, void* const* out, const RunContext& context) const {
    if (!scatters) {
      context.pool.ParallelFor(places.count, grain,
                               [&](int64_t begin, int64_t end) { Rows(in, out, begin, end); });
      return;
    }
    // Indices may name a place twice, so one thread takes them all, in order.
    if (in[0] != out[0] && copied > 0) std::memcpy(out[0], in[0], static_cast<size_t>(copied));
    Rows(in, out, 0, places.count);
  }
};

Result<BoundKernel> BindElements(const KernelCall& call, const BindOptions& options) {
  const int64_t bytes = ElementBytes(call.inputs[0].dtype);
  ElementsState state{.places = PlacesOf(call)};
  state.scatters = call.inputs.size() > 2;
  const std::string reduction = call.attrs.String("reduction", "none");
  state.move = !state.scatters       ? PickOf(bytes)
               : reduction == "none" ? PutOf(bytes)
                                     : JoinNamed<PlaceJoins>(reduction);
  state.copied = ElementsOf(call.inputs[0]) * bytes;
  constexpr double kElementNs = 1.0;
  state.grain = Grain(state.places.count, static_cast<double>(state.places.length) * kElementNs,
                      options.threads);
  return BoundKernel::Of(std::move(state));
}

uint32_t InPlace(const KernelCall&) { return 1; }

}  // namespace

extern const KernelDef kGatherElementsKernel = {
    .name = "gather_elements",
    .op = "GatherElements",
    .precision = Precision::kAny,
    .peak = Peak::kMemory,
    .reject = RejectElements,
    .bind = BindElements,
};

extern const KernelDef kScatterElementsKernel = {
    .name = "scatter_elements",
    .op = "ScatterElements",
    .precision = Precision::kAny,
    .peak = Peak::kMemory,
    .reject = RejectElements,
    .bind = BindElements,
    .in_place = InPlace,
};

}  // namespace evoq
