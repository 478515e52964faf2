// NF4, a type of 4 bits that ONNX has no number for: the element's bits are a place in a table of
// 16 numbers in [-1, 1], quantiles of the normal distribution with zero among them (Dettmers et
// al., "QLoRA: Efficient Finetuning of Quantized LLMs", 2023, appendix E).
#pragma once

#include <optional>

#include "tensor/dtype.h"

namespace evoq {

inline constexpr DType kNormalFloat4 = static_cast<DType>(64);

// Aligned for vectors.
alignas(64) inline constexpr float kNormalFloat4Values[16] = {-1.0f,
                                                              -0.6961928009986877f,
                                                              -0.5250730514526367f,
                                                              -0.39491748809814453f,
                                                              -0.28444138169288635f,
                                                              -0.18477343022823334f,
                                                              -0.09105003625154495f,
                                                              0.0f,
                                                              0.07958029955625534f,
                                                              0.16093020141124725f,
                                                              0.24611230194568634f,
                                                              0.33791524171829224f,
                                                              0.44070982933044434f,
                                                              0.5626170039176941f,
                                                              0.7229568362236023f,
                                                              1.0f};

// The DType with this number in an .etm file: ONNX's, or one that only evoq has; else nothing.
std::optional<DType> DTypeFromEtm(int number);

}  // namespace evoq
