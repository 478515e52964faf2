#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "profile/limits.h"
#include "profile/limits_file.h"
#include "profile/measure.h"
#include "profile/peak_loops.h"

namespace evoq {
namespace {

TEST(Limits, EveryInstructionSetIsMeasured) {
  for (Isa isa : AllIsas()) {
    if (!IsaSupported(isa)) continue;
    const Limits limits = MeasureLimits(isa, 1);
    EXPECT_GT(limits.int8_gops, 0.1) << IsaName(isa);
    EXPECT_GT(limits.fp32_gflops, 0.1) << IsaName(isa);
    EXPECT_GT(limits.dram_read_gbps, 0.1) << IsaName(isa);
    EXPECT_GT(limits.l3_read_gbps, 0.1) << IsaName(isa);
    EXPECT_EQ(limits.bf16_gflops > 0, isa.Has(Isa::kAvx512Bf16)) << IsaName(isa);
  }
}

struct Loops {
  Isa isa;
  const PeakLoops* loops;
  double int8, fp32, bf16;  // operations of a round
};
// Two operations for each product: 1024 scalar ones in a round; else 64 times as many registers (12
// of AVX2, 24 of AVX-512) with as many lanes of 32 bits or, of bytes and of bfloat16, four or two
// times as many products.
std::vector<Loops> SupportedLoops() {
  std::vector<Loops> all = {{Isa::kScalar, &ScalarPeakLoops(), 2048, 2048, 0}};
#if defined(__x86_64__)
  if (IsaSupported(Isa::kAvx2))
    all.push_back({Isa::kAvx2, &Avx2PeakLoops(), 2 * 64 * 12 * 32, 2 * 64 * 12 * 8, 0});
  if (IsaSupported(Isa::kAvx2Vnni))
    all.push_back({Isa::kAvx2Vnni, &Avx2VnniPeakLoops(), 2 * 64 * 12 * 32, 2 * 64 * 12 * 8, 0});
  if (IsaSupported(Isa::kAvx2VnniEvex))
    all.push_back(
        {Isa::kAvx2VnniEvex, &Avx2VnniEvexPeakLoops(), 2 * 64 * 12 * 32, 2 * 64 * 12 * 8, 0});
  if (IsaSupported(Isa::kAvx512))
    all.push_back(
        {Isa::kAvx512, &Avx512PeakLoops(), 2 * 64 * 24 * 64, 2 * 64 * 24 * 16, 2 * 64 * 24 * 32});
  if (IsaSupported(Isa::kAmx))  // 64 times four products of 16 x 16 x 64 bytes
    all.push_back({Isa::kAmx, &AmxPeakLoops(), 2 * 64 * 4 * 16 * 16 * 64, 2 * 64 * 24 * 16,
                   2 * 64 * 4 * 16 * 16 * 32});
#endif
  return all;
}

TEST(PeakLoops, OperationsOfARound) {
  for (const Loops& c : SupportedLoops()) {
    for (const int64_t rounds : {1, 3}) {
      const double times = static_cast<double>(rounds);
      EXPECT_EQ(c.loops->int8(rounds), times * c.int8) << IsaName(c.isa);
      EXPECT_EQ(c.loops->fp32(rounds), times * c.fp32) << IsaName(c.isa);
      if (c.loops->bf16 != nullptr && IsaSupported(Isa::kAvx512Bf16))
        EXPECT_EQ(c.loops->bf16(rounds), times * c.bf16);
    }
  }
}

// Up to the last byte before memory that may not be read, and none of that.
TEST(PeakLoops, ReadNothingBehindTheEnd) {
  const size_t page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  void* const pages =
      mmap(nullptr, 2 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(pages, MAP_FAILED);
  auto* const end = static_cast<std::byte*>(pages) + page;
  ASSERT_EQ(mprotect(end, page, PROT_NONE), 0);
  for (const Loops& c : SupportedLoops()) {
    for (const int64_t bytes : {1024, 3072}) c.loops->read(end - bytes, bytes);
  }
  munmap(pages, 2 * page);
}

TEST(Limits, OfEveryInstructionSetThatThereIs) {
  std::vector<Isa> measured;
  for (const SetPeaks& set : MeasureSets(1)) {
    measured.push_back(set.isa);
    EXPECT_GT(set.int8_gops, 0) << IsaName(set.isa);
    EXPECT_GT(set.fp32_gflops, 0) << IsaName(set.isa);
    EXPECT_EQ(set.bf16_gflops > 0, set.isa.Has(Isa::kAvx512Bf16)) << IsaName(set.isa);
  }
  std::vector<Isa> supported;
  for (const Isa isa : AllIsas()) {
    if (IsaSupported(isa) && !isa.Has(Isa::kAmxSoftware)) supported.push_back(isa);
  }
  EXPECT_EQ(measured, supported);
}

TEST(Limits, RooflineIsTheLargerOfArithmeticAndMemory) {
  Limits limits;
  limits.int8_gops = 100;
  limits.fp32_gflops = 10;
  limits.l3_read_gbps = 50;
  limits.dram_read_gbps = 5;
  EXPECT_DOUBLE_EQ(RooflineNs(limits, Peak::kInt8, 1000, 100), 20);
  EXPECT_DOUBLE_EQ(RooflineNs(limits, Peak::kFloat32, 1000, 100), 200);
  EXPECT_DOUBLE_EQ(RooflineNs(limits, Peak::kInt8, 10, 5000), 100);
  EXPECT_DOUBLE_EQ(RooflineNs(limits, Peak::kMemory, 1 << 30, 50), 1)
      << "moving bytes has no arithmetic limit";
  EXPECT_DOUBLE_EQ(RooflineNs(limits, Peak::kMemory, 0, int64_t{1} << 30),
                   static_cast<double>(int64_t{1} << 30) / 5);
}

class LimitsFile : public ::testing::Test {
 protected:
  void SetUp() override {
    path_ =
        (std::filesystem::temp_directory_path() / fmt::format("evoq_limits_{}.json", ::getpid()))
            .string();
  }
  void TearDown() override { std::filesystem::remove(path_); }
  void Write(const std::string& text) const { std::ofstream(path_) << text; }

  static MachineLimits SomeLimits(int threads) {
    MachineLimits limits{{"a machine", "its cores", Isa::kAvx2, threads, 400, 0, 200, 20, 60},
                         120,
                         3.5,
                         700,
                         1 << 20,
                         32 << 20};
    return limits;
  }
  std::string path_;
};

TEST_F(LimitsFile, ReadsWhatWasWritten) {
  Write(ToJson(SomeLimits(2)).dump());
  const auto limits = LoadLimits(path_);
  ASSERT_TRUE(limits.has_value()) << limits.error().message();
  EXPECT_EQ(ToJson(*limits), ToJson(SomeLimits(2)));
  EXPECT_EQ(limits->isa, Isa::kAvx2);
}

// Files of versions that knew no cores have none.
TEST_F(LimitsFile, CoresAreTheProcessorWhereAFileHasNone) {
  nlohmann::json json = ToJson(SomeLimits(2));
  EXPECT_EQ(json["core"], "its cores");
  json.erase("core");
  Write(json.dump());
  EXPECT_EQ(LoadLimits(path_)->core, "a machine");
}

TEST_F(LimitsFile, BadFilesAreRefusedByName) {
  const auto error = [&](const nlohmann::json& json) {
    Write(json.dump());
    const auto limits = LoadLimits(path_);
    return limits ? std::string("accepted") : limits.error().message();
  };
  nlohmann::json json = ToJson(SomeLimits(2));
  json["fp32_gflops"] = 0;
  EXPECT_NE(error(json).find("fp32_gflops is 0, expected a positive number"), std::string::npos)
      << error(json);
  json = ToJson(SomeLimits(2));
  json.erase("clock_ghz");
  EXPECT_NE(error(json).find("clock_ghz is null"), std::string::npos) << error(json);
  json = ToJson(SomeLimits(2));
  json["isa"] = "MMX";
  EXPECT_NE(error(json).find("isa is \"MMX\""), std::string::npos) << error(json);
  json = ToJson(SomeLimits(2));
  json["core"] = 5;
  EXPECT_NE(error(json).find("core is 5, expected a kind of cores"), std::string::npos)
      << error(json);
  json = ToJson(SomeLimits(2));
  json["threads"] = 0;
  EXPECT_NE(error(json).find("threads is 0"), std::string::npos) << error(json);
  json = ToJson(SomeLimits(2));
  // Each field at and around its limits.
  const auto accepted = [&](const char* field, const nlohmann::json& value) {
    nlohmann::json changed = ToJson(SomeLimits(2));
    changed[field] = value;
    return error(changed) == "accepted";
  };
  for (const char* rate : {"int8_gops", "fp32_gflops", "dram_read_gbps", "l3_read_gbps",
                           "l2_read_gbps", "clock_ghz", "bf16_gflops", "fork_ns"}) {
    const bool may_be_zero = rate == std::string("bf16_gflops") || rate == std::string("fork_ns");
    EXPECT_EQ(accepted(rate, 0), may_be_zero) << rate;
    EXPECT_FALSE(accepted(rate, -1)) << rate;
    EXPECT_FALSE(accepted(rate, 1e-6)) << rate;
    EXPECT_TRUE(accepted(rate, 2e-6)) << rate;
    EXPECT_TRUE(accepted(rate, 9e8)) << rate;
    EXPECT_FALSE(accepted(rate, 1e9)) << rate;
  }
  EXPECT_TRUE(accepted("threads", 1));
  EXPECT_TRUE(accepted("threads", 4096));
  EXPECT_FALSE(accepted("threads", 4097));
  for (const char* size : {"l2_bytes", "l3_bytes"}) {
    EXPECT_FALSE(accepted(size, 1023)) << size;
    EXPECT_TRUE(accepted(size, 1024)) << size;
    EXPECT_TRUE(accepted(size, int64_t{1} << 40)) << size;
    EXPECT_FALSE(accepted(size, (int64_t{1} << 40) + 1)) << size;
  }
  json = ToJson(SomeLimits(2));
  json["l2_bytes"] = "1M";
  EXPECT_NE(error(json).find("l2_bytes is \"1M\""), std::string::npos) << error(json);
  EXPECT_NE(error(nlohmann::json::array()).find("expected what `evoq limits --json F` writes"),
            std::string::npos);
  EXPECT_FALSE(LoadLimits(path_ + ".none").has_value());
}

TEST_F(LimitsFile, KeepsOnePerMachineAndThreads) {
  const auto find = [&](Isa isa, int threads) { return FindLimits(path_, isa, threads).value(); };
  EXPECT_FALSE(find(Isa::kAvx2, 1).has_value());
  ASSERT_TRUE(KeepLimits(path_, SomeLimits(1)).has_value());
  ASSERT_TRUE(KeepLimits(path_, SomeLimits(2)).has_value());
  for (int threads : {1, 2}) {
    const auto limits = find(Isa::kAvx2, threads);
    ASSERT_TRUE(limits.has_value());
    EXPECT_EQ(limits->threads, threads);
  }
  EXPECT_FALSE(find(Isa::kAvx2, 3).has_value());
  EXPECT_FALSE(find(Isa::kAvx512, 1).has_value()) << "measured with other instructions";
  nlohmann::json kept = nlohmann::json::parse(std::ifstream(path_));
  EXPECT_TRUE(kept["entries"].contains(fmt::format("{}; 2 threads", MachineName(Isa::kAvx2))));
  for (auto& [key, entry] : kept["entries"].items()) entry["threads"] = 7;
  Write(kept.dump());
  EXPECT_FALSE(find(Isa::kAvx2, 1).has_value()) << "an entry of other threads under this key";
  Write(R"({"version": 2, "entries": 3})");
  EXPECT_FALSE(FindLimits(path_, Isa::kAvx2, 1)) << "entries must be an object";
  Write(R"({"version": 0, "entries": {}})");
  EXPECT_FALSE(find(Isa::kAvx2, 1).has_value()) << "another version";
  for (const char* damaged : {"{ damaged", "[]", "{\"version\": 1}"}) {
    Write(damaged);
    const auto found = FindLimits(path_, Isa::kAvx2, 1);
    ASSERT_FALSE(found) << damaged;
    EXPECT_NE(found.error().message().find(path_), std::string::npos) << found.error().message();
    ASSERT_TRUE(KeepLimits(path_, SomeLimits(1)).has_value()) << "a damaged file is replaced";
    EXPECT_TRUE(find(Isa::kAvx2, 1).has_value());
  }
  EXPECT_TRUE(KeepLimits("", SomeLimits(1)).has_value()) << "no cache";
  // A bare name where the working directory is gone: an error, no exception.
  const auto before = std::filesystem::current_path();
  const std::string gone = path_ + ".gone";
  std::filesystem::create_directories(gone);
  std::filesystem::current_path(gone);
  std::filesystem::remove(gone);
  EXPECT_FALSE(KeepLimits("limits.json", SomeLimits(1)).has_value());
  std::filesystem::current_path(before);
}

TEST(Machine, CachesClockAndThreads) {
  const Isa isa = SelectIsa().value();
  const MachineLimits limits = MeasureMachine(isa, 1);
  EXPECT_GT(limits.fp32_gflops, 0.1);
  EXPECT_GT(limits.l2_read_gbps, 0.1);
  EXPECT_GT(limits.clock_ghz, 0.1);
  EXPECT_EQ(limits.fork_ns, 0) << "one thread has nothing to wake";
  EXPECT_GT(limits.l2_bytes, 0);
  EXPECT_GT(limits.l3_bytes, 0);
  EXPECT_GT(PresentFp32Gflops(isa, 1), 0.01 * limits.fp32_gflops);
}

TEST(RunTimes, PercentilesInterpolate) {
  RunTimes times{{1, 2, 3, 4, 10}};
  EXPECT_DOUBLE_EQ(times.median(), 3);
  EXPECT_DOUBLE_EQ(times.Percentile(0), 1);
  EXPECT_DOUBLE_EQ(times.Percentile(100), 10);
  EXPECT_DOUBLE_EQ(times.Percentile(90), 7.6);
  EXPECT_DOUBLE_EQ(times.mean(), 4);
}

}  // namespace
}  // namespace evoq
