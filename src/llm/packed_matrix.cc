#include "llm/packed_matrix.h"

#include <cmath>
#include <cstring>

#include "base/budget_scope.h"
#include "base/math.h"
#include "llm/settings.h"

namespace evoq {
namespace {

DType TypeOf(const PackedNumbers& q) {
  const int bits = q.bits;
  if (q.bytes) return DType::kInt8;
  if (q.real) return DType::kFloat4E2M1;
  return bits == 2 ? DType::kUint2 : bits == 4 ? DType::kUint4 : DType::kUint8;
}

}  // namespace

std::vector<int64_t> PackedNumbers::sizes() const {
  return down ? std::vector{CeilDiv(rows, int64_t{per_word()}), columns}
              : std::vector{rows, CeilDiv(columns, int64_t{per_word()})};
}

int PackedNumbers::At(int64_t row, int64_t column) const {
  if (bytes) return static_cast<int8_t>(words[static_cast<size_t>(row * columns + column)]);
  if (in_runs) {
    const int64_t run = rows * bits / 8;
    const auto byte = static_cast<int>(words[static_cast<size_t>(row % run * columns + column)]);
    return byte >> (row / run * bits) & ((1 << bits) - 1);
  }
  const int64_t along = down ? row : column, word = along / per_word();
  const int64_t at =
      down ? word * columns + column : row * CeilDiv(columns, int64_t{per_word()}) + word;
  uint32_t value;
  std::memcpy(&value, words.data() + 4 * at, sizeof(value));
  const int shift = bits * places[static_cast<size_t>(along % per_word())];
  return static_cast<int>(value >> shift & ((1u << bits) - 1));
}

Result<Tensor> GroupedMatrix::ToConstant() const {
  const int64_t scales = groups() * outputs;
  EVOQ_TRY(SpendMemory(inputs * outputs * q.bits / 8 + scales * 8, "weights in blocks"));
  QuantParams quant;
  std::vector<bool> zeros;  // groups whose scale is 0
  for (int64_t g = 0; g < groups(); ++g) {
    for (int64_t n = 0; n < outputs; ++n) {
      const float s = scale(g, n);
      if (!std::isfinite(s) || s < 0)
        return InvalidInput("output {}, group {}: the scale is {}", n, g, s);
      zeros.push_back(s == 0);
      quant.scales.push_back(s == 0 ? 1 : s);
      quant.zero_points.push_back(zero(g, n));
    }
  }
  const bool whole = groups() == 1;
  quant.axis = whole ? 1 : 0;
  quant.block = whole ? 0 : group;
  const DType dtype = TypeOf(q);
  Tensor out = Tensor::Allocate(TensorType(dtype, Shape{inputs, outputs}));
  std::byte* const to = out.mutable_raw();
  for (int64_t k = 0; k < inputs; ++k) {
    const int64_t from = order.empty() ? k : order[static_cast<size_t>(k)];
    for (int64_t n = 0; n < outputs; ++n) {
      const auto at = static_cast<size_t>(k / group * outputs + n);
      const int value = zeros[at]   ? quant.zero_points[at]
                        : by_output ? q.At(n, from)
                                    : q.At(from, n);
      if (q.bits == 8) {
        to[k * outputs + n] = static_cast<std::byte>(value);
      } else {
        SetPackedBits(to, k * outputs + n, q.bits, value);
      }
    }
  }
  return out.WithType(TensorType(dtype, Shape{inputs, outputs}, std::move(quant)));
}

Result<std::vector<int64_t>> OrderByGroup(const StoredTensor& stored, int64_t inputs,
                                          int64_t group) {
  std::vector<std::vector<int64_t>> by_group(static_cast<size_t>(inputs / group));
  bool sorted = true;
  for (int64_t k = 0; k < inputs; ++k) {
    int32_t g;
    std::memcpy(&g, stored.bytes.data() + 4 * k, sizeof(g));
    if (g < 0 || g >= inputs / group)
      return InvalidInput("g_idx: input {} is in group {} of {}", k, g, inputs / group);
    sorted &= g == k / group;
    by_group[static_cast<size_t>(g)].push_back(k);
  }
  std::vector<int64_t> order;
  if (sorted) return order;
  for (size_t g = 0; g < by_group.size(); ++g) {
    if (static_cast<int64_t>(by_group[g].size()) != group)
      return Unsupported("g_idx: group {} has {} inputs, expected {}", g, by_group[g].size(),
                         group);
    order.insert(order.end(), by_group[g].begin(), by_group[g].end());
  }
  return order;
}

StoredTensor Joined(std::string format, GroupedMatrix matrix, std::vector<StoredTensor> parts) {
  StoredTensor out{.sizes = {matrix.outputs, matrix.inputs}};
  JoinedWeight joined{
      .format = std::move(format), .order = matrix.order, .parts = std::move(parts)};
  joined.constant = [matrix = std::move(matrix)] { return matrix.ToConstant(); };
  out.joined = std::make_shared<const JoinedWeight>(std::move(joined));
  return out;
}

Result<int64_t> GroupOf(const nlohmann::json& settings, int64_t inputs) {
  const nlohmann::json* given = First(settings, {"group_size", "q_group_size"});
  const nlohmann::json size = given != nullptr ? *given : nlohmann::json(128);
  if (!size.is_number_integer()) return InvalidInput("group_size is {}", size.dump().substr(0, 60));
  const auto group_size = size.get<int64_t>();
  if (group_size == -1 || group_size == inputs) return inputs;
  if (group_size < 1 || inputs % group_size != 0)
    return Unsupported("group_size {} for {} inputs", group_size, inputs);
  return group_size;
}

std::function<float(int64_t g, int64_t n)> ScalesByGroup(const StoredTensor& stored) {
  return [stored](int64_t g, int64_t n) { return RealAt(stored, g * stored.sizes[1] + n); };
}

float RealAt(const StoredTensor& stored, int64_t i) {
  if (stored.dtype == DType::kFloat32) {
    float value;
    std::memcpy(&value, stored.bytes.data() + 4 * i, sizeof(value));
    return value;
  }
  uint16_t bits;
  std::memcpy(&bits, stored.bytes.data() + 2 * i, sizeof(bits));
  return stored.dtype == DType::kFloat16 ? HalfToFloat(bits) : Bfloat16ToFloat(bits);
}

Status CheckReal(const StoredTensor& stored, const std::string& name) {
  const DType d = stored.dtype;
  if (stored.blocks == nullptr &&
      (d == DType::kFloat32 || d == DType::kFloat16 || d == DType::kBfloat16))
    return {};
  return InvalidInput("tensor {} is {}, expected float32, float16 or bfloat16", name,
                      stored.ToString());
}

}  // namespace evoq
