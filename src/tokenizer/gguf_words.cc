// How GGUF files of byte pairs say that a text is split into words: by the name of a rule
// (tokenizer.ggml.pre). The patterns are those of the models' own tokenizers.
#include "tokenizer/gguf_words.h"

#include "tokenizer/steps.h"

namespace evoq {
namespace {

constexpr const char* kDigit = R"(\p{N})";
constexpr const char* kDigits = R"(\p{N}+)";
constexpr const char* kThreeDigits = R"(\p{N}{1,3})";
constexpr const char* kAsciiThree = "[0-9][0-9][0-9]";
constexpr const char* kLine = R"([\r\n])";

constexpr const char* kLlama3 =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d))"
    R"(|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr const char* kManyDigits =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d))"
    R"(|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}+| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr const char* kJais2 =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d))"
    R"(|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s{512}(?!\S))"
    R"(|\s{256}(?!\S)|\s{128}(?!\S)|\s{64}(?!\S)|\s{32}(?!\S)|\s{16}(?!\S)|\s{8}(?!\S))"
    R"(|\s{4}(?!\S)|\s{1,2}(?!\S)|\s{1})";
constexpr const char* kQwen35 =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d))"
    R"(|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*|\s*[\r\n]+)"
    R"(|\s+(?!\S)|\s+)";
constexpr const char* kNoContractions =
    R"([^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr const char* kSeedCoder =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d))"
    R"(|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}\r\n]+|\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr const char* kBailing =
    R"('(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]++[\r\n]*)"
    R"(|\s*[\r\n]|\s+(?!\S)|\s+)";
constexpr const char* kExaoneMoe =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d))"
    R"(|[^\r\n\p{L}\p{N}]?(?:\p{L}\p{M}*(?: \p{L}\p{M}*)*)+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]?)"
    R"(|\s*[\r\n]|\s+(?!\S)|\s+)";

// Words end where a small letter is before a capital one.
constexpr const char* kGpt4o =
    R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+)"
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)?|)"
    R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*)"
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)?)"
    R"(|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr const char* kTekken =
    R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+|)"
    R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*)"
    R"(|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr const char* kYoutu =
    R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+)"
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)?|)"
    R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*)"
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)?)"
    R"(|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr const char* kYoutuAsia =
    R"([\x{AC00}-\x{D7A3}\x{3131}-\x{318E}]+|[\x{FF01}\x{2026}\x{201C}\x{201D}\x{2018})"
    R"(\x{2019}\x{2014}\x{FF1A}\x{FF1B}\x{FF0C}\x{3001}-\x{303F}\x{FE30}-\x{FE4F}]+|[)"
    R"(\x{3105}-\x{312F}]+|[\x{4E00}-\x{9FA5}\x{3040}-\x{309F}\x{30A0}-\x{30FF}]+)";
// Han characters are words of their own.
constexpr const char* kKimi =
    R"(\p{Han}+|)"
    R"([^\r\n\p{L}\p{N}]?(?:(?!\p{Han})[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}])*)"
    R"((?:(?!\p{Han})[\p{Ll}\p{Lm}\p{Lo}\p{M}])+(?i:'s|'t|'re|'ve|'m|'ll|'d)?|)"
    R"([^\r\n\p{L}\p{N}]?(?:(?!\p{Han})[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}])+)"
    R"((?:(?!\p{Han})[\p{Ll}\p{Lm}\p{Lo}\p{M}])*(?i:'s|'t|'re|'ve|'m|'ll|'d)?)"
    R"(|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";

