// Models, arrays and files of a few bytes for tests of the verbs.
#pragma once

#include "data/dataset.h"
#include "onnx/onnx.h"
#include "tests/whole/cli_runner.h"

namespace evoq {

constexpr int kUsage = 2, kBadInput = 3;  // exit codes

class TinyModels : public CliRunner {
 protected:
  std::string Model(const std::string& name, const std::string& text) {
    const auto graph = ParseGraph(text);
    EXPECT_TRUE(graph) << graph.error().message();
    EXPECT_TRUE(ExportOnnx(*graph, At(name)));
    return At(name);
  }
  std::string Values(const std::string& name, const Shape& shape,
                     const std::vector<float>& values) {
    EXPECT_TRUE(WriteNpy(Tensor::FromValues<float>(shape, values), At(name)));
    return At(name);
  }
  std::string Text(const std::string& name, const std::string& text) {
    EXPECT_TRUE(WriteFileAtomic(At(name), text));
    return At(name);
  }
  // What a verb that must fail says, after its status.
  std::string Refused(const std::vector<std::string>& words, int code) {
    const Ran ran = Run(words, false);
    EXPECT_EQ(ran.code, code) << ran.log;
    return ran.log;
  }
};

inline constexpr char kSumModel[] =
    "graph g\ninput %x: float32[2]\ninput %s: float32[2]\n"
    "a: %y: float32[2] = Add(%x, %s)\noutput %y\n";

}  // namespace evoq
