// Files of caches that are not what Save wrote, and what a restored cache ends.
#include <cstring>
#include <map>

#include "base/budget.h"
#include "generate/generate.h"
#include "generate/generate_testing.h"
#include "program/container.h"

namespace evoq {
namespace {

using namespace generate_test;

class CacheFileTest : public GenerateTest {
 protected:
  // The file's blobs, these ones changed; one that becomes nothing is left out.
  void Change(const std::map<std::string, std::string>& changes) const {
    const auto file = Container::Open(At("cache"));
    ASSERT_TRUE(file) << file.error().message();
    Budget budget = Budget::ForFile(file->file_bytes());
    std::map<std::string, std::string> texts;
    for (const BlobInfo& blob : file->blobs()) {
      const auto bytes = file->Read(blob, budget)->data;
      texts[blob.name] = std::string(reinterpret_cast<const char*>(bytes.data()), bytes.size());
    }
    for (const auto& [name, text] : changes) texts[name] = text;
    std::vector<BlobSource> blobs;
    for (const auto& [name, text] : texts) {
      if (text.empty()) continue;
      blobs.push_back({.name = name, .pieces = {std::as_bytes(std::span(text))}, .alignment = 64});
    }
    ASSERT_TRUE(WriteContainer(At("changed"), blobs));
  }
};

std::string Ids(const std::vector<int64_t>& ids) {
  return std::string(reinterpret_cast<const char*>(ids.data()), ids.size() * sizeof(int64_t));
}

TEST_F(CacheFileTest, WhatIsWrongIsTold) {
  const auto model = Load(Folder(1));
  Writer writer(*model, std::nullopt, {});
  ASSERT_TRUE(writer.Logits(Tokens(3), 1));
  ASSERT_TRUE(writer.Save(At("cache")));
  const auto told = [&](const std::map<std::string, std::string>& changes) {
    Change(changes);
    writer.Forget();
    const Status read = writer.Restore(At("changed"));
    EXPECT_EQ(writer.tokens().size(), read ? 3u : 0u);
    return read ? "" : read.error().message();
  };
  const std::string at = At("changed");
  EXPECT_EQ(told({}), "");
  EXPECT_EQ(told({{"cache.tokens", Ids({0, 95, 1})}}), "");
  EXPECT_EQ(told({{"cache.tokens", Ids({0, 96, 1})}}), at + ": token 96, expected 0 to 95");
  EXPECT_EQ(told({{"cache.tokens", Ids({0, 1, -1})}}), at + ": token -1, expected 0 to 95");
  EXPECT_EQ(told({{"cache.tokens", std::string(23, '\0')}}),
            at + ": tokens of 23 bytes, expected numbers of 8");
  EXPECT_EQ(told({{"cache.tokens", ""}}), at + ": no prompt cache: it has no cache.tokens");
  EXPECT_EQ(told({{"cache.1", ""}}), at + ": no prompt cache: it has no cache.1");
  EXPECT_EQ(told({{"cache.model", "abc"}}), at + ": the cache of another model");
  // Two heads of three tokens and eight elements.
  EXPECT_EQ(told({{"cache.0", "ab"}}).find(at + ": cache 0 has 2 bytes, expected 192 of float32"),
            0u);
}

TEST_F(CacheFileTest, ATextThatIsUnderWayIsGivenUp) {
  const auto model = Load(Folder(1));
  Writer writer(*model, std::nullopt, {});
  ASSERT_TRUE(writer.Logits(Tokens(3), 1));
  ASSERT_TRUE(writer.Save(At("cache")));
  auto text = writer.Begin(Tokens(5), {.max_tokens = 9});
  ASSERT_TRUE(text && text->Advance());
  ASSERT_TRUE(writer.Restore(At("cache")));
  const auto more = text->Advance();
  ASSERT_FALSE(more);
  EXPECT_EQ(more.error().message(), "the text was given up: its model has begun something else");
}

}  // namespace
}  // namespace evoq
