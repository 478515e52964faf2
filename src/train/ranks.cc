#include "train/ranks.h"

#include <dlfcn.h>

#include <algorithm>

#include "base/check.h"

namespace evoq {
namespace {

constexpr const char kLibrary[] = "libmpi.so.40";
constexpr size_t kMostBytes = size_t{1} << 30;  // of a message, whose count is an int

}  // namespace

// Open MPI's functions and objects, as its header has them: handles are addresses of objects.
struct Ranks::Library {
  int (*init)(int*, char***) = nullptr;
  int (*finalize)() = nullptr;
  int (*comm_rank)(void*, int*) = nullptr;
  int (*comm_size)(void*, int*) = nullptr;
  int (*send)(const void*, int, void*, int, int, void*) = nullptr;
  int (*receive)(void*, int, void*, int, int, void*, void*) = nullptr;
  int (*broadcast)(void*, int, void*, int, void*) = nullptr;
  void *world = nullptr, *byte = nullptr;

  template <typename F>
  static bool Find(void* library, const char* name, F*& to) {
    to = reinterpret_cast<F*>(::dlsym(library, name));
    return to != nullptr;
  }
  static bool Find(void* library, const char* name, void*& to) {
    to = ::dlsym(library, name);
    return to != nullptr;
  }
};

Result<std::unique_ptr<Ranks>> Ranks::Start() {
  // Its own plugins look for its names among those of the whole process.
  void* const opened = ::dlopen(kLibrary, RTLD_NOW | RTLD_GLOBAL);
  if (opened == nullptr)
    return Fail(ErrorCode::kNotFound,
                "--mpi: {} of Open MPI is not there ({}); Debian has it in libopenmpi3", kLibrary,
                ::dlerror());
  auto library = std::make_unique<Library>();
  const bool whole = Library::Find(opened, "MPI_Init", library->init) &&
                     Library::Find(opened, "MPI_Finalize", library->finalize) &&
                     Library::Find(opened, "MPI_Comm_rank", library->comm_rank) &&
                     Library::Find(opened, "MPI_Comm_size", library->comm_size) &&
                     Library::Find(opened, "MPI_Send", library->send) &&
                     Library::Find(opened, "MPI_Recv", library->receive) &&
                     Library::Find(opened, "MPI_Bcast", library->broadcast) &&
                     Library::Find(opened, "ompi_mpi_comm_world", library->world) &&
                     Library::Find(opened, "ompi_mpi_byte", library->byte);
  if (!whole) return Fail(ErrorCode::kNotFound, "--mpi: {} is not that of Open MPI", kLibrary);
  std::unique_ptr<Ranks> ranks(new Ranks());
  const bool begun = library->init(nullptr, nullptr) == 0 &&
                     library->comm_rank(library->world, &ranks->rank_) == 0 &&
                     library->comm_size(library->world, &ranks->size_) == 0;
  if (!begun) return Fail(ErrorCode::kConditionFailed, "--mpi: Open MPI could not be started");
  ranks->library_ = std::move(library);
  return ranks;
}

Ranks::~Ranks() {
  if (finished_ && library_ != nullptr) library_->finalize();
}

// Open MPI ends all processes where a message fails.
void Ranks::Send(std::span<const std::byte> bytes, int to) const {
  EVOQ_CHECK(bytes.size() <= kMostBytes, "{} bytes", bytes.size());
  library_->send(bytes.data(), static_cast<int>(bytes.size()), library_->byte, to, 0,
                 library_->world);
}

void Ranks::Receive(std::span<std::byte> bytes, int from) const {
  EVOQ_CHECK(bytes.size() <= kMostBytes, "{} bytes", bytes.size());
  library_->receive(bytes.data(), static_cast<int>(bytes.size()), library_->byte, from, 0,
                    library_->world, nullptr);  // nullptr: MPI_STATUS_IGNORE
}

void Ranks::Broadcast(std::span<std::byte> bytes, int from) const {
  for (size_t at = 0; at < bytes.size(); at += kMostBytes) {
    const size_t n = std::min(kMostBytes, bytes.size() - at);
    library_->broadcast(bytes.data() + at, static_cast<int>(n), library_->byte, from,
                        library_->world);
  }
}

uint64_t HashOf(std::span<const std::byte> bytes, uint64_t so_far) {
  for (const std::byte b : bytes)
    so_far = (so_far ^ std::to_integer<uint64_t>(b)) * 0x100000001b3ull;
  return so_far;
}

Status Ranks::CheckSame(uint64_t hash, const char* what) const {
  uint64_t first = hash;
  Broadcast(std::as_writable_bytes(std::span(&first, 1)), 0);
  uint64_t others = 0;
  const auto add = [&](size_t, std::span<uint64_t> part) {
    part[0] = (rank_ == 0 ? 0 : part[0]) + (hash != first ? 1 : 0);
  };
  SumInOrder<uint64_t>(std::span(&others, 1), add);
  if (others == 0) return {};
  return Fail(ErrorCode::kConditionFailed, "--mpi: {} of {} processes have {} than the first",
              others, size_, what);
}

}  // namespace evoq