// Cased letters, of Unicode 13, without Georgian's small ones.
constexpr const char* kDeepSeekLetters =
    R"(\s?[)"
    R"(A-Za-z\x{B5}\x{C0}-\x{D6}\x{D8}-\x{F6}\x{F8}-\x{1BA}\x{1BC}-\x{1BF}\x{1C4}-\x{293})"
    R"(\x{295}-\x{2AF}\x{370}-\x{373}\x{376}\x{377}\x{37B}-\x{37D}\x{37F}\x{386})"
    R"(\x{388}-\x{38A}\x{38C}\x{38E}-\x{3A1}\x{3A3}-\x{3F5}\x{3F7}-\x{481}\x{48A}-\x{52F})"
    R"(\x{531}-\x{556}\x{10A0}-\x{10C5}\x{13A0}-\x{13F5}\x{13F8}-\x{13FD})"
    R"(\x{1C90}-\x{1CBA}\x{1CBD}-\x{1CBF}\x{1D00}-\x{1D2B}\x{1D6B}-\x{1D77})"
    R"(\x{1D79}-\x{1D9A}\x{1E00}-\x{1F15}\x{1F18}-\x{1F1D}\x{1F20}-\x{1F45})"
    R"(\x{1F48}-\x{1F4D}\x{1F50}-\x{1F57}\x{1F59}\x{1F5B}\x{1F5D}\x{1F5F}-\x{1F7D})"
    R"(\x{1F80}-\x{1FB4}\x{1FB6}-\x{1FBC}\x{1FBE}\x{1FC2}-\x{1FC4}\x{1FC6}-\x{1FCC})"
    R"(\x{1FD0}-\x{1FD3}\x{1FD6}-\x{1FDB}\x{1FE0}-\x{1FEC}\x{1FF2}-\x{1FF4})"
    R"(\x{1FF6}-\x{1FFC}\x{2102}\x{2107}\x{210A}-\x{2113}\x{2115}\x{2119}-\x{211D})"
    R"(\x{2124}\x{2126}\x{2128}\x{212A}-\x{212D}\x{212F}-\x{2134}\x{2139})"
    R"(\x{213C}-\x{213F}\x{2145}-\x{2149}\x{214E}\x{2183}\x{2184}\x{2C00}-\x{2C7B})"
    R"(\x{2C7E}-\x{2CE4}\x{2CEB}-\x{2CEE}\x{2CF2}\x{2CF3}\x{A640}-\x{A66D})"
    R"(\x{A680}-\x{A69B}\x{A722}-\x{A76F}\x{A771}-\x{A787}\x{A78B}-\x{A78E})"
    R"(\x{AB70}-\x{ABBF}\x{FB00}-\x{FB06}\x{FB13}-\x{FB17}\x{FF21}-\x{FF3A})"
    R"(\x{FF41}-\x{FF5A}\x{10400}-\x{1044F}\x{104B0}-\x{104D3}\x{104D8}-\x{104FB})"
    R"(\x{10C80}-\x{10CB2}\x{10CC0}-\x{10CF2}\x{118A0}-\x{118DF}\x{1E900}-\x{1E943})"
    R"(]+)";
constexpr const char* kDeepSeekMarks =
    R"(\s?[!-/:-~\x{FF01}-\x{FF0F}\x{FF1A}-\x{FF5E}\x{2018}-\x{201F}\x{3000}-\x{3002}]+)";
constexpr const char* kDeepSeekAsia = R"([\x{4E00}-\x{9FA5}\x{800}-\x{4E00}\x{AC00}-\x{D7FF}]+)";
constexpr const char* kKana = R"([\x{4E00}-\x{9FA5}\x{3040}-\x{309F}\x{30A0}-\x{30FF}]+)";
constexpr const char* kDeepSeek3 =
    R"([!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+)"
    R"(| ?[\p{P}\p{S}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr const char* kBloom =
    R"( ?[^(\s|.,!?\x{2026}\x{3002}\x{FF0C}\x{3001}\x{964}\x{6D4}\x{60C})]+)";

constexpr GgufWords kGpt2Words = {{kGpt2Pattern}};
constexpr GgufWords kGpt2Digits = {{kDigit, kGpt2Pattern}};
constexpr GgufWords kLlama3Words = {{kLlama3}, /*whole_words=*/true, /*begin=*/true};
constexpr GgufWords kLlama3Pieces = {{kLlama3}};
constexpr GgufWords kGlmWords = {{kLlama3}, false, false, /*never_begin=*/true};
constexpr GgufWords kQwen2Words = {{kQwen2Pattern}};
constexpr GgufWords kQwen35Words = {{kQwen35}};
constexpr GgufWords kGpt4oWords = {{kGpt4o}};
constexpr GgufWords kTekkenWords = {{kTekken}, /*whole_words=*/true, /*begin=*/true};
constexpr GgufWords kYoutuWords = {{kYoutuAsia, kYoutu}, /*whole_words=*/true};
constexpr GgufWords kKimiWords = {{kKimi}};
constexpr GgufWords kDeepSeekWords = {
    {kLine, kDeepSeekLetters, kDeepSeekMarks, R"(\s+$)", kDeepSeekAsia, kDigits}};
constexpr GgufWords kDeepSeekCoder = {
    {kLine, R"(\s?\p{L}+)", R"(\s?\p{P}+)", kDeepSeekAsia, kDigit}};
constexpr GgufWords kDeepSeek3Words = {{kThreeDigits, kKana, kDeepSeek3}};
constexpr GgufWords kBloomWords = {{kBloom}};
constexpr GgufWords kVikingWords = {{kBloom, kDigit}};
constexpr GgufWords kFalconWords = {{R"([\p{P}\$\+<=>\^~\|`]+)", kGpt2Pattern, kAsciiThree}};
constexpr GgufWords kDefaultWords = {
    {R"([\p{P}\$\+<=>\^~\|]+)", kGpt2Pattern, kDigits, kAsciiThree}};
