// Requests and responses of the inference protocol: what is read, what is refused, and that no
// bytes whatever make the reader fail otherwise.
#include "serve/inference_request.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <cstring>
#include <limits>
#include <random>

#include "serve/http.h"

namespace evoq::serve {
namespace {

std::vector<Port> Ports(std::initializer_list<std::pair<const char*, DType>> named) {
  std::vector<Port> ports;
  for (const auto& [name, dtype] : named)
    ports.push_back({name, TensorType(dtype, Shape({Dim::Symbolic("N"), Dim(2)}))});
  return ports;
}

class InferenceRequestTest : public testing::Test {
 protected:
  Served<InferenceRequest> Parse(std::string_view body, std::optional<size_t> json = {}) {
    return ParseInference(body, json, inputs_, outputs_);
  }
  // A JSON header and the binary data behind it.
  Served<InferenceRequest> ParseBinary(const std::string& header, const std::string& data) {
    return Parse(header + data, header.size());
  }
  std::string Refused(const Served<InferenceRequest>& request) {
    EXPECT_FALSE(request);
    return request ? "" : request.error().message;
  }
  std::string One(const std::string& input) { return R"({"inputs":[)" + input + "]}"; }

  std::vector<Port> inputs_ = Ports({{"x", DType::kFloat32}});
  std::vector<Port> outputs_ = Ports({{"y", DType::kFloat32}, {"z", DType::kInt8}});
};

TEST_F(InferenceRequestTest, FlatAndNestedData) {
  for (const char* data : {"[1, 2.5, -3, 4e-1]", "[[1, 2.5], [-3, 0.4]]"}) {
    const auto request = Parse(
        One(fmt::format(R"({{"name":"x","shape":[2,2],"datatype":"FP32","data":{}}})", data)));
    ASSERT_TRUE(request) << request.error().message;
    EXPECT_TRUE(evoq::BitEqual(request->inputs[0],
                               Tensor::FromValues<float>(Shape{2, 2}, {1, 2.5f, -3, 0.4f})));
    ASSERT_EQ(request->outputs.size(), 2u);  // all, where none is named
    EXPECT_FALSE(request->outputs[0].binary);
  }
}

TEST_F(InferenceRequestTest, BinaryDataInTheOrderOfTheHeader) {
  inputs_ = Ports({{"a", DType::kInt8}, {"x", DType::kFloat32}});
  const float x[2] = {1.5f, -2};
  std::string data(reinterpret_cast<const char*>(x), sizeof(x));
  data += std::string("\x07\xff", 2);
  const auto request = ParseBinary(
      R"({"id":"7","parameters":{"timeout":1500,"binary_data_output":true},"inputs":[
          {"name":"x","shape":[1,2],"datatype":"FP32","parameters":{"binary_data_size":8}},
          {"name":"a","shape":[1,2],"datatype":"INT8","parameters":{"binary_data_size":2}}],
          "outputs":[{"name":"z"},{"name":"y","parameters":{"binary_data":false}}]})",
      data);
  ASSERT_TRUE(request) << request.error().message;
  EXPECT_TRUE(evoq::BitEqual(request->inputs[0], Tensor::FromValues<int8_t>(Shape{1, 2}, {7, -1})));
  EXPECT_TRUE(
      evoq::BitEqual(request->inputs[1], Tensor::FromValues<float>(Shape{1, 2}, {1.5f, -2})));
  EXPECT_EQ(request->id, "7");
  EXPECT_EQ(request->timeout_us, 1500);
  ASSERT_EQ(request->outputs.size(), 2u);
  EXPECT_EQ(request->outputs[0].index, 1u);
  EXPECT_TRUE(request->outputs[0].binary);
  EXPECT_FALSE(request->outputs[1].binary);
}

