// What generate and tokenize refuse before they load anything.
#include "cli/common.h"
#include "cli/tiny_testing.h"

namespace evoq {
namespace {

using GenerateOptionsTest = TinyModels;

TEST_F(GenerateOptionsTest, WhatDoesNotFitIsRefused) {
  const std::pair<std::vector<std::string>, const char*> cases[] = {
      {{"-n", "0"}, "--max-tokens 0, expected -1 or more than 0"},
      {{"-x"}, "no option -x\n"},
      {{"-n", "-1", "-c", "64", "--temp", "0.8", "-s", "-1", "-t", "1", "--ignore-eos", "-p", "b",
        "--logit-bias", "5"},
       "--logit-bias 5, expected TOKEN=NUMBER"},
      {{"--logit-bias", "5"}, "--logit-bias 5, expected TOKEN=NUMBER"},
      {{"--logit-bias", "1=2,3=4x"}, "--logit-bias 3=4x, expected TOKEN=NUMBER"},
      {{"--logit-bias", "x=1"}, "--logit-bias x=1, expected TOKEN=NUMBER"},
      {{"--logit-bias", "1=nan"}, "--logit-bias 1=nan, expected TOKEN=NUMBER"},
      {{"--beams", "2", "--length-penalty", "nan"}, "--length-penalty nan, expected a number"},
      {{"--beams", "2", "--length-penalty", "1.5x"}, "--length-penalty 1.5x, expected a number"},
      {{"--length-penalty", "2"}, "--length-penalty needs --beams"},
      {{"--grammar", "root ::= \"a\"", "--json-schema", "{}"},
       "one of --grammar, --grammar-file, --json-schema and --json-schema-file"},
      {{"--parallel", "2", "--draft", "d"}, "--draft takes one prompt at a time"},
      {{"--parallel", "2", "--beams", "2"}, "--beams takes one prompt at a time"},
      {{"--language", "en"}, "--language and --task are of --audio"},
      {{"--task", "translate"}, "--language and --task are of --audio"},
      {{"--audio", "a.wav"}, "--audio takes no prompt"},
      {{"--chat", "--plain"}, "--plain: the chat template says what stands around"},
      {{"--prompt-tokens", "1,2", "--source-language", "fr"},
       "--source-language and --target-language are of --prompt and --prompt-file"},
  };
  for (const auto& [words, part] : cases) {
    std::vector<std::string> all = {"generate", "none", "--prompt", "a"};
    all.insert(all.end(), words.begin(), words.end());
    const std::string said = Refused(all, kUsage);
    EXPECT_NE(said.find(part), std::string::npos) << said;
  }
  // What is of a text and not of a sound.
  for (const auto& [option, value] :
       {std::pair("--source-language", "fr"), {"--target-language", "fr"}, {"--chat", ""}}) {
    std::vector<std::string> all = {"generate", "none", "--audio", "a.wav", option};
    if (*value != '\0') all.push_back(value);
    const std::string said = Refused(all, kUsage);
    EXPECT_NE(said.find(option), std::string::npos) << said;
  }
}

TEST_F(GenerateOptionsTest, OfTokenize) {
  const std::string vocabulary = Text("t.vocab", "<unk>\t0\n<s>\t0\n</s>\t0\na\t-1\n"),
                    lines = Text("lines.txt", "\"a\"\n\"a\"\na\n");
  for (const std::vector<std::string>& more : {std::vector<std::string>{"a", "--lines", lines},
                                               {"a", "--chat", lines},
                                               {"--lines", lines, "--chat", lines}}) {
    std::vector<std::string> all = {"tokenize", vocabulary};
    all.insert(all.end(), more.begin(), more.end());
    const std::string said = Refused(all, kUsage);
    EXPECT_NE(said.find("expected one of a text, --lines and --chat"), std::string::npos) << said;
  }
  const std::string said = Refused({"tokenize", vocabulary, "--lines", lines}, kBadInput);
  EXPECT_NE(said.find(lines + ": line 3: "), std::string::npos) << said;
}

TEST(PhaseListsTest, APhaseTakesOneOfEach) {
  PhaseLists lists{.phase = "decode", .contexts = {7}, .sequences = {3}};
  const auto one = lists.One();
  ASSERT_TRUE(one) << one.error().message();
  EXPECT_EQ(one->options.context, 7);
  EXPECT_EQ(one->options.sequences, 3);
  for (const bool contexts : {true, false}) {
    PhaseLists two = lists;
    (contexts ? two.contexts : two.sequences).push_back(9);
    const auto refused = two.One();
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().message(),
              "--phase decode takes one --context and one number of --sequences");
    two.phase.clear();
    EXPECT_TRUE(two.One()) << "a table of both";
  }
}

}  // namespace
}  // namespace evoq
