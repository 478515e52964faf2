#include "tensor/permute.h"

#include <gtest/gtest.h>

#include <random>

#include "base/math.h"
#include "tensor/tensor.h"

namespace evoq {
namespace {

// The element of `x`'s transpose that element i of `x` becomes.
int64_t Moved(const std::vector<int64_t>& sizes, const std::vector<int64_t>& perm, int64_t i) {
  std::vector<int64_t> index(sizes.size());
  for (size_t axis = sizes.size(); axis-- > 0; i /= sizes[axis]) index[axis] = i % sizes[axis];
  int64_t at = 0;
  for (int64_t axis : perm) at = at * sizes[axis] + index[axis];
  return at;
}

// The real values of integers that were transposed with their type are the real values, transposed:
// scales per tensor, per index and per block of every axis, the last block whole or not.
TEST(PermutedAxes, ScalesFollowTheirElements) {
  std::mt19937 random(1);
  const std::vector<int64_t> perms[] = {{0, 1, 2}, {0, 2, 1}, {1, 0, 2},
                                        {1, 2, 0}, {2, 0, 1}, {2, 1, 0}};
  for (const std::vector<int64_t>& sizes :
       {std::vector<int64_t>{3, 4, 5}, {2, 1, 6}, {4, 0, 2}, {1, 1, 1}}) {
    for (int axis = -1; axis < 3; ++axis) {
      for (int64_t block : {0, 1, 2, 3, 7}) {
        if (axis < 0 && block > 0) continue;
        std::vector<int64_t> blocks = sizes;
        if (block > 0) blocks[axis] = CeilDiv(blocks[axis], block);
        const int64_t count = axis < 0 ? 1 : block == 0 ? sizes[axis] : *CheckedProduct(blocks);
        if (count == 0) continue;
        QuantParams quant{{}, {}, axis, block};
        for (int64_t i = 0; i < count; ++i) {
          quant.scales.push_back(1 + static_cast<float>(random() % 1000));
          quant.zero_points.push_back(static_cast<int32_t>(random() % 200) - 100);
        }
        Tensor x = Tensor::Allocate(TensorType(DType::kInt8, Shape(sizes), quant));
        for (int64_t i = 0; i < x.elements(); ++i)
          x.mutable_data<int8_t>()[i] = static_cast<int8_t>(random());
        const Tensor real = ToFloat32(x).value();
        for (const std::vector<int64_t>& perm : perms) {
          const TensorType type = PermutedAxes(x.type(), perm);
          ASSERT_TRUE(ValidateQuant(type)) << type.ToString();
          for (int k = 0; k < 3; ++k) EXPECT_EQ(type.shape[k].value, sizes[perm[k]]);
          Tensor y = Tensor::Allocate(type);
          for (int64_t i = 0; i < x.elements(); ++i)
            y.mutable_data<int8_t>()[Moved(sizes, perm, i)] = x.data<int8_t>()[i];
          const Tensor moved = ToFloat32(y).value();
          for (int64_t i = 0; i < x.elements(); ++i)
            ASSERT_EQ(moved.data<float>()[Moved(sizes, perm, i)], real.data<float>()[i])
                << x.type().ToString() << " to " << type.ToString();
        }
      }
    }
  }
}

TEST(PermutedAxes, WithoutScalesOrSizes) {
  const std::vector<int64_t> swap = {1, 0};
  const TensorType plain(DType::kFloat32, Shape{2, 3});
  EXPECT_TRUE(PermutedAxes(plain, swap) == TensorType(DType::kFloat32, Shape{3, 2}));
  const Shape open(std::vector<Dim>{Dim::Symbolic("N"), Dim(3)});
  const TensorType type =
      PermutedAxes(TensorType(DType::kInt8, open, QuantParams{{1, 2, 3}, {0, 0, 0}, 1, 0}), swap);
  EXPECT_EQ(type.ToString(), "int8[3, N](3 scales on axis 0)");
}

}  // namespace
}  // namespace evoq
