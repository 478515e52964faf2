#include "tokenizer/pair.h"

#include <gtest/gtest.h>

namespace evoq {
namespace {

// "2:0 A:0 3:0 B:1": pieces and texts, with their types; or the message.
std::string Shown(const std::string& processor) {
  const auto pair = ReadPairTemplate(R"({"post_processor": )" + processor + "}");
  if (!pair) return pair.error().message();
  std::string text;
  for (const PairTemplate::Part& part : pair->parts) {
    const std::string what = part.kind == PairTemplate::Kind::kPiece   ? std::to_string(part.piece)
                             : part.kind == PairTemplate::Kind::kFirst ? "A"
                                                                       : "B";
    text += fmt::format("{}{}:{}", text.empty() ? "" : " ", what, part.type);
  }
  return text;
}

TEST(PairTemplate, OfEachProcessor) {
  const std::string pieces = R"("special_tokens": {"[CLS]": {"id": "[CLS]", "ids": [2]},
                                                   "[SEP]": {"id": "[SEP]", "ids": [3]}})";
  const std::string bert = R"({"type": "TemplateProcessing", "pair": [
      {"SpecialToken": {"id": "[CLS]", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}},
      {"SpecialToken": {"id": "[SEP]", "type_id": 0}}, {"Sequence": {"id": "B", "type_id": 1}},
      {"SpecialToken": {"id": "[SEP]", "type_id": 1}}], )" +
                           pieces + "}";
  EXPECT_EQ(Shown(bert), "2:0 A:0 3:0 B:1 3:1");
  EXPECT_EQ(Shown(R"({"type": "Sequence", "processors": [{"type": "ByteLevel"}, )" + bert + "]}"),
            "2:0 A:0 3:0 B:1 3:1");
  EXPECT_EQ(Shown(R"({"type": "BertProcessing", "sep": ["[SEP]", 3], "cls": ["[CLS]", 2]})"),
            "2:0 A:0 3:0 B:1 3:1");
  EXPECT_EQ(Shown(R"({"type": "RobertaProcessing", "sep": ["</s>", 2], "cls": ["<s>", 0]})"),
            "0:0 A:0 2:0 2:0 B:0 2:0");
}

TEST(PairTemplate, Refuses) {
  const std::string nothing = "the tokenizer does not say how two texts stand together";
  EXPECT_EQ(Shown("null"), nothing);
  EXPECT_EQ(Shown("[]"), nothing);
  EXPECT_EQ(Shown(R"({"type": "ByteLevel"})"), nothing);
  EXPECT_EQ(Shown(R"({"type": "TemplateProcessing", "pair": [{"Sequence": {"id": "A"}}]})"),
            nothing);
  EXPECT_EQ(Shown(R"({"type": "TemplateProcessing", "pair": [{"SpecialToken": {"id": "x"}}]})"),
            "post_processor: special token 'x' is no piece");
  EXPECT_EQ(Shown(R"({"type": "TemplateProcessing", "pair": [3]})"),
            "post_processor: pair holds 3");
  EXPECT_EQ(Shown(R"({"type": "BertProcessing", "sep": ["[SEP]", -3], "cls": ["[CLS]", 2]})"),
            "post_processor: sep is -3, expected a number");
  EXPECT_EQ(Shown(R"({"type": "BertProcessing", "cls": ["[CLS]", 2]})"),
            "post_processor: sep is no piece");
}

}  // namespace
}  // namespace evoq
