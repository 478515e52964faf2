// oneDNN's matrix products as a yardstick, with packed weights. Built by bench/peers.py where
// Debian's libdnnl-dev is found; never part of the product.
//   dnnl_gemm SECONDS M K N KIND...    KIND: f32, bf16, u8s8, s8s8
// Threads: OMP_NUM_THREADS. Prints one JSON object: kind to median milliseconds.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <oneapi/dnnl/dnnl.hpp>
#include <random>
#include <string>
#include <vector>

namespace {

using dnnl::memory;
using Clock = std::chrono::steady_clock;

struct Types {
  memory::data_type a, b, c;
};

Types TypesOf(const std::string& kind) {
  using T = memory::data_type;
  if (kind == "f32") return {T::f32, T::f32, T::f32};
  if (kind == "bf16") return {T::bf16, T::bf16, T::bf16};
  if (kind == "u8s8") return {T::u8, T::s8, T::s32};
  return {T::s8, T::s8, T::s32};
}

// Random values of the type; in a packed layout their order does not matter.
memory Random(const memory::desc& desc, memory::data_type type, const dnnl::engine& engine) {
  memory m(desc, engine);
  auto* bytes = static_cast<uint8_t*>(m.get_data_handle());
  const size_t size = desc.get_size(), width = memory::data_type_size(type);
  std::mt19937 random(1);
  std::uniform_real_distribution<float> uniform(-1, 1);
  for (size_t i = 0; i + width <= size; i += width) {
    const float value = uniform(random);
    if (width == 1) bytes[i] = static_cast<uint8_t>(random());
    if (width == 2)
      std::memcpy(bytes + i, reinterpret_cast<const char*>(&value) + 2,
                  2);  // bf16: a float's upper half
    if (width == 4) std::memcpy(bytes + i, &value, 4);
  }
  return m;
}

double MedianMs(const std::string& kind, int64_t m, int64_t k, int64_t n, double seconds) {
  const dnnl::engine engine(dnnl::engine::kind::cpu, 0);
  dnnl::stream stream(engine);
  const Types types = TypesOf(kind);
  using Tag = memory::format_tag;
  const memory::desc a({m, k}, types.a, Tag::ab), b({k, n}, types.b, Tag::any),
      c({m, n}, types.c, Tag::ab);
  const dnnl::matmul::primitive_desc desc(dnnl::matmul::desc(a, b, c), engine);
  const dnnl::matmul product(desc);
  memory x = Random(a, types.a, engine), w = Random(desc.weights_desc(), types.b, engine),
         y(c, engine);
  const auto run = [&] {
    product.execute(stream, {{DNNL_ARG_SRC, x}, {DNNL_ARG_WEIGHTS, w}, {DNNL_ARG_DST, y}});
    stream.wait();
  };
  const auto since = [](Clock::time_point t) {
    return std::chrono::duration<double>(Clock::now() - t).count();
  };
  for (const auto start = Clock::now(); since(start) < 0.05;) run();
  std::vector<double> ms;
  for (const auto start = Clock::now(); ms.size() < 3 || since(start) < seconds;) {
    const auto one = Clock::now();
    run();
    ms.push_back(since(one) * 1e3);
  }
  std::nth_element(ms.begin(), ms.begin() + static_cast<ptrdiff_t>(ms.size() / 2), ms.end());
  return ms[ms.size() / 2];
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 6) {
    std::fprintf(stderr, "usage: dnnl_gemm SECONDS M K N KIND...\n");
    return 1;
  }
  std::printf("{");
  for (int i = 5; i < argc; ++i) {
    std::printf("%s\"%s\": %.6f", i > 5 ? ", " : "", argv[i],
                MedianMs(argv[i], std::atoll(argv[2]), std::atoll(argv[3]), std::atoll(argv[4]),
                         std::atof(argv[1])));
  }
  std::printf("}\n");
}
