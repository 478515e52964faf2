// Jobs larger than the memory: what they write, and that they write it once.
#include "workflow/large.h"

#include <gtest/gtest.h>

#include <limits>

#include "llm/random_folder.h"
#include "llm/tiny_llama.h"
#include "workflow/compile.h"
#include "workflow/quantize.h"
#include "workflow/tiny_testing.h"

namespace evoq {
namespace {

class Large : public TinyFolder {
 protected:
  // Weights that are worth pages of a file.
  std::string Llama() const {
    nlohmann::json config = TinyLlamaConfig();
    config["hidden_size"] = 256;
    config["intermediate_size"] = 512;
    config["vocab_size"] = 700;
    EXPECT_TRUE(WriteRandomFolder(config, {}, 1, At("llama")));
    return At("llama");
  }

  // make(path) writes the same file in a large job, whose packed weights are in it early.
  template <typename Make>
  void ExpectTheSame(const std::string& name, const Make& make) {
    const std::string plain = At(name + ".etm"), large = At(name + ".large.etm");
    const auto first = make(plain);
    ASSERT_TRUE(first) << first.error().message();
    {
      const LargeJob job(std::numeric_limits<int64_t>::max(), large);
      const auto second = make(large);
      ASSERT_TRUE(second) << second.error().message();
      EXPECT_FALSE(ThreadScope<EarlyParts>::Active()->Takes()) << name << ": weights were copied";
    }
    EXPECT_TRUE(ReadTextFile(plain).value() == ReadTextFile(large).value()) << name;
  }
};

TEST_F(Large, LanguageModelsAreWrittenOnce) {
  const std::string model = Llama();
  for (const std::string scheme :
       {"int4-dynamic", "int4-weights", "int8-dynamic", "int8-weights"}) {
    ExpectTheSame(scheme, [&](const std::string& path) {
      return Quantize({.model = model, .output = path, .scheme = scheme, .threads = 2});
    });
  }
  ExpectTheSame("float32", [&](const std::string& path) {
    return Compile(CompileJob{.model = model, .output = path, .threads = 2});
  });
}

// Two products read one weight; a convolution stands between.
TEST_F(Large, ModelsOfSharedWeightsAreWrittenOnce) {
  const std::string model = Model("shared.onnx", R"(graph shared
input %x: float32[4, 256]
input %i: float32[1, 64, 8, 8]
const %w: float32[256, 256]
const %k: float32[64, 64, 3, 3]
a: %a: float32[4, 256] = MatMul(%x, %w)
c: %c: float32[1, 64, 8, 8] = Conv{pads=[1, 1, 1, 1]}(%i, %k)
b: %b: float32[4, 256] = MatMul(%a, %w)
output %b
output %c
)");
  ExpectTheSame("shared", [&](const std::string& path) {
    return Compile(CompileJob{.model = model, .output = path, .threads = 1});
  });
}

TEST_F(Large, SmallJobsWriteAsTheyDid) {
  const LargeJob job(1000, At("small.etm"));
  EXPECT_EQ(ThreadScope<EarlyParts>::Active(), nullptr);
  EXPECT_EQ(ThreadScope<SpillScope>::Active(), nullptr);
}

}  // namespace
}  // namespace evoq
