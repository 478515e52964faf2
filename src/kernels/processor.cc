// The processor as a backend: the host's memory, every kernel of kernels.inc.
#include "base/aligned.h"
#include "kernels/backend.h"

namespace evoq {
namespace {

Result<std::shared_ptr<std::byte>> Allocate(size_t bytes) {
  auto buffer = std::make_shared<AlignedBuffer>(bytes);
  std::byte* const data = buffer->data();
  return std::shared_ptr<std::byte>(std::move(buffer), data);
}

}  // namespace

extern const MemorySpace kHostMemory = {.name = "host", .allocate = Allocate};

extern const Backend kProcessor = {
    .name = "processor", .memory = &kHostMemory, .kernels = AllKernels};

}  // namespace evoq
