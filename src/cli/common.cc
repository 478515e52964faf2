#include "cli/common.h"

#include <unistd.h>

#include <atomic>
#include <charconv>
#include <chrono>
#include <filesystem>

#include "base/check.h"
#include "base/output_file.h"

namespace evoq {
namespace {

thread_local KeptOutput* kept = nullptr;

int64_t NowNs() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

}  // namespace

KeptOutput::KeptOutput() {
  EVOQ_CHECK(kept == nullptr, "a verb runs within a verb");
  kept = this;
}
KeptOutput::~KeptOutput() { kept = nullptr; }

namespace {

std::atomic<bool> bar_is_shown = false;

// What is printed next begins on a line of its own, and the bar is gone.
void ClearBar() {
  if (bar_is_shown.exchange(false)) fmt::print(stderr, "\r\033[K");
}

}  // namespace

void WriteOut(std::string_view text) {
  if (kept != nullptr) {
    kept->out += PrintableLines(text);
  } else {
    ClearBar();
    fmt::print(StdoutTakesResult() ? stderr : stdout, "{}", PrintableLines(text));
  }
}

void FlushOut() {
  if (kept == nullptr) std::fflush(stdout);  // an error is told at the end
}

void WriteLog(std::string_view line) {
  if (kept != nullptr) {
    kept->log.push_back(PrintableLines(line));
  } else {
    ClearBar();
    fmt::print(stderr, "{}\n", PrintableLines(line));
  }
}

std::optional<std::pair<std::string, std::string>> SplitNamed(const std::string& option) {
  const size_t equals = option.rfind('=');
  if (equals == std::string::npos) return std::nullopt;
  return std::pair(option.substr(0, equals), option.substr(equals + 1));
}

std::optional<std::pair<std::string, std::string>> SplitNamedFile(const std::string& option) {
  for (size_t at = option.rfind('='); at != std::string::npos && at > 0;
       at = option.rfind('=', at - 1)) {
    std::error_code code;
    if (std::filesystem::is_regular_file(option.substr(at + 1), code))
      return std::pair(option.substr(0, at), option.substr(at + 1));
  }
  return SplitNamed(option);
}

namespace {

// With `free`, a size may be '?': -1.
Result<InputShapes> ParseSizes(const std::vector<std::string>& options, const char* name,
                               bool free) {
  InputShapes shapes;
  for (const std::string& option : options) {
    const auto bad = [&] {
      return Fail(ErrorCode::kUsage, "{} {}: expected NAME={}x3x224x224", name, option,
                  free ? "?" : "1");
    };
    const auto named = SplitNamed(option);
    if (!named || named->first.empty()) return bad();
    std::vector<int64_t> sizes;
    const char* at = named->second.data();
    const char* end = at + named->second.size();
    while (at < end) {
      int64_t size = -1;
      const bool left_free = free && *at == '?';
      const auto [next, error] =
          left_free ? std::from_chars_result{at + 1, std::errc()} : std::from_chars(at, end, size);
      if (error != std::errc() || (size < 0 && !left_free) || (next < end && *next != 'x'))
        return bad();
      if (size == 0)
        return Fail(ErrorCode::kUsage, "{} {}: dimension {} has size 0, expected at least 1", name,
                    option, sizes.size());
      sizes.push_back(size);
      at = next + 1;
    }
    shapes[named->first] = std::move(sizes);
  }
  return shapes;
}

}  // namespace

Result<InputShapes> ParseShapes(const std::vector<std::string>& options) {
  return ParseSizes(options, "--shape", /*free=*/false);
}

Result<InputShapes> ParseFixed(const std::vector<std::string>& options) {
  return ParseSizes(options, "--fix-shape", /*free=*/true);
}

Result<InputFiles> ParseInputs(const std::vector<std::string>& options) {
  InputFiles files;
  for (const std::string& option : options) {
    auto named = SplitNamedFile(option);
    if (!named) return Fail(ErrorCode::kUsage, "--input {}: expected NAME=F.npy", option);
    files[named->first] = std::move(named->second);
  }
  return files;
}

void AddShapeOptions(const VerbOptions& options, std::vector<std::string>& shapes,
                     std::vector<std::string>& fixed, const char* what) {
  options.Add(
      "--shape", shapes,
      fmt::format("Sizes of a free input to {}: NAME=1x3x224x224; the model stays free", what));
  options.Add("--fix-shape", fixed,
              "Fix sizes of a free input for good: NAME=?x3x224x224, ? staying free");
}

void AddPassOptions(const VerbOptions& options, PassChoice& passes) {
  options
      .Add("--disable", passes.disable,
           "Leave out these graph passes (a glob pattern of `evoq list passes`): PASS everywhere, "
           "PASS@NODE on nodes of this name, PASS@op=OPERATOR (may be repeated)")
      .OneEachTime();
  options
      .Add("--opt-level", passes.opt_level,
           "Run the graph passes up to this level: 0: what kernels need, 1: and clean-ups, 2: and "
           "fusion, 3: all (default: 3; docs/passes.md)")
      .InRange(0, kMostOptLevel);
}

void AddTuneOptions(const VerbOptions& options, TuneChoice& choice, const char* without) {
  options.AddFlag("--tune{1},--no-tune{-1}", choice.value,
                  std::string("Measure what each step does fastest on this machine, with --threads "
                              "threads; --no-tune: ") +
                      without);
}

namespace {

constexpr char kPromptNames[] = "-p,--prompt-length,--n-prompt",
               kContextNames[] = "-d,--context,--n-depth", kSequencesNames[] = "--sequences";

VerbOption AddPhaseName(const VerbOptions& options, std::string& name, const char* otherwise) {
  std::vector<std::string> names, docs;
  for (const PhaseDef* phase : AllPhases()) {
    names.emplace_back(phase->name);
    docs.push_back(fmt::format("{}: {}", phase->name, phase->doc));
  }
  return options
      .Add("--phase", name,
           fmt::format("Of a language model with caches, the run to measure; {} (default: {})",
                       fmt::join(docs, "; "), otherwise))
      .OneOf(names);
}

}  // namespace

VerbOption AddCacheType(const VerbOptions& options, std::string& type) {
  return options.Add("--kv-cache", type,
                     "Of a language model, what its key and value caches hold: float32, float16 or "
                     "int8 (default: as the model has them)");
}

std::vector<VerbOption> AddPerplexityOptions(const VerbOptions& options, PerplexityJob& job) {
  return {
      options.Add("--tokenizer", job.tokenizer,
                  "The model's tokenizer: tokenizer.json, SentencePiece, GPT-2 or llama2.c "
                  "(default: the one that the model carries)"),
      options.Add("--tokens", job.tokens, "Write the text's tokens to this .npy file"),
      options.Add("--window", job.window, "Tokens that the model sees at once")
          .InRange(int64_t{1}, int64_t{1} << 20)
          .ShowDefault(),
      AddCacheType(options, job.kv_cache),
  };
}

void AddPhaseOptions(const VerbOptions& options, PhaseChoice& choice, const char* otherwise) {
  AddPhaseName(options, choice.name, otherwise);
  PhaseOptions& o = choice.options;
  options
      .Add(kPromptNames, o.prompt_length,
           "Tokens of the prompt (default: 512, or what the model holds)")
      .Positive();
  options
      .Add(kContextNames, o.context,
           "Tokens that stand before those of the run (default: of decode the prompt's)")
      .NonNegative();
  options.Add(kSequencesNames, o.sequences, "Sequences at a time").Positive().ShowDefault();
}

void AddPhaseOptions(const VerbOptions& options, PhaseLists& lists) {
  AddPhaseName(options, lists.phase, "a table of both");
  options
      .Add(kPromptNames, lists.prompt_length,
           "Of a language model: tokens of the prompt (default: 512, or what the model holds)")
      .Positive();
  options
      .Add(kContextNames, lists.contexts,
           "Of a language model: tokens that stand before those that it writes (default: "
           "0,1024,4096, as the model holds)")
      .SplitAt(',');
  options
      .Add(kSequencesNames, lists.sequences, "Of a language model: sequences that write at a time")
      .SplitAt(',');
}

Result<PhaseChoice> PhaseLists::One() const {
  if (!phase.empty() && (contexts.size() > 1 || sequences.size() > 1))
    return Fail(ErrorCode::kUsage, "--phase {} takes one --context and one number of --sequences",
                phase);
  PhaseChoice choice{.name = phase};
  choice.options.prompt_length = prompt_length;
  if (!contexts.empty()) choice.options.context = contexts[0];
  if (!sequences.empty()) choice.options.sequences = sequences[0];
  return choice;
}

VerbOption AddDataOption(const VerbOptions& options, const char* name,
                         std::vector<std::string>& sources, const char* doc) {
  const std::string kinds =
      ": a folder of images, .npy or .npz, .npy, .npz, MNIST idx or CIFAR .bin; of several inputs "
      "an .npz with their names, "
      "or NAME=FILE, repeated (docs/calibration.md)";
  return options.Add(name, sources, doc + kinds).OneEachTime();
}

Progress::Progress(std::string label)
    : label_(Printable(label)),
      active_(kept == nullptr && isatty(STDERR_FILENO)),
      start_ns_(NowNs()) {}

Progress::~Progress() {
  if (active_) ClearBar();
}

void Progress::Update(double fraction) {
  if (!active_) return;
  const int64_t now = NowNs();
  if (now - start_ns_ < 1'000'000'000 || now - last_ns_ < 100'000'000) return;
  last_ns_ = now;
  bar_is_shown = true;
  const int filled = static_cast<int>(fraction * 30);
  fmt::print(stderr, "\r{} [{:=<{}}{: <{}}] {:3.0f}%", label_, "", filled, "", 30 - filled,
             fraction * 100);
  std::fflush(stderr);
}

nlohmann::json Print(Told told) {
  for (const std::string& line : told.log) Log("{}", line);
  Out("{}", Lines{told.text});
  return std::move(told.json);
}

}  // namespace evoq
