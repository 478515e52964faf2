// Room: tflite
// TensorFlow Lite files: each import gives a graph or an error, within the limits of run.sh.
// Mutations start from whole small models (tflite/test_model.h), so that they get past the tables'
// verification.
#include "base/check.h"
#include "tests/fuzz/byte_mutator.h"
#include "tests/fuzz/time_limit.h"
#include "tflite/import.h"
#include "tflite/test_model.h"

namespace {

using namespace evoq;

const std::vector<std::pair<uint8_t, std::string>>& Seeds() {
  static const auto seeds = [] {
    std::vector<std::pair<uint8_t, std::string>> list;
    for (const tflite::OpRow* row : tflite::AllOpRows())
      list.emplace_back(0, tflite::OneOperator(*row).Bytes());
    for (int i = 0; i < 16; ++i) {
      for (const auto make : {&tflite::SmallNet, &tflite::BranchNet, &tflite::SparseNet,
                              &tflite::SpectrumNet, &tflite::CutNet, &tflite::BlocksNet})
        list.emplace_back(0, make().Bytes());
      list.emplace_back(0, tflite::DetectionNet(i % 2 == 0).Bytes());
      list.emplace_back(0, tflite::LoopNet(i % 2 == 0).Bytes());
      list.emplace_back(0, tflite::SumNet({0, 1}).Bytes());
    }
    return list;
  }();
  return seeds;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size < 1) return 0;
  const TimeLimit limit;
  const auto graph = ImportTfliteBytes(std::as_bytes(std::span(data + 1, size - 1)), "fuzz.tflite");
  if (graph) {
    EVOQ_CHECK(graph->Verify().has_value());
  } else {
    EVOQ_CHECK(graph.error().code() != ErrorCode::kInternal, "{}", graph.error().message());
    EVOQ_CHECK(graph.error().message().size() < 6000, "an error of {} bytes",
               graph.error().message().size());
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
