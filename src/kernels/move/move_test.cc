#include "kernels/move/move.h"

#include <numeric>
#include <random>

#include "kernels/requant.h"
#include "kernels/test_util.h"

namespace evoq {
extern const KernelDef kTransposeKernel, kDequantizeTransposeKernel, kConcatKernel, kGatherNdKernel,
    kGatherElementsKernel, kScatterElementsKernel, kScatterNdKernel;
namespace {

Tensor TransposeReference(const Tensor& x, const std::vector<int64_t>& perm,
                          const TensorType& type) {
  Tensor y = Tensor::Allocate(type);
  const auto strides = RowMajorStrides(x.sizes());
  const int64_t size = DTypeBits(x.dtype()) / 8;
  const auto sizes = y.sizes();
  for (int64_t at = 0; at < y.elements(); ++at) {
    int64_t rest = at, from = 0;
    for (size_t i = sizes.size(); i-- > 0;) {
      from += rest % sizes[i] * strides[perm[i]];
      rest /= sizes[i];
    }
    std::memcpy(y.mutable_raw() + at * size, x.raw() + from * size, size);
  }
  return y;
}

TEST(Move, TransposeAnyPermutation) {
  const std::vector<std::pair<std::vector<int64_t>, std::vector<int64_t>>> cases = {
      {{2, 3, 7, 9}, {0, 2, 3, 1}},
      {{2, 7, 9, 3}, {0, 3, 1, 2}},
      {{1, 64, 20, 20}, {0, 2, 3, 1}},
      {{1, 17, 19, 70}, {0, 3, 1, 2}},
      {{12, 16, 64}, {1, 0, 2}},
      {{2, 5, 33, 4}, {0, 2, 1, 3}},
      {{33, 65}, {1, 0}},
      {{600, 16}, {1, 0}},
      {{2, 3, 4, 5, 6}, {4, 2, 0, 3, 1}},
      {{0, 4}, {1, 0}},
      {{}, {}},
      {{5, 1, 3}, {2, 1, 0}},
      {{4, 100}, {1, 0}},
      {{3, 2, 35, 18}, {2, 0, 3, 1}},
      {{2, 3, 11, 13}, {0, 2, 3, 1}},
      {{3, 16}, {1, 0}},
      {{2, 3, 5, 40}, {0, 1, 3, 2}},
      {{3, 4, 50}, {2, 1, 0}},
      {{1, 21, 9, 37}, {0, 2, 3, 1}},
      {{2, 7, 5, 21}, {0, 3, 1, 2}},
      {{48, 300}, {1, 0}},
      {{4100, 21}, {1, 0}},
      {{2, 8200, 3}, {0, 2, 1}}};
  for (const auto& [sizes, perm] : cases) {
    for (DType dtype : {DType::kUint8, DType::kInt16, DType::kFloat32, DType::kInt64}) {
      if (dtype == DType::kInt16 && sizes.size() > 4) continue;
      TestCall t;
      t.op = "Transpose";
      t.attrs.Set("perm", perm);
      std::vector<int64_t> out;
      for (int64_t p : perm) out.push_back(sizes[p]);
      t.inputs = {RandomTensor(TensorType(dtype, Shape(sizes)), 3)};
      t.outputs = {TensorType(dtype, Shape(out))};
      ExpectKernel(kTransposeKernel, t, {TransposeReference(t.inputs[0], perm, t.outputs[0])},
                   Shape(sizes).ToString() + Shape(perm).ToString());
    }
  }
}

TEST(Move, GatherNdOfOneIndex) {
  struct Case {
    std::vector<int64_t> x, indices;
    int64_t batch;
  };
  const Case cases[] = {{{5, 7}, {3, 1}, 0},        {{5}, {2, 3, 1}, 0},
                        {{2, 6, 40}, {2, 3, 1}, 1}, {{3, 2, 4, 1}, {3, 2, 1}, 2},
                        {{2, 6, 3}, {2, 1}, 1},     {{4, 9}, {0, 1}, 0},
                        {{2, 3, 0}, {2, 4, 1}, 1},  {{4, 600}, {1}, 0}};
  for (const Case& c : cases) {
    for (DType dtype : {DType::kUint8, DType::kFloat32, DType::kInt64}) {
      for (DType index_type : {DType::kInt64, DType::kInt32}) {
        TestCall t;
        t.op = "GatherND";
        t.attrs.Set("batch_dims", c.batch);
        const int64_t size = c.x[static_cast<size_t>(c.batch)];
        Tensor indices = Tensor::Allocate(TensorType(index_type, Shape(c.indices)));
        std::vector<int64_t> places;
        for (int64_t i = 0; i < indices.elements(); ++i) {
          const int64_t at = (5 * i + 3) % size - (i % 2) * size;
          places.push_back(at < 0 ? at + size : at);
          if (index_type == DType::kInt64) indices.mutable_data<int64_t>()[i] = at;
          if (index_type == DType::kInt32)
            indices.mutable_data<int32_t>()[i] = static_cast<int32_t>(at);
        }
        t.inputs = {RandomTensor(TensorType(dtype, Shape(c.x)), 3), indices};
        std::vector<int64_t> sizes(c.indices.begin(), c.indices.end() - 1);
        sizes.insert(sizes.end(), c.x.begin() + c.batch + 1, c.x.end());
        t.outputs = {TensorType(dtype, Shape(sizes))};
        Tensor want = Tensor::Allocate(t.outputs[0]);
        int64_t batches = 1, block = DTypeBits(dtype) / 8;
        for (size_t i = 0; i < c.x.size(); ++i)
          (static_cast<int64_t>(i) < c.batch   ? batches
           : static_cast<int64_t>(i) > c.batch ? block
                                               : batches) *=
              static_cast<int64_t>(i) == c.batch ? 1 : c.x[i];
        const auto count = static_cast<int64_t>(places.size());
        for (int64_t i = 0; i < count && block > 0; ++i)
          std::memcpy(want.mutable_raw() + i * block,
                      t.inputs[0].raw() +
                          (i / (count / batches) * size + places[static_cast<size_t>(i)]) * block,
                      static_cast<size_t>(block));
        ExpectKernel(kGatherNdKernel, t, {want},
                     Shape(c.x).ToString() + Shape(c.indices).ToString());
      }
    }
  }
}

// Places in x of each index, one division at a time.
std::vector<int64_t> PlacesInX(const std::vector<int64_t>& x, const std::vector<int64_t>& indices,
                               size_t axis, const std::vector<int64_t>& values) {
  std::vector<int64_t> places;
  const auto strides = RowMajorStrides(x);
  for (size_t i = 0; i < values.size(); ++i) {
    int64_t at = 0;
    auto rest = static_cast<int64_t>(i);
    for (size_t d = x.size(); d-- > 0; rest /= indices[d])
      at += (d == axis ? (values[i] + x[d]) % x[d] : rest % indices[d]) * strides[d];
    places.push_back(at);
  }
  return places;
}

TEST(Move, GatherAndScatterElements) {
  struct Case {
    std::vector<int64_t> x, indices;
    int64_t axis;
    bool one_for_each_row = false;
    bool but_the_last = false;  // which is another
  };
  const Case cases[] = {{{5}, {9}, 0},
                        {{40, 300}, {70, 300}, 0, true},
                        {{40, 300}, {70, 300}, 0, true, true},
                        {{5, 4, 19}, {5, 9, 17}, 1, true},
                        {{5, 4, 19}, {5, 9, 17}, 1, true, true},
                        {{4, 6}, {4, 3}, 1, true},
                        {{4, 6}, {4, 3}, 1},
                        {{4, 6}, {7, 6}, 0},
                        {{4, 6}, {2, 5}, -2},
                        {{3, 4, 5}, {2, 6, 5}, 1},
                        {{3, 4, 5}, {3, 2, 17}, 2},
                        {{3, 4, 5}, {8, 4, 4}, 0},
                        {{2, 0}, {2, 0}, 0},
                        {{3, 2}, {0, 2}, 0},
                        {{64, 96}, {64, 40}, 1}};
  for (const Case& c : cases) {
    for (DType dtype : {DType::kUint8, DType::kFloat16, DType::kFloat32, DType::kInt64}) {
      for (DType index_type : {DType::kInt64, DType::kInt32}) {
        const auto axis = static_cast<size_t>(c.axis < 0 ? c.axis + 2 : c.axis);
        Tensor indices = Tensor::Allocate(TensorType(index_type, Shape(c.indices)));
        std::vector<int64_t> values;
        for (int64_t i = 0; i < indices.elements(); ++i) {
          const bool last = c.but_the_last && (i + 1) % c.indices.back() == 0;
          const int64_t given = (c.one_for_each_row ? i / c.indices.back() : i) + last;
          values.push_back((7 * given + 3) % c.x[axis] - (given % 3 == 0 ? c.x[axis] : 0));
          if (index_type == DType::kInt64) indices.mutable_data<int64_t>()[i] = values.back();
          if (index_type == DType::kInt32)
            indices.mutable_data<int32_t>()[i] = static_cast<int32_t>(values.back());
        }
        const std::vector<int64_t> places = PlacesInX(c.x, c.indices, axis, values);
        const auto bytes = static_cast<size_t>(DTypeBits(dtype) / 8);
        TestCall t;
        t.op = "GatherElements";
        t.attrs.Set("axis", c.axis);
        t.inputs = {RandomTensor(TensorType(dtype, Shape(c.x)), 3), indices};
        t.outputs = {TensorType(dtype, Shape(c.indices))};
        const Tensor x = t.inputs[0];
        Tensor picked = Tensor::Allocate(t.outputs[0]);
        for (size_t i = 0; i < places.size(); ++i)
          std::memcpy(picked.mutable_raw() + i * bytes,
                      x.raw() + static_cast<size_t>(places[i]) * bytes, bytes);
        const std::string what = Shape(c.x).ToString() + Shape(c.indices).ToString();
        ExpectKernel(kGatherElementsKernel, t, {picked}, what);

        t.op = "ScatterElements";
        t.inputs.push_back(RandomTensor(TensorType(dtype, Shape(c.indices)), 4));
        t.outputs = {x.type()};
        const Tensor updates = t.inputs[2];
        Tensor put = t.inputs[0].Clone();
        for (size_t i = 0; i < places.size(); ++i)
          std::memcpy(put.mutable_raw() + static_cast<size_t>(places[i]) * bytes,
                      updates.raw() + i * bytes, bytes);
        ExpectKernel(kScatterElementsKernel, t, {put}, what);
        if (dtype != DType::kFloat32) continue;
        const std::pair<const char*, float (*)(float, float)> reductions[] = {
            {"add", [](float a, float b) { return a + b; }},
            {"mul", [](float a, float b) { return a * b; }},
            {"max", [](float a, float b) { return std::isnan(a) || a > b ? a : b; }},
            {"min", [](float a, float b) { return std::isnan(a) || a < b ? a : b; }}};
        if (t.inputs[2].elements() > 2)
          t.inputs[2].mutable_data<float>()[1] = std::numeric_limits<float>::quiet_NaN();
        for (const auto& [name, join] : reductions) {
          Tensor joined = t.inputs[0].Clone();
          for (size_t i = 0; i < places.size(); ++i) {
            float& place = joined.mutable_data<float>()[places[i]];
            place = join(place, t.inputs[2].data<float>()[i]);
          }
          t.attrs.Set("reduction", name);
          ExpectKernel(kScatterElementsKernel, t, {joined}, what + name);
        }
      }
    }
  }
}

TEST(Move, ScatterNd) {
  struct Case {
    std::vector<int64_t> x, indices;
    bool constant;
  };
  const Case cases[] = {{{5}, {9, 1}, false},        {{4, 6}, {3, 1}, false},
                        {{4, 6}, {3, 1}, true},      {{4, 6}, {2, 5, 2}, true},
                        {{3, 4, 150}, {5, 2}, true}, {{3, 4, 5}, {7, 1}, false},
                        {{6, 0}, {2, 1}, true},      {{3, 2}, {0, 1}, false}};
  for (const Case& c : cases) {
    for (DType dtype : {DType::kUint8, DType::kFloat16, DType::kFloat32, DType::kInt64}) {
      for (DType index_type : {DType::kInt64, DType::kInt32}) {
        const auto depth = static_cast<size_t>(c.indices.back());
        Tensor indices = Tensor::Allocate(TensorType(index_type, Shape(c.indices)));
        std::vector<int64_t> blocks;
        for (int64_t i = 0; i < indices.elements(); ++i) {
          const int64_t size = c.x[static_cast<size_t>(i) % depth],
                        value = (5 * i + 2) % size - (i % 3 == 0 ? size : 0);
          if (index_type == DType::kInt64) indices.mutable_data<int64_t>()[i] = value;
          if (index_type == DType::kInt32)
            indices.mutable_data<int32_t>()[i] = static_cast<int32_t>(value);
          const int64_t place = (value + size) % size;
          if (static_cast<size_t>(i) % depth == 0) blocks.push_back(0);
          blocks.back() = blocks.back() * size + place;
        }
        int64_t block = 1;
        for (size_t i = depth; i < c.x.size(); ++i) block *= c.x[i];
        std::vector<int64_t> updates(c.indices.begin(), c.indices.end() - 1);
        updates.insert(updates.end(), c.x.begin() + static_cast<int64_t>(depth), c.x.end());
        TestCall t;
        t.op = "ScatterND";
        t.inputs = {RandomTensor(TensorType(dtype, Shape(c.x)), 3), indices,
                    RandomTensor(TensorType(dtype, Shape(updates)), 4)};
        t.is_constant = {false, c.constant, false};
        t.outputs = {t.inputs[0].type()};
        const std::string what = Shape(c.x).ToString() + Shape(c.indices).ToString();
        const auto bytes = static_cast<size_t>(block * DTypeBits(dtype) / 8);
        Tensor put = t.inputs[0].Clone();
        for (size_t row = 0; row < blocks.size() && bytes > 0; ++row)
          std::memcpy(put.mutable_raw() + static_cast<size_t>(blocks[row]) * bytes,
                      t.inputs[2].raw() + row * bytes, bytes);
        ExpectKernel(kScatterNdKernel, t, {put}, what);
        if (dtype != DType::kFloat32) continue;
        Tensor most = t.inputs[0].Clone(), sums = t.inputs[0].Clone();
        for (size_t row = 0; row < blocks.size(); ++row) {
          for (int64_t k = 0; k < block; ++k) {
            const float v = t.inputs[2].data<float>()[static_cast<int64_t>(row) * block + k];
            float& place = most.mutable_data<float>()[blocks[row] * block + k];
            place = std::max(place, v);
            sums.mutable_data<float>()[blocks[row] * block + k] += v;
          }
        }
        t.attrs.Set("reduction", "max");
        ExpectKernel(kScatterNdKernel, t, {most}, what + "max");
        t.attrs.Set("reduction", "add");
        ExpectKernel(kScatterNdKernel, t, {sums}, what + "add");
      }
    }
  }
}

TEST(Move, TransposeRandomShapes) {
  std::mt19937 random(7);
  const auto pick = [&](int high) {
    return std::uniform_int_distribution<int64_t>(1, high)(random);
  };
  const std::vector<int64_t> perms[] = {{0, 2, 1}, {2, 0, 1}, {1, 2, 0}, {1, 0, 2}, {2, 1, 0}};
  for (int round = 0; round < 600; ++round) {
    const std::vector<int64_t> sizes = {pick(3), pick(round % 4 < 2 ? 20 : 150),
                                        pick(round % 3 == 0 ? 20 : 300)};
    const auto& perm = perms[round % std::size(perms)];
    TestCall t;
    t.op = "Transpose";
    t.attrs.Set("perm", perm);
    const DType dtype = std::array{DType::kUint8, DType::kFloat32, DType::kInt16}[round / 2 % 3];
    t.inputs = {RandomTensor(TensorType(dtype, Shape(sizes)), round)};
    t.outputs = {TensorType(dtype, Shape{sizes[perm[0]], sizes[perm[1]], sizes[perm[2]]})};
    ExpectKernel(kTransposeKernel, t, {TransposeReference(t.inputs[0], perm, t.outputs[0])},
                 Shape(sizes).ToString() + Shape(perm).ToString());
  }
}

TEST(Move, DequantizeTransposeRandomShapes) {
  std::mt19937 random(11);
  const auto pick = [&](int high) {
    return std::uniform_int_distribution<int64_t>(1, high)(random);
  };
  const std::vector<int64_t> perms[] = {{0, 2, 1}, {2, 0, 1}, {1, 2, 0},
                                        {1, 0, 2}, {2, 1, 0}, {0, 1, 2}};
  for (int round = 0; round < 300; ++round) {
    const std::vector<int64_t> sizes = {pick(3), pick(round % 2 == 0 ? 20 : 150),
                                        pick(round % 3 == 0 ? 20 : 300)};
    const auto& perm = perms[round % std::size(perms)];
    const DType dtype = round % 4 == 0 ? DType::kInt8 : DType::kUint8;
    TestCall t;
    t.op = "DequantizeTranspose";
    t.attrs.Set("perm", perm);
    t.inputs = {RandomTensor(
        TensorType(dtype, Shape(sizes), QuantParams::PerTensor(0.037f, round % 100)), round)};
    t.outputs = {
        TensorType(DType::kFloat32, Shape{sizes[perm[0]], sizes[perm[1]], sizes[perm[2]]})};
    const Tensor want = TransposeReference(ToFloat32(t.inputs[0]).value(), perm, t.outputs[0]);
    ExpectKernel(kDequantizeTransposeKernel, t, {want},
                 Shape(sizes).ToString() + Shape(perm).ToString());
  }
}

TEST(Move, ConcatCopiesAndRequantizes) {
  for (int axis : {0, 1, 2, -1}) {
    for (bool differ : {false, true}) {
      for (const std::vector<int64_t>& parts :
           {std::vector<int64_t>{4, 0, 65, 1}, std::vector<int64_t>{1, 2, 5, 0, 4, 8, 16}}) {
        const int at = axis < 0 ? 2 : axis;
        TestCall t;
        t.op = "Concat";
        t.attrs.Set("axis", axis);
        std::vector<int64_t> sizes = {9, 31, 7};
        int64_t total = 0;
        for (int64_t n : parts) {
          sizes[at] = n;
          total += n;
          const float scale = differ && n >= 5 ? 0.07f : 0.05f;
          t.inputs.push_back(RandomTensor(
              TensorType(DType::kUint8, Shape(sizes), QuantParams::PerTensor(scale, 11)),
              5 + static_cast<uint32_t>(n)));
        }
        sizes[at] = total;
        t.outputs = {TensorType(DType::kUint8, Shape(sizes), QuantParams::PerTensor(0.05f, 11))};
        Tensor want = Tensor::Allocate(t.outputs[0]);
        int64_t outer = 1, inner = 1, offset = 0;
        for (int d = 0; d < at; ++d) outer *= sizes[d];
        for (int d = at + 1; d < 3; ++d) inner *= sizes[d];
        for (const Tensor& x : t.inputs) {
          const int64_t row = x.sizes()[at] * inner;
          for (int64_t o = 0; o < outer; ++o) {
            for (int64_t k = 0; k < row; ++k) {
              const float real =
                  DequantizeValue(x.data<uint8_t>()[o * row + k], x.type().quant->scales[0], 11);
              want.mutable_data<uint8_t>()[o * total * inner + offset + k] =
                  static_cast<uint8_t>(QuantizeValue(real, 0.05f, 11, 0, 255));
            }
          }
          offset += row;
        }
        ExpectKernel(kConcatKernel, t, {want}, fmt::format("axis {} differ {}", axis, differ));
      }
    }
  }
  TestCall t;
  t.op = "Concat";
  t.inputs = {RandomTensor(TensorType(DType::kFloat32, Shape{2}), 1),
              RandomTensor(TensorType(DType::kInt32, Shape{2}), 1)};
  t.outputs = {TensorType(DType::kFloat32, Shape{4})};
  EXPECT_EQ(RejectOf(kConcatKernel, t)->code, "types");
}

}  // namespace
}  // namespace evoq
