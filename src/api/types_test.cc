// Which element types arrays carry, one by one.
#include <gtest/gtest.h>

#include <cstring>
#include <map>

#include "api/test_model.h"
#include "evoq/evoq.h"
#include "evoq/evoq_c.h"

namespace evoq {
namespace {

// ONNX's TensorProto.DataType: 8 is string, 14 and 15 are complex, 21 to 23, 25 and 26 have 4 or 2
// bits.
TEST(Types, BytesOfAllNumbers) {
  const std::map<int, size_t> bytes = {{1, 4},  {2, 1},  {3, 1},  {4, 2},  {5, 2},  {6, 4},
                                       {7, 8},  {9, 1},  {10, 2}, {11, 8}, {12, 4}, {13, 8},
                                       {16, 2}, {17, 1}, {18, 1}, {19, 1}, {20, 1}, {24, 1}};
  for (int number = -300; number <= 300; ++number) {
    const auto found = bytes.find(number);
    EXPECT_EQ(ElementBytes(static_cast<ElementType>(number)),
              found == bytes.end() ? 0 : found->second)
        << number;
  }
}

TEST(Types, ArraysOfZeros) {
  EXPECT_EQ(Array::Zeros(ElementType::kFloat64, {2, 3}).bytes, std::vector<std::byte>(48));
  EXPECT_EQ(Array::Zeros(ElementType::kBfloat16, {}).bytes.size(), 2u);
  EXPECT_EQ(Array::Zeros(ElementType::kFloat32, {2, 3}).size(), 6u);
  EXPECT_EQ(Array::Zeros(ElementType::kFloat32, {}).size(), 1u);
  EXPECT_EQ(Array::Zeros(ElementType::kFloat32, {4, 0}).size(), 0u);
  // None can be made of these.
  constexpr int64_t kHuge = int64_t{1} << 62;
  for (const auto& shape :
       std::vector<std::vector<int64_t>>{{-1}, {-2, -3}, {kHuge, 4}, {kHuge, 2}, {kHuge, 8, 1}}) {
    const Array a = Array::Zeros(ElementType::kFloat32, shape);
    EXPECT_TRUE(a.bytes.empty());
    EXPECT_EQ(a.shape, shape);
  }
  EXPECT_EQ(Array::Zeros(ElementType::kFloat32, {kHuge, 4}).size(), 0u) << "2^64";
  EXPECT_EQ(Array::Zeros(ElementType::kFloat32, {-2, -3}).size(), 0u);
  EXPECT_TRUE(Array::Zeros(static_cast<ElementType>(8), {3}).bytes.empty()) << "strings";
}

// Inputs and outputs of types that arrays do not carry: the file is refused, naming them.
TEST(Types, OtherTypesAreRefusedAtLoad) {
  const struct {
    const char* graph;
    const char* value;
    const char* type;
  } cases[] = {
      {"input %s: string[2]\ni: %t = Identity(%s)\noutput %t\n", "input s", "string[2]"},
      {"input %x: float32[2]\nc: %t = Cast{to=8}(%x)\noutput %t\n", "output t", "string[2]"},
      {"input %s: int4[2]\nc: %t = Cast{to=1}(%s)\noutput %t\n", "input s", "int4[2]"},
      {"input %x: float32[2]\nc: %t = Cast{to=22}(%x)\noutput %t\n", "output t", "int4[2]"},
      {"input %x: float32[2]\nc: %t = Cast{to=21}(%x)\noutput %t\n", "output t", "uint4[2]"},
      {"input %x: float32[2]\nc: %t = Cast{to=23}(%x)\noutput %t\n", "output t", "float4e2m1[2]"},
      {"input %x: float32[2]\nc: %t = SequenceConstruct(%x)\noutput %t\n", "output t",
       "sequence(float32[2])"},
  };
  for (const auto& c : cases) {
    SCOPED_TRACE(c.graph);
    const ModelFile file(c.graph, /*planned=*/false);
    std::string error;
    EXPECT_FALSE(Session::Load(file.path(), {1}, &error));
    EXPECT_EQ(error,
              file.path() + ": " + c.value + " is " + c.type + ", which arrays do not carry");
    char c_error[300];
    EXPECT_EQ(evoq_session_load(file.path().c_str(), 1, c_error, sizeof(c_error)), nullptr);
    EXPECT_EQ(error, c_error);
  }
}

// Every type that arrays carry, in and out: 1, 2 and 4 as bits of each, cast to float32 and back.
TEST(Types, CarriedTypesComeAndGo) {
  const struct {
    int type;
    const char* name;
    std::vector<uint64_t> bits;
  } cases[] = {
      {1, "float32", {0x3f800000, 0x40000000, 0x40800000}},
      {2, "uint8", {1, 2, 4}},
      {3, "int8", {1, 2, 4}},
      {4, "uint16", {1, 2, 4}},
      {5, "int16", {1, 2, 4}},
      {6, "int32", {1, 2, 4}},
      {7, "int64", {1, 2, 4}},
      {10, "float16", {0x3c00, 0x4000, 0x4400}},
      {11, "float64", {0x3ff0000000000000, 0x4000000000000000, 0x4010000000000000}},
      {12, "uint32", {1, 2, 4}},
      {13, "uint64", {1, 2, 4}},
      {16, "bfloat16", {0x3f80, 0x4000, 0x4080}},
      {17, "float8e4m3fn", {0x38, 0x40, 0x48}},
      {18, "float8e4m3fnuz", {0x40, 0x48, 0x50}},
      {19, "float8e5m2", {0x3c, 0x40, 0x44}},
      {20, "float8e5m2fnuz", {0x40, 0x44, 0x48}},
      {24, "float8e8m0", {127, 128, 129}},
  };
  for (const auto& c : cases) {
    SCOPED_TRACE(c.name);
    const ModelFile file(
        fmt::format("input %x: {}[3]\na: %f = Cast{{to=1}}(%x)\nb: %y = Cast{{to={}}}(%f)\n"
                    "output %f\noutput %y\n",
                    c.name, c.type),
        /*planned=*/false);
    std::string error;
    auto session = Session::Load(file.path(), {1}, &error);
    ASSERT_TRUE(session) << error;
    EXPECT_EQ(static_cast<int>(session->inputs()[0].type), c.type);
    EXPECT_EQ(session->outputs()[0].type, ElementType::kFloat32);
    EXPECT_EQ(static_cast<int>(session->outputs()[1].type), c.type);
    EXPECT_EQ(session->outputs()[1].shape, (std::vector<int64_t>{3}));
    Array x = Array::Zeros(session->inputs()[0].type, {3});
    const size_t bytes = x.bytes.size() / 3;
    for (size_t i = 0; i < 3; ++i) std::memcpy(x.bytes.data() + i * bytes, &c.bits[i], bytes);
    std::vector<Array> outputs;
    ASSERT_TRUE(session->Run({x}, &outputs, &error)) << error;
    for (size_t i = 0; i < 3; ++i)
      EXPECT_EQ(outputs[0].data<float>()[i], static_cast<float>(1 << i));
    EXPECT_EQ(static_cast<int>(outputs[1].type), c.type);
    EXPECT_EQ(outputs[1].bytes, x.bytes);
    x.type = static_cast<ElementType>(
        c.type == 6 ? 1 : 6);  // never taken for another type of as many bytes
    x.bytes.resize(12);
    EXPECT_FALSE(session->Run({x}, &outputs, &error));
    EXPECT_EQ(error,
              fmt::format("input x: element type {}, expected {}", c.type == 6 ? 1 : 6, c.type));
  }
}

// Files keep no types of outputs: they are inferred.
TEST(Types, OutputsAreDescribed) {
  const ModelFile file(
      "input %x: float32[N, 4]\na: %y = Add(%x, %x)\nm: %z = ArgMax{axis=1, keepdims=0}(%x)\n"
      "nz: %i = NonZero(%x)\noutput %y\noutput %z\noutput %i\n",
      /*planned=*/false);
  std::string error;
  const auto session = Session::Load(file.path(), {1}, &error);
  ASSERT_TRUE(session) << error;
  ASSERT_EQ(session->outputs().size(), 3u);
  EXPECT_EQ(session->outputs()[0].name, "y");
  EXPECT_EQ(session->outputs()[0].type, ElementType::kFloat32);
  EXPECT_EQ(session->outputs()[0].shape, (std::vector<int64_t>{-1, 4}));
  EXPECT_EQ(session->outputs()[1].type, ElementType::kInt64);
  EXPECT_EQ(session->outputs()[1].shape, (std::vector<int64_t>{-1}));
  EXPECT_EQ(session->outputs()[2].type, ElementType::kInt64);
  EXPECT_EQ(session->outputs()[2].shape, (std::vector<int64_t>{2, -1}));
  evoq_session* s = evoq_session_load(file.path().c_str(), 1, nullptr, 0);
  ASSERT_NE(s, nullptr);
  int64_t shape[3] = {7, 7, 7};
  EXPECT_EQ(evoq_session_output_shape(s, 2, shape, 1), 2);
  EXPECT_EQ(shape[0], 2);
  EXPECT_EQ(shape[1], 7) << "beyond the capacity";
  EXPECT_EQ(evoq_session_output_shape(s, 3, shape, 3), -1);
  EXPECT_EQ(evoq_session_output_shape(s, 0, nullptr, 0), 2);
  evoq_session_free(s);
}

}  // namespace
}  // namespace evoq
