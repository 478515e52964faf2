// NumPy's .npz archives of several arrays; reading them is in data/dataset.h.
#pragma once

#include <span>
#include <string>
#include <utility>

#include "base/result.h"
#include "tensor/tensor.h"

namespace evoq {

// An .npz of these arrays, by name, stored without compression; numpy.load and ReadNpz read it.
// Written whole or not at all. Errors: kInvalidInput for a name that occurs twice or has no place
// in an archive (empty, longer than 65,531 bytes); kUnsupported for packed layouts and types that
// .npy does not have; kTooLarge for an archive of 4 GiB or 65,535 arrays.
Status WriteNpz(std::span<const std::pair<std::string, Tensor>> arrays, const std::string& path);

}  // namespace evoq