constexpr GgufWords kSuperWords = {{kDigits, R"(\d{1,3}(?=(?:\d{3})*(?!\d)))"}};
constexpr GgufWords kBailingWords = {{kBailing}};
constexpr GgufWords kSeedWords = {{kSeedCoder}};
constexpr GgufWords kExaoneMoeWords = {{kExaoneMoe}};
constexpr GgufWords kJais2Words = {{kJais2}};
constexpr GgufWords kMiniCpm5Words = {{kThreeDigits, kManyDigits}, /*whole_words=*/true};
constexpr GgufWords kLagunaWords = {{R"([^\n]+|\n+)", kQwen2Pattern}};
constexpr GgufWords kNoContractionWords = {{kNoContractions}};
constexpr GgufWords kAyaWords = {{R"(\d{1,3}(?=(?:\d{3})*\b))", kGpt4o}};

struct Row {
  const char* name;
  const GgufWords* words;
};
constexpr Row kRows[] = {
    {"default", &kDefaultWords},
    {"gpt-2", &kGpt2Words},
    {"phi-2", &kGpt2Words},
    {"mpt", &kGpt2Words},
    {"olmo", &kGpt2Words},
    {"jais", &kGpt2Words},
    {"trillion", &kGpt2Words},
    {"granite-docling", &kGpt2Words},
    {"jina-v1-en", &kGpt2Words},
    {"jina-v2-code", &kGpt2Words},
    {"jina-v2-es", &kGpt2Words},
    {"jina-v2-de", &kGpt2Words},
    {"jina-es", &kGpt2Words},
    {"jina-de", &kGpt2Words},
    {"gigachat", &kGpt2Words},
    {"a.x-4.0", &kGpt2Words},
    {"mellum", &kGpt2Words},
    {"modern-bert", &kGpt2Words},
    {"exaone4", &kGpt2Words},
    {"roberta-bpe", &kGpt2Words},
    {"smollm", &kGpt2Digits},
    {"starcoder", &kGpt2Digits},
    {"refact", &kGpt2Digits},
    {"command-r", &kGpt2Digits},
    {"codeshell", &kGpt2Digits},
    {"exaone", &kGpt2Digits},
    {"minerva-7b", &kGpt2Digits},
    {"mellum2", &kGpt2Digits},
    {"llama-bpe", &kLlama3Words},
    {"llama3", &kLlama3Words},
    {"llama-v3", &kLlama3Words},
    {"falcon3", &kLlama3Words},
    {"falcon-h1", &kLlama3Words},
    {"pixtral", &kLlama3Words},
    {"midm-2.0", &kLlama3Words},
    {"lfm2", &kLlama3Words},
    {"jina-v5-nano", &kLlama3Words},
    {"dbrx", &kLlama3Pieces},
    {"smaug-bpe", &kLlama3Pieces},
    {"glm4", &kGlmWords},
    {"chatglm-bpe", &kGlmWords},
    {"qwen2", &kQwen2Words},
    {"deepseek-r1-qwen", &kQwen2Words},
    {"stablelm2", &kQwen2Words},
    {"hunyuan", &kQwen2Words},
    {"solar-open", &kQwen2Words},
    {"kormo", &kQwen2Words},
    {"f2llmv2", &kQwen2Words},
    {"megrez", &kQwen2Words},
    {"grok-2", &kQwen2Words},
    {"qwen35", &kQwen35Words},
    {"gpt-4o", &kGpt4oWords},
    {"llama4", &kGpt4oWords},
    {"kanana2", &kGpt4oWords},
    {"talkie", &kGpt4oWords},
    {"minimax-m2", &kGpt4oWords},
    {"tekken", &kTekkenWords},
    {"youtu", &kYoutuWords},
    {"kimi-k2", &kKimiWords},
    {"deepseek-llm", &kDeepSeekWords},
    {"deepseek-coder", &kDeepSeekCoder},
    {"deepseek-v3", &kDeepSeek3Words},
    {"hunyuan-dense", &kDeepSeek3Words},
    {"joyai-llm", &kDeepSeek3Words},
    {"bloom", &kBloomWords},
    {"gpt3-finnish", &kBloomWords},
    {"poro-chat", &kBloomWords},
    {"viking", &kVikingWords},
    {"falcon", &kFalconWords},
    {"superbpe", &kSuperWords},
    {"bailingmoe", &kBailingWords},
    {"bailingmoe2", &kBailingWords},
    {"llada-moe", &kBailingWords},
    {"seed-coder", &kSeedWords},
    {"exaone-moe", &kExaoneMoeWords},
    {"jais-2", &kJais2Words},
    {"minicpm5", &kMiniCpm5Words},
    {"laguna", &kLagunaWords},
    {"ufakzeka", &kNoContractionWords},
    {"tiny_aya", &kAyaWords},
    {"cohere2moe", &kAyaWords},
};

}  // namespace

const GgufWords* FindGgufWords(std::string_view name) {
  for (const Row& row : kRows) {
    if (name == row.name) return row.words;
  }
  return nullptr;
}

std::string GgufWordsNames() {
  std::string names;
  for (const Row& row : kRows) {
    if (!names.empty()) names += ", ";
    names += row.name;
  }
  return names;
}

}  // namespace evoq
