// Integer kernels that are slower than float32 at some shapes.
#pragma once

#include <optional>

#include "kernels/kernel.h"

namespace evoq {

// Why float32's kernel computes the call, which `kernel` takes, faster, so that quantization leaves
// the step in float32. Nothing where integers pay, as far as is known.
std::optional<Reason> SlowerThanFloat(const KernelDef& kernel, const KernelCall& call);
// The same of a kernel on data that no other integer kernel gives, which are still to be rounded.
std::optional<Reason> SlowerBesideFloats(const KernelDef& kernel, const KernelCall& call);
// Whether that depends on the call for any kernel of the operator.
bool MayBeSlower(std::string_view op);

}  // namespace evoq
