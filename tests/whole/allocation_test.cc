// A run after load allocates nothing and takes no lock, through the executor and through the public
// interface. Left out under sanitizers, which have allocators and locks of their own.
#if defined(__has_feature)
#if __has_feature(thread_sanitizer) || __has_feature(address_sanitizer)
#define EVOQ_NO_ALLOCATION_TEST
#endif
#elif defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
#define EVOQ_NO_ALLOCATION_TEST
#endif

#ifndef EVOQ_NO_ALLOCATION_TEST
#include <dlfcn.h>
#include <pthread.h>

#include <atomic>
#include <cerrno>
#include <filesystem>
#include <mutex>

#include "base/isa.h"
#include "compile/compile.h"
#include "evoq/evoq.h"
#include "generate/cached_model.h"
#include "llm/random_folder.h"
#include "models/models.h"
#include "program/etm.h"
#include "reference/reference.h"
#include "tests/whole/models.h"

namespace {
std::atomic<bool> counting{false};
std::atomic<int64_t> allocations{0}, locks{0};

void Count(std::atomic<int64_t>& calls) {
  if (counting.load(std::memory_order_relaxed)) calls.fetch_add(1);
}
}  // namespace

// In front of the C library's: whatever the process allocates, operator new too, comes by here.
extern "C" {
void* __libc_malloc(size_t bytes);
void* __libc_calloc(size_t count, size_t bytes);
void* __libc_realloc(void* p, size_t bytes);
void* __libc_memalign(size_t alignment, size_t bytes);

void* malloc(size_t bytes) {
  Count(allocations);
  return __libc_malloc(bytes);
}
void* calloc(size_t count, size_t bytes) {
  Count(allocations);
  return __libc_calloc(count, bytes);
}
void* realloc(void* p, size_t bytes) {
  Count(allocations);
  return __libc_realloc(p, bytes);
}
void* aligned_alloc(size_t alignment, size_t bytes) {
  Count(allocations);
  return __libc_memalign(alignment, bytes);
}
int posix_memalign(void** p, size_t alignment, size_t bytes) {
  Count(allocations);
  *p = __libc_memalign(alignment, bytes);
  return *p != nullptr ? 0 : ENOMEM;
}
int pthread_mutex_lock(pthread_mutex_t* mutex) {
  static const auto real =
      reinterpret_cast<int (*)(pthread_mutex_t*)>(dlsym(RTLD_NEXT, "pthread_mutex_lock"));
  Count(locks);
  return real(mutex);
}
}

