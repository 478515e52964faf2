// A backend for tests, whose memory is apart though it is the host's: its bytes are stored
// scrambled, so that what was not copied is wrong, its work is queued until somebody waits, and
// copies are counted.
#pragma once

#include <cstdint>
#include <cstring>
#include <functional>
#include <mutex>
#include <vector>

#include "base/aligned.h"
#include "kernels/backend.h"
#include "kernels/call_util.h"

namespace evoq::apart {

// What of a memory may fail.
enum class Act { kNone, kOpen, kWait, kWrite, kRead };

struct Counts {
  int written = 0, read = 0;  // copies to this memory, and from it
  int64_t written_bytes = 0, read_bytes = 0;
  int opened = 0, waits = 0;
  bool full = false;  // allocate fails
  Act broken = Act::kNone;
};

// What happens on one device, `kDevice` of them.
template <int kDevice>
struct Device {
  static constexpr std::byte kKey{0x5A + kDevice};
  static inline Counts counts;
  static inline std::mutex counting;  // streams of several threads

  using Stream = std::vector<std::function<void()>>;
  static void Drain(void* stream) {
    auto& queue = *static_cast<Stream*>(stream);
    for (const auto& work : queue) work();
    queue.clear();
  }
  static void Scramble(std::byte* to, const std::byte* from, size_t bytes) {
    for (size_t i = 0; i < bytes; ++i) to[i] = from[i] ^ kKey;
  }
  static std::vector<float> Floats(const void* from, int64_t count) {
    std::vector<float> values(static_cast<size_t>(count));
    Scramble(reinterpret_cast<std::byte*>(values.data()), static_cast<const std::byte*>(from),
             values.size() * sizeof(float));
    return values;
  }

  static Result<std::shared_ptr<std::byte>> Allocate(size_t bytes) {
    if (counts.full)
      return Fail(ErrorCode::kTooLarge, "apart: {} bytes, expected at most 0", bytes);
    auto buffer = std::make_shared<AlignedBuffer>(bytes);
    std::byte* const data = buffer->data();
    std::memset(data, 0xEE, bytes);
    return std::shared_ptr<std::byte>(std::move(buffer), data);
  }
  static Status Answer(Act act) {
    if (counts.broken != act) return {};
    return Fail(ErrorCode::kIo, "apart: the device does not answer");
  }
  static Result<std::shared_ptr<void>> Open() {
    EVOQ_TRY(Answer(Act::kOpen));
    ++counts.opened;
    return std::make_shared<Stream>();
  }
  static Status Wait(void* stream) {
    {
      const std::lock_guard lock(counting);
      ++counts.waits;
    }
    EVOQ_TRY(Answer(Act::kWait));
    Drain(stream);
    return {};
  }
  static Status Write(std::byte* to, const std::byte* host, size_t bytes, void* stream) {
    {
      const std::lock_guard lock(counting);
      ++counts.written;
      counts.written_bytes += static_cast<int64_t>(bytes);
    }
    EVOQ_TRY(Answer(Act::kWrite));
    std::vector<std::byte> taken(host, host + bytes);
    static_cast<Stream*>(stream)->push_back(
        [to, taken = std::move(taken)] { Scramble(to, taken.data(), taken.size()); });
    return {};
  }
  static Status Read(std::byte* host, const std::byte* from, size_t bytes, void* stream) {
    {
      const std::lock_guard lock(counting);
      ++counts.read;
      counts.read_bytes += static_cast<int64_t>(bytes);
    }
    EVOQ_TRY(Answer(Act::kRead));
    Drain(stream);
    Scramble(host, from, bytes);
    return {};
  }

  // y = f(inputs), element by element, float32 of one shape.
  static std::optional<Reason> RejectElements(const KernelCall& call) {
    for (const TensorType& type : call.inputs) {
      if (type.dtype != DType::kFloat32 || type.shape != call.outputs[0].shape)
        return Reason{"types", "takes float32 of one shape"};
    }
    return std::nullopt;
  }
  template <float (*kFunction)(float, float)>
  struct Elements {
    int64_t count;
    size_t operands;
    void Run(const void* const* in, void* const* out, const RunContext& context) const {
      const void *a = in[0], *b = operands > 1 ? in[1] : in[0];
      auto* const y = static_cast<std::byte*>(out[0]);
      static_cast<Stream*>(context.stream)->push_back([a, b, y, n = count] {
        std::vector<float> left = Floats(a, n);
        const std::vector<float> right = Floats(b, n);
        for (size_t i = 0; i < left.size(); ++i) left[i] = kFunction(left[i], right[i]);
        Scramble(y, reinterpret_cast<const std::byte*>(left.data()), left.size() * sizeof(float));
      });
    }
  };
  template <float (*kFunction)(float, float)>
  static Result<BoundKernel> BindElements(const KernelCall& call, const BindOptions&) {
    return BoundKernel::Of(
        Elements<kFunction>{*call.outputs[0].shape.elements(), call.inputs.size()},
        /*scratch_bytes=*/64);
  }

