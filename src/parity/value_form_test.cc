#include "parity/value_form.h"

#include <gtest/gtest.h>

#include <numeric>

namespace evoq {
namespace {

Tensor Counted(const Shape& shape) {
  std::vector<float> values(static_cast<size_t>(shape.elements().value()));
  std::iota(values.begin(), values.end(), 1.0f);
  return Tensor::FromValues<float>(shape, values);
}

std::vector<float> ValuesOf(const Tensor& t) {
  return {t.values<float>().begin(), t.values<float>().end()};
}

TEST(ValueForm, OrderOfAxes) {
  const ValueForm form{.a_sizes = {1, 2, 3}, .perm = {0, 2, 1}};
  const Tensor a = Counted({1, 2, 3});
  const Tensor b = form.ToB(a, TensorType(DType::kFloat32, Shape{1, 3, 2})).value();
  EXPECT_EQ(ValuesOf(b), (std::vector<float>{1, 4, 2, 5, 3, 6}));
  EXPECT_EQ(ValuesOf(form.ToA(b).value()), ValuesOf(a));
  EXPECT_EQ(form.ToA(b)->sizes(), a.sizes());
}

TEST(ValueForm, QuantizedAndRescaled) {
  const ValueForm form{
      .a_sizes = {1, 2, 2}, .perm = {0, 2, 1}, .factors = {2, 10}, .channel_axis = 1};
  const Tensor a = Counted({1, 2, 2});  // channels (1, 2) and (3, 4)
  const TensorType type(DType::kUint8, Shape{1, 2, 2}, QuantParams::PerTensor(0.5f, 3));
  const Tensor b = form.ToB(a, type).value();
  const std::vector<uint8_t> wanted = {2 * 2 + 3, 30 * 2 + 3, 4 * 2 + 3, 40 * 2 + 3};
  EXPECT_TRUE(std::equal(wanted.begin(), wanted.end(), b.data<uint8_t>()));
  EXPECT_EQ(ValuesOf(form.ToA(b).value()), ValuesOf(a));
}

TEST(ValueForm, TheNearestOrderIsFound) {
  const Tensor a = Counted({1, 3, 3, 3});  // sizes do not tell orders apart
  for (const std::vector<int64_t>& perm :
       {std::vector<int64_t>{0, 2, 3, 1}, std::vector<int64_t>{0, 3, 1, 2}}) {
    const ValueForm form{.a_sizes = a.sizes(), .perm = perm};
    const Tensor b = form.ToB(a, a.type()).value();
    const auto found = NearestForm(a, b, /*permuted=*/true);
    ASSERT_TRUE(found && *found);
    EXPECT_EQ((*found)->perm, perm);
    EXPECT_TRUE(NearestForm(a, b, /*permuted=*/false).value()->perm.empty());
  }
  EXPECT_TRUE(NearestForm(a, a, true).value()->perm.empty());
}

TEST(ValueForm, OtherSizes) {
  const Tensor a = Counted({2, 6});
  EXPECT_FALSE(NearestForm(a, Counted({2, 5}), true).value());
  EXPECT_EQ(NearestForm(a, Counted({12}), true).value()->a_sizes, a.sizes());
  const auto wrong = ValueForm{.a_sizes = {2, 6}}.ToA(Counted({5}));
  ASSERT_FALSE(wrong);
  EXPECT_NE(wrong.error().message().find("expected the elements of [2, 6]"), std::string::npos)
      << wrong.error().message();
}

}  // namespace
}  // namespace evoq
