// For tests: small models as files.
#pragma once

#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <string>
#include <string_view>
#include <utility>

#include "base/aligned.h"
#include "base/file.h"
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

// A file's bytes in memory of exactly their size, which begins so many bytes behind a multiple of
// kAlignment.
class InMemory {
 public:
  explicit InMemory(std::string_view bytes, size_t misaligned = 0)
      : buffer_(bytes.size() + misaligned), begin_(misaligned) {
    std::copy(bytes.begin(), bytes.end(), reinterpret_cast<char*>(data()));
  }
  std::byte* data() { return buffer_.data() + begin_; }
  size_t size() const { return buffer_.size() - begin_; }

 private:
  AlignedBuffer buffer_;
  size_t begin_;
};

}  // namespace evoq
