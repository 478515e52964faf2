// The options of every verb: what --help lists, with kinds of values, limits and defaults.
#include <gtest/gtest.h>

#include <sstream>

#include "cli/tiny_testing.h"

namespace evoq {
namespace {

class CliOptions : public TinyModels {
 protected:
  // What --help names in front of the descriptions, but for -h, --json and --threads.
  std::vector<std::string> Listed(const std::string& verb) {
    const Ran ran = Run({verb, "--help"}, false);
    EXPECT_EQ(ran.code, 0) << ran.log;
    std::istringstream lines(ran.out.substr(0, ran.out.find("Example:")));
    std::vector<std::string> listed;
    for (std::string line; std::getline(lines, line);) {
      if (line.substr(0, 2) != "  " || line[2] == ' ') continue;
      line = line.substr(2, line.find("  ", 2) - 2);  // to the gap, or the end of the line
      for (const char* near : {" Write the text's", " Calibrate on N"}) {  // a gap of one space
        if (const size_t at = line.find(near); at != std::string::npos) line.resize(at);
      }
      listed.push_back(line);
    }
    return listed;
  }
};

TEST_F(CliOptions, AreTheseOfEachVerb) {
  using Words = std::vector<std::string>;
  const Words everywhere = {"-h,--help", "--json TEXT", "--threads INT:INT in [0 - 1024]"};
  const std::string model = "model TEXT REQUIRED", shape = "--shape TEXT ...",
                    input = "--input TEXT ...", tune = "--tune{1},--no-tune{-1}",
                    output = "-o,--output TEXT REQUIRED", disable = "--disable TEXT ...",
                    level = "--opt-level INT:INT in [0 - 3]";
  // Positional ones come before those of every verb.
  const std::vector<std::tuple<std::string, Words, Words>> verbs = {
      {"demo",
       {},
       {"-o,--output TEXT=evoq-demo", "--quick", "--draw-digits INT:INT in [1 - 1000000]",
        "--seed UINT=1"}},
      {"inspect", {model}, {shape, "--dump"}},
      {"optimize",
       {model},
       {output, "--log-passes", "--stop-after INT", disable, level, "--config TEXT"}},
      {"predict",
       {model},
       {"--scheme TEXT ...", shape, "--batch INT:POSITIVE", input, "--phase TEXT:{prompt,decode}",
        "-p,--prompt-length,--n-prompt INT:POSITIVE", "-d,--context,--n-depth INT:NONNEGATIVE",
        "--sequences INT:POSITIVE=1", "--limits TEXT", "--ranges TEXT", "--check"}},
      {"quantize",
       {model},
       {output,
        "--scheme TEXT=int8",
        "--method TEXT",
        "--calib TEXT ...",
        "--calib-random INT:POSITIVE",
        "--calib-limit INT:NONNEGATIVE=200",
        "--samples TEXT",
        "--preprocess TEXT",
        "--observer TEXT",
        "--percentile FLOAT=99.99",
        "--per-tensor",
        "--block TEXT:{32,64,128,channel}=32",
        "--signed",
        "--symmetric",
        "--target TEXT:{evoq,ort,tensorrt,openvino}=ort",
        "--opset INT",
        "--exclude TEXT ...",
        "--ranges TEXT",
        "--save-ranges TEXT",
        "--encodings,--quantization_overrides TEXT",
        "--encodings-out TEXT",
        "--encodings-version TEXT:{0.6.1,1.0.0,2.0.0,2.1.0}=1.0.0",
        "--calib-cache TEXT",
        "--calib-cache-out TEXT",
        shape,
        "--fix-shape TEXT ...",
        disable,
        level,
        "--max-drop FLOAT:FLOAT in [0 - 100]",
        "--min-sqnr FLOAT",
        "--max-perplexity-growth FLOAT:NONNEGATIVE",
        "--text TEXT",
        "--tokenizer TEXT",
        "--window INT:INT in [1 - 1048576]=256",
        "--never-slower",
        "--data TEXT ...",
        "--labels TEXT",
        "--data-limit INT:NONNEGATIVE=2000",
        "--search-s FLOAT:POSITIVE=60",
        "--measure-s FLOAT:POSITIVE=6",
        tune,
        "--config TEXT"}},
      {"verify",
       {model},
       {"--data TEXT ... Excludes: --text", "--text TEXT Excludes: --data",
        "--tokenizer TEXT Needs: --text", "--labels TEXT", "--preprocess TEXT", "--baseline TEXT",
        "--measure-s FLOAT:POSITIVE=6"}},
      {"compile", {model}, {output, shape, "--fix-shape TEXT ...", disable, level, tune}},
      {"run",
       {model},
       {"--input TEXT ... REQUIRED", "--state TEXT ...", "--output-dir TEXT", "--preprocess TEXT",
        "--topk INT", "--labels TEXT"}},
      {"generate",
       {model},
       {"--prompt TEXT ... Excludes: --prompt-file",
        "--prompt-file TEXT Excludes: --prompt",
        "--prompt-tokens INT ...",
        "--chat",
        "--system TEXT",
        "--plain",
        "--tokenizer TEXT",
        "--max-tokens INT:INT in [1 - 1073741824]=128",
        "--temperature FLOAT=0",
        "--top-k INT=0",
        "--top-p FLOAT=1",
        "--min-p FLOAT=0",
        "--repeat-penalty FLOAT=1",
        "--seed UINT=0",
        "--stop TEXT ...",
        "--ignore-end",
        "--context INT",
        "--parallel INT=1",
        "--draft TEXT",
        "--prompt-cache TEXT"}},
      {"eval",
       {model},
       {"--data TEXT ... Excludes: --text", "--labels TEXT", "--preprocess TEXT",
        "--reference TEXT", "--predictions TEXT", "--limit INT", "--text TEXT Excludes: --data",
        "--tokenizer TEXT Needs: --text", "--tokens TEXT Needs: --text",
        "--window INT:INT in [1 - 1048576]=256 Needs: --text"}},
      {"diff",
       {"a TEXT REQUIRED", "b TEXT REQUIRED"},
       {"--data TEXT ... Excludes: --random --text", "--preprocess TEXT",
        "--random INT:POSITIVE Excludes: --data --text", shape,
        "--text TEXT Excludes: --data --random", "--tokenizer TEXT Needs: --text",
        "--window INT:INT in [1 - 1048576]=256", "--limit INT:NONNEGATIVE=32", "--reference",
        "--bad FLOAT", "--keep TEXT", "--min-sqnr FLOAT", "--max-error FLOAT:NONNEGATIVE"}},
      {"bench",
       {model},
       {"--batch INT:POSITIVE",
        shape,
        input,
        "--streams,--infStreams INT:INT in [1 - 256]",
        "--hint TEXT:{none,latency,throughput}=none",
        "--phase TEXT:{prompt,decode}",
        "-p,--prompt-length,--n-prompt INT:POSITIVE",
        "-d,--context,--n-depth INT ...",
        "--sequences INT ...",
        "-n,--decode-tokens,--n-gen INT:POSITIVE=32",
        tune,
        "--warmup-ms,--warmUp FLOAT=200",
        "--duration-s,--duration FLOAT=3",
        "--iterations INT:POSITIVE",
        "--percentile FLOAT:FLOAT in [0 - 100] ...",
        "--export-times,--exportTimes TEXT",
        "--export-profile,--exportProfile TEXT",
        "--export-layer-info,--exportLayerInfo TEXT",
        "--dump-profile,--dumpProfile",
        "--dump-layer-info,--dumpLayerInfo",
        "--profiling-verbosity,--profilingVerbosity "
        "TEXT:{layer_names_only,detailed,none}=layer_names_only",
        "--separate-profile-run,--separateProfileRun",
        "--spin-wait,--useSpinWait"}},
      {"profile",
       {model},
       {"--batch INT", tune, shape, input, "--phase TEXT:{prompt,decode}",
        "-p,--prompt-length,--n-prompt INT:POSITIVE", "-d,--context,--n-depth INT:NONNEGATIVE",
        "--sequences INT:POSITIVE=1", "--trace TEXT", "--layer-info TEXT", "--warmup-ms FLOAT=200",
        "--duration-s FLOAT=2", "--sort"}},
      {"explain",
       {"model TEXT"},
       {"--baseline TEXT",
        "--trtexec DIR",
        "--ort-profile F",
        "--benchmark-app F",
        "--target TEXT",
        "--fix",
        "-o,--output TEXT",
        "--accept-changes",
        "--data TEXT ...",
        "--preprocess TEXT",
        "--report TEXT",
        "--eval TEXT",
        "--baseline-eval TEXT",
        shape,
        input,
        "--batch INT",
        "--phase TEXT:{prompt,decode}",
        "-p,--prompt-length,--n-prompt INT:POSITIVE",
        "-d,--context,--n-depth INT:NONNEGATIVE",
        "--sequences INT:POSITIVE=1",
        "--duration-s FLOAT=2"}},
      {"compare",
       {"a TEXT REQUIRED", "b TEXT REQUIRED"},
       {"--batch INT:POSITIVE", shape, input, "--phase TEXT:{prompt,decode}",
        "-p,--prompt-length,--n-prompt INT:POSITIVE", "-d,--context,--n-depth INT:NONNEGATIVE",
        "--sequences INT:POSITIVE=1", "--duration-s FLOAT:POSITIVE=10",
        "--warmup-ms FLOAT:NONNEGATIVE=200", "--rounds INT:INT in [3 - 1000]=20", "--report TEXT",
        "--fail-slower FLOAT:NONNEGATIVE"}},
      {"limits", {}, {}},
      {"tokenize",
       {"tokenizer TEXT REQUIRED", "text TEXT"},
       {"--lines TEXT", "--decode", "--chat TEXT", "--plain"}},
      {"train",
       {"model TEXT REQUIRED"},
       {"--data TEXT REQUIRED",
        "--labels TEXT",
        "--test TEXT",
        "--test-labels TEXT",
        "--preprocess TEXT",
        "-o,--output TEXT REQUIRED",
        "--limit INT:NONNEGATIVE",
        "--checkpoint TEXT",
        "--resume TEXT",
        "--log TEXT",
        "--epochs INT:POSITIVE",
        "--batch INT:POSITIVE",
        "--shard INT:POSITIVE",
        "--lr FLOAT:NONNEGATIVE",
        "--optimizer TEXT",
        "--schedule TEXT",
        "--warm-up FLOAT:NONNEGATIVE",
        "--momentum FLOAT:NONNEGATIVE",
        "--beta2 FLOAT:NONNEGATIVE",
        "--weight-decay FLOAT:NONNEGATIVE",
        "--loss TEXT",
        "--label-smoothing FLOAT:NONNEGATIVE",
        "--clip-norm FLOAT:NONNEGATIVE",
        "--augment TEXT ...",
        "--freeze TEXT ...",
        "--seed UINT"}},
      {"zoo",
       {"name TEXT"},
       {"-o,--output TEXT", "--sequence INT:INT in [1 - 65536]=128", "--seed UINT=1"}},
      {"list", {"what TEXT REQUIRED"}, {}}};
  ASSERT_EQ(verbs.size(), AllVerbs().size());
  for (size_t v = 0; v < verbs.size(); ++v) {
    const auto& [verb, positional, options] = verbs[v];
    EXPECT_EQ(AllVerbs()[v]->name, verb);
    Words expected = positional;
    expected.insert(expected.end(), everywhere.begin(), everywhere.end());
    expected.insert(expected.end(), options.begin(), options.end());
    EXPECT_EQ(Listed(verb), expected) << verb;
  }
}

}  // namespace
}  // namespace evoq
