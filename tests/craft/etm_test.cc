// Every condition of the readers of .etm files: a crafted file that meets it gives its error, and
// no condition is without a file.
#include "tests/craft/etm.h"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <random>
#include <set>

#include "base/budget.h"
#include "program/container.h"
#include "program/etm.h"
#include "program/etm_tables.h"
#include "tests/craft/conditions.h"
#include "tests/craft/etm_cases.h"

namespace evoq::craft {
namespace {

class CraftedEtm : public ::testing::Test {
 protected:
  void TearDown() override { std::filesystem::remove(path_); }
  Result<Model> Read(const std::string& bytes) {
    std::ofstream(path_, std::ios::binary) << bytes;
    return ReadEtm(path_);
  }
  const std::string path_ =
      (std::filesystem::temp_directory_path() / fmt::format("evoq_craft_{}.etm", getpid()))
          .string();
};

TEST_F(CraftedEtm, EachGivesItsError) {
  std::set<std::string> seen;
  for (const EtmCase& row : EtmCases()) {
    SCOPED_TRACE(row.condition);
    EXPECT_TRUE(seen.insert(row.condition).second) << "appears twice";
    const auto model = Read(row.bytes);
    if (row.error.empty()) {
      EXPECT_TRUE(model) << model.error().message();
      if (!model) continue;
      const auto sections = EtmSections(path_);
      ASSERT_TRUE(sections) << sections.error().message();
      int64_t bytes = 0;
      for (const EtmSection& s : *sections) bytes += s.bytes;
      EXPECT_EQ(bytes, static_cast<int64_t>(row.bytes.size()));
      continue;
    }
    ASSERT_FALSE(model);
    const std::string& message = model.error().message();
    EXPECT_TRUE(message.starts_with(path_ + ": ")) << message;
    EXPECT_NE(message.find(row.error), std::string::npos) << message << "\nexpected: " << row.error;
    EXPECT_FALSE(EtmSections(path_));
  }
}

TEST_F(CraftedEtm, TheGoodOneIsReadAsWritten) {
  const auto model = Read(Write(EtmModel()));
  ASSERT_TRUE(model) << model.error().message();
  EXPECT_EQ(Print(model->graph), R"(graph small
input %x: float32[1, 2]
const %b: float32[2] = [1.5, -2.0]
a: %y = Add(%x, %b)
output %y
const %w: int8[2, 2](2 scales on axis 0) = [1, 2, 3, 4]
output %w
const %words: string[2]
output %words
)");
  const Tensor& w = model->graph.value(model->graph.FindValue("w")).constant;
  EXPECT_EQ(w.type().ToString(), "int8[2, 2](2 scales on axis 0)");
  EXPECT_EQ(w.type().quant->scales, (std::vector<float>{0.5f, 0.25f}));
  EXPECT_EQ(std::vector<int8_t>(w.data<int8_t>(), w.data<int8_t>() + 4),
            (std::vector<int8_t>{1, 2, 3, 4}));
}

// A blob's name and the certificate come from the file: neither begins a line of its own in a dump.
TEST_F(CraftedEtm, TheDumpIsPrintable) {
  EtmModel model;
  model.certificate = "{\nmeta source = forged\x1b[2J}";
  EtmFile file = FileOf(model);
  file.blobs.push_back({.name = "b\nmeta c", .bytes = "?", .required = 0});
  std::ofstream(path_, std::ios::binary) << Write(file);
  const auto dump = DumpEtm(path_);
  ASSERT_TRUE(dump) << dump.error().message();
  EXPECT_NE(dump->find("\nblob b\\nmeta c at "), std::string::npos) << *dump;
  EXPECT_NE(dump->find("\ncertificate {\\nmeta source = forged\\u001b[2J}\n"), std::string::npos)
      << *dump;
  EXPECT_EQ(dump->find("\nmeta "), std::string::npos) << *dump;
}

// Each sentence that a reader can say is said by a crafted file: a new condition without one fails
// here.
TEST_F(CraftedEtm, NoConditionIsWithoutAFile) {
  std::vector<std::string> messages;
  for (const EtmCase& row : EtmCases()) {
    if (row.error.empty()) continue;
    const auto model = Read(row.bytes);
    if (!model) messages.push_back(model.error().message());
  }
  // Contexts; and FlatBuffers' vectors are verified before: what this would say is said there.
  const std::set<std::string> elsewhere = {
      "node {} ({})", "blob '{}'", "{} values",
      // of ScaleSetBetween, and of changes that ReadEtm does not make
      "its {} nodes, expected {}", "scale set {} makes another graph at {}: sets share one graph",
      "there is no such value", "a constant of strings", "a constant {}{}, expected {}{}"};
  EXPECT_GT(ExpectEachSaid("src/program",
                           {"container.cc", "etm_verify.cc", "etm_read.cc", "scale_sets.cc"},
                           R"(bad\(|Bad\(\w+,|InvalidInput\(|Unsupported\(|fmt::format\()",
                           messages, elsewhere),
            50u);
}

// What VerifyTables takes, FlatBuffers' own verifier takes: it is the stricter one. Bytes of good
// tables are changed at random.
TEST(VerifyTables, IsStricterThanTheLibrary) {
  const std::string good = Pack(EtmModel().graph);
  std::mt19937 random(1);
  int taken = 0;
  for (int i = 0; i < 20000; ++i) {
    std::vector<uint64_t> memory(good.size() / 8 + 1);  // aligned
    std::memcpy(memory.data(), good.data(), good.size());
    auto* bytes = reinterpret_cast<uint8_t*>(memory.data());
    for (unsigned n = random() % 3; n > 0; --n)
      bytes[random() % good.size()] = static_cast<uint8_t>(random() % 2 ? random() : random() % 16);
    const size_t size = random() % 8 ? good.size() : random() % good.size();
    Budget budget = Budget::ForFile(0);
    if (!VerifyTables(std::as_bytes(std::span(bytes, size)), *fb::GraphTypeTable(), "graph",
                      budget))
      continue;
    ++taken;
    flatbuffers::Verifier verifier(bytes, size);
    EXPECT_TRUE(verifier.VerifyBuffer<fb::Graph>(nullptr)) << i;
  }
  EXPECT_GT(taken, 1000);
}

// A table draws 256 bytes of memory, a text 48 and its length, a list 8 for each item: all of these
// twice where they are reached twice.
TEST(VerifyTables, DrawsForEachWay) {
  flatbuffers::FlatBufferBuilder builder;
  const auto text = builder.CreateString("twelve chars");
  const auto fact = fb::CreateFact(builder, text, text);
  const auto list = builder.CreateVector(std::vector<flatbuffers::Offset<fb::Fact>>{fact, fact});
  builder.Finish(fb::CreateGraph(builder, 0, list));
  Budget budget(1 << 20, 1 << 20);
  const auto status =
      VerifyTables(std::as_bytes(std::span(builder.GetBufferPointer(), builder.GetSize())),
                   *fb::GraphTypeTable(), "graph", budget);
  ASSERT_TRUE(status) << status.error().message();
  EXPECT_EQ((1 << 20) - budget.memory_left(), 256 + 2 * 8 + 2 * (256 + 2 * (48 + 12)));
  // 16 units for each field that a table may have, six of a graph and two of a fact, and 8 for each
  // item.
  EXPECT_EQ((1 << 20) - budget.work_left(), 6 * 16 + 2 * 8 + 2 * 2 * 16);
}

}  // namespace
}  // namespace evoq::craft
