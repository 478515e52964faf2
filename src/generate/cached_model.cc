#include "generate/cached_model.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <set>

#include "base/crc32c.h"
#include "base/math.h"
#include "base/memory.h"
#include "base/stopwatch.h"
#include "base/text.h"
#include "generate/cached_form.h"
#include "llm/cache_type.h"
#include "llm/facts.h"
#include "models/models.h"

namespace evoq {
namespace {

constexpr char kTokens[] = "input_ids", kPlace[] = "position", kWanted[] = "logits_at",
               kLogits[] = "logits", kPast[] = "past_", kPresent[] = "present_",
               kSource[] = "source_ids", kSourceFeatures[] = "source_features",
               kSourceLength[] = "source_length", kPastCross[] = "past_cross_";

std::optional<size_t> IndexOf(const Graph& graph, const std::vector<ValueId>& values,
                              std::string_view name) {
  for (size_t i = 0; i < values.size(); ++i) {
    if (graph.value(values[i]).name == name) return i;
  }
  return std::nullopt;
}

// Slot `slot` of a cache: one of its blocks of equal bytes.
std::byte* SlotOf(Tensor& cache, int64_t slot) {
  return cache.mutable_raw() + static_cast<int64_t>(cache.bytes()) / cache.shape()[0].value * slot;
}

// A run reads all weights, which takes as long as multiplying about so many rows.
constexpr int64_t kRowsOfARun = 16;

int64_t RoundedUp(int64_t tokens) { return static_cast<int64_t>(std::bit_ceil(uint64_t(tokens))); }
int64_t RoundedDown(int64_t tokens) {
  return static_cast<int64_t>(std::bit_floor(uint64_t(tokens)));
}

// What running so many tokens takes, in rows: all at once, padded, or in pieces.
int64_t RowsFor(int64_t tokens) {
  const int64_t down = RoundedDown(tokens);
  if (down == tokens) return kRowsOfARun + tokens;
  return kRowsOfARun + std::min(RoundedUp(tokens), down + RowsFor(tokens - down));
}

// How many tokens the next run takes, of so many that are left; at most `room`, which is that many
// or more. More than are left: the rest is padding.
int64_t ChunkFor(int64_t tokens, int64_t room) {
  if (tokens >= CachedModel::kMaxChunk) return CachedModel::kMaxChunk;
  const int64_t up = RoundedUp(tokens), down = RoundedDown(tokens);
  return up == down || (up <= room && up + kRowsOfARun == RowsFor(tokens)) ? up : down;
}

// The length of a run over a source of so many tokens, which must come whole: one of few sizes, the
// rest is padding.
int64_t SourceRun(int64_t tokens, int64_t room) {
  constexpr int64_t kLeastStep = 4, kStepsOfARange = 8;
  const int64_t step = std::max(kLeastStep, RoundedUp(tokens) / kStepsOfARange);
  return std::min(RoundUp(tokens, step), room);
}

// Of the inputs' types and the beginning of every constant.
uint32_t MarkOf(const Graph& graph) {
  std::vector<std::byte> bytes;
  const auto add = [&](const void* data, size_t size) {
    const auto* from = static_cast<const std::byte*>(data);
    bytes.insert(bytes.end(), from, from + size);
  };
  for (ValueId id : graph.inputs()) {
    const std::string text = graph.value(id).name + graph.value(id).type.ToString();
    add(text.data(), text.size());
  }
  for (int i = 0; i < graph.value_count(); ++i) {
    const Tensor& constant = graph.value(ValueId{i}).constant;
    if (constant.defined() && constant.bytes() > 0)
      add(constant.raw(), std::min<size_t>(constant.bytes(), 256));
  }
  return Crc32c(bytes);
}

}  // namespace

Result<std::unique_ptr<CachedModel>> CachedModel::Load(const std::string& path,
                                                       const CacheOptions& options) {
  EVOQ_TRY(ParseCacheType(options.type));  // before a large model is loaded
  EVOQ_ASSIGN(std::unique_ptr<Engine> engine, LoadEngine(path, {.threads = options.threads}));
  return Of(std::move(engine), options, path);
}

Result<std::unique_ptr<CachedModel>> CachedModel::Of(std::unique_ptr<Engine> engine,
                                                     const CacheOptions& options,
                                                     const std::string& path) {
  EVOQ_ASSIGN(engine,
              InCachedForm(std::move(engine), path.empty() ? "the model" : path, options.type));
  std::unique_ptr<CachedModel> model(
      new CachedModel(std::move(engine), path.empty() ? "the model" : path));
  model->mark_ = MarkOf(model->graph());
  EVOQ_TRY(model->FindValues());
  EVOQ_TRY(model->AllocateCaches(options));
  return model;
}

Status CachedModel::FindValues() {
  const Graph& graph = this->graph();
  if (IsTextEncoder(graph))
    return Unsupported("{}: it makes vectors of texts and writes none", path_);
  const auto find = [&](const std::vector<ValueId>& values, const char* kind, const char* name,
                        DType dtype, int rank, size_t& index) -> Status {
    const auto found = IndexOf(graph, values, name);
    if (!found)
      return Unsupported("{}: no language model with caches: it has no {} '{}'", path_, kind, name);
    const TensorType& type = graph.value(values[*found]).type;
    if (type.dtype != dtype || type.quantized() || !type.shape.ranked() ||
        type.shape.rank() != rank)
      return Unsupported("{}: {} '{}' is {}, expected {} of {} axes", path_, kind, name,
                         type.ToString(), DTypeName(dtype), rank);
    index = *found;
    return {};
  };
  EVOQ_TRY(find(graph.inputs(), "input", kTokens, DType::kInt64, 2, tokens_input_));
  EVOQ_TRY(find(graph.inputs(), "input", kPlace, DType::kInt64, 1, place_input_));
  EVOQ_TRY(find(graph.inputs(), "input", kWanted, DType::kInt64, 2, wanted_input_));
  const auto logits = IndexOf(graph, graph.outputs(), kLogits);
  if (!logits)
    return Unsupported("{}: no language model with caches: it has no output '{}'", path_, kLogits);
  logits_output_ = *logits;
  // Its type may be known with the first sizes only.
  if (IsLanguageModel(graph)) {
    EVOQ_ASSIGN(const LanguageModelFacts facts, WithContext(ReadFacts(graph), path_));
    vocabulary_ = facts.vocabulary;
    made_for_ = facts.context;
    EVOQ_ASSIGN(target_, WithContext(ReadTargetFacts(graph, vocabulary_), path_));
  } else if (const TensorType& type = graph.value(graph.outputs()[logits_output_]).type;
             type.shape.ranked() && type.shape.rank() == 3 && type.shape[2].known()) {
    vocabulary_ = type.shape[2].value;
  }
  if (vocabulary_ < 1) return Unsupported("{}: how many tokens it knows is not known", path_);
  std::set<size_t> known = {tokens_input_, place_input_, wanted_input_};
  if (reads()) {
    EVOQ_TRY(target_.hears()
                 ? find(graph.inputs(), "input", kSourceFeatures, DType::kFloat32, 3, source_input_)
                 : find(graph.inputs(), "input", kSource, DType::kInt64, 2, source_input_));
    EVOQ_TRY(find(graph.inputs(), "input", kSourceLength, DType::kInt64, 1, source_length_input_));
    known.insert({source_input_, source_length_input_});
  }
  for (size_t i = 0; i < graph.inputs().size(); ++i) {
    if (known.contains(i)) continue;
    const Value& input = graph.value(graph.inputs()[i]);
    if (!input.name.starts_with(kPast) || input.type.quantized() || !input.type.shape.ranked() ||
        input.type.shape.rank() != 4 || !input.type.shape[1].known() ||
        !input.type.shape[3].known())
      return Unsupported(
          "{}: input '{}' is {}, expected a cache '{}...' of [batch, heads, context, "
          "head size]",
          path_, input.name, input.type.ToString(), kPast);
    const std::string name = kPresent + input.name.substr(sizeof(kPast) - 1);
    const auto output = IndexOf(graph, graph.outputs(), name);
    if (!output)
      return Unsupported("{}: no language model with caches: it has no output '{}'", path_, name);
    caches_.push_back({i, *output, Tensor(), reads() && input.name.starts_with(kPastCross)});
  }
  if (caches_.size() + 1 != graph.outputs().size())
    return Unsupported("{}: {} outputs, expected logits and {} caches", path_,
                       graph.outputs().size(), caches_.size());
  return {};
}

Status CachedModel::AllocateCaches(const CacheOptions& options) {
  const Graph& graph = this->graph();
  if (options.slots < 1 || options.slots > kMaxSlots)
    return Fail(ErrorCode::kUsage, "{} sequences, expected 1 to {}", options.slots, kMaxSlots);
  const int64_t most = made_for_ > 0 ? std::min(kMaxContext, made_for_) : kMaxContext;
  constexpr int64_t kUsual = 4096, kUsualOfReaders = 1024;
  const int64_t usual = reads() ? kUsualOfReaders : kUsual;
  context_ = options.context > 0 ? options.context : std::min(most, usual);
  if (context_ > most)
    return Fail(ErrorCode::kUsage, "{}: a context of {} tokens, expected at most {}", path_,
                context_, most);
  // What is heard comes whole, however long the text may be.
  const int64_t read = options.context > 0 ? options.context : usual;
  source_context_ =
      target_.hears() ? target_.source_context : std::min(target_.source_context, read);
  std::vector<TensorType> types;
  int64_t all = 0;
  for (const Cache& cache : caches_) {
    const TensorType& type = graph.value(graph.inputs()[cache.input]).type;
    const Dim& fixed = type.shape[2];
    int64_t& room = cache.of_source ? source_context_ : context_;
    if (fixed.known() && options.context > 0 && fixed.value != room)
      return Fail(ErrorCode::kUsage, "{}: its caches hold {} tokens, not {}", path_, fixed.value,
                  room);
    if (fixed.known()) room = fixed.value;
    types.emplace_back(type.dtype,
                       Shape{options.slots, type.shape[1].value, room, type.shape[3].value});
    const auto bytes = types.back().bytes();
    if (!bytes || *bytes < 1 || *bytes > INT64_MAX - all)
      return Fail(ErrorCode::kTooLarge, "{}: a cache of {}", path_, types.back().ToString());
    all += *bytes;
  }
  if (const int64_t limit = MemoryLimitBytes(); all > limit)
    return Fail(ErrorCode::kTooLarge,
                "{}: caches of {} tokens for {} sequences take {}, and the machine has {} "
                "(--context, --parallel)",
                path_, context_, options.slots, HumanBytes(all), HumanBytes(limit));
  std::vector<Tensor> memory = Tensor::AllocateTogether(types);
  for (size_t i = 0; i < caches_.size(); ++i) caches_[i].memory = std::move(memory[i]);
  lengths_.assign(static_cast<size_t>(options.slots), 0);
  source_lengths_ = lengths_;
  source_.reserve(1);
  return {};
}

int64_t CachedModel::cache_bytes() const {
  int64_t bytes = 0;
  for (const Cache& cache : caches_) bytes += static_cast<int64_t>(cache.memory.bytes());
  return bytes;
}

void CachedModel::Truncate(int64_t slot, int64_t length) {
  EVOQ_CHECK(length >= 0 && length <= this->length(slot), "{} of {}", length, this->length(slot));
  lengths_[static_cast<size_t>(slot)] = length;
}

template <typename Move>
void CachedModel::EachHead(bool of_source, int64_t a, int64_t b, int64_t length, const Move& move) {
  for (Cache& cache : caches_) {
    if (cache.of_source != of_source) continue;
    const std::vector<int64_t> sizes = cache.memory.sizes();
    const int64_t head = static_cast<int64_t>(cache.memory.bytes()) / sizes[0] / sizes[1];
    const auto bytes = static_cast<size_t>(head / sizes[2] * length);
    for (int64_t i = 0; i < sizes[1]; ++i)
      move(std::span(SlotOf(cache.memory, a) + i * head, bytes),
           std::span(SlotOf(cache.memory, b) + i * head, bytes));
  }
}

void CachedModel::ExchangeTokens(int64_t a, int64_t b) {
  EachHead(false, a, b, std::max(length(a), length(b)),
           [](auto one, auto other) { std::ranges::swap_ranges(one, other); });
  std::swap(lengths_[static_cast<size_t>(a)], lengths_[static_cast<size_t>(b)]);
}

void CachedModel::Exchange(int64_t a, int64_t b) {
  if (a == b) return;
  ExchangeTokens(a, b);
  int64_t &one = source_lengths_[static_cast<size_t>(a)],
          &other = source_lengths_[static_cast<size_t>(b)];
  EachHead(true, a, b, std::max(one, other),
           [](auto x, auto y) { std::ranges::swap_ranges(x, y); });
  std::swap(one, other);
}

void CachedModel::Copy(int64_t from, int64_t to, int64_t length) {
  EVOQ_CHECK(from != to && length <= this->length(from), "{} of {}", length, this->length(from));
  EachHead(false, from, to, length,
           [](auto one, auto other) { std::ranges::copy(one, other.begin()); });
  lengths_[static_cast<size_t>(to)] = length;
}

void CachedModel::CopySource(int64_t from, int64_t to) {
  const int64_t source = source_lengths_[static_cast<size_t>(from)];
  EachHead(true, from, to, source,
           [](auto one, auto other) { std::ranges::copy(one, other.begin()); });
  source_lengths_[static_cast<size_t>(to)] = source;
  lengths_[static_cast<size_t>(to)] = 0;
}

void CachedModel::Reorder(std::span<const int64_t> parents) {
  std::vector<int64_t> from(parents.begin(), parents.end());
  const auto count = std::ssize(from);
  std::vector<int64_t> readers(from.size(), 0);  // of what a slot holds, other slots
  for (int64_t i = 0; i < count; ++i) {
    EVOQ_CHECK(from[i] >= 0 && from[i] < count, "slot {} of {}", from[i], count);
    if (from[i] != i) ++readers[static_cast<size_t>(from[i])];
  }
  std::vector<int64_t> free;  // slots that nobody reads and that are to be written
  for (int64_t i = 0; i < count; ++i) {
    if (from[i] != i && readers[static_cast<size_t>(i)] == 0) free.push_back(i);
  }
  while (!free.empty()) {
    const int64_t to = free.back(), source = from[to];
    free.pop_back();
    Copy(source, to, length(source));
    from[to] = to;
    if (--readers[static_cast<size_t>(source)] == 0 && from[source] != source)
      free.push_back(source);
  }
  // What is left are rings.
  for (int64_t i = 0; i < count; ++i) {
    const int64_t other = from[i];
    if (other == i) continue;
    ExchangeTokens(i, other);
    // i holds what it was to get, and the other slot what i held.
    from[i] = i;
    std::ranges::replace(from.begin() + i + 1, from.end(), i, other);
  }
}

Result<CachedModel::Prepared*> CachedModel::For(const Sizes& sizes) {
  const auto& [count, length, wanted, source] = sizes;
  for (const auto& p : prepared_) {
    if (p->sizes == sizes) return p.get();
  }
  const Graph& graph = this->graph();
  const auto name = [&](size_t input) { return graph.value(graph.inputs()[input]).name; };
  InputShapes shapes = {{name(tokens_input_), {count, length}},
                        {name(place_input_), {count}},
                        {name(wanted_input_), {count, wanted}}};
  if (reads()) {
    shapes[name(source_input_)] = {count, source};
    if (target_.hears()) shapes[name(source_input_)].push_back(target_.audio.bins);
    shapes[name(source_length_input_)] = {count};
  }
  for (const Cache& cache : caches_) {
    std::vector<int64_t> memory = cache.memory.sizes();
    memory[0] = count;
    shapes[name(cache.input)] = std::move(memory);
  }
  EVOQ_ASSIGN(std::shared_ptr<Executor> executor, engine_->At(shapes));
  const TensorType logits(DType::kFloat32, Shape{count, wanted, vocabulary_});
  if (!(executor->output_types()[logits_output_] == logits))
    return Unsupported("{}: output '{}' is {}, expected {}", path_, kLogits,
                       executor->output_types()[logits_output_].ToString(), logits.ToString());
  for (const Cache& cache : caches_) {
    if (!(executor->output_types()[cache.output] == executor->input_types()[cache.input]) ||
        executor->shared_input(cache.output) != static_cast<int>(cache.input))
      return Unsupported("{}: output '{}' is no cache that is extended in place", path_,
                         graph.value(graph.outputs()[cache.output]).name);
  }
  if (prepared_.size() == Engine::kMaxExecutors) prepared_.erase(prepared_.begin());
  auto prepared = std::make_unique<Prepared>();
  prepared->sizes = sizes;
  prepared->executor = std::move(executor);
  prepared->inputs.resize(graph.inputs().size());
  prepared->outputs.resize(graph.outputs().size());
  prepared_.push_back(std::move(prepared));
  return prepared_.back().get();
}

Status CachedModel::CheckTokens(std::span<const int64_t> tokens) const {
  if (tokens.empty()) return Fail(ErrorCode::kUsage, "no tokens");
  for (const int64_t token : tokens) {
    if (token < 0 || token >= vocabulary_)
      return Fail(ErrorCode::kUsage, "token {}, expected 0 to {}", token, vocabulary_ - 1);
  }
  return {};
}

Status CachedModel::Run(int64_t first, const Sizes& sizes, int64_t row) {
  const Stopwatch watch;
  EVOQ_ASSIGN(Prepared* const run, For(sizes));
  const auto bytes = [](auto& values) { return reinterpret_cast<std::byte*>(values.data()); };
  run->inputs[tokens_input_] = bytes(tokens_);
  run->inputs[place_input_] = bytes(places_);
  run->inputs[wanted_input_] = bytes(wanted_);
  if (reads()) {
    run->inputs[source_input_] =
        sizes.source > 0 && heard_ != nullptr ? heard_->raw() : bytes(source_);
    run->inputs[source_length_input_] =
        reinterpret_cast<const std::byte*>(source_lengths_.data() + first);
  }
  run->outputs[logits_output_] = reinterpret_cast<std::byte*>(logits_.data() + row * vocabulary_);
  for (Cache& cache : caches_) {
    std::byte* const memory = SlotOf(cache.memory, first);
    run->inputs[cache.input] = memory;
    run->outputs[cache.output] = memory;
  }
  EVOQ_TRY(engine_->RunOn(*run->executor, run->inputs, run->outputs));
  run_ms_ += watch.ms();
  return {};
}

Result<std::span<const float>> CachedModel::Append(int64_t slot, std::span<const int64_t> tokens,
                                                   int64_t wanted) {
  EVOQ_TRY(CheckTokens(tokens));
  const int64_t before = length(slot), all = static_cast<int64_t>(tokens.size());
  if (all > context_ - before)
    return Fail(ErrorCode::kUsage,
                "the context is full: {} tokens and {} more, expected at most {}", before, all,
                context_);
  EVOQ_CHECK(wanted >= 1 && wanted <= all, "{} of {}", wanted, all);
  logits_.resize(static_cast<size_t>(wanted * vocabulary_));
  int64_t& at = lengths_[static_cast<size_t>(slot)];
  for (int64_t done = 0; done < all;) {
    const int64_t chunk = ChunkFor(all - done, context_ - at), real = std::min(chunk, all - done);
    // What is wanted of this run's tokens, and its row among all that is; a run gives one row at
    // least, which the next one overwrites where it was not wanted.
    const int64_t last = done + real, unwanted = all - wanted;
    const int64_t rows = std::clamp<int64_t>(last - unwanted, 1, real);
    const int64_t row = std::max<int64_t>(0, last - rows - unwanted);
    tokens_.assign(tokens.begin() + done, tokens.begin() + last);
    tokens_.resize(static_cast<size_t>(chunk), tokens_.back());
    places_.assign(1, at);
    wanted_.resize(static_cast<size_t>(rows));
    for (int64_t i = 0; i < rows; ++i) wanted_[static_cast<size_t>(i)] = real - rows + i;
    if (Status ran = Run(slot, {1, chunk, rows}, row); !ran) {
      at = before;
      return tl::unexpected(ran.error());
    }
    done = last;
    at += real;
  }
  return std::span<const float>(logits_);
}

Status CachedModel::CheckSource(const Source& source) const {
  if (!reads()) return Fail(ErrorCode::kUsage, "{}: it reads no other text", path_);
  if (target_.hears()) {
    if (source.sound == nullptr || !source.tokens.empty())
      return Fail(ErrorCode::kUsage, "{}: it hears a sound and reads no text (--audio)", path_);
    const TensorType& type = source.sound->type();
    const bool fits = type.dtype == DType::kFloat32 && type.shape.rank() == 2 &&
                      type.shape[0].value > 0 && type.shape[0].value % 2 == 0 &&
                      type.shape[0].value <= 2 * source_context_ &&
                      type.shape[1].value == target_.audio.bins;
    if (fits) return {};
    return Fail(ErrorCode::kUsage,
                "features {}, expected an even number of at most {} frames of {}", type.ToString(),
                2 * source_context_, target_.audio.bins);
  }
  if (source.sound != nullptr)
    return Fail(ErrorCode::kUsage, "{}: it reads a text and hears nothing", path_);
  if (source.tokens.empty()) return Fail(ErrorCode::kUsage, "a text of no tokens");
  if (std::ssize(source.tokens) > source_context_)
    return Fail(ErrorCode::kUsage, "a text of {} tokens to read, expected at most {}",
                source.tokens.size(), source_context_);
  for (const int64_t token : source.tokens) {
    if (token < 0 || token >= target_.source_vocabulary)
      return Fail(ErrorCode::kUsage, "token {}, expected 0 to {}", token,
                  target_.source_vocabulary - 1);
  }
  return {};
}

Status CachedModel::Encode(int64_t slot, const Source& source) {
  EVOQ_TRY(CheckSource(source));
  int64_t& held = source_lengths_[static_cast<size_t>(slot)];
  lengths_[static_cast<size_t>(slot)] = held = 0;
  Sizes sizes;
  if (source.sound != nullptr) {
    sizes.source = source.sound->sizes()[0];
  } else {
    sizes.source = SourceRun(std::ssize(source.tokens), source_context_);
    source_.assign(source.tokens.begin(), source.tokens.end());
    source_.resize(static_cast<size_t>(sizes.source), source.tokens.back());
  }
  heard_ = source.sound;
  // Of no tokens, but somewhere.
  tokens_.assign(1, 0);
  wanted_.assign(1, 0);
  places_.assign(1, 0);
  logits_.resize(static_cast<size_t>(vocabulary_));
  held = source.sound != nullptr ? sizes.source / 2 : std::ssize(source.tokens);
  const Status ran = Run(slot, sizes, 0);
  heard_ = nullptr;
  if (!ran) held = 0;
  return ran;
}

Source CachedModel::MadeUpSource(int64_t tokens) const {
  Source source;
  if (target_.hears()) {
    Tensor sound = Tensor::Allocate(TensorType(
        DType::kFloat32, Shape{2 * std::min(tokens, source_context_), target_.audio.bins}));
    std::fill_n(sound.mutable_data<float>(), sound.elements(), 0.0f);
    source.sound = std::make_shared<const Tensor>(std::move(sound));
  } else {
    for (int64_t i = 0; i < tokens; ++i)
      source.tokens.push_back(i * 7919 % target_.source_vocabulary);
  }
  return source;
}

// Few sizes of batches are prepared: others are filled with slots behind, whose sequences get a
// token behind their end, where it counts for nothing.
int64_t CachedModel::Filled(int64_t first, int64_t count) const {
  const int64_t filled = RoundedUp(count);
  if (first + filled > slots()) return count;
  for (int64_t slot = first + count; slot < first + filled; ++slot) {
    if (length(slot) >= context_) return count;
  }
  return filled;
}

Result<std::span<const float>> CachedModel::Step(int64_t first, std::span<const int64_t> tokens) {
  EVOQ_TRY(CheckTokens(tokens));
  const auto count = static_cast<int64_t>(tokens.size());
  EVOQ_CHECK(first >= 0 && first + count <= slots(), "slots {} to {}", first, first + count);
  for (int64_t i = 0; i < count; ++i) {
    if (length(first + i) >= context_)
      return Fail(ErrorCode::kUsage, "the context of sequence {} is full: {} tokens", first + i,
                  context_);
  }
  const int64_t filled = Filled(first, count);
  logits_.resize(static_cast<size_t>(filled * vocabulary_));
  tokens_.assign(tokens.begin(), tokens.end());
  tokens_.resize(static_cast<size_t>(filled), 0);
  places_.assign(lengths_.begin() + first, lengths_.begin() + first + filled);
  wanted_.assign(tokens_.size(), 0);
  EVOQ_TRY(Run(first, {filled, 1, 1}, 0));
  for (int64_t i = 0; i < count; ++i) ++lengths_[static_cast<size_t>(first + i)];
  return std::span<const float>(logits_).first(static_cast<size_t>(count * vocabulary_));
}

Status CachedModel::Prepare(int64_t prompt_tokens, int64_t slots) {
  int64_t all = std::min(prompt_tokens, context_);
  if (reads()) {
    const int64_t source = std::min(prompt_tokens, source_context_);
    if (target_.hears()) {
      EVOQ_TRY(For({.source = 2 * source_context_}));
    } else if (source > 0) {
      EVOQ_TRY(For({.source = SourceRun(source, source_context_)}));
    }
    all = std::min(std::ssize(target_.start), context_);
  }
  for (int64_t done = 0; done < all;) {
    const int64_t chunk = ChunkFor(all - done, context_ - done);
    EVOQ_TRY(For({1, chunk, 1}));
    done += chunk;
  }
  for (int64_t count = std::min(slots, this->slots()); count > 0; --count)
    EVOQ_TRY(For({Filled(0, count), 1, 1}));
  return {};
}

Status CachedModel::PrepareChecks(int64_t tokens) {
  const int64_t chunk = ChunkFor(tokens, context_);
  EVOQ_TRY(For({1, chunk, std::min(chunk, tokens)}));
  return {};
}

std::vector<TensorType> CachedModel::CacheTypes(int64_t tokens) const {
  std::vector<TensorType> types;
  for (const Cache& cache : caches_) {
    if (cache.of_source) continue;
    const std::vector<int64_t> sizes = cache.memory.sizes();
    types.emplace_back(cache.memory.dtype(), Shape{1, sizes[1], tokens, sizes[3]});
  }
  return types;
}

std::vector<Tensor> CachedModel::Take(int64_t slot) const {
  std::vector<Tensor> taken;
  for (const Cache& cache : caches_) {
    if (cache.of_source) continue;
    const std::vector<int64_t> sizes = cache.memory.sizes();
    const auto slot_bytes = static_cast<int64_t>(cache.memory.bytes()) / sizes[0];
    const int64_t head_bytes = slot_bytes / sizes[1], row_bytes = head_bytes / sizes[2];
    Tensor copy = Tensor::Allocate(CacheTypes(length(slot))[taken.size()]);
    for (int64_t head = 0; head < sizes[1]; ++head)
      std::memcpy(copy.mutable_raw() + head * length(slot) * row_bytes,
                  cache.memory.raw() + slot * slot_bytes + head * head_bytes,
                  static_cast<size_t>(length(slot) * row_bytes));
    taken.push_back(std::move(copy));
  }
  return taken;
}

Status CachedModel::Give(int64_t slot, std::span<const Tensor> caches) {
  std::vector<Cache*> own;
  for (Cache& cache : caches_) {
    if (!cache.of_source) own.push_back(&cache);
  }
  if (caches.size() != own.size())
    return InvalidInput("{} caches, expected {}", caches.size(), own.size());
  const int64_t tokens = caches.empty() || caches[0].shape().rank() != 4 ? 0 : caches[0].sizes()[2];
  const std::vector<TensorType> wanted = CacheTypes(tokens);
  for (size_t i = 0; i < caches.size(); ++i) {
    if (!(caches[i].type() == wanted[i]) || tokens > context_)
      return InvalidInput("cache {} is {}, expected {} of at most {} tokens", i,
                          caches[i].type().ToString(), wanted[i].ToString(), context_);
  }
  for (size_t i = 0; i < caches.size(); ++i) {
    Tensor& memory = own[i]->memory;
    const std::vector<int64_t> sizes = memory.sizes();
    const auto head_bytes = static_cast<int64_t>(memory.bytes()) / sizes[0] / sizes[1];
    const int64_t given = head_bytes / sizes[2] * tokens;
    for (int64_t head = 0; head < sizes[1]; ++head)
      std::memcpy(SlotOf(memory, slot) + head * head_bytes, caches[i].raw() + head * given,
                  static_cast<size_t>(given));
  }
  lengths_[static_cast<size_t>(slot)] = tokens;
  return {};
}

}  // namespace evoq
