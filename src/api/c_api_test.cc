// The C interface beyond what refusal_test.cc refuses: what each function returns and writes.
#include <gtest/gtest.h>

#include <cstring>
#include <memory>

#include "api/test_model.h"
#include "base/version.h"
#include "evoq/evoq.h"
#include "evoq/evoq_c.h"
#include "evoq/streams_c.h"

namespace evoq {
namespace {

using CSession = std::unique_ptr<evoq_session, decltype(&evoq_session_free)>;

CSession Loaded(const ModelFile& file) {
  char error[300] = "";
  CSession s(evoq_session_load(file.path().c_str(), 1, error, sizeof(error)), &evoq_session_free);
  EXPECT_NE(s, nullptr) << error;
  return s;
}

// y = x + [1, -1], for any number of rows.
constexpr char kAdd[] =
    "input %x: float32[N, 2]\nconst %b: float32[2] = [1.0, -1.0]\n"
    "add: %y: float32[N, 2] = Add(%x, %b)\noutput %y\n";

TEST(CApi, Version) {
  EXPECT_STREQ(evoq_version(), EVOQ_VERSION);
  EXPECT_STREQ(Version(), EVOQ_VERSION);
}

TEST(CApi, DescribesInputsAndOutputs) {
  const ModelFile file(
      "input %x: float32[N, 2]\ninput %k: int64[]\na: %y = Add(%x, %x)\nc: %z = Cast{to=11}(%k)\n"
      "output %y\noutput %z\n",
      /*planned=*/false);
  const CSession s = Loaded(file);
  EXPECT_EQ(evoq_session_input_count(s.get()), 2);
  EXPECT_EQ(evoq_session_output_count(s.get()), 2);
  EXPECT_STREQ(evoq_session_input_name(s.get(), 0), "x");
  EXPECT_STREQ(evoq_session_input_name(s.get(), 1), "k");
  EXPECT_STREQ(evoq_session_output_name(s.get(), 1), "z");
  EXPECT_EQ(evoq_session_input_type(s.get(), 1), 7);
  EXPECT_EQ(evoq_session_output_type(s.get(), 1), 11);
  for (const int outside : {-1, 2}) {
    EXPECT_EQ(evoq_session_input_name(s.get(), outside), nullptr);
    EXPECT_EQ(evoq_session_output_name(s.get(), outside), nullptr);
    EXPECT_EQ(evoq_session_input_type(s.get(), outside), 0);
    EXPECT_EQ(evoq_session_output_type(s.get(), outside), 0);
    EXPECT_EQ(evoq_session_input_shape(s.get(), outside, nullptr, 0), -1);
    EXPECT_EQ(evoq_session_output_shape(s.get(), outside, nullptr, 0), -1);
  }
  int64_t shape[3] = {7, 7, 7};
  EXPECT_EQ(evoq_session_input_shape(s.get(), 0, shape, 3), 2);
  EXPECT_EQ(shape[0], -1);
  EXPECT_EQ(shape[1], 2);
  EXPECT_EQ(shape[2], 7) << "beyond the rank";
  EXPECT_EQ(evoq_session_input_shape(s.get(), 0, nullptr, 3), 2) << "no room, whatever is said";
  EXPECT_EQ(evoq_session_input_shape(s.get(), 1, shape, 3), 0);
}

TEST(CApi, NoSessionNoStreams) {
  EXPECT_EQ(evoq_session_input_count(nullptr), 0);
  EXPECT_EQ(evoq_session_output_count(nullptr), 0);
  EXPECT_EQ(evoq_session_input_name(nullptr, 0), nullptr);
  EXPECT_EQ(evoq_session_output_type(nullptr, 0), 0);
  EXPECT_EQ(evoq_session_input_shape(nullptr, 0, nullptr, 0), -1);
  EXPECT_EQ(evoq_session_sizes_text(nullptr), nullptr);
  evoq_session_wait_for_gears(nullptr);
  evoq_session_free(nullptr);
  char error[100] = "";
  EXPECT_EQ(evoq_streams_count(nullptr), 0);
  EXPECT_EQ(evoq_streams_at_once(nullptr), 0);
  EXPECT_EQ(evoq_streams_arena_bytes(nullptr), 0);
  EXPECT_EQ(evoq_streams_input_count(nullptr), 0);
  EXPECT_EQ(evoq_streams_cancel(nullptr, 1), 0);
  EXPECT_EQ(evoq_streams_set_priority(nullptr, 0, 1, error, sizeof(error)), 1);
  EXPECT_STREQ(error, "the streams are NULL");
  evoq_streams_wait(nullptr, -1);
  evoq_streams_free(nullptr);
}

// shape may be NULL for rank 0, in and out; its data may be NULL where a size is 0.
TEST(CApi, NullWhereThereIsNothing) {
  const ModelFile scalars("input %x: float32[]\nn: %y: float32[] = Neg(%x)\noutput %y\n");
  const CSession s = Loaded(scalars);
  float x = 3, y = 0;
  const evoq_array in = {1, 0, nullptr, &x}, out = {1, 0, nullptr, &y};
  char error[200] = "";
  EXPECT_EQ(evoq_session_run(s.get(), &in, 1, &out, 1, error, sizeof(error)), 0) << error;
  EXPECT_EQ(y, -3);

  const ModelFile nothing("input %x: float32[]\nn: %y: float32[] = Neg(%x)\n");
  const CSession n = Loaded(nothing);
  EXPECT_EQ(evoq_session_run(n.get(), &in, 1, nullptr, 0, error, sizeof(error)), 0) << error;

  const ModelFile rows(kAdd);
  const CSession r = Loaded(rows);
  const int64_t none[] = {0, 2};
  const evoq_array empty = {1, 2, none, nullptr};
  EXPECT_EQ(evoq_session_run(r.get(), &empty, 1, &empty, 1, error, sizeof(error)), 0) << error;
}

// Sentences name the array, by its name where the model has one for it.
TEST(CApi, RefusalsNameWhatIsWrong) {
  const ModelFile file(kAdd);
  const CSession s = Loaded(file);
  float x[] = {1, 2};
  const int64_t sizes[] = {1, 2}, negative[] = {1, -2}, huge[] = {int64_t{1} << 62, 4};
  const evoq_array good = {1, 2, sizes, x};
  const auto compute = [&](std::vector<evoq_array> in, int count) -> std::string {
    char error[200] = "";
    const evoq_array* const data = in.empty() ? nullptr : in.data();
    const int code = evoq_session_compute(s.get(), data, count, error, sizeof(error));
    EXPECT_EQ(code, error[0] == '\0' ? 0 : 1);
    return error;
  };
  EXPECT_EQ(compute({good}, 1), "");
  EXPECT_EQ(compute({}, -1), "-1 inputs without arrays");
  EXPECT_EQ(compute({good}, -1), "-1 inputs without arrays");
  EXPECT_EQ(compute({}, 1), "1 inputs without arrays");
  EXPECT_EQ(compute({}, 0), "0 inputs given, expected 1");
  EXPECT_EQ(compute({good, good}, 2), "2 inputs given, expected 1");
  EXPECT_EQ(compute({{1, -1, sizes, x}}, 1), "input x: rank -1 without a shape");
  EXPECT_EQ(compute({{1, 2, nullptr, x}}, 1), "input x: rank 2 without a shape");
  EXPECT_EQ(compute({good, {1, 2, nullptr, x}}, 2), "input 1: rank 2 without a shape");
  EXPECT_EQ(compute({{1, 2, sizes, nullptr}}, 1), "input x: 8 bytes without data");
  EXPECT_EQ(compute({{1, 2, negative, x}}, 1), "input x: shape [1, -2], expected sizes from 0 on");
  EXPECT_EQ(compute({{8, 2, sizes, x}}, 1), "input x: element type 8, which arrays do not carry");
  EXPECT_EQ(compute({{1, 2, huge, x}}, 1),
            "input x: shape [4611686018427387904, 4] is beyond what memory can hold");
  char error[200];
  EXPECT_EQ(evoq_session_compute(nullptr, &good, 1, error, sizeof(error)), 1);
  EXPECT_STREQ(error, "the session is NULL");
  // No room for a sentence.
  EXPECT_EQ(evoq_session_compute(nullptr, &good, 1, nullptr, sizeof(error)), 1);
}

CSession FromMemory(InMemory& bytes, bool copy, std::string* why = nullptr) {
  char error[300] = "";
  CSession s(evoq_session_load_memory(bytes.data(), bytes.size(), copy, 1, error, sizeof(error)),
             &evoq_session_free);
  if (why != nullptr) *why = error;
  return s;
}

// [2, 3] and [1, -1].
void ExpectAdds(const CSession& s) {
  float x[] = {2, 3}, y[2] = {};
  const int64_t row[] = {1, 2};
  const evoq_array in = {1, 2, row, x}, out = {1, 2, row, y};
  ASSERT_NE(s, nullptr);
  ASSERT_EQ(evoq_session_run(s.get(), &in, 1, &out, 1, nullptr, 0), 0);
  EXPECT_EQ(y[0], 3);
  EXPECT_EQ(y[1], 2);
}

TEST(CApi, LoadsFromMemory) {
  const std::string file = ReadTextFile(ModelFile(kAdd).path()).value();
  InMemory aligned(file);
  CSession one = FromMemory(aligned, false);
  const CSession two = FromMemory(aligned, false);
  ExpectAdds(one);
  ExpectAdds(two);
  one.reset();
  ExpectAdds(two);
  EXPECT_EQ(std::memcmp(aligned.data(), file.data(), file.size()), 0) << "written to";
  std::string why;
  for (const size_t behind : {1, 8, 32, 63}) {
    InMemory misaligned(file, behind);
    EXPECT_EQ(FromMemory(misaligned, false, &why), nullptr);
    EXPECT_EQ(why,
              "the model's bytes begin at no multiple of 64, as those must that are not copied");
    const CSession copied = FromMemory(misaligned, true);
    std::fill_n(misaligned.data(), misaligned.size(), std::byte{0xff});
    ExpectAdds(copied);
  }
  EXPECT_EQ(evoq_session_load_memory(nullptr, 5, 1, 1, nullptr, 0), nullptr);
  EXPECT_EQ(evoq_session_load_memory(aligned.data(), file.size(), 0, -1, nullptr, 0), nullptr);
}

// What is cut off, and each byte that is another.
TEST(CApi, DamagedMemoryIsRefused) {
  const std::string file = ReadTextFile(ModelFile(kAdd).path()).value();
  std::string why;
  for (size_t size = 0; size < file.size(); ++size) {
    InMemory cut(std::string_view(file).substr(0, size));
    EXPECT_EQ(FromMemory(cut, false, &why), nullptr) << size;
    EXPECT_TRUE(why.starts_with("model: ")) << why;
    EXPECT_EQ(FromMemory(cut, true, &why), nullptr) << size;
  }
  InMemory longer(file + '\0');
  EXPECT_EQ(FromMemory(longer, false, &why), nullptr);
  EXPECT_NE(why.find("the file is truncated or has a tail"), std::string::npos) << why;
  size_t refused = 0;
  for (size_t at = 0; at < file.size(); ++at) {
    InMemory bytes(file);
    bytes.data()[at] ^= std::byte{0x55};
    if (const CSession s = FromMemory(bytes, false, &why); s != nullptr) {
      ExpectAdds(s);  // a byte between two parts
    } else {
      EXPECT_TRUE(why.starts_with("model: ")) << why;
      ++refused;
    }
  }
  EXPECT_GE(refused, file.size() - 128);
}

TEST(CApi, OutputsThatDoNotFit) {
  const ModelFile file(kAdd);
  const CSession s = Loaded(file);
  float x[] = {1, 2}, y[4] = {};
  const int64_t sizes[] = {1, 2}, other[] = {2, 2};
  const evoq_array in = {1, 2, sizes, x}, out = {1, 2, sizes, y};
  const auto run = [&](const evoq_array* to, int count) -> std::string {
    char error[200] = "";
    const int code = evoq_session_run(s.get(), &in, 1, to, count, error, sizeof(error));
    EXPECT_EQ(code, error[0] == '\0' ? 0 : 1);
    return error;
  };
  const evoq_array larger = {1, 2, other, y}, nowhere = {1, 2, sizes, nullptr};
  EXPECT_EQ(run(nullptr, 1), "1 outputs without arrays");
  EXPECT_EQ(run(nullptr, 0), "0 outputs given, expected 1");
  EXPECT_EQ(run(&out, -1), "-1 outputs given, expected 1");
  EXPECT_EQ(run(&larger, 1), "output y: another shape, expected [1, 2]");
  EXPECT_EQ(run(&nowhere, 1), "output y: its data is NULL");
  EXPECT_EQ(run(&out, 1), "");
  EXPECT_EQ(y[0], 2);
}

// The last run's, until one fails.
TEST(CApi, ResultsOfTheLastRun) {
  const ModelFile file(kAdd);
  const CSession s = Loaded(file);
  float x[] = {1, 2};
  const int64_t sizes[] = {1, 2};
  const evoq_array in = {1, 2, sizes, x};
  evoq_array result;
  EXPECT_EQ(evoq_session_result(nullptr, 0, &result), 1);
  EXPECT_EQ(evoq_session_result(s.get(), 0, &result), 1) << "before a run";
  ASSERT_EQ(evoq_session_compute(s.get(), &in, 1, nullptr, 0), 0);
  EXPECT_EQ(evoq_session_result(s.get(), -1, &result), 1);
  EXPECT_EQ(evoq_session_result(s.get(), 1, &result), 1);
  EXPECT_EQ(evoq_session_result(s.get(), 0, nullptr), 1);
  EXPECT_EQ(evoq_session_result(s.get(), 0, &result), 0);
  ASSERT_EQ(evoq_session_compute(s.get(), nullptr, 0, nullptr, 0), 1);
  EXPECT_EQ(evoq_session_result(s.get(), 0, &result), 1) << "after one that failed";
}

// What a gear served and what waited, and the file that says it.
TEST(CApi, SizesOfItsRuns) {
  const ModelFile file(kAdd, {{{"x", {4, 2}}}});
  const CSession s = Loaded(file);
  evoq_session_wait_for_gears(s.get());
  float x[6] = {1, 2, 3, 4, 5, 6}, y[6] = {};
  const int64_t sizes[] = {3, 2};
  const evoq_array in = {1, 2, sizes, x}, out = {1, 2, sizes, y};
  ASSERT_EQ(evoq_session_run_on(s.get(), &in, 1, &out, 1, nullptr, 0), 0);
  EXPECT_EQ(y[4], 6);
  EXPECT_EQ(y[5], 5);
  evoq_sizes told = {};
  char error[100] = "";
  EXPECT_EQ(evoq_session_sizes(s.get(), &told, error, sizeof(error)), 1);
  EXPECT_EQ(std::string(error), fmt::format("struct_size is 0, expected {}", sizeof(told)));
  told.struct_size = sizeof(told);
  EXPECT_EQ(evoq_session_sizes(nullptr, &told, nullptr, 0), 1);
  EXPECT_EQ(evoq_session_sizes(s.get(), nullptr, nullptr, 0), 1);
  ASSERT_EQ(evoq_session_sizes(s.get(), &told, error, sizeof(error)), 0);
  EXPECT_EQ(told.gears, 2);
  EXPECT_EQ(told.ready, 2);
  EXPECT_EQ(told.runs, 1);
  EXPECT_EQ(told.padded, 1);
  EXPECT_EQ(told.misses, 0);
  EXPECT_GE(told.prepared_beside, 2);
  EXPECT_STREQ(evoq_session_sizes_text(s.get()),
               "# evoq sizes: runs, then the shape of each input\n1 x=3x2\n");
}

// The empty string, terminated, is all that one byte takes.
TEST(CApi, OneByteOfAnError) {
  char little[] = "**";
  EXPECT_EQ(evoq_session_load(nullptr, 1, little, 1), nullptr);
  EXPECT_EQ(little[0], '\0');
  EXPECT_EQ(little[1], '*');
}

}  // namespace
}  // namespace evoq
