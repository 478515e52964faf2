// The methods of gRPC: each of the protocol's is there, and what HTTP refuses it refuses too.
#include "serve/rpc.h"

#include <gtest/gtest.h>

#include <filesystem>

#include "serve/inference.pb.h"

namespace evoq::serve {
namespace {

class Kept final : public Reply {
 public:
  void Send(HttpResponse response) override { sent.push_back(std::move(response)); }
  void Begin(HttpResponse) override { ADD_FAILURE() << "an answer in pieces"; }
  bool Write(std::string) override { return false; }
  void End() override {}
  std::vector<HttpResponse> sent;
};

class RpcTest : public testing::Test {
 protected:
  void SetUp() override {
    folder_ = testing::TempDir() + "evoq_rpc_" +
              testing::UnitTest::GetInstance()->current_test_info()->name();
    std::filesystem::create_directories(folder_);
    auto opened = Repository::Open(folder_, {}, {.threads = 1}, [](auto&&...) {});
    ASSERT_TRUE(opened);
    repository_ = std::move(*opened);
    service_ = std::make_unique<Service>(*repository_, ServiceOptions());
    const auto now = [](std::function<void()> work) { work(); };
    service_->Use(now, now, nullptr);
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }
  HttpResponse Call(const std::string& method, const std::string& body = "") {
    auto request = std::make_shared<HttpRequest>();
    request->method = "POST";
    request->target = "/inference.GRPCInferenceService/" + method;
    request->body = body;
    const auto kept = std::make_shared<Kept>();
    HandleRpc(*service_, std::move(request), kept);
    EXPECT_EQ(kept->sent.size(), 1u) << method;
    return kept->sent.empty() ? HttpResponse() : kept->sent[0];
  }
  std::string folder_;
  std::unique_ptr<Repository> repository_;
  std::unique_ptr<Service> service_;
};

TEST_F(RpcTest, EveryMethodOfTheProtocolIsThere) {
  const auto* const service =
      inference::ModelInferRequest::descriptor()->file()->FindServiceByName("GRPCInferenceService");
  ASSERT_NE(service, nullptr);
  for (int i = 0; i < service->method_count(); ++i) {
    const auto& method = *service->method(i);
    EXPECT_EQ(Call(method.name()).error.find("no such method"), std::string::npos) << method.name();
    EXPECT_EQ(IsStream("/inference.GRPCInferenceService/" + method.name()),
              method.client_streaming());
  }
  EXPECT_EQ(Call("ModelInfo").error, "/inference.GRPCInferenceService/ModelInfo: no such method");
  EXPECT_EQ(Call("ModelInfo").status, 405);
}

TEST_F(RpcTest, ReadinessIsAnAnswer) {
  inference::ServerReadyResponse ready;
  ASSERT_TRUE(ready.ParseFromString(Call("ServerReady").body));
  EXPECT_FALSE(ready.ready());
  service_->SetReady(true);
  ASSERT_TRUE(ready.ParseFromString(Call("ServerReady").body));
  EXPECT_TRUE(ready.ready());
  inference::ModelReadyRequest request;
  request.set_name("none");
  const HttpResponse answer = Call("ModelReady", request.SerializeAsString());
  EXPECT_EQ(answer.status, 200);
  EXPECT_EQ(answer.error, "");
}

TEST_F(RpcTest, RefusalsAreThoseOfHttp) {
  inference::ModelMetadataRequest about;
  about.set_name("none/of them");
  const HttpResponse answer = Call("ModelMetadata", about.SerializeAsString());
  EXPECT_EQ(answer.status, 404);
  EXPECT_NE(answer.error.find("no model none/of them"), std::string::npos) << answer.error;
  EXPECT_EQ(Call("ModelMetadata", "\xff").error, "not a message ModelMetadataRequest (1 bytes)");
  EXPECT_EQ(Call("ModelMetadata", "\xff").status, 400);
}

TEST_F(RpcTest, ErrorsOfAStreamAreMessages) {
  inference::ModelInferRequest request;
  request.set_model_name("none");
  request.set_id("7");
  EXPECT_EQ(Call("ModelInfer", request.SerializeAsString()).status, 404);
  const HttpResponse answer = Call("ModelStreamInfer", request.SerializeAsString());
  EXPECT_EQ(answer.status, 200);
  inference::ModelStreamInferResponse message;
  ASSERT_TRUE(message.ParseFromString(answer.body));
  EXPECT_NE(message.error_message().find("no model none"), std::string::npos);
  EXPECT_EQ(message.infer_response().id(), "7");
  // An id that is no UTF-8 is no message, and does not come back in one.
  request.set_id("77");
  std::string wrong = request.SerializeAsString();
  wrong.replace(wrong.find("77"), 2, "\xff\xfe");
  ASSERT_TRUE(message.ParseFromString(Call("ModelStreamInfer", wrong).body));
  EXPECT_NE(message.error_message().find("not a message ModelInferRequest"), std::string::npos)
      << message.error_message();
  EXPECT_EQ(message.infer_response().id(), "");
}

}  // namespace
}  // namespace evoq::serve
