#include "kernels/derived.h"

#include <gtest/gtest.h>

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

}  // namespace
}  // namespace evoq
