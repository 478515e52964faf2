// A run after load allocates nothing. Left out under ThreadSanitizer, which has an operator new of
// its own.
#if defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define EVOQ_NO_ALLOCATION_TEST
#endif
#elif defined(__SANITIZE_THREAD__)
#define EVOQ_NO_ALLOCATION_TEST
#endif

#ifndef EVOQ_NO_ALLOCATION_TEST
#include <atomic>
#include <new>

#include "base/isa.h"
#include "compile/compile.h"
#include "tests/whole/models.h"

namespace {
std::atomic<bool> counting{false};
std::atomic<int64_t> allocations{0};

void* Allocate(std::size_t bytes, std::size_t alignment) {
  if (counting.load(std::memory_order_relaxed)) allocations.fetch_add(1);
  void* p = std::aligned_alloc(alignment, (bytes + alignment - 1) / alignment * alignment);
  if (p == nullptr) std::abort();
  return p;
}
}  // namespace

void* operator new(std::size_t bytes) { return Allocate(bytes ? bytes : 1, 16); }
void* operator new[](std::size_t bytes) { return Allocate(bytes ? bytes : 1, 16); }
void* operator new(std::size_t bytes, std::align_val_t a) {
  return Allocate(bytes ? bytes : 1, std::max<std::size_t>(16, static_cast<std::size_t>(a)));
}
void* operator new[](std::size_t bytes, std::align_val_t a) { return operator new(bytes, a); }
void operator delete(void* p) noexcept { std::free(p); }
void operator delete[](void* p) noexcept { std::free(p); }
void operator delete(void* p, std::size_t) noexcept { std::free(p); }
void operator delete[](void* p, std::size_t) noexcept { std::free(p); }
void operator delete(void* p, std::align_val_t) noexcept { std::free(p); }
void operator delete[](void* p, std::align_val_t) noexcept { std::free(p); }
void operator delete(void* p, std::size_t, std::align_val_t) noexcept { std::free(p); }
void operator delete[](void* p, std::size_t, std::align_val_t) noexcept { std::free(p); }

namespace evoq {
namespace {

void ExpectNoAllocation(Graph graph, const std::string& name) {
  const Model model = Must(LowerAndPack(std::move(graph)), name);
  auto program = std::make_shared<const Program>(Must(Compile(model), name));
  for (const Step& step : program->steps)
    EXPECT_NE(step.decision.kernel, kReferenceKernel)
        << name << ": " << program->graph->node(step.node).name;
  for (int threads : {1, 2}) {
    auto executor = Must(Executor::Create(program, {threads, Must(SelectIsa(), name)}), name);
    std::vector<Tensor> inputs, outputs;
    for (const TensorType& type : executor->input_types()) inputs.push_back(RandomTensor(type, 3));
    for (const TensorType& type : executor->output_types())
      outputs.push_back(Tensor::Allocate(type));
    ASSERT_TRUE(executor->Run(inputs, outputs));  // threads start at the first run
    allocations = 0;
    counting = true;
    const bool ok = executor->Run(inputs, outputs).has_value();
    counting = false;
    EXPECT_TRUE(ok);
    EXPECT_EQ(allocations.load(), 0) << name << ", " << threads << " threads";
  }
}

TEST(Allocation, CounterCounts) {
  allocations = 0;
  counting = true;
  const auto p = std::make_unique<int>(1);
  counting = false;
  EXPECT_EQ(allocations.load(), 1);
}

TEST(Allocation, NoneInARun) {
  for (const char* file :
       {"models/mobilenetv2.onnx", "models/squeezenet1.1.onnx", "models/tiny_darknet.onnx",
        "models/resnet20_cifar10.onnx", "models/mnist_cntk.onnx"}) {
    EVOQ_NEED_DATA(file);
    const std::string path = DataFolder() + "/" + file;
    ExpectNoAllocation(BoundGraph(path), std::string(file) + " float32");
    ExpectNoAllocation(QuantizedGraph(path), std::string(file) + " int8");
  }
}

}  // namespace
}  // namespace evoq

#endif  // EVOQ_NO_ALLOCATION_TEST
