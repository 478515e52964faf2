#include <cmath>
#include <cstring>
#include <functional>
#include <map>
#include <random>

#include "kernels/add_terms.h"
#include "kernels/elementwise/binary.h"
#include "kernels/math/math.h"
#include "kernels/math/unary.h"
#include "kernels/requant.h"
#include "kernels/test_util.h"

namespace evoq {
namespace {

float Definition(const std::string& op, float a, float b) {
  if (op == "Add") return a + b;
  if (op == "Sub") return a - b;
  if (op == "Mul") return a * b;
  if (op == "Div") return a / b;
  if (op == "Max") return a > b ? a : b;
  if (op == "Min") return a < b ? a : b;
  if (op == "Pow") return PowF(a, b);
  return a < 0 ? a * b : a;
}

// Element of `shape` that meets element `at` of `y` under ONNX broadcasting.
int64_t Source(const Shape& shape, const Shape& y, int64_t at) {
  const auto strides = RowMajorStrides(shape.sizes());
  int64_t index = 0;
  for (int i = y.rank() - 1; i >= 0; --i) {
    const int64_t position = at % y[i].value;
    at /= y[i].value;
    const int own = i - (y.rank() - shape.rank());
    if (own >= 0 && shape[own].value != 1) index += position * strides[own];
  }
  return index;
}

struct Shapes {
  Shape a, b, y;
};
const Shapes kShapes[] = {
    {{}, {}, {}},
    {{0}, {1}, {0}},
    {{5}, {5}, {5}},
    {{2, 3, 67}, {2, 3, 67}, {2, 3, 67}},
    {{2, 3, 67}, {}, {2, 3, 67}},
    {{1}, {100}, {100}},
    {{2, 3, 67}, {67}, {2, 3, 67}},
    {{2, 5, 7, 33}, {2, 1, 1, 33}, {2, 5, 7, 33}},
    {{2, 5, 7, 4}, {2, 1, 7, 1}, {2, 5, 7, 4}},
    {{3, 1}, {1, 40}, {3, 40}},
    {{1, 4, 1, 3}, {2, 1, 5, 1}, {2, 4, 5, 3}},
    {{3, 9000}, {3, 9000}, {3, 9000}},
    {{1, 7, 196}, {1, 7, 1}, {1, 7, 196}},
    {{2, 3, 1}, {2, 3, 49}, {2, 3, 49}},
    {{9, 240}, {1, 240}, {9, 240}},
    {{1, 83}, {5, 83}, {5, 83}},
    {{3, 900, 2}, {900, 1}, {3, 900, 2}},  // more short rows than go together
    {{700, 1}, {3, 1, 3}, {3, 700, 3}},
    {{2, 1, 2, 1, 2, 1, 3},
     {1, 2, 1, 2, 1, 2, 1},
     {2, 2, 2, 2, 2, 2, 3}},  // as many dimensions as there may be
    {{2, 1, 1, 2, 1, 1, 1, 1, 3}, {3}, {2, 1, 1, 2, 1, 1, 1, 1, 3}},  // most of them of one
};

TestCall MakeCall(const std::string& op, const Shapes& s, bool bytes) {
  TestCall t;
  t.op = op;
  const auto type = [&](const Shape& shape, float scale, int zero) {
    return bytes ? TensorType(DType::kUint8, shape, QuantParams::PerTensor(scale, zero))
                 : TensorType(DType::kFloat32, shape);
  };
  t.inputs = {RandomTensor(type(s.a, 0.05f, 100), 1), RandomTensor(type(s.b, 0.031f, 17), 2)};
  t.outputs = {type(s.y, 0.043f, 90)};
  return t;
}

template <typename T>
void ExpectIntegers(const Shapes& s) {
  const DType dtype = sizeof(T) == 8 ? DType::kInt64 : DType::kInt32;
  using U = std::make_unsigned_t<T>;
  for (const char* op : {"add", "sub", "mul"}) {
    TestCall t;
    t.op = op;
    t.op[0] = static_cast<char>(std::toupper(t.op[0]));
    t.inputs = {RandomTensor(TensorType(dtype, s.a), 1), RandomTensor(TensorType(dtype, s.b), 2)};
    for (Tensor& x : t.inputs) {  // of all sizes: what does not fit wraps around
      for (int64_t i = 0; i < x.elements(); ++i)
        x.mutable_data<T>()[i] =
            static_cast<T>(0x9E3779B97F4A7C15u * static_cast<U>(i + 3)) >> (i % 5 * 7);
    }
    t.outputs = {TensorType(dtype, s.y)};
    Tensor want = Tensor::Allocate(t.outputs[0]);
    for (int64_t i = 0; i < want.elements(); ++i) {
      const auto a = static_cast<U>(t.inputs[0].data<T>()[Source(s.a, s.y, i)]);
      const auto b = static_cast<U>(t.inputs[1].data<T>()[Source(s.b, s.y, i)]);
      want.mutable_data<T>()[i] = static_cast<T>(t.op == "Add"   ? a + b
                                                 : t.op == "Sub" ? a - b
                                                                 : a * b);
    }
    ExpectKernel(*FindKernel(std::string(op) + "_integer"), t, {want},
                 s.a.ToString() + s.b.ToString());
  }
}

TEST(Binary, IntegersWrapAround) {
  for (const Shapes& s : kShapes) {
    ExpectIntegers<int64_t>(s);
    ExpectIntegers<int32_t>(s);
  }
}

TEST(Binary, FloatEqualsTheDefinition) {
  for (const char* op : {"Add", "Sub", "Mul", "Div", "Max", "Min", "Pow", "PRelu"}) {
    for (const Shapes& s : kShapes) {
      if (std::string(op) == "Pow" && s.y.elements() > 1000) continue;
      TestCall t = MakeCall(op, s, false);
      if (std::string(op) ==
          "Pow") {  // no negative base with a fraction: a NaN's bits are not defined
        Tensor a = t.inputs[0].Clone();
        for (int64_t i = 0; i < a.elements(); ++i)
          a.mutable_data<float>()[i] = std::abs(a.data<float>()[i]) + 0.01f;
        t.inputs[0] = a;
      }
      if (std::string(op) == "Div") {
        Tensor b = t.inputs[1].Clone();
        for (int64_t i = 0; i < b.elements(); ++i)
          b.mutable_data<float>()[i] += b.data<float>()[i] == 0 ? 3 : 0;
        t.inputs[1] = b;
      }
      Tensor want = Tensor::Allocate(t.outputs[0]);
      for (int64_t i = 0; i < want.elements(); ++i) {
        want.mutable_data<float>()[i] =
            Definition(op, t.inputs[0].data<float>()[Source(s.a, s.y, i)],
                       t.inputs[1].data<float>()[Source(s.b, s.y, i)]);
      }
      std::string name = op;
      for (char& c : name) c = static_cast<char>(std::tolower(c));
      ExpectKernel(*FindKernel(name + "_f32"), t, {want}, s.a.ToString() + s.b.ToString());
    }
  }
}

TEST(Binary, BytesEqualTheDefinition) {
  for (const char* op : {"Add", "Sub", "Mul", "Div", "Max", "Min", "PRelu"}) {
    for (const char* activation : {"", "Relu", "Clip", "LeakyRelu"}) {
      const bool add = std::string(op) == "Add";
      if (*activation && !add) continue;
      for (const Shapes& s : kShapes) {
        TestCall t = MakeCall(op, s, true);
        if (*activation) t.attrs.Set("activation", activation);
        t.attrs.Set("activation_alpha", std::string(activation) == "Clip" ? -0.7f : 0.2f);
        t.attrs.Set("activation_beta", 1.3f);
        const Activation a = ActivationFromAttrs(t.attrs).value();
        Tensor want = Tensor::Allocate(t.outputs[0]);
        for (int64_t i = 0; i < want.elements(); ++i) {
          const int p = t.inputs[0].data<uint8_t>()[Source(s.a, s.y, i)],
                    q = t.inputs[1].data<uint8_t>()[Source(s.b, s.y, i)];
          int32_t result;
          if (add) {
            const float v = AddTerms(0.05f, 100, 0.031f, 17, 0.043f, 90).Sum(p, q);
            const float low = a.kind == ActivationKind::kRelu   ? 90
                              : a.kind == ActivationKind::kClip ? ScaleRatio(a.alpha, 0.043f) + 90
                                                                : 0;
            const float high =
                a.kind == ActivationKind::kClip ? ScaleRatio(a.beta, 0.043f) + 90 : 255;
            const float leaky =
                a.kind == ActivationKind::kLeakyRelu && v < 90 ? (v - 90) * a.alpha + 90 : v;
            result = RoundToInteger(std::min(std::max(leaky, low), high), 0, 0, 255);
          } else if (std::string(op) == "Mul") {
            const float v =
                static_cast<float>((p - 100) * (q - 17)) * LinearMultiplier(0.05f, 0.031f, 0.043f);
            result = RoundToInteger(v, 90, 0, 255);
          } else {
            result = QuantizeValue(
                Definition(op, DequantizeValue(p, 0.05f, 100), DequantizeValue(q, 0.031f, 17)),
                0.043f, 90, 0, 255);
          }
          want.mutable_data<uint8_t>()[i] = static_cast<uint8_t>(result);
        }
        std::string name = op;
        for (char& c : name) c = static_cast<char>(std::tolower(c));
        ExpectKernel(*FindKernel(name + "_u8"), t, {want},
                     s.a.ToString() + s.b.ToString() + activation);
      }
    }
  }
}

// Products that a row or a column of factors scales, and sums of equal scales, on random shapes and
// parameters. Small integers, so that values are often equal.
Tensor RandomPlain(DType dtype, const Shape& shape, uint32_t seed) {
  Tensor t = Tensor::Allocate(TensorType(dtype, shape));
  std::mt19937 random(seed);
  for (int64_t i = 0; i < t.elements(); ++i) {
    const int v =
        static_cast<int>(random() % 4) - (dtype == DType::kBool || dtype == DType::kUint8 ? 0 : 2);
    switch (dtype) {
      case DType::kFloat32: t.mutable_data<float>()[i] = static_cast<float>(v); break;
      case DType::kInt64: t.mutable_data<int64_t>()[i] = v; break;
      case DType::kInt32: t.mutable_data<int32_t>()[i] = v; break;
      case DType::kBool: t.mutable_raw()[i] = static_cast<std::byte>(v % 2); break;
      default: t.mutable_raw()[i] = static_cast<std::byte>(v); break;
    }
  }
  return t;
}

TEST(Logic, ComparesAnyTypesAndShapes) {
  const std::map<std::string, std::function<bool(int64_t, int64_t)>> definitions = {
      {"Equal", std::equal_to<>()},
      {"Greater", std::greater<>()},
      {"GreaterOrEqual", std::greater_equal<>()},
      {"Less", std::less<>()},
      {"LessOrEqual", std::less_equal<>()},
      {"And", std::logical_and<>()},
      {"Or", std::logical_or<>()},
      {"Xor", std::not_equal_to<>()}};
  for (const auto& [op, definition] : definitions) {
    for (DType dtype : {DType::kBool, DType::kUint8, DType::kInt8, DType::kInt32, DType::kInt64,
                        DType::kFloat32}) {
      const bool logic = op == "And" || op == "Or" || op == "Xor";
      if (logic && dtype != DType::kBool) continue;
      for (const Shapes& s : kShapes) {
        TestCall t;
        t.op = op;
        t.inputs = {RandomPlain(dtype, s.a, 1), RandomPlain(dtype, s.b, 2)};
        t.outputs = {TensorType(DType::kBool, s.y)};
        const auto value = [](const Tensor& x, int64_t i) {
          return x.dtype() == DType::kFloat32 ? static_cast<int64_t>(x.data<float>()[i])
                                              : ToInt64s(x).value()[i];
        };
        Tensor want = Tensor::Allocate(t.outputs[0]);
        if (want.elements() > 2000) continue;  // value() is slow
        for (int64_t i = 0; i < want.elements(); ++i)
          want.mutable_raw()[i] = static_cast<std::byte>(definition(
              value(t.inputs[0], Source(s.a, s.y, i)), value(t.inputs[1], Source(s.b, s.y, i))));
        ExpectKernel(*FindKernel(op), t, {want}, op + s.a.ToString() + s.b.ToString());
      }
    }
  }
}

TEST(Logic, WhereTakesThreeShapes) {
  const struct {
    Shape c, a, b, y;
  } shapes[] = {{{7}, {7}, {7}, {7}},
                {{1, 1, 5, 70}, {2, 3, 5, 70}, {}, {2, 3, 5, 70}},
                {{}, {4}, {3, 1}, {3, 4}},
                {{2, 1, 3}, {1}, {1, 4, 1}, {2, 4, 3}},
                {{3, 1}, {1, 90}, {3, 90}, {3, 90}},
                {{0}, {1}, {0}, {0}},
                {{2, 1, 2, 1, 2}, {1, 3, 1, 3, 1}, {2, 3, 1, 1, 2}, {2, 3, 2, 3, 2}}};
  for (DType dtype :
       {DType::kBool, DType::kUint8, DType::kFloat16, DType::kFloat32, DType::kInt64}) {
    for (const auto& s : shapes) {
      TestCall t;
      t.op = "Where";
      t.inputs = {RandomPlain(DType::kBool, s.c, 1), RandomTensor(TensorType(dtype, s.a), 2),
                  RandomTensor(TensorType(dtype, s.b), 3)};
      t.outputs = {TensorType(dtype, s.y)};
      const auto bytes = static_cast<size_t>(DTypeBits(dtype) / 8);
      Tensor want = Tensor::Allocate(t.outputs[0]);
      for (int64_t i = 0; i < want.elements(); ++i) {
        const bool first = t.inputs[0].raw()[Source(s.c, s.y, i)] != std::byte{0};
        const int64_t from = Source(first ? s.a : s.b, s.y, i);
        std::memcpy(want.mutable_raw() + i * bytes, t.inputs[first ? 1 : 2].raw() + from * bytes,
                    bytes);
      }
      ExpectKernel(*FindKernel("Where"), t, {want},
                   s.c.ToString() + s.a.ToString() + s.b.ToString());
    }
  }
}

TEST(Binary, RandomRowsEqualTheDefinition) {
  std::mt19937 random(5);
  const auto pick = [&](int low, int high) {
    return std::uniform_int_distribution<int>(low, high)(random);
  };
  for (int round = 0; round < 300; ++round) {
    const int64_t images = pick(1, 3), rows = pick(1, 9), n = pick(1, 300);
    const Shape whole{images, rows, n},
        factors[] = {{images, rows, 1}, {1, 1, n}, {images, 1, n}, whole};
    const Shape& part = factors[pick(0, 3)];
    const bool add = pick(0, 1) == 0, swapped = pick(0, 1) == 0;
    const float scale_a = 0.05f,
                scale_b = add && pick(0, 1) == 0 ? 0.05f : 0.013f * static_cast<float>(pick(1, 9));
    const float scale_y = add ? 0.05f : scale_a * scale_b * static_cast<float>(pick(20, 900)) / 3;
    const int zero_a = pick(0, 255), zero_b = pick(0, 255), zero_y = pick(0, 255);
    TestCall t;
    t.op = add ? "Add" : "Mul";
    t.inputs = {RandomTensor(TensorType(DType::kUint8, swapped ? part : whole,
                                        QuantParams::PerTensor(scale_a, zero_a)),
                             round),
                RandomTensor(TensorType(DType::kUint8, swapped ? whole : part,
                                        QuantParams::PerTensor(scale_b, zero_b)),
                             round + 1000)};
    t.outputs = {TensorType(DType::kUint8, whole, QuantParams::PerTensor(scale_y, zero_y))};
    Tensor want = Tensor::Allocate(t.outputs[0]);
    for (int64_t i = 0; i < want.elements(); ++i) {
      const int p = t.inputs[0].data<uint8_t>()[Source(t.inputs[0].shape(), whole, i)];
      const int q = t.inputs[1].data<uint8_t>()[Source(t.inputs[1].shape(), whole, i)];
      const float product = static_cast<float>((p - zero_a) * (q - zero_b)) *
                            LinearMultiplier(scale_a, scale_b, scale_y);
      const int32_t y =
          add ? RoundToInteger(
                    AddTerms(scale_a, zero_a, scale_b, zero_b, scale_y, zero_y).Sum(p, q), 0, 0,
                    255)
              : RoundToInteger(product, zero_y, 0, 255);
      want.mutable_data<uint8_t>()[i] = static_cast<uint8_t>(y);
    }
    ExpectKernel(*FindKernel(add ? "add_u8" : "mul_u8"), t, {want},
                 fmt::format("{} with {}", whole.ToString(), part.ToString()));
  }
}

TEST(Binary, FusedActivation) {
  TestCall t = MakeCall("Add", {{3, 9000}, {9000}, {3, 9000}}, false);
  t.attrs.Set("activation", "Silu");
  Tensor want = Tensor::Allocate(t.outputs[0]);
  for (int64_t i = 0; i < want.elements(); ++i) {
    want.mutable_data<float>()[i] =
        SiluF(t.inputs[0].data<float>()[i] + t.inputs[1].data<float>()[i % 9000]);
  }
  ExpectKernel(*FindKernel("add_f32"), t, {want}, "Silu");
  t.op = "Mul";
  EXPECT_EQ(RejectOf(*FindKernel("mul_f32"), t)->code, "attribute");
}

// Written over an input of the same size, the output is what it is elsewhere: the planner relies on
// it.
TEST(Binary, InPlaceEqualsOutOfPlace) {
  for (const char* name : {"add_u8", "mul_u8", "sub_u8", "add_f32", "mul_f32"}) {
    const KernelDef& kernel = *FindKernel(name);
    for (const Shapes& s : kShapes) {
      TestCall t = MakeCall(kernel.op, s, std::string(name).ends_with("u8"));
      const auto types = t.InputTypes();
      const std::vector<const Tensor*> none(2, nullptr);
      const uint32_t mask = kernel.in_place(KernelCall{t.op, t.attrs, types, t.outputs, none});
      EXPECT_EQ(mask, static_cast<uint32_t>(s.a == s.y) | static_cast<uint32_t>(s.b == s.y) << 1);
      for (Isa isa : AllIsas()) {
        if (!IsaSupported(isa)) continue;
        const Tensor want = RunKernel(kernel, t, isa)[0];
        for (size_t input : {0, 1}) {
          if ((mask >> input & 1) == 0) continue;
          BoundTest bound = Bind(kernel, t, isa, 2);
          Tensor both[2] = {t.inputs[0].Clone(), t.inputs[1].Clone()};
          const void* in[] = {both[0].raw(), both[1].raw()};
          void* out[] = {both[input].mutable_raw()};
          ThreadPool pool(2);
          bound.bound.run(bound.bound.state.get(), in, out, RunContext{pool, bound.scratch});
          EXPECT_EQ(std::memcmp(out[0], want.raw(), want.bytes()), 0)
              << name << " " << IsaName(isa) << " over input " << input;
        }
      }
    }
  }
}

// Arguments beyond 2^20, which the C library reduces, in some blocks of 512.
TEST(Unary, SineOfFarArguments) {
  for (const UnaryKind kind : {UnaryKind::kSin, UnaryKind::kCos}) {
    for (const int64_t far : {-1, 0, 600, 1299}) {
      TestCall t;
      t.op = UnaryOpName(kind);
      Tensor x = RandomTensor(TensorType(DType::kFloat32, Shape{1300}), 9);
      for (int64_t k = 0; k < 1300; ++k) x.mutable_data<float>()[k] *= static_cast<float>(k * k);
      if (far >= 0) x.mutable_data<float>()[far] = 3e9f;
      t.inputs = {x};
      t.outputs = {x.type()};
      Tensor want = Tensor::Allocate(x.type());
      for (int64_t k = 0; k < 1300; ++k)
        want.mutable_data<float>()[k] = Apply({kind, 0, 0}, x.data<float>()[k]);
      ExpectKernel(*FindKernel(t.op + "_f32"), t, {want}, fmt::format("{}", far));
    }
  }
}

TEST(Unary, LoopsAndTablesEqualTheScalarDefinition) {
  for (int i = 0;; ++i) {
    const auto kind = static_cast<UnaryKind>(i);
    const std::string op = UnaryOpName(kind);
    const bool positive = op == "Log" || op == "Sqrt" || op == "Acosh" || op == "Atanh" ||
                          op == "Acos" || op == "Asin";
    for (int64_t n : {0, 1, 17, 65, 300}) {
      TestCall t;
      t.op = op;
      Tensor x = RandomTensor(TensorType(DType::kFloat32, Shape{n}), 9);
      for (int64_t k = 0; k < n; ++k) {
        float& v = x.mutable_data<float>()[k];
        v *= 4;
        // Inside the domain, so that no NaN appears: its bits are not defined.
        if (positive)
          v = std::abs(v) / (op == "Acosh" || op == "Log" || op == "Sqrt" ? 1 : 17) +
              (op == "Acosh" ? 1 : 0);
        if (op == "Gelu" || op == "Exp") v *= 6;
      }
      t.inputs = {x};
      t.outputs = {x.type()};
      Unary unary = UnaryFromAttrs(kind, t.attrs);
      if (op == "Clip") {
        t.inputs.push_back(Tensor::Scalar(-1.5f));
        t.inputs.push_back(Tensor::Scalar(2.5f));
        t.is_constant = {false, true, false};
        unary.alpha = -1.5f;
        unary.beta = 2.5f;
      }
      Tensor want = Tensor::Allocate(x.type());
      for (int64_t k = 0; k < n; ++k)
        want.mutable_data<float>()[k] = Apply(unary, x.data<float>()[k]);
      ExpectKernel(*FindKernel(op + "_f32"), t, {want}, fmt::format("{}", n));
      // Bytes.
      t.is_constant = {false, true, true};
      t.inputs[0] = RandomTensor(
          TensorType(DType::kUint8, Shape{n}, QuantParams::PerTensor(0.04f, positive ? 0 : 128)),
          3);
      t.outputs[0] = TensorType(DType::kInt8, Shape{n}, QuantParams::PerTensor(0.05f, -20));
      Tensor bytes = Tensor::Allocate(t.outputs[0]);
      for (int64_t k = 0; k < n; ++k) {
        const float v = Apply(unary, ToFloat32(t.inputs[0])->data<float>()[k]);
        bytes.mutable_data<int8_t>()[k] =
            static_cast<int8_t>(QuantizeValue(v, 0.05f, -20, -128, 127));
      }
      ExpectKernel(*FindKernel(op + "_u8"), t, {bytes}, fmt::format("{}", n));
    }
    if (kind == UnaryKind::kThresholdedRelu) break;
  }
}

}  // namespace
}  // namespace evoq