namespace evoq {
namespace {

// `run` works, and allocates nothing and takes no lock meanwhile.
template <typename Run>
void ExpectNothing(const Run& run, const std::string& name) {
  allocations = locks = 0;
  counting = true;
  const bool ok = run();
  counting = false;
  EXPECT_TRUE(ok) << name;
  EXPECT_EQ(allocations.load(), 0) << name;
  EXPECT_EQ(locks.load(), 0) << name;
}

void ExpectNoAllocation(Graph graph, const std::string& name) {
  const Model model = Must(LowerAndPack(std::move(graph)), name);
  auto program = std::make_shared<const Program>(Must(Compile(model, kReference), name));
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
    ExpectNothing([&] { return executor->Run(inputs, outputs).has_value(); },
                  fmt::format("{}, {} threads", name, threads));
  }
}

TEST(Allocation, CounterCounts) {
  std::mutex mutex;
  allocations = locks = 0;
  counting = true;
  // Volatile: what nobody reads need not be allocated.
  int* volatile one = new int(1);
  void* volatile aligned = std::aligned_alloc(64, 128);
  void* volatile plain = std::malloc(3);
  mutex.lock();
  counting = false;
  mutex.unlock();
  delete one;
  std::free(aligned);
  std::free(plain);
  EXPECT_EQ(allocations.load(), 3);
  EXPECT_EQ(locks.load(), 1);
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

// What include/evoq/evoq.h says of repeated runs at one shape: float and int8, of a model of one
// size and of one of free sizes, at a second size too.
TEST(Allocation, NoneInARepeatedRunOfASession) {
  EVOQ_NEED_DATA("models/yunet_n_dynamic.onnx");
  EVOQ_NEED_DATA("models/mnist_cntk.onnx");
  const std::string etm = ::testing::TempDir() + "/evoq_allocation_test.etm";
  const std::string mnist = DataFolder() + "/models/mnist_cntk.onnx";
  ASSERT_TRUE(WriteEtm(Must(LowerAndPack(QuantizedGraph(mnist)), mnist), etm));
  const struct {
    std::string path;
    std::vector<std::vector<int64_t>> shapes;
  } kCases[] = {{mnist, {{1, 1, 28, 28}}},
                {etm, {{1, 1, 28, 28}}},
                {DataFolder() + "/models/yunet_n_dynamic.onnx", {{1, 3, 64, 64}, {1, 3, 96, 128}}}};
  for (const auto& c : kCases) {
    for (int threads : {1, 2}) {
      std::string error;
      auto session = Session::Load(c.path, {.threads = threads}, &error);
      ASSERT_TRUE(session) << error;
      for (const std::vector<int64_t>& shape : c.shapes) {
        const std::vector<Array> inputs = {Array::Zeros(ElementType::kFloat32, shape)};
        std::vector<Array> outputs;
        for (int i = 0; i < 2; ++i) ASSERT_TRUE(session->Run(inputs, &outputs, &error)) << error;
        ExpectNothing([&] { return session->Run(inputs, &outputs, &error); },
                      fmt::format("{} at {}, {} threads", c.path, shape.back(), threads));
        std::vector<OutputView> memory;
        for (Array& o : outputs) memory.push_back({o.type, o.shape, o.bytes.data()});
        const std::vector<InputView> views = {
            {ElementType::kFloat32, shape, inputs[0].bytes.data()}};
        ASSERT_TRUE(session->RunOn(views, memory, &error)) << error;
        ExpectNothing([&] { return session->RunOn(views, memory, &error); },
                      fmt::format("{} on views, {} threads", c.path, threads));
      }
    }
  }
  std::filesystem::remove(etm);
}

// docs/generate.md: a run of a size that was prepared allocates nothing.
TEST(Allocation, NoneInARunOfALanguageModel) {
  const nlohmann::json config = {{"model_type", "llama"},
                                 {"architectures", {"LlamaForCausalLM"}},
                                 {"vocab_size", 96},
                                 {"hidden_size", 64},
                                 {"num_hidden_layers", 2},
                                 {"num_attention_heads", 4},
                                 {"intermediate_size", 96},
                                 {"rms_norm_eps", 1e-5},
                                 {"max_position_embeddings", 64}};
  const std::string folder = ::testing::TempDir() + "/evoq_allocation_test_llama";
  ASSERT_TRUE(WriteRandomFolder(config, {}, 1, folder));
  for (int threads : {1, 2}) {
    const auto model =
        Must(CachedModel::Load(folder, {.threads = threads, .slots = 2, .context = 64}), folder);
    ASSERT_TRUE(model->Prepare(12, 2));
    const std::vector<int64_t> prompt = {1, 5, 2, 7, 9, 11, 4, 8, 3, 6, 10, 12}, two = {4, 9};
    for (int i = 0; i < 2; ++i) {
      ASSERT_TRUE(model->Append(i, prompt));
      ASSERT_TRUE(model->Step(0, two));
    }
    ExpectNothing([&] { return model->Append(1, prompt).has_value(); }, "a prompt");
    ExpectNothing([&] { return model->Step(0, two).has_value(); }, "a step of two");
  }
  std::filesystem::remove_all(folder);
}

}  // namespace
}  // namespace evoq

#endif  // EVOQ_NO_ALLOCATION_TEST
