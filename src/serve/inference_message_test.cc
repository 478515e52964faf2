// The inference protocol's messages: what is read, what is refused, and that no bytes whatever make
// the reader fail otherwise or take much memory.
#include "serve/inference_message.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <random>

#include "serve/message.h"

namespace evoq::serve {
namespace {

using inference::ModelInferRequest;

std::vector<Port> PortsOf(std::initializer_list<std::pair<const char*, DType>> named) {
  std::vector<Port> ports;
  for (const auto& [name, dtype] : named)
    ports.push_back({name, TensorType(dtype, Shape({Dim::Symbolic("N"), Dim(2)}))});
  return ports;
}

class InferenceMessageTest : public testing::Test {
 protected:
  // A request of one input, x, without data.
  static ModelInferRequest Request(const std::string& datatype, std::vector<int64_t> shape) {
    ModelInferRequest message;
    auto& input = *message.add_inputs();
    input.set_name("x");
    input.set_datatype(datatype);
    for (int64_t size : shape) input.add_shape(size);
    return message;
  }
  Served<InferenceRequest> Read(const ModelInferRequest& message) {
    return ReadInference(message, message.ByteSizeLong(), inputs_, outputs_);
  }
  std::string Refused(const ModelInferRequest& message) {
    const auto request = Read(message);
    EXPECT_FALSE(request);
    return request ? "" : request.error().message;
  }