TEST_F(InferenceRequestTest, RefusalsNamePlaceFoundAndExpected) {
  const auto x = [&](const std::string& rest) {
    return Refused(Parse(One(R"({"name":"x",)" + rest + "}")));
  };
  EXPECT_EQ(Refused(Parse("{")), "not JSON (1 bytes): line 1, column 2");
  EXPECT_EQ(Refused(Parse("[]")), ": a list of 0, expected an object");
  EXPECT_EQ(Refused(Parse("{}")), "inputs: null, expected a list");
  EXPECT_EQ(Refused(Parse(R"({"inputs":[]})")), "input x is missing");
  EXPECT_EQ(Refused(Parse(One(R"({"name":"w"})"))), "input w: the model has no input of that name");
  EXPECT_EQ(x(R"("datatype":"FP16")"), "input x: datatype \"FP16\", expected FP32");
  EXPECT_EQ(x(R"("datatype":"FP32","data":[])"), "input x: shape is missing");
  EXPECT_EQ(x(R"("datatype":"FP32","shape":[1,-2],"data":[])"),
            "input: shape[1]: -2, expected a whole number from 0 to 9223372036854775807");
  EXPECT_EQ(x(R"("datatype":"FP32","shape":[1,2],"data":[1])"),
            "input x: 1 elements of data, expected 2");
  EXPECT_EQ(x(R"("datatype":"FP32","shape":[2,2],"data":[[1,2],[3]])"),
            "input x: a list of 1 on level 1 of data, expected a list of 2");
  EXPECT_EQ(x(R"("datatype":"FP32","shape":[1,2],"data":[1,"a"])"),
            "input x: \"a\" in data, expected numbers of FP32");
  EXPECT_EQ(x(R"("datatype":"FP32","shape":[1,2],"data":[1,1e39])"),
            "input x: 1e+39 in data, expected numbers of FP32");
  EXPECT_EQ(x(R"("datatype":"FP32","shape":[4611686018427387904,4],"data":[])"),
            "input x: shape [4611686018427387904, 4] is larger than the request");
  EXPECT_EQ(x(R"("datatype":"FP32","shape":[1000000,2],"data":[])"),
            "input x: shape [1000000, 2] is larger than the request");
  EXPECT_EQ(x(R"("datatype":"FP32","shape":[0,4611686018427387904],"data":[])"),
            "input x: shape [0, 4611686018427387904], expected sizes of at most 67108864 beside a "
            "0");
  EXPECT_EQ(x(R"("datatype":"FP32","shape":[1,2],"parameters":{"shared_memory_region":"r"})"),
            "input x: parameters: shared_memory_region: not supported by this server");
  EXPECT_EQ(Refused(Parse(R"({"parameters":{"sequence_id":3}})")),
            "parameters: sequence_id: not supported by this server");
  EXPECT_EQ(Refused(Parse(R"({"parameters":{"timeout":-1}})")),
            "parameters: timeout: -1, expected a whole number from 0 to 3600000000");
  const std::string good = R"({"name":"x","datatype":"FP32","shape":[1,2],"data":[1,2]})";
  EXPECT_EQ(Refused(Parse(One(good + "," + good))), "input x is given twice");
  EXPECT_EQ(Refused(Parse(R"({"inputs":[)" + good + R"(],"outputs":[{"name":"q"}]})")),
            "output q: the model has no output of that name");
  EXPECT_EQ(Refused(Parse(R"({"inputs":[)" + good + R"(],"outputs":[{"name":"y"},{"name":"y"}]})")),
            "output y is asked for twice");
}

TEST_F(InferenceRequestTest, BinarySizesAreChecked) {
  const auto header = [](const std::string& shape, const std::string& size) {
    return R"({"inputs":[{"name":"x","datatype":"FP32","shape":)" + shape +
           R"(,"parameters":{"binary_data_size":)" + size + "}}]}";
  };
  const std::string eight(8, 0);
  EXPECT_TRUE(ParseBinary(header("[1,2]", "8"), eight));
  EXPECT_EQ(Refused(ParseBinary(header("[1,2]", "4"), eight)),
            "input x: binary_data_size 4, expected 8 for its shape");
  EXPECT_EQ(Refused(ParseBinary(header("[1,2]", "8"), "1234")),
            "input x: 8 bytes of binary data, only 4 are left");
  EXPECT_EQ(Refused(ParseBinary(header("[1,2]", "8"), eight + "x")),
            "1 bytes of binary data that no input names");
  EXPECT_EQ(Refused(Parse("{}", 3)), "Inference-Header-Content-Length 3, but the body has 2 bytes");
  EXPECT_EQ(Refused(Parse("{}", SIZE_MAX)),
            "Inference-Header-Content-Length 18446744073709551615, but the body has 2 bytes");
  inputs_ = Ports({{"x", DType::kBool}});
  const std::string b = R"({"inputs":[{"name":"x","datatype":"BOOL","shape":[1,2],)"
                        R"("parameters":{"binary_data_size":2}}]})";
  EXPECT_TRUE(ParseBinary(b, std::string("\0\1", 2)));
  EXPECT_EQ(Refused(ParseBinary(b, std::string("\0\2", 2))),
            "input x: byte 1 of BOOL data is 2, expected 0 or 1");
}

