// The page's data: what it says of a report made up by hand, and that nothing in it becomes markup.
#include "report/html.h"

#include <gtest/gtest.h>

#include "base/ms_text.h"
#include "report/table.h"
#include "report/test_program.h"

namespace evoq {
namespace {

using nlohmann::json;

Program MadeProgram() {
  Program program = ProgramWithAView();
  for (Step& step : program.steps)
    step.decision.float_reason.sentence = "why of " + program.graph->node(step.node).name;
  program.arenas[0].bytes = 256;
  return program;
}

Report MadeReport(const Program& program, const std::string& name) {
  Report report;
  report.limits.cpu = name;
  report.limits.isa = Isa::kAvx2;
  report.limits.threads = 3;
  report.limits.int8_gops = 400, report.limits.fp32_gflops = 100, report.limits.l3_read_gbps = 50,
  report.limits.dram_read_gbps = 20;
  report.model.name = name;
  report.model.file_bytes = 1234;
  report.model.arena_bytes = 300;
  report.model.program = &program;
  StepProfile& profile = report.model.profile;
  for (const char* step : {"first", "second", "third", "last"}) {
    StepTime t;
    t.name = std::string(step) + name;
    t.op = "Relu";
    t.kernel = "k";
    t.macs = 5'000'000;
    t.bytes = 4'000'000;
    profile.steps.push_back(t);
  }
  // 0.1, 0.2, 0.3 and 0.4 ms; a run takes 1.05 without and 1.2 with step timing.
  SetTimes(profile, {1.05, 1.2, {0.1, 0.2, 0.3, 0.4}}, report.limits);
  return report;
}

// What stands in the page's data element.
std::string DataOf(const std::string& page) {
  const std::string begin = "<script id=\"data\" type=\"application/json\">";
  const size_t at = page.find(begin) + begin.size();
  return page.substr(at, page.find("</script>", at) - at);
}

TEST(Html, NothingInANameIsMarkup) {
  const Program program = MadeProgram();
  const std::string names[] = {"</script><script>alert(1)</script>",
                               "<!--<script>",
                               "a\"b\\c\n\t&amp;'",
                               "@DATA@ @CHART@",
                               "\xff\xfe bad \xc3",
                               "\u2028\u00e9"};
  const std::string plain = ToHtml(MadeReport(program, "plain"));
  const auto count = [](const std::string& text, const std::string& what) {
    int found = 0;
    for (size_t at = text.find(what); at != std::string::npos; at = text.find(what, at + 1))
      ++found;
    return found;
  };
  for (const std::string& name : names) {
    const std::string page = ToHtml(MadeReport(program, name));
    EXPECT_EQ(count(page, "<script"), count(plain, "<script")) << name;
    EXPECT_EQ(count(page, "</script"), count(plain, "</script")) << name;
    EXPECT_EQ(count(page, "<!--"), count(plain, "<!--")) << name;
    const json data = json::parse(DataOf(page), nullptr, false);
    ASSERT_FALSE(data.is_discarded()) << name;
    const std::string shown = data["models"][0]["name"];
    if (name[0] != '\xff') {
      EXPECT_EQ(shown, name);
      EXPECT_EQ(data["models"][0]["profile"]["steps"][1]["name"], "second" + name);
      EXPECT_EQ(data["limits"]["cpu"], name);
    } else {
      EXPECT_EQ(shown, "\ufffd\ufffd bad \ufffd") << "bytes that are no text are replaced";
    }
  }
}

TEST(Html, TheDataByHand) {
  const Program program = MadeProgram();
  Report report = MadeReport(program, "quantized");
  report.model.top1 = Interval{0.75, 0.7, 0.8};
  report.model.samples = 400;
  json data = json::parse(DataOf(ToHtml(report)));
  EXPECT_EQ(data["models"].size(), 1u);
  const json& model = data["models"][0];
  EXPECT_EQ(model["file_bytes"], 1234);
  EXPECT_EQ(model["p50_ms"], 1.05);
  EXPECT_EQ(model["memory"]["arena_bytes"], 300);
  EXPECT_EQ(model["memory"]["planned_bytes"], 256);
  EXPECT_EQ(model["memory"]["live_bytes"], (std::vector<int64_t>{128, 256, 256, 128}));
  EXPECT_EQ(model["accuracy"],
            (json{{"top1", 0.75}, {"low", 0.7}, {"high", 0.8}, {"samples", 400}}));
  const json& third = model["profile"]["steps"][2];
  EXPECT_NEAR(third["ms"], 0.3, 1e-12);
  EXPECT_NEAR(third["share"], 0.3, 1e-12) << "of 1.0 ms in sum";
  EXPECT_NEAR(third["gops"], 2 * 5e6 / 0.3e6, 1e-9)
      << "two operations for each of 5 million, in 300,000 ns";
  // Memory kernels: 4 million bytes at 50 per nanosecond are 80 us of 300.
  EXPECT_NEAR(third["roofline_share"], 0.08 / 0.3, 1e-9);
  EXPECT_EQ(third["why"], "why of third");
  EXPECT_NEAR(model["profile"]["steps_ms"], 1.0, 1e-12);
  EXPECT_NEAR(model["profile"]["host_ms"], 0.2, 1e-12);
  EXPECT_NEAR(model["profile"]["tax_ms"], 0.15, 1e-12);
  EXPECT_EQ(data["limits"]["int8_gops"], 400);
  EXPECT_EQ(data["limits"]["fp32_gops"], 100);
  EXPECT_EQ(data["limits"]["l3_read_gbps"], 50);
  EXPECT_EQ(data["limits"]["dram_read_gbps"], 20);
  EXPECT_EQ(data["limits"]["threads"], 3);
  for (const char* part : {"time", "bytes", "compare"}) EXPECT_FALSE(data.contains(part)) << part;
  // The headline's ratio is that of the two times beside it.
  report.baseline = MadeReport(program, "float").model;
  report.time =
      TimeLedger{.float_ms = 3, .ideal_ms = 0.5, .attainable_ms = 0.75, .actual_ms = 1.05};
  report.bytes = ByteLedger{.float_weights = 4000, .ideal_file = 1000, .actual_file = 1234};
  report.comparison = Comparison{.speedup = 3,
                                 .low = 2.5,
                                 .high = 3.25,
                                 .verdict = Verdict::kFaster,
                                 .a_ms = 3.15,
                                 .b_ms = 1.05,
                                 .rounds = 7};
  data = json::parse(DataOf(ToHtml(report)));
  EXPECT_EQ(data["models"][1]["name"], "float");
  const json& compare = data["compare"];
  EXPECT_EQ(compare["speedup"], 3);
  EXPECT_EQ(compare["speedup_low"], 2.5);
  EXPECT_EQ(compare["speedup_high"], 3.25);
  EXPECT_EQ(compare["verdict"], "faster");
  EXPECT_NEAR(compare["a_ms"].get<double>() / compare["b_ms"].get<double>(), compare["speedup"],
              1e-12);
  EXPECT_EQ(data["time"]["attainable_ms"], 0.75);
  EXPECT_EQ(data["bytes"]["float_file"], 4000);
}

TEST(StepTable, FiguresByHand) {
  const Program program = MadeProgram();
  Report report = MadeReport(program, "");
  StepProfile& profile = report.model.profile;
  profile.steps[0].name = std::string(25, 'x') + std::string(25, 'y');
  profile.steps[1].variant = "fast";
  const std::string text = ToText(profile, report.limits);
  EXPECT_NE(text.find(std::string(12, 'x') + "..." + std::string(25, 'y') + "  Relu"),
            std::string::npos)
      << "what tells names apart is at their ends: " << text;
  const auto line = [&](const std::string& all, const char* word) {
    const size_t at = all.find(word);
    return all.substr(all.rfind('\n', at) + 1, all.find('\n', at) - all.rfind('\n', at) - 1);
  };
  // 0.2 of 1.0 ms; 10 million operations in 200,000 ns; 80 us of 200.
  EXPECT_NE(line(text, "second").find("k fast  0.2000  20.0%    50       40%"), std::string::npos)
      << text;
  EXPECT_NE(text.find("total 1.050 ms per run, sum of steps 1.000 ms; peaks: int8 400 GOPS, "
                      "float32 100 GFLOPS, L3 50 GB/s, DRAM 20 GB/s\n"),
            std::string::npos)
      << text;
  // Of a step without multiplications there are no operations to tell.
  profile.steps[2].macs = 0;
  EXPECT_NE(line(ToText(profile, report.limits), "third").find("0.3000  30.0%             27%"),
            std::string::npos)
      << ToText(profile, report.limits);
  // Slowest first, two of them; where equal, in the program's order.
  std::string sorted = ToText(profile, report.limits, true, 2);
  EXPECT_LT(sorted.find("last"), sorted.find("third"));
  EXPECT_EQ(sorted.find("second"), std::string::npos);
  profile.steps[3].ms = 0.3;
  sorted = ToText(profile, report.limits, true);
  EXPECT_LT(sorted.find("third"), sorted.find("last"));
  EXPECT_EQ(ToText(profile, report.limits, false, 0).find("third"), std::string::npos);
  // Faster than the limits allow by a hundredth, and by less, which is rounding.
  profile.steps[1].roofline_share = profile.steps[2].roofline_share = 1;
  profile.steps[1].beyond_roofline = 1.01;
  profile.steps[2].beyond_roofline = 1.004;
  const std::string beyond = ToText(profile, report.limits);
  EXPECT_TRUE(line(beyond, "second").ends_with(" 100%+")) << beyond;
  EXPECT_TRUE(line(beyond, "third").ends_with(" 100%")) << beyond;
}

// Four significant digits, so that ratios of what is shown are ratios of what was measured; at most
// seven behind the point.
TEST(TextTable, Milliseconds) {
  const std::pair<double, const char*> cases[] = {
      {0, "0.000"},       {43.4171, "43.417"}, {1, "1.000"},        {0.9994, "0.9994"},
      {0.5, "0.5000"},    {0.0123, "0.01230"}, {0.001, "0.001000"}, {0.00001234, "0.0000123"},
      {-0.25, "-0.2500"}, {1234.5, "1234.500"}};
  for (const auto& [ms, text] : cases) EXPECT_EQ(MsText(ms), text) << ms;
}

}  // namespace
}  // namespace evoq
