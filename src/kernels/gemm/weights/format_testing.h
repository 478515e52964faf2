// For tests of the weight formats: what each of them stores.
#pragma once

#include <cmath>
#include <random>
#include <string>
#include <vector>

#include "base/math.h"
#include "kernels/gemm/weights/formats.h"

namespace evoq {

// A type of weights that a format stores, without its shape.
struct WeightKind {
  const WeightFormat* format;  // plain C++
  DType dtype;
  enum Scales { kTensor, kColumns, kBlocks } scales;
  int64_t block;
  bool zeros;

  std::string Name() const {
    return fmt::format("{} {} {}{}", format->name, DTypeName(dtype),
                       scales == kTensor    ? "one scale"
                       : scales == kColumns ? "columns"
                                            : fmt::format("blocks of {}", block),
                       zeros ? ", zero points" : "");
  }

  TensorType Type(int64_t k, int64_t n, std::mt19937& random) const {
    QuantParams quant;
    const int64_t blocks = (k + block - 1) / block;
    const int64_t count = scales == kTensor ? 1 : scales == kColumns ? n : blocks * n;
    std::uniform_real_distribution<float> uniform(0.005f, 0.02f);
    const int64_t low = IntegerMin(dtype), range = IntegerMax(dtype) - low + 1;
    for (int64_t i = 0; i < count; ++i) {
      quant.scales.push_back(uniform(random));
      quant.zero_points.push_back(
          zeros ? static_cast<int32_t>(low + static_cast<int64_t>(random()) % range) : 0);
    }
    quant.axis = scales == kTensor ? -1 : scales == kColumns ? 1 : 0;
    quant.block = scales == kBlocks ? block : 0;
    return TensorType(dtype, Shape{k, n}, std::move(quant));
  }
};

// Every kind of weights that the rows of formats.inc say they store.
inline std::vector<WeightKind> AllWeightKinds() {
  std::vector<WeightKind> kinds;
  for (WeightFormatRows rows : AllWeightFormats()) {
    const WeightFormat& f = *rows.back().table;
    for (DType dtype : f.dtypes) {
      if (dtype == DType::kUndefined) continue;
      for (bool zeros : {false, true}) {
        if (zeros && f.zeros == WeightZeros::kNone) continue;
        kinds.push_back({&f, dtype, WeightKind::kTensor, 1, zeros});
        kinds.push_back({&f, dtype, WeightKind::kColumns, 1, zeros});
        if (zeros && f.zeros != WeightZeros::kBlocks) continue;
        for (int64_t block : {f.block, CeilDiv(int64_t{32}, f.block) * f.block, 3 * f.block})
          kinds.push_back({&f, dtype, WeightKind::kBlocks, block, zeros});
      }
    }
  }
  return kinds;
}

enum class Elements { kRandom, kLowest, kHighest };

// A tensor of `type` whose elements are random, or all the lowest or highest.
inline Tensor WeightsOf(const TensorType& type, Elements elements, std::mt19937& random) {
  Tensor w = Tensor::Allocate(type);
  const int bits = DTypeBits(type.dtype);
  // Of float8, whose infinities and NaNs are no weights.
  const auto finite = [&](uint8_t q) { return std::isfinite(TinyFloatToFloat(type.dtype, q)); };
  for (int64_t i = 0; i < w.elements(); ++i) {
    if (bits == 8 && IsFloat(type.dtype)) {
      uint8_t q = static_cast<uint8_t>(random());
      while (!finite(q)) q = static_cast<uint8_t>(random());
      if (elements != Elements::kRandom)
        q = FloatToTinyFloat(type.dtype, elements == Elements::kLowest ? -1e9f : 1e9f);
      w.mutable_raw()[i] = static_cast<std::byte>(q);
      continue;
    }
    const int64_t q = elements == Elements::kLowest    ? IntegerMin(type.dtype)
                      : elements == Elements::kHighest ? IntegerMax(type.dtype)
                                                       : static_cast<int64_t>(random());
    if (bits == 8) {
      w.mutable_raw()[i] = static_cast<std::byte>(q);
    } else {
      SetPackedBits(w.mutable_raw(), i, bits, static_cast<int>(q));
    }
  }
  return w;
}

}  // namespace evoq