// Each type's smallest and largest numbers come back as they were; those beyond are refused.
TEST_F(InferenceRequestTest, NumbersOfEachTypeRoundTrip) {
  struct Case {
    DType dtype;
    const char* name;
    const char* numbers;  // two that fit
    const char* beyond;
  };
  const Case cases[] = {
      {DType::kBool, "BOOL", "true,false", "2"},
      {DType::kUint8, "UINT8", "0,255", "256"},
      {DType::kInt8, "INT8", "-128,127", "-129"},
      {DType::kUint16, "UINT16", "0,65535", "-1"},
      {DType::kInt16, "INT16", "-32768,32767", "32768"},
      {DType::kUint32, "UINT32", "0,4294967295", "4294967296"},
      {DType::kInt32, "INT32", "-2147483648,2147483647", "2147483648"},
      {DType::kUint64, "UINT64", "0,18446744073709551615", "-1"},
      {DType::kInt64, "INT64", "-9223372036854775808,9223372036854775807", "9223372036854775808"},
      {DType::kFloat16, "FP16", "0.5,-65504", "70000"},
      {DType::kBfloat16, "BF16", "0.5,-256", "1e39"},
      {DType::kFloat32, "FP32", "1.1754944e-38,3.4028235e+38", "1e39"},
      {DType::kFloat64, "FP64", "0.1,1.7976931348623157e+308", "\"1\""},
  };
  for (const Case& c : cases) {
    inputs_ = outputs_ = Ports({{"x", c.dtype}});
    const auto body = [&](const std::string& data) {
      return One(
          fmt::format(R"({{"name":"x","shape":[1,2],"datatype":"{}","data":[{}]}})", c.name, data));
    };
    const auto request = Parse(body(c.numbers));
    ASSERT_TRUE(request) << request.error().message;
    const auto text = WriteInference("m", 1, *request, request->inputs, outputs_);
    ASSERT_TRUE(text) << text.error().message;
    EXPECT_EQ(text->text,
              fmt::format(R"({{"model_name":"m","model_version":"1","outputs":[{{"name":"x",)"
                          R"("datatype":"{}","shape":[1,2],"data":[{}]}}]}})",
                          c.name, c.numbers));
    EXPECT_FALSE(Parse(body(fmt::format("0,{}", c.beyond)))) << c.name;
  }
}

TEST_F(InferenceRequestTest, ResponsesHoldTheOutputsThatWereAskedFor) {
  InferenceRequest request;
  request.id = "a\"b";
  request.outputs = {{1, false}, {0, true}};
  const Tensors outputs = {Tensor::FromValues<float>(Shape{1, 2}, {1, NAN}),
                           Tensor::FromValues<int8_t>(Shape{1, 2}, {-1, 2})};
  const auto body = WriteInference("m", 3, request, outputs, outputs_);
  ASSERT_TRUE(body) << body.error().message;
  const std::string header =
      R"({"model_name":"m","model_version":"3","id":"a\"b","outputs":[)"
      R"({"name":"z","datatype":"INT8","shape":[1,2],"data":[-1,2]},)"
      R"({"name":"y","datatype":"FP32","shape":[1,2],"parameters":{"binary_data_size":8}}]})";
  EXPECT_EQ(body->json_bytes, header.size());
  EXPECT_EQ(body->text.substr(0, header.size()), header);
  EXPECT_EQ(std::memcmp(body->text.data() + header.size(), outputs[0].raw(), 8), 0);
  request.outputs = {{0, false}};
  const auto refused = WriteInference("m", 3, request, outputs, outputs_);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().message,
            "output y has a NaN or an infinity, which JSON does not carry: ask for binary data");
}

