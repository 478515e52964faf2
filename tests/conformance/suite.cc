#include "tests/conformance/suite.h"

#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <sstream>
#include <thread>

#include "base/file.h"
#include "base/text.h"
#include "tests/conformance/cases.h"

namespace evoq {
namespace {

// The official Python runner over the package's backend keeps to the same list.
constexpr const char* kPythonMode = "python";

bool Names(const IgnoreLine& line, const std::string& name) {
  return GlobMatch(line.pattern, name) && !GlobMatch(line.exception, name);
}

Status RunInMode(const Case& c, const Mode& mode, const std::string& file) {
  for (const DataSet& data : c.data) {
    EVOQ_ASSIGN(const std::vector<Tensor> got, mode.run(c.graph, data.inputs, file));
    EVOQ_TRY(CompareOutputs(got, data.outputs));
  }
  return {};
}

void RunCase(const std::string& root, const std::string& file, CaseResult& result) {
  const auto c = ReadCase(root + "/" + result.name);
  for (const Mode& mode : AllModes()) {
    const Status status = c ? RunInMode(*c, mode, file) : tl::unexpected(c.error());
    result.why.push_back(status ? "" : status.error().message());
  }
}

// In memory where the system has it.
std::string ScratchFile(int worker) {
  const char* folder = std::filesystem::exists("/dev/shm") ? "/dev/shm" : "/tmp";
  return fmt::format("{}/evoq_conformance_{}_{}.etm", folder, getpid(), worker);
}

void RunCases(const std::string& root, std::vector<CaseResult>& cases) {
  std::atomic<size_t> next = 0;
  std::vector<std::jthread> workers;
  for (unsigned w = 0; w < std::max(std::thread::hardware_concurrency(), 1u); ++w) {
    workers.emplace_back([&, w] {
      const std::string file = ScratchFile(static_cast<int>(w));
      for (size_t i = next++; i < cases.size(); i = next++) RunCase(root, file, cases[i]);
      std::error_code ignored;
      std::filesystem::remove(file, ignored);
    });
  }
}

void Judge(const std::vector<IgnoreLine>& list, CaseResult& c, SuiteResult& result) {
  for (size_t m = 0; m < AllModes().size(); ++m) {
    const char* mode = AllModes()[m].name;
    int listed = 0;
    for (const IgnoreLine& line : list) {
      if (Names(line, c.name) && GlobMatch(line.modes, mode)) listed = line.number;
    }
    c.line.push_back(listed);
    if (!c.why[m].empty() && listed == 0)
      result.problems.push_back(fmt::format("{} fails in mode {}: {}", c.name, mode, c.why[m]));
    if (c.why[m].empty() && listed != 0)
      result.problems.push_back(
          fmt::format("{} passes in mode {}, but line {} lists it", c.name, mode, listed));
  }
}

Status CheckLine(const IgnoreLine& line, const std::vector<std::string>& names) {
  bool mode = GlobMatch(line.modes, kPythonMode), names_case = false;
  for (const Mode& m : AllModes()) mode |= GlobMatch(line.modes, m.name);
  for (const std::string& name : names) names_case |= Names(line, name);
  if (!mode) return InvalidInput("line {}: no mode is called '{}'", line.number, line.modes);
  if (!names_case) return InvalidInput("line {}: '{}' names no case", line.number, line.pattern);
  return {};
}

}  // namespace

Result<std::vector<IgnoreLine>> ReadIgnoreList(const std::string& path) {
  EVOQ_ASSIGN(const std::string text, ReadTextFile(path));
  std::vector<IgnoreLine> lines;
  std::istringstream in(text);
  std::string row;
  for (int number = 1; std::getline(in, row); ++number) {
    if (row.empty() || row[0] == '#') continue;
    const size_t colon = row.find(": ");
    IgnoreLine line;
    line.number = number;
    std::istringstream words(row.substr(0, colon));
    std::string rest;
    words >> line.pattern >> line.modes;
    if (line.modes.starts_with('!')) {
      line.exception = line.modes.substr(1);
      line.modes.clear();
      words >> line.modes;
    }
    if (colon == std::string::npos || colon + 2 >= row.size() || line.modes.empty() ||
        words >> rest)
      return InvalidInput("{}:{}: expected 'PATTERN [!EXCEPTION] MODES: REASON'", path, number);
    line.reason = row.substr(colon + 2);
    lines.push_back(std::move(line));
  }
  return lines;
}

SuiteResult RunSuite(const std::string& root, const std::vector<IgnoreLine>& list) {
  const char* selected = std::getenv("EVOQ_CASE");
  const std::vector<std::string> names = CaseNames(root);
  SuiteResult result;
  for (const std::string& name : names) {
    if (selected == nullptr || GlobMatch(selected, name)) result.cases.push_back({name, {}, {}});
  }
  RunCases(root, result.cases);
  for (CaseResult& c : result.cases) Judge(list, c, result);
  for (const CaseResult& c : result.cases) {
    for (size_t m = 0; selected != nullptr && m < c.why.size(); ++m)
      fmt::print("{} {}: {}\n", c.name, AllModes()[m].name, c.why[m].empty() ? "passed" : c.why[m]);
  }
  for (const IgnoreLine& line : list) {
    if (const Status ok = CheckLine(line, names); !ok)
      result.problems.push_back(ok.error().message());
  }
  return result;
}

std::string SuiteResult::ToString() const {
  std::map<std::string, std::vector<int>> passed;
  std::map<std::string, int> total;
  for (const CaseResult& c : cases) {
    const std::string suite = c.name.substr(0, c.name.find('/'));
    auto& counts = passed[suite];
    counts.resize(AllModes().size());
    ++total[suite];
    for (size_t m = 0; m < counts.size(); ++m) counts[m] += c.why[m].empty();
  }
  std::string out = fmt::format("{:<20}{:>8}", "passed", "cases");
  for (const Mode& mode : AllModes()) out += fmt::format("{:>12}", mode.name);
  for (const auto& [suite, counts] : passed) {
    out += fmt::format("\n{:<20}{:>8}", suite, total[suite]);
    for (int count : counts) out += fmt::format("{:>12}", count);
  }
  return out + fmt::format("\n{} problems\n{}", problems.size(), fmt::join(problems, "\n"));
}

}  // namespace evoq
