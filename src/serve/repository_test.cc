// Folders of models: which versions are served, and that loading, loading anew and unloading leave
// whoever uses a model what he has.
#include "serve/repository.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <future>
#include <thread>

#include "base/file.h"
#include "models/models.h"
#include "program/etm.h"
#include "reference/test_graph.h"
#include "serve/fields.h"

namespace evoq::serve {
namespace {

namespace fs = std::filesystem;

// A model that adds `value` to each of its 4 columns.
std::string AddingModel(float value) {
  return fmt::format(
      "input %x: float32[\"N\", 4]\nconst %c: float32[4] = [{0:.1f}, {0:.1f}, {0:.1f}, {0:.1f}]\n"
      "a: %y: float32[\"N\", 4] = Add(%x, %c)\noutput %y\n",
      value);
}

class RepositoryTest : public testing::Test {
 protected:
  void SetUp() override {
    folder_ = testing::TempDir() + "evoq_repository_" +
              testing::UnitTest::GetInstance()->current_test_info()->name();
    fs::remove_all(folder_);
    fs::create_directories(folder_);
  }
  void TearDown() override {
    repository_.reset();
    fs::remove_all(folder_);
  }
  void Put(const std::string& path, float value) {
    fs::create_directories(fs::path(folder_ + "/" + path).parent_path());
    const auto model = LowerAndPack(Parsed(AddingModel(value)));
    ASSERT_TRUE(model) << model.error().message();
    const Status written = WriteEtm(*model, folder_ + "/" + path);
    ASSERT_TRUE(written) << written.error().message();
  }
  void PutText(const std::string& path, const std::string& text) {
    fs::create_directories(fs::path(folder_ + "/" + path).parent_path());
    std::ofstream(folder_ + "/" + path) << text;
  }
  Repository& Open() {
    auto opened = Repository::Open(folder_, {}, {.threads = 1},
                                   [this](const auto& event, const auto& model, const auto& why) {
                                     log_.push_back(event + " " + model + " " + why);
                                   });
    EXPECT_TRUE(opened) << opened.error().message();
    repository_ = std::move(*opened);
    return *repository_;
  }
  // What the model makes of zeros: the number that it adds; -1 where it fails.
  static float Added(const std::shared_ptr<ServedModel>& model) {
    std::promise<float> added;
    Inference inference;
    inference.inputs = {Tensor::Allocate(TensorType(DType::kFloat32, Shape{1, 4}))};
    inference.done = [&](Served<Tensors> outputs, const InferenceTimes&) {
      added.set_value(outputs ? (*outputs)[0].data<float>()[0] : -1);
    };
    if (!model->Infer(inference)) return -1;
    return added.get_future().get();
  }
  float Added(const std::string& name, const std::string& version = "") {
    const auto model = repository_->Find(name, version);
    return model ? Added(*model) : -1;
  }
  std::string folder_;
  std::unique_ptr<Repository> repository_;
  std::vector<std::string> log_;
};

TEST_F(RepositoryTest, ServesTheNewestVersion) {
  Put("m/1/model.etm", 1);
  Put("m/10/model.etm", 10);
  Put("m/9/model.etm", 9);
  PutText("m/notes/readme.txt", "no version");
  Put("bare.etm", 5);
  PutText("readme.md", "no model");
  Repository& repository = Open();
  EXPECT_EQ(*repository.Names(), (std::vector<std::string>{"bare", "m"}));
  ASSERT_TRUE(repository.Load("m"));
  ASSERT_TRUE(repository.Load("bare"));
  EXPECT_EQ(Added("m"), 10);
  EXPECT_EQ(Added("m", "10"), 10);
  EXPECT_EQ(Added("bare", "1"), 5);
  EXPECT_EQ(repository.Find("m", "9").error().message, "model m has no version 9");
  EXPECT_EQ(repository.Find("m", "010").error().why, Why::kNotFound);
  EXPECT_EQ(repository.Find("n").error().message, "no model n");
}

TEST_F(RepositoryTest, VersionPolicies) {
  for (int version : {1, 2, 3}) Put(fmt::format("m/{}/model.etm", version), 10.f * version);
  Repository& repository = Open();
  PutText("m/config.json", R"({"version_policy": {"all": {}}})");
  ASSERT_TRUE(repository.Load("m"));
  EXPECT_EQ(Added("m", "1"), 10);
  EXPECT_EQ(Added("m", "3"), 30);
  PutText("m/config.json", R"({"version_policy": {"latest": {"num_versions": "2"}}})");
  ASSERT_TRUE(repository.Load("m"));
  EXPECT_EQ(Added("m", "1"), -1);
  EXPECT_EQ(Added("m", "2"), 20);
  PutText("m/config.json", R"({"version_policy": {"specific": {"versions": [1]}}})");
  ASSERT_TRUE(repository.Load("m"));
  EXPECT_EQ(Added("m"), 10);
  PutText("m/config.json", R"({"version_policy": {"specific": {"versions": [4]}}})");
  EXPECT_EQ(repository.Load("m").error().message(),
            folder_ + "/m: version 4 is not there, which version_policy names");
  EXPECT_EQ(Added("m"), 10);
}

TEST_F(RepositoryTest, WhoUsesAVersionKeepsIt) {
  Put("m/1/model.etm", 1);
  Repository& repository = Open();
  ASSERT_TRUE(repository.Load("m"));
  auto used = repository.Find("m");
  ASSERT_TRUE(used);
  Put("m/1/model.etm", 2);
  EXPECT_EQ(Added("m"), 1);  // nothing happens by itself
  ASSERT_TRUE(repository.Load("m"));
  EXPECT_EQ(Added("m"), 2);
  EXPECT_EQ(Added(*used), 1);
  ASSERT_TRUE(repository.Unload("m"));
  EXPECT_EQ(Added(*used), 1);
  EXPECT_EQ(repository.Find("m").error().message, "model m is not loaded: unloaded");
  EXPECT_EQ(repository.Find("m").error().why, Why::kUnavailable);
  // Its counters went on.
  EXPECT_EQ((*used)->statistics().Read().success.count, 4u);
}

TEST_F(RepositoryTest, ALoadThatFailsLeavesWhatWasServed) {
  Put("m/1/model.etm", 1);
  Repository& repository = Open();
  ASSERT_TRUE(repository.Load("m"));
  // Replaced by a file that is none: by renaming, as tools do.
  PutText("broken", "no model");
  fs::rename(folder_ + "/broken", folder_ + "/m/1/model.etm");
  const Status loaded = repository.Load("m");
  ASSERT_FALSE(loaded);
  EXPECT_NE(loaded.error().message().find("m/1/model.etm"), std::string::npos);
  EXPECT_EQ(Added("m"), 1);
  ASSERT_EQ(repository.Index().size(), 1u);
  EXPECT_TRUE(repository.Index()[0].ready);
  EXPECT_EQ(repository.Index()[0].reason, loaded.error().message());
  // A version more that is broken: the others are served on as they were.
  Put("m/1/model.etm", 3);
  PutText("m/2/model.etm", "no model");
  PutText("m/config.json", R"({"version_policy": {"all": {}}})");
  EXPECT_FALSE(repository.Load("m"));
  EXPECT_EQ(Added("m"), 1);
}

TEST_F(RepositoryTest, NamesLeadNowhereElse) {
  Put("m/1/model.etm", 1);
  Repository& repository = Open();
  const std::string zero("m\0", 2);
  for (const std::string& name :
       std::vector<std::string>{"..", ".", "", "m/1", "../m", "/m", "m/../m", zero}) {
    const Status loaded = repository.Load(name);
    ASSERT_FALSE(loaded) << name;
    EXPECT_EQ(loaded.error().code(), ErrorCode::kNotFound) << name;
    EXPECT_FALSE(repository.Find(name)) << name;
  }
  EXPECT_EQ(repository.Index().size(), 1u);
}

TEST_F(RepositoryTest, FoldersThatHoldNoModelSaySo) {
  fs::create_directories(folder_ + "/empty");
  PutText("other/1/model.txt", "");
  Repository& repository = Open();
  EXPECT_EQ(repository.Load("empty").error().message(),
            folder_ + "/empty: no version, expected a folder 1 with model.etm");
  EXPECT_EQ(repository.Load("other").error().message(),
            folder_ +
                "/other/1: no model, expected one of model.etm, model.onnx, model.tflite, "
                "model.gguf, model.bin, model");
  EXPECT_EQ(Repository::Open(folder_ + "/none", {}, {}, nullptr).error().code(),
            ErrorCode::kNotFound);
}

TEST_F(RepositoryTest, RefreshFollowsTheFolder) {
  Put("a/1/model.etm", 1);
  Repository& repository = Open();
  repository.Refresh();
  EXPECT_EQ(Added("a"), 1);
  const size_t lines = log_.size();
  repository.Refresh();
  EXPECT_EQ(log_.size(), lines);  // nothing has changed
  Put("a/2/model.etm", 2);
  Put("b.etm", 7);
  PutText("c/1/model.etm", "broken");
  repository.Refresh();
  EXPECT_EQ(Added("a"), 2);
  EXPECT_EQ(Added("b"), 7);
  EXPECT_EQ(Added("c"), -1);
  const size_t tried = log_.size();
  repository.Refresh();
  EXPECT_EQ(log_.size(), tried);  // what is broken is not tried again and again
  fs::remove(folder_ + "/b.etm");
  repository.Refresh();
  EXPECT_EQ(Added("b"), -1);
}

// Loaded anew and unloaded under load: every request is answered by the model that it found.
TEST_F(RepositoryTest, NoRequestIsDropped) {
  Put("m/1/model.etm", 1);
  Repository& repository = Open();
  ASSERT_TRUE(repository.Load("m"));
  std::atomic<bool> stop = false;
  std::atomic<int> answered = 0, lost = 0;
  std::vector<std::thread> callers;
  for (int c = 0; c < 3; ++c) {
    callers.emplace_back([&] {
      while (!stop) {
        const auto model = repository.Find("m");
        if (!model) {
          ++lost;
        } else {
          ++(Added(*model) == 1 ? answered : lost);
        }
      }
    });
  }
  for (int i = 0; i < 20; ++i) EXPECT_TRUE(repository.Load("m"));
  while (answered < 100) std::this_thread::yield();
  stop = true;
  for (std::thread& caller : callers) caller.join();
  EXPECT_EQ(lost, 0);
}

TEST(ModelSettings, ErrorsNameTheKey) {
  const auto refused = [](const char* text) {
    const auto settings = ParseSettings(nlohmann::json::parse(text), "m", {});
    EXPECT_FALSE(settings) << text;
    return settings ? "" : settings.error().message();
  };
  EXPECT_EQ(refused(R"({"max_batch_sise": 8})"),
            "max_batch_sise: unknown key; the nearest is max_batch_size");
  EXPECT_EQ(refused(R"({"max_batch_size": -1})"),
            "max_batch_size: -1, expected a whole number from 0 to 4096");
  EXPECT_EQ(refused(R"({"max_batch_size": 1e30})"),
            "max_batch_size: 1e+30, expected a whole number from 0 to 4096");
  EXPECT_EQ(refused(R"({"shadow": {"one_in": 5}})"),
            "shadow: model: \"\", expected the name of another model");
  EXPECT_EQ(refused(R"({"shadow": {"model": "m"}})"),
            "shadow: model: \"m\", expected the name of another model");
  EXPECT_EQ(refused(R"({"shadow": {"model": "n", "one_in": 0}})"),
            "shadow: one_in: 0, expected a whole number from 1 to 1048576");
  EXPECT_EQ(refused(R"({"name": "n"})"), "name: \"n\", expected m, as its folder");
  EXPECT_EQ(refused(R"({"dynamic_batching": {"preferred_batch_size": [2, "x"]}})"),
            "dynamic_batching: preferred_batch_size[1]: \"x\", expected a whole number from 1 to "
            "4096");
  EXPECT_EQ(refused(R"({"dynamic_batching": {"preferred_batch_size": [16]}})"),
            "dynamic_batching: preferred_batch_size: 16, expected at most max_batch_size, 8");
  EXPECT_EQ(refused(R"({"instance_group": [{"kind": "KIND_GPU"}]})"),
            "instance_group: kind: \"KIND_GPU\", expected KIND_CPU or KIND_AUTO");
  EXPECT_EQ(refused(R"({"version_policy": {"all": {}, "latest": {}}})"),
            "version_policy: expected one of latest, all and specific");
  EXPECT_EQ(refused("[1]"), ": a list of 1, expected an object");
}

TEST(ModelSettings, AreWhatTheyPrint) {
  const auto config = nlohmann::json::parse(
      R"({"max_batch_size": 16, "dynamic_batching": {"preferred_batch_size": [4, 8],
          "max_queue_delay_microseconds": "100", "default_queue_policy": {"max_queue_size": 5,
          "default_timeout_microseconds": 7}}, "instance_group": [{"count": 2}], "threads": 3,
          "version_policy": {"latest": {"num_versions": 2}},
          "shadow": {"model": "n", "one_in": 9}})");
  const auto settings = ParseSettings(config, "m", {});
  ASSERT_TRUE(settings) << settings.error().message();
  EXPECT_EQ(settings->max_batch, 16);
  EXPECT_EQ(settings->preferred, (std::vector<int64_t>{4, 8}));
  EXPECT_EQ(settings->max_delay_us, 100);
  EXPECT_EQ(settings->max_queue, 5);
  EXPECT_EQ(settings->timeout_us, 7);
  EXPECT_EQ(settings->instances, 2);
  EXPECT_EQ(settings->threads, 3);
  EXPECT_EQ(settings->shadow, "n");
  EXPECT_EQ(settings->shadow_one_in, 9);
  const auto again = ParseSettings(ToJson(*settings), "m", {});
  ASSERT_TRUE(again) << again.error().message();
  EXPECT_EQ(ToJson(*again), ToJson(*settings));
}

}  // namespace
}  // namespace evoq::serve
