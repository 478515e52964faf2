#include "kernels/requant.h"
#include "kernels/test_util.h"

namespace evoq {
namespace {

// y[at] = x[source(index of at)], -1 for the fill value's bytes.
template <typename Source>
Tensor Picked(const Tensor& x, const TensorType& type, const Source& source,
              const void* fill = nullptr) {
  Tensor y = Tensor::Allocate(type);
  const auto sizes = y.sizes();
  const int64_t width = DTypeBits(type.dtype) / 8;
  for (int64_t at = 0; at < y.elements(); ++at) {
    std::vector<int64_t> index(sizes.size());
    int64_t rest = at;
    for (size_t i = sizes.size(); i-- > 0;) {
      index[i] = rest % sizes[i];
      rest /= sizes[i];
    }
    const int64_t from = source(index);
    std::memcpy(y.mutable_raw() + at * width,
                from < 0 ? static_cast<const std::byte*>(fill) : x.raw() + from * width, width);
  }
  return y;
}

Tensor Ints(const std::vector<int64_t>& v) { return Tensor::FromValues(v); }

const DType kTypes[] = {DType::kUint8, DType::kInt16, DType::kFloat32, DType::kInt64};

TEST(Move, SliceWithAnyStep) {
  struct Case {
    std::vector<int64_t> starts, ends, axes, steps, out;
    int64_t first[3], step[3];
  };
  const Case cases[] = {
      {{1, 2}, {4, 100}, {0, 2}, {1, 3}, {3, 6, 3}, {1, 0, 2}, {1, 1, 3}},
      {{-1}, {-1000}, {1}, {-1}, {5, 6, 9}, {0, 5, 0}, {1, -1, 1}},
      {{-2, 8}, {INT64_MIN, 0}, {1, 2}, {-2, -3}, {5, 3, 3}, {0, 4, 8}, {1, -2, -3}},
      {{3}, {3}, {0}, {1}, {0, 6, 9}, {3, 0, 0}, {1, 1, 1}},
      {{0, 1, 4}, {5, 2, 9}, {0, 1, 2}, {1, 1, 1}, {5, 1, 5}, {0, 1, 4}, {1, 1, 1}},
  };
  for (const Case& s : cases) {
    for (DType dtype : kTypes) {
      TestCall t;
      t.op = "Slice";
      t.inputs = {RandomTensor(TensorType(dtype, Shape{5, 6, 9}), 1), Ints(s.starts), Ints(s.ends),
                  Ints(s.axes), Ints(s.steps)};
      t.is_constant = {false, true, true, true, true};
      t.outputs = {TensorType(dtype, Shape(s.out))};
      const Tensor want = Picked(t.inputs[0], t.outputs[0], [&](const auto& i) {
        return ((s.first[0] + i[0] * s.step[0]) * 6 + s.first[1] + i[1] * s.step[1]) * 9 +
               s.first[2] + i[2] * s.step[2];
      });
      ExpectKernel(*FindKernel("slice"), t, {want}, Shape(s.out).ToString());
    }
  }
}

TEST(Move, ExpandAndTile) {
  for (DType dtype : kTypes) {
    TestCall t;
    t.op = "Expand";
    t.inputs = {RandomTensor(TensorType(dtype, Shape{3, 1, 7}), 1)};
    t.outputs = {TensorType(dtype, Shape{2, 3, 5, 7})};
    ExpectKernel(*FindKernel("expand"), t,
                 {Picked(t.inputs[0], t.outputs[0], [](const auto& i) { return i[1] * 7 + i[3]; })},
                 "");
    t.inputs = {RandomTensor(TensorType(dtype, Shape{3, 1}), 1)};
    t.outputs = {TensorType(dtype, Shape{3, 50})};
    ExpectKernel(*FindKernel("expand"), t,
                 {Picked(t.inputs[0], t.outputs[0], [](const auto& i) { return i[0]; })}, "");
    t.op = "Tile";
    t.inputs = {RandomTensor(TensorType(dtype, Shape{3, 4}), 1)};
    t.outputs = {TensorType(dtype, Shape{6, 12})};
    ExpectKernel(
        *FindKernel("tile"), t,
        {Picked(t.inputs[0], t.outputs[0], [](const auto& i) { return i[0] % 3 * 4 + i[1] % 4; })},
        "");
  }
}

TEST(Move, SplitIsTheInverseOfConcat) {
  for (int axis : {0, 1, 2}) {
    TestCall t;
    t.op = "Split";
    t.attrs.Set("axis", axis);
    std::vector<int64_t> sizes = {3, 5, 70};
    sizes[axis] = 10;
    t.inputs = {RandomTensor(TensorType(DType::kFloat32, Shape(sizes)), 1)};
    for (int64_t n : {3, 0, 7}) {
      sizes[axis] = n;
      t.outputs.push_back(TensorType(DType::kFloat32, Shape(sizes)));
    }
    for (Isa isa : TestIsas()) {
      TestCall back;
      back.op = "Concat";
      back.attrs.Set("axis", axis);
      back.inputs = RunKernel(*FindKernel("split"), t, isa, 3);
      back.outputs = {t.inputs[0].type()};
      EXPECT_TRUE(BitEqual(RunKernel(*FindKernel("concat"), back, isa)[0], t.inputs[0])) << axis;
    }
  }
}

TEST(Move, DepthAndSpace) {
  const int64_t n = 2, c = 12, h = 4, w = 6, b = 2;
  for (DType dtype : kTypes) {
    for (bool last : {false, true}) {
      const auto shape = [&](int64_t channels, int64_t rows, int64_t columns) {
        return last ? Shape{n, rows, columns, channels} : Shape{n, channels, rows, columns};
      };
      // Offset of (image, channel, row, column) in a tensor of these sizes.
      const auto at = [&](int64_t i, int64_t ci, int64_t hi, int64_t wi, int64_t channels,
                          int64_t rows, int64_t columns) {
        return last ? ((i * rows + hi) * columns + wi) * channels + ci
                    : ((i * channels + ci) * rows + hi) * columns + wi;
      };
      for (const char* mode : {"DCR", "CRD", "space", "space CRD"}) {
        const std::string m = mode;
        TestCall t;
        const bool to_depth = m.starts_with("space");
        t.op = to_depth ? "SpaceToDepth" : "DepthToSpace";
        t.attrs.Set("blocksize", 2);
        if (m.ends_with("CRD")) t.attrs.Set("mode", "CRD");
        if (last) t.attrs.Set("channels_last", 1);
        t.inputs = {RandomTensor(TensorType(dtype, shape(c, h, w)), 1)};
        t.outputs = {
            TensorType(dtype, to_depth ? shape(c * 4, h / 2, w / 2) : shape(c / 4, h * 2, w * 2))};
        const Tensor want = Picked(t.inputs[0], t.outputs[0], [&](const auto& i) {
          const int64_t ci = i[last ? 3 : 1], hi = i[last ? 1 : 2], wi = i[last ? 2 : 3];
          if (m == "space CRD")
            return at(i[0], ci / (b * b), hi * b + ci / b % b, wi * b + ci % b, c, h, w);
          if (m == "space")
            return at(i[0], ci % c, hi * b + ci / c / b, wi * b + ci / c % b, c, h, w);
          const int64_t r = hi % b, s = wi % b;
          return at(i[0], m == "DCR" ? (r * b + s) * (c / 4) + ci : (ci * b + r) * b + s, hi / b,
                    wi / b, c, h, w);
        });
        ExpectKernel(*FindKernel(to_depth ? "space_to_depth" : "depth_to_space"), t, {want}, m);
      }
    }
  }
}

TEST(Move, PadEveryMode) {
  const int64_t h = 4, w = 5, c = 3;
  for (const char* mode : {"constant", "edge", "reflect", "wrap"}) {
    for (const std::vector<int64_t>& pads :
         std::vector<std::vector<int64_t>>{{1, 2, 0, 2, 1, 0},
                                           {0, 3, 0, 1, -2, 0},
                                           {2, 0, 1, 0, 0, 2},
                                           {-1, -1, 0, 0, 0, 0},
                                           {0, 0, 3, 0, 0, 40},
                                           {0, 7, 0, 0, 90, 0}}) {
      for (bool quantized : {false, true}) {
        TestCall t;
        t.op = "Pad";
        t.attrs.Set("mode", mode);
        const auto type = [&](Shape shape) {
          return quantized ? TensorType(DType::kUint8, shape, QuantParams::PerTensor(0.5f, 9))
                           : TensorType(DType::kFloat32, shape);
        };
        t.inputs = {RandomTensor(type(Shape{h, w, c}), 1), Ints(pads), Tensor::Scalar(3.0f)};
        t.is_constant = {false, true, quantized};
        t.outputs = {
            type(Shape{h + pads[0] + pads[3], w + pads[1] + pads[4], c + pads[2] + pads[5]})};
        const uint8_t byte = 15;  // 3.0 quantized
        const float real = 3.0f;
        const int64_t sizes[] = {h, w, c};
        const Tensor want = Picked(
            t.inputs[0], t.outputs[0],
            [&](const auto& index) {
              int64_t at = 0;
              for (int d = 0; d < 3; ++d) {
                int64_t i = index[d] - pads[d];
                const int64_t n = sizes[d];
                if (i < 0 || i >= n) {
                  if (mode[0] == 'c') return int64_t{-1};
                  if (mode[0] == 'e') i = i < 0 ? 0 : n - 1;
                  if (mode[0] == 'w') i = (i + 10 * n) % n;
                  while (mode[0] == 'r' && (i < 0 || i >= n)) i = i < 0 ? -i : 2 * (n - 1) - i;
                }
                at = at * n + i;
              }
              return at;
            },
            quantized ? static_cast<const void*>(&byte) : &real);
        ExpectKernel(*FindKernel("pad"), t, {want}, std::string(mode) + Shape(pads).ToString());
      }
    }
  }
}

// Pads of named axes, counted from the front or the back; axes that are not named stay.
TEST(Move, PadAlongNamedAxes) {
  TestCall t{"Pad",
             {},
             {Tensor::FromValues<float>(Shape{2, 1, 2}, {1, 2, 3, 4}), Ints({0, 1, 1, 0}),
              Tensor::Scalar(9.0f), Ints({-1, 0})},
             {false, true, true, true},
             {TensorType(DType::kFloat32, Shape{3, 1, 3})}};
  // Axis 2 has none before and one behind, axis 0 one before.
  const Tensor want = Tensor::FromValues<float>(Shape{3, 1, 3}, {9, 9, 9, 1, 2, 9, 3, 4, 9});
  ExpectKernel(*FindKernel("pad"), t, {want}, "named");
  t.inputs[3] = Ints({3, 0});
  EXPECT_EQ(std::string(RejectOf(*FindKernel("pad"), t)->sentence), "axis 3 is outside [-3, 3)");
  t.inputs[3] = Ints({-1, 0});
  t.is_constant[3] = false;
  EXPECT_EQ(std::string(RejectOf(*FindKernel("pad"), t)->sentence),
            "the axes are computed at run time");
}

// Without a value the fill is 0, of quantized elements the zero point; a scalar has nothing to pad.
TEST(Move, PadWithoutAValue) {
  TestCall t{"Pad",
             {},
             {Tensor::FromValues<float>(Shape{2}, {1, 2}), Ints({1, 2})},
             {false, true},
             {TensorType(DType::kFloat32, Shape{5})}};
  ExpectKernel(*FindKernel("pad"), t, {Tensor::FromValues<float>(Shape{5}, {0, 1, 2, 0, 0})},
               "float32");
  const QuantParams quant = QuantParams::PerTensor(0.5f, -3);
  t.inputs[0] = Tensor::FromValues<int16_t>(Shape{2}, {300, -2})
                    .WithType(TensorType(DType::kInt16, Shape{2}, quant));
  t.outputs = {TensorType(DType::kInt16, Shape{5}, quant)};
  ExpectKernel(
      *FindKernel("pad"), t,
      {Tensor::FromValues<int16_t>(Shape{5}, {-3, 300, -2, -3, -3}).WithType(t.outputs[0])},
      "int16");
  t.inputs = {Tensor::Scalar(7.0f), Ints({})};
  t.outputs = {TensorType(DType::kFloat32, Shape{})};
  ExpectKernel(*FindKernel("pad"), t, {t.inputs[0]}, "scalar");
  t.inputs = {Tensor::FromValues<float>(Shape{2, 2}, {1, 2, 3, 4}), Ints({0, 0, 0, 0})};
  t.outputs = {t.inputs[0].type()};
  ExpectKernel(*FindKernel("pad"), t, {t.inputs[0]}, "nothing");
}

// int32 indices, of single elements and of rows; the first axis where none is named; rows of
// nothing.
TEST(Move, GatherByInt32Indices) {
  TestCall t{"Gather",
             {},
             {Tensor::FromValues<float>(Shape{3, 2}, {1, 2, 3, 4, 5, 6}),
              Tensor::FromValues<int32_t>(Shape{4}, {2, -1, 0, -3})},
             {},
             {TensorType(DType::kFloat32, Shape{4, 2})}};
  const Tensor want = Tensor::FromValues<float>(Shape{4, 2}, {5, 6, 5, 6, 1, 2, 1, 2});
  for (const bool constant : {false, true}) {
    t.is_constant = {false, constant};
    ExpectKernel(*FindKernel("gather"), t, {want}, "rows");
  }
  t.attrs.Set("axis", 1);
  t.inputs[1] = Tensor::FromValues<int32_t>(Shape{1}, {-1});
  t.outputs = {TensorType(DType::kFloat32, Shape{3, 1})};
  for (const bool constant : {false, true}) {
    t.is_constant = {false, constant};
    ExpectKernel(*FindKernel("gather"), t, {Tensor::FromValues<float>(Shape{3, 1}, {2, 4, 6})},
                 "elements");
  }
  t.attrs.Erase("axis");
  t.inputs[0] = Tensor::Allocate(TensorType(DType::kFloat32, Shape{3, 0}));
  t.outputs = {TensorType(DType::kFloat32, Shape{1, 0})};
  RunKernel(*FindKernel("gather"), t, Isa::kScalar);
}

// The first axis where none is named; sizes that are constant; elements of one byte, of 2000 bytes
// for threads.
TEST(Move, SplitAlongTheFirstAxis) {
  for (const int64_t row : {1, 2000}) {
    TestCall t{
        "Split",
        {},
        {RandomTensor(TensorType(DType::kUint8, Shape{3, row}), 1), Ints({1, 2})},
        {false, true},
        {TensorType(DType::kUint8, Shape{1, row}), TensorType(DType::kUint8, Shape{2, row})}};
    ASSERT_FALSE(RejectOf(*FindKernel("split"), t));
    const auto parts = RunKernel(*FindKernel("split"), t, Isa::kScalar, 2);
    EXPECT_EQ(std::memcmp(parts[0].raw(), t.inputs[0].raw(), row), 0);
    EXPECT_EQ(std::memcmp(parts[1].raw(), t.inputs[0].raw() + row, 2 * row), 0);
  }
}

TEST(Move, GatherCountsFromTheEndAndStaysInside) {
  for (DType dtype : kTypes) {
    for (int axis : {0, 1, 2}) {
      TestCall t;
      t.op = "Gather";
      t.attrs.Set("axis", axis);
      t.inputs = {RandomTensor(TensorType(dtype, Shape{4, 5, 6}), 1),
                  Tensor::FromValues<int64_t>(Shape{2, 2}, {0, -1, 3, 2})};
      std::vector<int64_t> out = {4, 5, 6};
      out.erase(out.begin() + axis);
      out.insert(out.begin() + axis, {2, 2});
      t.outputs = {TensorType(dtype, Shape(out))};
      const int64_t picks[] = {0, std::vector<int64_t>{3, 4, 5}[axis], 3, 2};
      const Tensor want = Picked(t.inputs[0], t.outputs[0], [&](auto i) {
        const int64_t pick = picks[i[axis] * 2 + i[axis + 1]];
        i.erase(i.begin() + axis);
        i[axis] = pick;
        return (i[0] * 5 + i[1]) * 6 + i[2];
      });
      ExpectKernel(*FindKernel("gather"), t, {want}, fmt::format("axis {}", axis));
      t.inputs[1] = Tensor::FromValues<int64_t>(Shape{2, 2}, {100, -100, 0, 0});
      RunKernel(*FindKernel("gather"), t, Isa::kScalar);
      t.is_constant = {false, true};
      EXPECT_EQ(RejectOf(*FindKernel("gather"), t)->code, "shape");
    }
  }
}

// Channels in another order: constant indices into the last axis.
TEST(Move, GatherOfSingleElements) {
  for (DType dtype : kTypes) {
    for (int64_t size : {1, 2, 7, 48, 64, 100, 128, 200}) {
      for (int64_t count : {1, 2, 24, 64, 65, 128, 130}) {
        TestCall t;
        t.op = "Gather";
        t.attrs.Set("axis", 2);
        std::vector<int64_t> indices;
        for (int64_t j = 0; j < count; ++j) indices.push_back(j * 37 % size - (j % 2) * size);
        t.inputs = {RandomTensor(TensorType(dtype, Shape{3, 5, size}), 1), Ints(indices)};
        t.is_constant = {false, true};
        t.outputs = {TensorType(dtype, Shape{3, 5, count})};
        const Tensor want = Picked(t.inputs[0], t.outputs[0], [&](const auto& i) {
          return (i[0] * 5 + i[1]) * size + i[2] * 37 % size;
        });
        ExpectKernel(*FindKernel("gather"), t, {want}, fmt::format("{} of {}", count, size));
      }
    }
  }
}

TEST(Move, CopyKeepsBytes) {
  TestCall t;
  t.op = "Reshape";
  t.inputs = {RandomTensor(TensorType(DType::kFloat32, Shape{60, 70}), 1)};
  t.outputs = {TensorType(DType::kFloat32, Shape{4200})};
  ExpectKernel(*FindKernel("copy_reshape"), t, {t.inputs[0].WithType(t.outputs[0])}, "");
  t.outputs[0].dtype = DType::kInt32;
  EXPECT_EQ(RejectOf(*FindKernel("copy_reshape"), t)->code, "types");
}

}  // namespace
}  // namespace evoq
