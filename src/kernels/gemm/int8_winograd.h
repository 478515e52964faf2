// Winograd's convolution in exact integers: 3 x 3, stride 1, one group. 2.25 times fewer products
// of int16 than there are of bytes: for instruction sets without a dot product of bytes, where both
// cost the same. int8_winograd_tile.h has the formulas.
#pragma once

#include <string_view>

#include "kernels/gemm/int8_linear.h"
#include "kernels/gemm/int8_winograd_tile.h"

namespace evoq {

// With dot products of four bytes the direct product is faster: only machines without them, but
// with AVX2, take this one.
inline constexpr IsaRow<Int8WinogradDef> kInt8WinogradRows[] = {
#if defined(__x86_64__)
    {.needs = Isa::kAvx512, .table = nullptr},
    {.needs = Isa::kAvx2Vnni, .table = nullptr},
    {.needs = Isa::kAvx2VnniEvex, .table = nullptr},
    {.needs = Isa::kAvx2, .table = &kInt8WinogradAvx2},
#endif
    {.needs = Isa::kScalar, .table = nullptr}};

inline constexpr std::string_view kInt8Winograd = "winograd 2x2";

// Whether this way exists for the shape on the instruction set.
bool FitsInt8Winograd(const Int8Geometry& geometry, Isa isa);

// Whether BindInt8Winograd is to bind `spec`, whose weights are packed: where it fits, the operands
// are static and the weights' zero points 0, and the variant asks for it or leaves the choice, made
// on sizes alone.
bool TakesInt8Winograd(const Int8LinearSpec& spec, const BindOptions& options);
Result<BoundKernel> BindInt8Winograd(Int8LinearSpec spec, const BindOptions& options);

}  // namespace evoq
