// For tests: small models as files.
#pragma once

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <string>
#include <utility>

#include "compile/plan.h"
#include "graph/run_choices.h"
#include "models/models.h"
#include "program/etm.h"
#include "reference/reference.h"

namespace evoq {

// The .etm file of the graph that `text` writes, while it lives: lowered with a plan, or as it is.
class ModelFile {
 public:
  explicit ModelFile(const std::string& text, bool planned = true) {
    static int count = 0;
    const auto name = fmt::format("evoq_model_{}_{}.etm", ::getpid(), count++);
    path_ = (std::filesystem::temp_directory_path() / name).string();
    auto graph = ParseGraph(text);
    EXPECT_TRUE(graph) << text << graph.error().message();
    Model model;
    if (planned) {
      model = LowerAndPack(std::move(*graph)).value();
    } else {
      model.graph = std::move(*graph);
    }
    EXPECT_TRUE(WriteEtm(model, path_));
  }
  // With these gears.
  ModelFile(const std::string& text, const std::vector<InputShapes>& gears) : ModelFile(text) {
    Model model = ReadEtm(path_).value();
    for (const InputShapes& shapes : gears)
      PlanFor(model, Compile(model, kReference, shapes).value());
    model.graph.metadata[kShapesChoice] = "declared";
    EXPECT_TRUE(WriteEtm(model, path_));
  }
  ~ModelFile() { std::filesystem::remove(path_); }
  ModelFile(const ModelFile&) = delete;
  ModelFile& operator=(const ModelFile&) = delete;
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

}  // namespace evoq
