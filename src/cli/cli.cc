#include <CLI/CLI.hpp>
#include <algorithm>
#include <cctype>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <iterator>
#include <set>
#include <sstream>

#include "base/brief.h"
#include "base/file.h"
#include "base/guarded.h"
#include "base/nearest.h"
#include "base/output_file.h"
#include "base/rows.h"
#include "base/version.h"
#include "cli/common.h"
#include "cli/elsewhere.h"
#include "cli/program.h"

namespace evoq {

#define EVOQ_ROW_TYPE VerbDef
#define EVOQ_ROW_FILE "cli/verbs.inc"
#include "base/rows.inl.h"

std::span<const VerbDef* const> AllVerbs() { return kAllRows; }

namespace {

int ExitCode(ErrorCode code) {
  switch (code) {
    case ErrorCode::kConditionFailed: return 1;
    case ErrorCode::kUsage: return 2;
    case ErrorCode::kInternal: return 4;
    default: return 3;
  }
}

int Report(const Error& error) {
  Log("evoq: {}", PrintableMessage(error.message()));
  return ExitCode(error.code());
}

using Verbs = std::span<const VerbDef* const>;

Error NoVerb(std::string_view name, Verbs verbs) {
  return Error(ErrorCode::kUsage, fmt::format("unknown command '{}'{} (`evoq --help` lists them)",
                                              name, NearestHint(name, verbs)));
}

// What CLI11 says, where that is about a value in evoq's words: "--batch 1.5: expected a whole
// number".
std::string Plainly(const CLI::App& verb, const CLI::ParseError& error) {
  std::string text = error.what();
  if (error.get_name() == "ValidationError") {  // "--batch: 0: expected ..."
    const size_t at = text.find(": ");
    if (at != std::string::npos && text.find(": expected ", at) != std::string::npos)
      text.replace(at, 2, " ");
  } else if (constexpr std::string_view kFailed = "Could not convert: ", kIs = " = ";
             error.get_name() == "ConversionError" && text.starts_with(kFailed)) {
    text.erase(0, kFailed.size());
    const size_t at = text.find(kIs);
    if (at == std::string::npos) return text;
    const CLI::Option* option = verb.get_option_no_throw(text.substr(0, at));
    const std::string type = option == nullptr ? "" : option->get_type_name();
    text.replace(at, kIs.size(), " ");
    text += type.starts_with("INT")    ? ": expected a whole number"
            : type.starts_with("UINT") ? ": expected a whole number from 0 on"
                                       : ": expected a number";
  }
  return text;
}

// What is wrong with the arguments: an option that there is not, before what may be missing for
// that reason, or what CLI11 says.
std::string Wrong(const CLI::App& app, const CLI::ParseError& error) {
  const std::vector<std::string> extras = app.remaining(true);
  const auto is_option = [](const std::string& a) {
    return a.size() > 1 && a != "--" && a[0] == '-' &&
           std::isdigit(static_cast<unsigned char>(a[1])) == 0;
  };
  const auto option = std::ranges::find_if(extras, is_option);
  const CLI::App* verb = &app;
  for (const CLI::App* sub : app.get_subcommands()) verb = sub;  // the one that was parsed
  if (option == extras.end()) return Plainly(*verb, error);
  const std::string name = option->substr(0, option->find('='));
  std::vector<std::string> all;
  for (const CLI::Option* known : verb->get_options()) {
    for (const std::string& n : known->get_lnames()) all.push_back("--" + n);
    for (const std::string& n : known->get_snames()) all.push_back("-" + n);
  }
  const std::vector<std::string_view> names(all.begin(), all.end());
  const std::string elsewhere = OptionNamedElsewhere(name, names);
  return fmt::format("no option {}{}", name,
                     elsewhere.empty() ? NearestHint(name, names) : elsewhere);
}

// Declares the verb's options and those of every verb.
VerbRun DeclareVerb(const VerbDef& verb, CLI::App& app, CommonOptions& common) {
  const VerbOptions options(app);
  options.Add("-t,--threads", common.threads, "Threads (default: all physical cores)")
      .InRange(0, 1024);
  return verb.declare(options, common);
}

// CLI11 lists what an option excludes in the order of addresses, another one in each run.
class InOrder : public CLI::Formatter {
 public:
  std::string make_option_opts(const CLI::Option* option) const override {
    std::string text = CLI::Formatter::make_option_opts(option);
    const std::string label = " Excludes: ";
    const size_t at = text.find(label);
    if (at == std::string::npos) return text;
    std::istringstream words(text.substr(at + label.size()));
    const std::set<std::string> names{std::istream_iterator<std::string>(words), {}};
    return fmt::format("{}{}{}", text.substr(0, at), label, fmt::join(names, " "));
  }
};

}  // namespace

Status WriteJson(const std::string& path, const nlohmann::json& result) {
  if (path.empty()) return {};
  // Names from files may hold any bytes; JSON is UTF-8.
  return WriteFileAtomic(
      path, result.dump(2, ' ', false, nlohmann::json::error_handler_t::replace) + "\n");
}

namespace {

Result<VerbOutput> RunHere(const VerbDef& verb, std::vector<std::string> arguments,
                           CommonOptions& common) {
  CLI::App app;
  const VerbRun run = DeclareVerb(verb, app, common);
  std::reverse(arguments.begin(), arguments.end());  // CLI11 takes them from the back
  try {
    app.parse(std::move(arguments));
  } catch (const CLI::ParseError& e) {
    return Fail(ErrorCode::kUsage, "{}: {}", verb.name, Wrong(app, e));
  }
  KeptOutput kept;
  const int64_t damages = DamagesSoFar();
  EVOQ_ASSIGN(nlohmann::json json, run());
  EVOQ_TRY(NoDamageSince(damages));
  return VerbOutput{std::move(json), std::move(kept.out), std::move(kept.log)};
}

}  // namespace

Result<VerbOutput> RunVerb(const std::string& name, std::vector<std::string> arguments,
                           CommonOptions common) {
  const VerbDef* verb = FindRow(AllVerbs(), name);
  if (verb == nullptr) return tl::unexpected(NoVerb(name, AllVerbs()));
  return Guarded([&] { return RunHere(*verb, std::move(arguments), common); });
}

namespace {

// A verb's result, printed to the end and written as JSON.
Status Finish(const VerbRun& run, const std::string& json_path) {
  if (!json_path.empty()) EVOQ_TRY(CheckOutputPath(json_path));
  const int64_t damages = DamagesSoFar();
  EVOQ_ASSIGN(const nlohmann::json result, run());
  EVOQ_TRY(NoDamageSince(damages));
  if (std::fflush(stdout) != 0 || std::ferror(stdout) != 0)
    return Fail(ErrorCode::kIo, "stdout: cannot write: {}", std::strerror(errno));
  // A verb without a result leaves the file to another process (train --mpi).
  return result.is_null() ? Status() : WriteJson(json_path, result);
}

int RunParsed(int argc, const char* const* argv, Verbs all) {
  CLI::App app(
      "evoq: make a neural network smaller and really faster, and explain every millisecond and "
      "byte.");
  app.formatter(std::make_shared<InOrder>());
  app.require_subcommand(1);
  app.set_version_flag("--version", std::string("evoq ") + EVOQ_VERSION);
  StageProgress bars;
  CommonOptions common;
  common.follow.progress = [&](const std::string& stage, double fraction) {
    bars.Update(stage, fraction);
  };
  std::vector<std::pair<CLI::App*, VerbRun>> verbs;
  for (const VerbDef* verb : all) {
    CLI::App* sub = app.add_subcommand(verb->name, verb->doc);
    sub->footer(std::string("Example:\n  ") + verb->example);
    sub->add_option("--json", common.json_path, "Also write the result as JSON to this file");
    verbs.emplace_back(sub, DeclareVerb(*verb, *sub, common));
  }
  if (argc > 1 && argv[1][0] != '-' && FindRow(all, std::string_view(argv[1])) == nullptr)
    return Report(NoVerb(argv[1], all));
  try {  // CLI11 reports through exceptions
    app.parse(argc, argv);
  } catch (const CLI::ParseError& e) {
    std::ostringstream help;
    if (app.exit(e, help, help) == 0) {
      WriteOut(help.str());
      return 0;
    }
    Log("evoq: {}\nRun with --help for more information.", Wrong(app, e));
    return 2;
  }
  for (const auto& [sub, run] : verbs) {
    if (!sub->parsed()) continue;
    const Status done = Finish(run, common.json_path);
    return done ? 0 : Report(done.error());
  }
  return 2;
}

}  // namespace

int RunProgram(int argc, const char* const* argv, std::span<const VerbDef* const> more) {
  EndCleanlyOnSignals();
  std::signal(SIGXFSZ, SIG_IGN);  // a file beyond the limit on sizes is an error, as a full disk is
  const Result<int> code = Guarded([&]() -> Result<int> {
    std::vector<const VerbDef*> all(AllVerbs().begin(), AllVerbs().end());
    all.insert(all.end(), more.begin(), more.end());
    std::vector<const char*> words(argv, argv + argc);
    // A link to evoq of a verb's name is that verb (docs/ascend.md).
    const std::string called = argc > 0 ? BaseName(argv[0]) : "";
    if (const VerbDef* verb = FindRow(Verbs(all), called); verb != nullptr) {
      words[0] = "evoq";
      words.insert(words.begin() + 1, verb->name);
    }
    return RunParsed(static_cast<int>(words.size()), words.data(), all);
  });
  return code ? *code : Report(code.error());
}

int RunCommandLine(int argc, const char* const* argv) { return RunProgram(argc, argv, {}); }

}  // namespace evoq
