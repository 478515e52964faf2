#include "kernels/derived.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>

#include "base/file.h"

namespace evoq {
namespace {

TEST(DerivedWeights, AreMadeOnceWhileSomebodyHoldsThem) {
  DerivedWeights weights;
  const Tensor w = Tensor::FromValues<float>(Shape{2}, {1, 2});
  int made = 0;
  const auto make = [&] { return ++made; };
  const auto first = weights.Get<int>(w, "form", make);
  EXPECT_EQ(weights.Get<int>(w, "form", make), first);
  EXPECT_EQ(made, 1);
  EXPECT_NE(weights.Get<int>(w, "another", make), first);
  EXPECT_NE(weights.Get<int>(w.Clone(), "form", make), first);
  EXPECT_EQ(made, 3);
  (void)weights.Get<int>(w, "another", make);  // nobody held it
  EXPECT_EQ(made, 4);
}

// Where two make one at the same time, both have what was there first.
TEST(DerivedWeights, WhoWasFasterIsHeard) {
  DerivedWeights weights;
  const Tensor w = Tensor::FromValues<float>(Shape{2}, {1, 2});
  std::shared_ptr<const int> faster;
  const auto slower = weights.Get<int>(w, "form", [&] {
    faster = weights.Get<int>(w, "form", [] { return 1; });
    return 2;
  });
  EXPECT_EQ(slower, faster);
  EXPECT_EQ(*slower, 1);
}

// What is derived keeps its constant: no other one's memory can be taken for it.
TEST(DerivedWeights, KeepTheirConstant) {
  DerivedWeights weights;
  auto owner = std::make_shared<std::vector<float>>(4, 1.0f);
  const std::weak_ptr<std::vector<float>> alive = owner;
  Tensor w = Tensor::View(TensorType(DType::kFloat32, Shape{4}),
                          reinterpret_cast<const std::byte*>(owner->data()), owner);
  owner.reset();
  auto held = weights.Get<int>(w, "form", [] { return 7; });
  w = Tensor();
  EXPECT_FALSE(alive.expired());
  held.reset();
  EXPECT_TRUE(alive.expired());
}

TEST(DerivedWeights, AreSharedInAScopeAlone) {
  DerivedWeights weights;
  const Tensor w = Tensor::FromValues<float>(Shape{2}, {1, 2});
  const auto make = [] { return 3; };
  EXPECT_NE(Derive<int>(w, "form", make), Derive<int>(w, "form", make));
  const DerivedScope share(&weights);
  const auto first = Derive<int>(w, "form", make);
  EXPECT_EQ(Derive<int>(w, "form", make), first);
  {
    const DerivedScope apart(nullptr);
    EXPECT_NE(Derive<int>(w, "form", make), first);
  }
  EXPECT_EQ(Derive<int>(w, "form", make), first);
}

// Models of a file have scopes of their own, and what is derived from the file's constants
// together, unless the file changed between them.
TEST(DerivedWeights, OfAFileAreSharedByItsModels) {
  const std::string path =
      (std::filesystem::temp_directory_path() / fmt::format("evoq_derived_{}", ::getpid()))
          .string();
  ASSERT_TRUE(WriteFileAtomic(path, std::string(64, 'a')));
  int made = 0;
  struct Model {
    DerivedWeights own;
    Tensor constant;
    std::shared_ptr<const int> derived;
  };
  const auto load = [&](Model& model) {
    const auto file = MappedFile::Open(path).value();
    model.constant = Tensor::View(TensorType(DType::kInt8, Shape{64}), file->bytes().data(), file);
    const DerivedScope scope(&model.own);
    model.derived = Derive<int>(model.constant, "form", [&] { return ++made; });
  };
  Model first, second, changed, last;
  load(first), load(second);
  EXPECT_EQ(first.derived, second.derived);
  EXPECT_EQ(made, 1);
  {
    const DerivedScope apart(nullptr);
    EXPECT_NE(Derive<int>(first.constant, "form", [&] { return ++made; }), first.derived);
  }
  ASSERT_TRUE(WriteFileAtomic(path, std::string(64, 'b')));
  load(changed);
  EXPECT_NE(changed.derived, first.derived);
  EXPECT_EQ(made, 3);
  for (Model* model : {&first, &second, &changed}) model->derived.reset();
  load(last);
  EXPECT_EQ(made, 4) << "nobody held it";
  std::filesystem::remove(path);
}

}  // namespace
}  // namespace evoq
