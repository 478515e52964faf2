// Whether outputs agree.
#include "serve/shadow.h"

#include <gtest/gtest.h>

namespace evoq::serve {
namespace {

Agreement Of(Tensor a, Tensor b) { return AgreementOf({std::move(a)}, {std::move(b)}); }

void Expect(const Agreement& got, uint64_t rows, uint64_t agreed) {
  EXPECT_EQ(got.rows, rows);
  EXPECT_EQ(got.agreed, agreed);
}

TEST(Agreement, RowsOfFloatsAgreeWhereTheirLargestStandsInTheSamePlace) {
  const Tensor a = Tensor::FromValues<float>(Shape{3, 2}, {1, 2, 5, 4, 0, 0});
  Expect(Of(a, Tensor::FromValues<float>(Shape{3, 2}, {9, 10, 4, 5, 1, 1})), 3, 2);
  // A value in each row is no choice.
  const Tensor one = Tensor::FromValues<float>(Shape{3, 1}, {1, 2, 3});
  Expect(Of(one, one), 0, 0);
  Expect(Of(Tensor::Scalar<float>(1), Tensor::Scalar<float>(1)), 0, 0);
}

TEST(Agreement, RowsOfIntegersAgreeWhereAllAreEqual) {
  const Tensor a = Tensor::FromValues<int64_t>(Shape{2, 2}, {1, 2, 3, 4});
  Expect(Of(a, Tensor::FromValues<int64_t>(Shape{2, 2}, {1, 2, 3, 5})), 2, 1);
  const Tensor ids = Tensor::FromValues<int64_t>(Shape{2, 1}, {7, 8});
  Expect(Of(ids, Tensor::FromValues<int64_t>(Shape{2, 1}, {7, 9})), 2, 1);
}

TEST(Agreement, OtherOutputsDoNotAgree) {
  const Tensor a = Tensor::FromValues<float>(Shape{2, 2}, {1, 2, 3, 4});
  Expect(Of(a, Tensor::FromValues<float>(Shape{4, 1}, {1, 2, 3, 4})), 2, 0);
  Expect(Of(a, Tensor::FromValues<int64_t>(Shape{2, 2}, {1, 2, 3, 4})), 2, 0);
  Expect(AgreementOf({a, a}, {a}), 4, 2);
}

}  // namespace
}  // namespace evoq::serve
