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
      for (const char* near :
           {" Write the text's", " Calibrate on N", " Epochs in which", " The temperature",
            " The same, for", " Values of the", " Tokens that a"}) {  // a gap of one space
        if (const size_t at = line.find(near); at != std::string::npos) line.resize(at);
      }
      listed.push_back(line);
    }
    return listed;
  }
};

TEST_F(CliOptions, AreTheseOfEachVerb) {
  using Words = std::vector<std::string>;
  const Words everywhere = {"-h,--help", "--json TEXT", "-t,--threads INT:INT in [0 - 1024]"};
  const std::string model = "model TEXT REQUIRED", shape = "--shape TEXT ...",
                    input = "--input TEXT ...", tune = "--tune{1},--no-tune{-1}",
                    output = "-o,--output TEXT REQUIRED", disable = "--disable TEXT ...",
                    level = "--opt-level INT:INT in [0 - 3]", bits = "--weight-bits TEXT ...",
                    few = "--activation-bits TEXT ...",
                    adaptive = "--adaptive Excludes: --scale-set",
                    set = "--scale-set TEXT Excludes: --adaptive",
                    clip = "--clip-limit FLOAT:FLOAT in [0 - 99]=0.5 Needs: --adaptive",
                    widen = "--widen-after INT:INT in [1 - 1048576]=1 Needs: --adaptive",
                    narrow = "--narrow-after INT:INT in [1 - 1048576]=8 Needs: --adaptive",
                    look = "--look-every INT:INT in [1 - 1048576] Needs: --adaptive";
  // Positional ones come before those of every verb.
  const std::vector<std::tuple<std::string, Words, Words>> verbs = {
      {"demo",
       {},
       {"-o,--output TEXT=evoq-demo", "--quick", "--draw-digits INT:INT in [1 - 1000000]",
        "--seed UINT=1"}},
      {"inspect", {model}, {shape, "--dump"}},
      {"optimize",
       {"model TEXT"},
       {"-o,--output TEXT", "--log-passes", "--stop-after INT", "--merge-adapters", disable, level,
        "--config TEXT"}},
      {"predict",
       {model},
       {"--scheme TEXT ...", shape, "--batch INT:POSITIVE", input, "--phase TEXT:{prompt,decode}",
        "-p,--prompt-length,--n-prompt INT:POSITIVE", "-d,--context,--n-depth INT:NONNEGATIVE",
        "--sequences INT:POSITIVE=1", "--limits TEXT", "--ranges TEXT", "--check"}},
      {"calibrate",
       {model},
       {output, "--calib TEXT ...", "--calib-random INT:POSITIVE",
        "--calib-limit INT:NONNEGATIVE=200", "--samples TEXT", "--preprocess TEXT",
        "--observer TEXT", "--percentile FLOAT=99.99", shape, "--fix-shape TEXT ...", disable,
        level, "--part TEXT", "--after TEXT", "--merge TEXT ..."}},
      {"quantize",
       {model},
       {output,
        "--scheme TEXT=int8",
        "--method TEXT",
        "--calib TEXT ...",
        "--calib-random INT:POSITIVE",
        "--calib-limit INT:NONNEGATIVE=200",
        "--samples TEXT",
        "--scale-sets TEXT ...",
        "--preprocess TEXT",
        "--observer TEXT",
        "--percentile FLOAT=99.99",
        "--per-tensor",
        "--block TEXT:{32,64,128,channel}=32",
        bits,
        few,
        "--signed",
        "--symmetric",
        "--target TEXT:{evoq,ort,ort-cpu,tensorrt,openvino}=ort",
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
        "--kv-cache TEXT",
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
      {"tune",
       {model},
       {output, "--report TEXT", "--strategy TEXT:{latency,balanced,throughput}=latency", shape,
        "--data TEXT ...", "--preprocess TEXT", "--limit INT:NONNEGATIVE=32", "--min-sqnr FLOAT=60",
        "--duration-s FLOAT:POSITIVE=20", disable, level}},
      {"verify",
       {model},
       {"--data TEXT ... Excludes: --text", "--text TEXT Excludes: --data",
        "--tokenizer TEXT Needs: --text", "--labels TEXT", "--preprocess TEXT", "--baseline TEXT",
        "--measure-s FLOAT:POSITIVE=6"}},
      {"compile",
       {model},
       {output, shape, "--fix-shape TEXT ...", "--kv-cache TEXT", "--gears TEXT ...",
        "--suggest-gears INT:INT in [1 - 512]", "--observed TEXT",
        "--measure-s FLOAT:FLOAT in [0.1 - 3600]=6", disable, level, tune}},
      {"run",
       {model},
       {"--input TEXT ... REQUIRED", "--state TEXT ...", adaptive, set, clip, widen, narrow, look,
        "--output-dir TEXT", "--preprocess TEXT", "--topk INT", "--labels TEXT"}},
      {"generate",
       {model},
       {"-p,--prompt TEXT ... Excludes: --prompt-file",
        "-f,--prompt-file,--file TEXT Excludes: --prompt",
        "--prompt-tokens INT ...",
        "--chat",
        "--system,--system-prompt TEXT",
        "--plain",
        "--tokenizer TEXT",
        "-n,--max-tokens,--n-predict,--predict INT:INT in [-1 - 1073741824]=128",
        "--temperature,--temp FLOAT=0",
        "--top-k INT=0",
        "--top-p FLOAT=1",
        "--min-p FLOAT=0",
        "--repeat-penalty FLOAT=1",
        "--presence-penalty FLOAT=0",
        "--frequency-penalty FLOAT=0",
        "--logit-bias TEXT ...",
        "-s,--seed INT:INT in [-1 - 9223372036854775807]=0",
        "--min-tokens INT:INT in [0 - 1073741824]=0",
        "--stop TEXT ...",
        "--stop-tokens INT ...",
        "--grammar TEXT",
        "--grammar-file TEXT",
        "-j,--json-schema TEXT",
        "--json-schema-file TEXT",
        "--beams INT:INT in [1 - 256]=1",
        "--length-penalty TEXT",
        "--audio TEXT",
        "--language TEXT",
        "--task TEXT",
        "--source-language TEXT",
        "--target-language TEXT",
        "--ignore-end,--ignore-eos",
        "-c,--context,--ctx-size INT",
        "--kv-cache TEXT",
        "--parallel INT=1",
        "--draft TEXT",
        "--prompt-cache TEXT"}},
      {"eval",
       {model},
       {"--data TEXT ... Excludes: --merge --text",
        "--labels TEXT",
        "--targets TEXT ... Needs: --data",
        "--preprocess TEXT",
        "--reference TEXT",
        "--predictions TEXT",
        "--limit INT",
        "--part TEXT Needs: --data",
        "--save-part TEXT Needs: --data",
        "--merge TEXT ... Excludes: --data",
        adaptive,
        set,
        clip,
        widen,
        narrow,
        look,
        "--text TEXT Excludes: --data",
        "--tokenizer TEXT Needs: --text",
        "--tokens TEXT Needs: --text",
        "--window INT:INT in [1 - 1048576]=256 Needs: --text",
        "--kv-cache TEXT Needs: --text"}},
      {"perplexity",
       {model},
       {"-f,--text,--file TEXT REQUIRED", "--limit,--chunks INT", "--tokenizer TEXT",
        "--tokens TEXT", "--window INT:INT in [1 - 1048576]=256", "--kv-cache TEXT"}},
      {"diff",
       {"a TEXT REQUIRED", "b TEXT REQUIRED"},
       {"--data TEXT ... Excludes: --random --text", "--preprocess TEXT",
        "--random INT:POSITIVE Excludes: --data --text", shape,
        "--text TEXT Excludes: --data --random", "--tokenizer TEXT Needs: --text",
        "--window INT:INT in [1 - 1048576]=256", "--limit INT:NONNEGATIVE=32", "--reference",
        "--bad FLOAT", "--keep TEXT", "--min-sqnr FLOAT", "--max-error FLOAT:NONNEGATIVE"}},
      {"sensitivity",
       {model},
       {"--data TEXT ... Excludes: --random --text",
        "--preprocess TEXT",
        "--random INT:POSITIVE Excludes: --data --text",
        shape,
        "--text TEXT Excludes: --data --random",
        "--tokenizer TEXT Needs: --text",
        "--window INT:INT in [1 - 1048576]=256",
        "--limit INT:NONNEGATIVE=32",
        "--labels TEXT",
        "--scheme TEXT=int8",
        "--method TEXT",
        "--calib TEXT ...",
        "--calib-limit INT:NONNEGATIVE=200",
        "--samples TEXT",
        "--observer TEXT",
        "--percentile FLOAT=99.99",
        "--per-tensor",
        "--block TEXT:{32,64,128,channel}=32",
        bits,
        few,
        "--signed",
        "--symmetric",
        "--exclude TEXT ...",
        "--ranges TEXT",
        "--fix-shape TEXT ...",
        "--min-sqnr FLOAT",
        "--report TEXT"}},
      {"bench",
       {model},
       {"--batch INT:POSITIVE",
        shape,
        input,
        "--observed TEXT",
        "--streams,--infStreams INT:INT in [1 - 256]",
        "--stream-priority INT:INT in [-1000 - 1000] ...",
        "--hint TEXT:{none,latency,throughput}",
        "--phase TEXT:{prompt,decode}",
        "-p,--prompt-length,--n-prompt INT:POSITIVE",
        "-d,--context,--n-depth INT ...",
        "--sequences INT ...",
        "--kv-cache TEXT",
        "-n,--decode-tokens,--n-gen INT:POSITIVE=32",
        adaptive,
        set,
        clip,
        widen,
        narrow,
        look,
        tune,
        "--warmup-ms,--warmUp FLOAT:NONNEGATIVE=200",
        "--duration-s,--duration FLOAT:NONNEGATIVE=3",
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
        "--sequences INT:POSITIVE=1", "--trace TEXT", "--layer-info TEXT",
        "--warmup-ms FLOAT:NONNEGATIVE=200", "--duration-s FLOAT:NONNEGATIVE=2", "--sort"}},
      {"explain",
       {"model TEXT"},
       {"--baseline TEXT",
        "--trtexec DIR",
        "--ort-profile F",
        "--benchmark-app F",
        "--openvino F",
        "--tflite F",
        "--msprof DIR",
        "--torch-trace F",
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
        "--duration-s FLOAT:NONNEGATIVE=2"}},
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
      {"prune",
       {"model TEXT REQUIRED"},
       {output, "--pattern TEXT=block-4x4", "--sparsity FLOAT", "--multiple INT:POSITIVE=1",
        "--layers TEXT ...", "--score TEXT=magnitude", "--scope TEXT=layer"}},
      {"train",
       {"model TEXT REQUIRED"},
       {"--data TEXT REQUIRED",
        "--labels TEXT",
        "--test TEXT",
        "--test-labels TEXT",
        "--targets TEXT",
        "--test-targets TEXT Needs: --targets",
        "--hold-out FLOAT:NONNEGATIVE=0.1",
        "--tokenizer TEXT",
        "--preprocess TEXT",
        "-o,--output TEXT REQUIRED",
        "--limit INT:NONNEGATIVE",
        "--teacher TEXT",
        "--checkpoint TEXT",
        "--resume TEXT",
        "--tensorboard TEXT",
        "--mpi",
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
        "--mixup FLOAT:NONNEGATIVE",
        "--ema FLOAT:NONNEGATIVE",
        "--decay TEXT ...",
        "--context INT:POSITIVE",
        "--freeze TEXT ...",
        "--scheme TEXT",
        "--block TEXT:{32,64,128,channel}",
        bits,
        few,
        "--exclude TEXT ...",
        "--distill FLOAT:NONNEGATIVE",
        "--distill-share FLOAT:NONNEGATIVE",
        "--distill-features TEXT ...",
        "--distill-features-weight FLOAT:NONNEGATIVE",
        "--prune TEXT",
        "--sparsity FLOAT",
        "--prune-score TEXT",
        "--prune-scope TEXT",
        "--prune-multiple INT:POSITIVE",
        "--lora TEXT",
        "--seed UINT",
        "--recompute"}},
      {"zoo",
       {"name TEXT"},
       {"-o,--output TEXT", "--free-sequence", "--sequence INT:INT in [1 - 65536]=128",
        "--seed UINT=1"}},
      {"list", {"what TEXT REQUIRED"}, {}},
      {"graph_opt", {}, {"--config TEXT REQUIRED", "--optimize", "--log-passes"}},
      {"atc",
       {},
       {"--model TEXT REQUIRED", "--output TEXT REQUIRED", "--framework INT=5",
        "--optimization_level INT:INT in [0 - 3]", "--input_shape TEXT",
        "--dynamic_batch_size TEXT", "--dynamic_image_size TEXT", "--dynamic_dims TEXT",
        "--out_nodes TEXT", "--input_format TEXT", "--output_type TEXT", "--precision_mode TEXT",
        "--fusion_switch_file TEXT", "--insert_op_conf TEXT", "--soc_version TEXT",
        "--log TEXT:{debug,info,warning,error,null}"}},
      {"benchmark",
       {},
       {"--model TEXT REQUIRED", "--output TEXT REQUIRED", "--device TEXT", "--batch INT:POSITIVE",
        "--streams INT:INT in [1 - 256]", "--loop INT:POSITIVE=10",
        "--warmup-ms FLOAT:NONNEGATIVE=200", "--duration-s FLOAT:POSITIVE=3"}},
      {"perf_compare",
       {},
       {"--baseline TEXT REQUIRED", "--optimized TEXT REQUIRED", "--report TEXT"}}};
  ASSERT_EQ(verbs.size(), AllVerbs().size());
  for (size_t v = 0; v < verbs.size(); ++v) {
    const auto& [verb, positional, options] = verbs[v];
    EXPECT_EQ(AllVerbs()[v]->name, verb);
    Words expected = positional;
    expected.insert(expected.end(), everywhere.begin(), everywhere.end());
    expected.insert(expected.end(), options.begin(), options.end());
    EXPECT_EQ(fmt::format("{}", fmt::join(Listed(verb), "\n")),
              fmt::format("{}", fmt::join(expected, "\n")))
        << verb;
  }
}

// NaN keeps every limit, and a run of infinite length never ends: no option of any verb takes one.
TEST_F(CliOptions, OfRealNumbersAreFinite) {
  int options = 0;
  for (const VerbDef* verb : AllVerbs()) {
    for (const std::string& listed : Listed(verb->name)) {
      if (listed.find(" FLOAT") == std::string::npos) continue;
      ++options;
      const std::string name = listed.substr(0, listed.find_first_of(", "));
      for (const char* value : {"nan", "-NaN", "inf", "-inf", "1e999"}) {
        const Ran ran = Run({verb->name, fmt::format("{}={}", name, value)}, false);
        EXPECT_EQ(ran.code, kUsage) << verb->name << " " << listed;
        const std::string says = fmt::format("{} {}: expected a finite number", name, value);
        EXPECT_NE(ran.log.find(says), std::string::npos) << says << "\n" << ran.log;
      }
    }
  }
  EXPECT_GT(options, 50);
}

TEST_F(CliOptions, SayWhatTheyExpect) {
  const auto verb_says = [&](std::vector<std::string> words, const std::string& option,
                             const std::string& value, const std::string& expected) {
    words.insert(words.end(), {option, value});
    const Ran ran = Run(words, false);
    EXPECT_EQ(ran.code, 2);
    const std::string sentence = fmt::format("{} {}: expected {}\n", option, value, expected);
    EXPECT_NE(ran.log.find(sentence), std::string::npos) << ran.log;
  };
  const auto says = [&](const char* option, const char* value, const char* expected) {
    verb_says({"bench", "no-such.etm"}, option, value, expected);
  };
  for (const char* value : {"0", "-3", "x", "64,128"})
    says("--prompt-length", value, "a number above 0");
  for (const char* value : {"-1", "1025", "two"}) says("--threads", value, "0 to 1024");
  says("--prompt-length", "1.5", "a whole number");
  says("--context", "1,x", "a whole number");
  for (const char* value : {"-5", "long"}) says("--duration-s", value, "0 or more");
  verb_says({"demo"}, "--seed", "x", "a whole number from 0 on");
  verb_says({"calibrate", "no-such.onnx", "-o", "no.ranges"}, "--percentile", "most", "a number");
}

}  // namespace
}  // namespace evoq