  std::vector<Port> inputs_ = PortsOf({{"x", DType::kFloat32}});
  std::vector<Port> outputs_ = PortsOf({{"y", DType::kFloat32}, {"z", DType::kInt8}});
};

TEST_F(InferenceMessageTest, RawDataAndContents) {
  const Tensor wanted = Tensor::FromValues<float>(Shape{1, 2}, {1.5f, -2});
  ModelInferRequest raw = Request("FP32", {1, 2});
  raw.set_id("7");
  (*raw.mutable_parameters())["timeout"].set_int64_param(99);
  raw.add_raw_input_contents(wanted.raw(), wanted.bytes());
  ModelInferRequest listed = Request("FP32", {1, 2});
  listed.mutable_inputs(0)->mutable_contents()->add_fp32_contents(1.5f);
  listed.mutable_inputs(0)->mutable_contents()->add_fp32_contents(-2);
  for (const ModelInferRequest& message : {raw, listed}) {
    const auto request = Read(message);
    ASSERT_TRUE(request) << request.error().message;
    EXPECT_TRUE(BitEqual(request->inputs[0], wanted));
    EXPECT_EQ(request->outputs.size(), 2u);  // all, where none is named
  }
  EXPECT_EQ(Read(raw)->id, "7");
  EXPECT_EQ(Read(raw)->timeout_us, 99);
  raw.add_outputs()->set_name("z");
  const auto request = Read(raw);
  ASSERT_EQ(request->outputs.size(), 1u);
  EXPECT_EQ(request->outputs[0].index, 1u);
}

// Each type has its list; a number that the type does not have is refused.
TEST_F(InferenceMessageTest, ContentsOfEachType) {
  struct Case {
    DType dtype;
    const char* datatype;
    void (*fill)(inference::InferTensorContents& to, bool beyond);
    const char* refused;  // nullptr: the list has no other numbers
  };
  const Case cases[] = {
      {DType::kBool, "BOOL", [](auto& c, bool) { c.add_bool_contents(true); }, nullptr},
      {DType::kInt8, "INT8", [](auto& c, bool b) { c.add_int_contents(b ? -129 : -128); },
       "input x: -129 in int_contents, expected numbers of INT8"},
      {DType::kInt16, "INT16", [](auto& c, bool b) { c.add_int_contents(b ? 32768 : 32767); },
       "input x: 32768 in int_contents, expected numbers of INT16"},
      {DType::kInt32, "INT32", [](auto& c, bool) { c.add_int_contents(INT32_MIN); }, nullptr},
      {DType::kInt64, "INT64", [](auto& c, bool) { c.add_int64_contents(INT64_MIN); }, nullptr},
      {DType::kUint8, "UINT8", [](auto& c, bool b) { c.add_uint_contents(b ? 256 : 255); },
       "input x: 256 in uint_contents, expected numbers of UINT8"},
      {DType::kUint16, "UINT16", [](auto& c, bool b) { c.add_uint_contents(b ? 65536 : 65535); },
       "input x: 65536 in uint_contents, expected numbers of UINT16"},
      {DType::kUint32, "UINT32", [](auto& c, bool) { c.add_uint_contents(UINT32_MAX); }, nullptr},
      {DType::kUint64, "UINT64", [](auto& c, bool) { c.add_uint64_contents(UINT64_MAX); }, nullptr},
      {DType::kFloat64, "FP64", [](auto& c, bool) { c.add_fp64_contents(1e300); }, nullptr},
  };
  for (const Case& one : cases) {
    inputs_ = PortsOf({{"x", one.dtype}});
    ModelInferRequest message = Request(one.datatype, {1, 1});
    one.fill(*message.mutable_inputs(0)->mutable_contents(), false);
    const auto request = Read(message);
    ASSERT_TRUE(request) << one.datatype << ": " << request.error().message;
    const std::byte* const raw = request->inputs[0].raw();
    EXPECT_TRUE(std::any_of(raw, raw + request->inputs[0].bytes(), [](std::byte b) {
      return b != std::byte{0};
    })) << one.datatype;
    if (one.refused == nullptr) continue;
    message.mutable_inputs(0)->mutable_contents()->Clear();
    one.fill(*message.mutable_inputs(0)->mutable_contents(), true);
    EXPECT_EQ(Refused(message), one.refused);
  }
  inputs_ = PortsOf({{"x", DType::kFloat16}});
  EXPECT_EQ(Refused(Request("FP16", {0, 2})),
            "input x: FP16 has no contents of its own, expected raw data");
}

TEST_F(InferenceMessageTest, RefusalsNamePlaceFoundAndExpected) {
  ModelInferRequest message = Request("FP32", {1, 2});
  EXPECT_EQ(Refused(ModelInferRequest()), "input x is missing");
  EXPECT_EQ(Refused(message), "input x: 0 fp32_contents, expected 2");
  message.add_raw_input_contents("1234");
  EXPECT_EQ(Refused(message), "input x: 4 bytes of data, expected 8 for its shape");
  message.add_raw_input_contents("");
  EXPECT_EQ(Refused(message), "2 raw_input_contents, expected one for each of 1 inputs");
  message.mutable_raw_input_contents()->RemoveLast();
  message.mutable_raw_input_contents(0)->assign(8, '\0');
  EXPECT_TRUE(Read(message));
  message.mutable_inputs(0)->mutable_contents()->add_fp32_contents(1);
  EXPECT_EQ(Refused(message), "input x: both contents and raw_input_contents");
  EXPECT_EQ(Refused(Request("FP16", {1, 2})), "input x: datatype \"FP16\", expected FP32");
  EXPECT_EQ(Refused(Request("FP32", {1, -1})), "input x: shape [1, -1] is larger than the request");
  EXPECT_EQ(Refused(Request("FP32", {int64_t{1} << 40, int64_t{1} << 40})),
            "input x: shape [1099511627776, 1099511627776] is larger than the request");
  message = Request("FP32", {1, 2});
  (*message.mutable_parameters())["sequence_id"].set_int64_param(3);
  EXPECT_EQ(Refused(message), "parameters: sequence_id: not supported by this server");
  (*message.mutable_parameters())["sequence_id"].set_int64_param(0);
  (*message.mutable_parameters())["timeout"].set_uint64_param(UINT64_MAX);
  EXPECT_EQ(Refused(message),
            "parameters: timeout: uint64_param: 18446744073709551615, expected a whole number from "
            "0 to 3600000000");
}

TEST_F(InferenceMessageTest, ResponseHasTheOutputsThatWereAskedFor) {
  ModelInferRequest message = Request("FP32", {1, 2});
  message.set_id("a");
  message.add_raw_input_contents(std::string(8, '\0'));
  message.add_outputs()->set_name("z");
  message.add_outputs()->set_name("y");
  const Tensors outputs = {Tensor::FromValues<float>(Shape{1, 2}, {1, 2}),
                           Tensor::FromValues<int8_t>(Shape{1, 2}, {3, 4})};
  const auto response = InferenceMessage("m", 5, *Read(message), outputs, outputs_);
  ASSERT_TRUE(response);
  EXPECT_EQ(response->model_name() + response->model_version() + response->id(), "m5a");
  ASSERT_EQ(response->outputs_size(), 2);
  EXPECT_EQ(response->outputs(0).name(), "z");
  EXPECT_EQ(response->outputs(0).datatype(), "INT8");
  EXPECT_EQ(response->outputs(1).shape(1), 2);
  EXPECT_EQ(response->raw_output_contents(0), "\3\4");
  EXPECT_EQ(response->raw_output_contents(1).size(), 8u);
}

TEST(Message, WhatTakesMemoryIsCountedBeforeItIsRead) {
  ModelInferRequest message;
  for (int64_t i = 0; i < kMaxMembers / 2; ++i) message.add_inputs()->add_shape(1);
  ModelInferRequest read;
  EXPECT_TRUE(ParseMessage(message.SerializeAsString(), read));
  message.add_inputs();
  const auto more = ParseMessage(message.SerializeAsString(), read);
  ASSERT_FALSE(more);
  EXPECT_EQ(more.error().message, "ModelInferRequest: more than 65536 members");
  for (const std::string& bytes : {std::string("\x0b\x0c"), std::string("\x2a\x05\x0a"),
                                   std::string("\x0a\x02\xff\xff"), std::string("\xff")}) {
    const auto none = ParseMessage(bytes, read);
    ASSERT_FALSE(none);
    EXPECT_EQ(none.error().message,
              fmt::format("not a message ModelInferRequest ({} bytes)", bytes.size()));
  }
}

// EVOQ_LONG=1: 10^6 of them.
TEST_F(InferenceMessageTest, RandomBytesAreReadOrRefused) {
  ModelInferRequest message = Request("FP32", {1, 2});
  message.set_model_name("m");
  message.add_outputs()->set_name("y");
  (*message.mutable_parameters())["timeout"].set_int64_param(99);
  message.add_raw_input_contents(std::string(8, '\1'));
  const std::string good = message.SerializeAsString();
  std::mt19937 random(7);
  const int rounds = std::getenv("EVOQ_LONG") != nullptr ? 1000000 : 20000;
  int read = 0;
  for (int round = 0; round < rounds; ++round) {
    std::string bytes = good;
    for (uint32_t changes = random() % 4 + 1; changes > 0; --changes) {
      const size_t at = random() % bytes.size();
      switch (random() % 3) {
        case 0: bytes[at] = static_cast<char>(random()); break;
        case 1: bytes.erase(at, random() % 3); break;
        default: bytes.insert(at, 1, static_cast<char>(random()));
      }
      if (bytes.empty()) bytes = good;
    }
    ModelInferRequest changed;
    if (ParseMessage(bytes, changed) && ReadInference(changed, bytes.size(), inputs_, outputs_))
      ++read;
  }
  EXPECT_GT(read, 0);
  EXPECT_LT(read, rounds);
}

}  // namespace
}  // namespace evoq::serve
