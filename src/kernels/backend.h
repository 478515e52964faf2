// Where steps are computed. A backend is one row (Backend) in its own file, named by one line in
// kernels/backends.inc: the memory that its kernels read and write, and the kernels. The processor
// is one, and the last resort; docs/backends.md says what another one needs.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "kernels/kernel.h"

namespace evoq {

// Memory that is apart from other memory, and the queue of what happens to it. Backends that name
// the same MemorySpace read each other's values without copies. Where a function can fail while a
// model runs, that run fails with its error.
struct MemorySpace {
  const char* name;  // "host": in names of copies, messages and profiles
  // So many bytes of any content, 64-byte aligned, until the last owner goes. Errors: kTooLarge.
  // Host memory throws std::bad_alloc, as AlignedBuffer does.
  Result<std::shared_ptr<std::byte>> (*allocate)(size_t bytes);
  // What lanes of an executor work in, each in its own (RunContext::stream); null: nothing is
  // queued, kernels are done when they return.
  Result<std::shared_ptr<void>> (*open_stream)() = nullptr;
  // Waits for everything that was put into the stream. Null: there are no streams.
  Status (*wait)(void* stream) = nullptr;
  // Copies from the host's memory to this one, before all that is put into the stream later. The
  // host may change its bytes afterwards. Null: of the host.
  Status (*write)(std::byte* to, const std::byte* host, size_t bytes, void* stream) = nullptr;
  // Copies from this memory to the host's, after all that the stream holds: the bytes are there
  // when it returns. Null: of the host.
  Status (*read)(std::byte* host, const std::byte* from, size_t bytes, void* stream) = nullptr;
};

extern const MemorySpace kHostMemory;

struct Backend {
  const char* name;  // "processor"
  const MemorySpace* memory;
  // The preferred one of an operator first. Names are unique over all backends: they stand in .etm
  // plans.
  std::span<const KernelDef* const> (*kernels)();
};

extern const Backend kProcessor;

// The backends that a model may use, the preferred one first and the processor last: a step runs on
// the first that has a kernel for it, or by its definition on the processor.
class Target {
 public:
  // Those of this build (kernels/backends.inc).
  Target();
  // These, then the processor.
  explicit Target(std::vector<const Backend*> preferred);

  std::span<const Backend* const> backends() const { return backends_; }
  // The kernel of this name and who has it; both null where nobody does.
  struct Found {
    const Backend* backend = nullptr;
    const KernelDef* kernel = nullptr;
  };
  Found Find(std::string_view kernel) const;
  // Whether all its backends share one memory.
  bool HasOneMemory() const;

 private:
  std::vector<const Backend*> backends_;
};

}  // namespace evoq
