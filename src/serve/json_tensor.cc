#include "serve/json_tensor.h"

#include <cmath>
#include <limits>
#include <span>
#include <type_traits>

#include "base/check.h"
#include "serve/datatype.h"
#include "serve/fields.h"

namespace evoq::serve {
namespace {

using nlohmann::json;

// 16-bit floats are read and written as float32.
struct Half {
  uint16_t bits;
};
struct Bfloat {
  uint16_t bits;
};

// Calls `f` with a null pointer to the C++ type of the elements.
template <typename F>
auto WithElements(DType dtype, F&& f) {
  switch (dtype) {
    case DType::kBool: return f(static_cast<bool*>(nullptr));
    case DType::kUint8: return f(static_cast<uint8_t*>(nullptr));
    case DType::kUint16: return f(static_cast<uint16_t*>(nullptr));
    case DType::kUint32: return f(static_cast<uint32_t*>(nullptr));
    case DType::kUint64: return f(static_cast<uint64_t*>(nullptr));
    case DType::kInt8: return f(static_cast<int8_t*>(nullptr));
    case DType::kInt16: return f(static_cast<int16_t*>(nullptr));
    case DType::kInt32: return f(static_cast<int32_t*>(nullptr));
    case DType::kInt64: return f(static_cast<int64_t*>(nullptr));
    case DType::kFloat16: return f(static_cast<Half*>(nullptr));
    case DType::kBfloat16: return f(static_cast<Bfloat*>(nullptr));
    case DType::kFloat32: return f(static_cast<float*>(nullptr));
    case DType::kFloat64: return f(static_cast<double*>(nullptr));
    default: break;
  }
  EVOQ_CHECK(false, "{} has no name in the protocol", DTypeName(dtype));
}

// False: the type has no such number.
template <typename T>
bool Convert(const json& value, T& to) {
  if constexpr (std::is_same_v<T, bool>) {
    if (value.is_number_unsigned() && value.get<uint64_t>() < 2) {
      to = value.get<uint64_t>() == 1;
      return true;
    }
    if (!value.is_boolean()) return false;
    to = value.get<bool>();
    return true;
  } else if constexpr (std::is_integral_v<T>) {
    if (value.is_number_unsigned()) {
      const auto number = value.get<uint64_t>();
      to = static_cast<T>(number);
      return number <= static_cast<uint64_t>(std::numeric_limits<T>::max());
    }
    if (!value.is_number_integer()) return false;
    const auto number = value.get<int64_t>();
    to = static_cast<T>(number);
    return number >= 0 ||
           (std::is_signed_v<T> && number >= static_cast<int64_t>(std::numeric_limits<T>::min()));
  } else {
    if (!value.is_number()) return false;
    const auto number = value.get<double>();
    if constexpr (std::is_same_v<T, double>) {
      to = number;
      return std::isfinite(number);
    } else {
      const auto narrow = static_cast<float>(number);
      if constexpr (std::is_same_v<T, float>) {
        to = narrow;
        return std::isfinite(narrow);
      } else if constexpr (std::is_same_v<T, Half>) {
        to.bits = FloatToHalf(narrow);
        return std::isfinite(HalfToFloat(to.bits));
      } else {
        to.bits = FloatToBfloat16(narrow);
        return std::isfinite(Bfloat16ToFloat(to.bits));
      }
    }
  }
}

class Filler {
 public:
  Filler(const std::string& what, Tensor& tensor)
      : what_(what), sizes_(tensor.sizes()), tensor_(tensor) {}

  Served<void> Fill(const json& data);

 private:
  template <typename T>
  Served<void> FillLevel(const json& data, size_t level, T*& to) {
    if (!data.is_array() || data.size() != static_cast<size_t>(sizes_[level]))
      return Refuse(Why::kBadRequest, "{}: {} on level {} of data, expected a list of {}", what_,
                    Brief(data), level, sizes_[level]);
    if (level + 1 == sizes_.size()) return FillRow(data, to);
    for (const json& part : data) {
      if (auto filled = FillLevel(part, level + 1, to); !filled) return filled;
    }
    return {};
  }
  template <typename T>
  Served<void> FillRow(const json& row, T*& to) {
    for (const json& value : row) {
      if (!Convert(value, *to))
        return Refuse(Why::kBadRequest, "{}: {} in data, expected numbers of {}", what_,
                      Brief(value), DatatypeOf(tensor_.dtype()));
      ++to;
    }
    return {};
  }

  const std::string& what_;
  const std::vector<int64_t> sizes_;
  Tensor& tensor_;
};

Served<void> Filler::Fill(const json& data) {
  return WithElements(tensor_.dtype(), [&](auto* type) -> Served<void> {
    using T = std::remove_pointer_t<decltype(type)>;
    T* to = reinterpret_cast<T*>(tensor_.mutable_raw());
    if (!data.is_array())
      return Refuse(Why::kBadRequest, "{}: data is {}, expected a list", what_, Brief(data));
    const bool nested = !data.empty() && data[0].is_array();
    if (nested && !sizes_.empty()) return FillLevel(data, 0, to);
    if (data.size() != static_cast<size_t>(tensor_.elements()))
      return Refuse(Why::kBadRequest, "{}: {} elements of data, expected {}", what_, data.size(),
                    tensor_.elements());
    return FillRow(data, to);
  });
}

template <typename T>
bool AppendAll(const T* values, int64_t count, std::string& to) {
  fmt::memory_buffer text;
  auto end = std::back_inserter(text);
  for (int64_t i = 0; i < count; ++i) {
    if (i > 0) text.push_back(',');
    if constexpr (std::is_same_v<T, bool>) {
      fmt::format_to(end, "{}", values[i] ? "true" : "false");
    } else if constexpr (std::is_integral_v<T>) {
      fmt::format_to(end, "{}", +values[i]);
    } else {
      const auto number = [&] {
        if constexpr (std::is_same_v<T, Half>)
          return HalfToFloat(values[i].bits);
        else if constexpr (std::is_same_v<T, Bfloat>)
          return Bfloat16ToFloat(values[i].bits);
        else
          return values[i];
      }();
      if (!std::isfinite(number)) return false;
      fmt::format_to(end, "{}", number);
    }
  }
  to.append(text.data(), text.size());
  return true;
}

}  // namespace

Served<void> FillFromJson(const json& data, const std::string& what, Tensor& tensor) {
  return Filler(what, tensor).Fill(data);
}

bool AppendJson(const Tensor& tensor, std::string& to) {
  return WithElements(tensor.dtype(), [&](auto* type) {
    using T = std::remove_pointer_t<decltype(type)>;
    to += '[';
    const bool whole = AppendAll(reinterpret_cast<const T*>(tensor.raw()), tensor.elements(), to);
    to += ']';
    return whole;
  });
}

}  // namespace evoq::serve