// Bodies that were changed at random: read or refused, and what is read has the model's types and
// its sizes. EVOQ_LONG=1 reads 10^6 of them.
TEST_F(InferenceRequestTest, AnyBytesAreReadOrRefused) {
  inputs_ = Ports({{"x", DType::kFloat32}, {"b", DType::kBool}});
  const std::string header =
      R"({"id":"1","parameters":{"timeout":5,"binary_data_output":true},"inputs":[{"name":"x",)"
      R"("shape":[2,2],"datatype":"FP32","parameters":{"binary_data_size":16}},{"name":"b",)"
      R"("shape":[1,2],"datatype":"BOOL","data":[[true,0]]}],"outputs":[{"name":"y"}]})";
  const std::string whole = header + std::string(16, '\1');
  ASSERT_TRUE(Parse(whole, header.size()));
  const std::string_view pieces[] = {
      "{",  "}",    "[", "]",        ",",    ":",         "\"",
      "-",  "e9",   "0", "99999999", "null", "\"data\":", "18446744073709551615",
      "[[", "1e309"};
  std::mt19937 random(1);
  const auto below = [&](size_t n) { return random() % n; };
  const int rounds = std::getenv("EVOQ_LONG") != nullptr ? 1000000 : 20000;
  int read = 0;
  for (int round = 0; round < rounds; ++round) {
    std::string body = whole;
    for (size_t changes = 1 + below(3); changes > 0; --changes) {
      const size_t at = below(body.size() + 1);
      switch (below(4)) {
        case 0: body.erase(at, 1 + below(4)); break;
        case 1: body.insert(at, pieces[below(std::size(pieces))]); break;
        case 2: body.insert(at, body.substr(below(body.size() + 1), below(40))); break;
        default:
          if (at < body.size()) body[at] = static_cast<char>(random());
      }
      if (body.empty()) body = "{";
    }
    size_t json = header.size() + body.size() - whole.size();  // wraps where it must not matter
    if (below(8) == 0) json = below(2) == 0 ? random() : below(body.size() + 2);
    const auto request = Parse(body, json);
    if (!request) {
      EXPECT_FALSE(request.error().message.empty());
      continue;
    }
    ++read;
    ASSERT_EQ(request->inputs.size(), 2u);
    for (size_t i = 0; i < 2; ++i) {
      EXPECT_EQ(request->inputs[i].dtype(), inputs_[i].type.dtype);
      EXPECT_LE(request->inputs[i].bytes(), 8 * body.size() + 4096);
    }
    for (int64_t i = 0; i < request->inputs[1].elements(); ++i)
      EXPECT_LE(static_cast<int>(request->inputs[1].raw()[i]), 1);
  }
  EXPECT_GT(read, rounds / 100);
}

TEST(SplitTarget, PartsAreDecoded) {
  std::vector<std::string> parts;
  ASSERT_TRUE(SplitTarget("/v2/models/a%2Fb%20c/infer?x=/y", parts));
  EXPECT_EQ(parts, (std::vector<std::string>{"v2", "models", "a/b c", "infer"}));
  ASSERT_TRUE(SplitTarget("/v2/", parts));
  EXPECT_EQ(parts, std::vector<std::string>{"v2"});
  ASSERT_TRUE(SplitTarget("/", parts));
  EXPECT_TRUE(parts.empty());
  ASSERT_TRUE(SplitTarget("//v2", parts));
  EXPECT_EQ(parts, (std::vector<std::string>{"", "v2"}));
  for (const char* bad : {"", "v2", "*", "/%", "/%1", "/%zz", "http://host/v2"})
    EXPECT_FALSE(SplitTarget(bad, parts)) << bad;
}

}  // namespace
}  // namespace evoq::serve
