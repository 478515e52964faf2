// Room: encodings
// Quantization parameters of other tools: encodings of every version, which are then resolved
// against a small model, and calibration tables, each an error or values within the limits of
// run.sh. The fuzzer's first byte says which. What is read is written and read again.
#include <random>

#include "base/check.h"
#include "encodings/resolve.h"
#include "encodings/table.h"
#include "encodings/test_files.h"
#include "passes/pass.h"
#include "reference/reference.h"
#include "tests/fuzz/byte_mutator.h"
#include "tests/fuzz/time_limit.h"

namespace {

using namespace evoq;

enum Kind : uint8_t { kEncodings, kTable, kKinds };

// Has values and constants of the names in encodings/test_files.h.
constexpr char kNet[] = R"(graph net
input %x: float32[1, 32]
const %w: float32[2, 32]
const %bias: float32[2]
gemm: %y: float32[1, 2] = Gemm{transB=1}(%x, %w, %bias)
relu: %s: float32[1, 2] = Relu(%y)
const %b: float32[32, 2]
product: %f: float32[1, 2] = MatMul(%x, %b)
sum: %z: float32[1, 2] = Add(%s, %f)
const %l: float32[2, 2]
last: %two: float32[1, 2] = MatMul(%z, %l)
output %two
)";

struct Nets {
  Graph original, optimized;
};
const Nets& Model() {
  static const Nets nets = [] {
    auto graph = ParseGraph(kNet);
    EVOQ_CHECK(graph.has_value() && InferTypes(*graph).has_value());
    Nets both{*graph, *graph};
    EVOQ_CHECK(RunPasses(both.optimized, Stage::kOptimize).has_value());
    return both;
  }();
  return nets;
}

const std::vector<std::pair<Kind, std::string>>& Seeds() {
  static const std::vector<std::pair<Kind, std::string>> seeds = {
      {kEncodings, kText061},
      {kEncodings, kText100},
      {kEncodings, kText200},
      {kEncodings, kText210},
      {kTable, "TRT-8401-EntropyCalibration2\nx: 3caa54fc\ny: [1]: 0\n"},
      {kTable, R"({"x": [-1.5, 2.0], "s": [0, 1]})"},
      {kTable, R"({"CLS": "TensorsData", "data": {"x": {"lowest": -1.5, "highest":
                  {"CLS": "numpy.array", "data": [2.0]}}}})"},
      {kTable, "x 1.5\ns 2\n"},
      {kTable, FlatTable({{"x", "1.5"}, {"s", "2"}})},
  };
  return seeds;
}

void CheckError(const Error& error) {
  EVOQ_CHECK(error.code() != ErrorCode::kInternal, "{}", error.message());
  EVOQ_CHECK(error.message().size() < 20000, "an error of {} bytes", error.message().size());
}

void TryEncodings(std::string_view text) {
  const auto encodings = ParseEncodings(text);
  if (!encodings) return CheckError(encodings.error());
  const auto resolved = ResolveEncodings(*encodings, Model().original, Model().optimized);
  if (!resolved) return CheckError(resolved.error());
  for (const auto& [value, type] : resolved->given) {
    const ValueId v = Model().optimized.FindValue(value);
    if (type.real || !v.valid() || type.dtype == DType::kInt32) continue;
    const Shape& shape = Model().optimized.value(v).type.shape;
    EVOQ_CHECK(ValidateQuant(TensorType(type.dtype, shape, type.params)).has_value(), "{}", value);
  }
}

void TryTable(std::string_view bytes) {
  const auto table = ParseTable(bytes);
  if (!table) return CheckError(table.error());
  const Lineage lineage(Model().original, Model().optimized);
  const Ranges ranges = RangesOfTable(*table, lineage);
  const CalibrationTable cache = CacheOf(ranges, {}, lineage, &*table);
  const auto text = CalibrationCacheText(cache);
  if (!text) return CheckError(text.error());
  if (table->header.empty()) return;
  const auto again = ParseTable(*text);
  EVOQ_CHECK(again && again->entries.size() == cache.entries.size(), "{}", *text);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size < 1) return 0;
  const TimeLimit limit;
  const std::string_view text(reinterpret_cast<const char*>(data) + 1, size - 1);
  if (data[0] % kKinds == kEncodings) {
    TryEncodings(text);
  } else {
    TryTable(text);
  }
  return 0;
}

extern "C" size_t LLVMFuzzerCustomMutator(uint8_t* data, size_t size, size_t max_size,
                                          unsigned int seed) {
  return fuzz::MutateFile(
      data, size, max_size, seed,
      [](std::minstd_rand& random) { return Seeds()[random() % Seeds().size()]; },
      [](uint8_t, std::string&) {});
}