  // y [m, n] = x [m, k] times a constant w [k, n], float32.
  static std::optional<Reason> RejectProduct(const KernelCall& call) {
    if (call.inputs[0].dtype != DType::kFloat32 || call.inputs[0].shape.rank() != 2 ||
        call.inputs[1].shape.rank() != 2)
      return Reason{"types", "takes float32 matrices"};
    if (call.constant(1) == nullptr) return Reason{"not-constant", "takes constant weights"};
    return std::nullopt;
  }
  struct Product {
    int64_t m, k, n;
    void Run(const void* const* in, void* const* out, const RunContext& context) const {
      const void *a = in[0], *b = in[1];
      auto* const y = static_cast<std::byte*>(out[0]);
      static_cast<Stream*>(context.stream)->push_back([a, b, y, *this] {
        const std::vector<float> x = Floats(a, m * k), w = Floats(b, k * n);
        std::vector<float> sums(static_cast<size_t>(m * n));
        for (int64_t r = 0; r < m; ++r) {
          for (int64_t c = 0; c < n; ++c) {
            for (int64_t i = 0; i < k; ++i) sums[r * n + c] += x[r * k + i] * w[i * n + c];
          }
        }
        Scramble(y, reinterpret_cast<const std::byte*>(sums.data()), sums.size() * sizeof(float));
      });
    }
  };
  static Result<BoundKernel> BindProduct(const KernelCall& call, const BindOptions&) {
    const Shape &x = call.inputs[0].shape, &y = call.outputs[0].shape;
    return BoundKernel::Of(Product{x[0].value, x[1].value, y[1].value});
  }
};

inline float Positive(float a, float) { return a > 0 ? a : 0; }
inline float Sum(float a, float b) { return a + b; }

using First = Device<0>;
using Second = Device<1>;

template <typename D>
inline const MemorySpace kMemory = {.name = D::kKey == First::kKey ? "apart" : "elsewhere",
                                    .allocate = D::Allocate,
                                    .open_stream = D::Open,
                                    .wait = D::Wait,
                                    .write = D::Write,
                                    .read = D::Read};

inline const KernelDef kRelu = {.name = "apart_relu",
                                .op = "Relu",
                                .precision = Precision::kFloat32,
                                .peak = Peak::kMemory,
                                .reject = First::RejectElements,
                                .bind = First::BindElements<Positive>};
inline const KernelDef kAdd = {.name = "apart_add",
                               .op = "Add",
                               .precision = Precision::kFloat32,
                               .peak = Peak::kMemory,
                               .reject = First::RejectElements,
                               .bind = First::BindElements<Sum>};
inline const KernelDef kGather = {
    .name = "apart_gather",
    .op = "Gather",
    .precision = Precision::kAny,
    .peak = Peak::kMemory,
    .reject = [](const KernelCall&) { return std::optional<Reason>(); },
    .bind = First::BindElements<Sum>};
inline const KernelDef kMatMul = {.name = "elsewhere_matmul",
                                  .op = "MatMul",
                                  .precision = Precision::kFloat32,
                                  .peak = Peak::kFloat32,
                                  .reject = Second::RejectProduct,
                                  .bind = Second::BindProduct};

// Relu and Add, queued, in a memory that is apart.
inline const Backend kBackend = {.name = "apart", .memory = &kMemory<First>, .kernels = [] {
                                   static constexpr const KernelDef* kKernels[] = {&kRelu, &kAdd,
                                                                                   &kGather};
                                   return std::span<const KernelDef* const>(kKernels);
                                 }};
// MatMul, in another one.
inline const Backend kOther = {.name = "elsewhere", .memory = &kMemory<Second>, .kernels = [] {
                                 static constexpr const KernelDef* kKernels[] = {&kMatMul};
                                 return std::span<const KernelDef* const>(kKernels);
                               }};

}  // namespace evoq::apart
