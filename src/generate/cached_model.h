// A language model with its key and value caches: runs of a graph that reads tokens, appends their
// keys and values to caches in place, and gives logits (docs/generate.md has the graph's contract).
// One that reads a text and writes another has caches of the text that it reads too, its source.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "engine/engine.h"
#include "llm/target_facts.h"
#include "tensor/tensor.h"

namespace evoq {

struct CacheOptions {
  int threads = 0;      // 0: all physical cores
  int64_t slots = 1;    // sequences that have a cache at the same time
  int64_t context = 0;  // tokens that a sequence may have, and a source; 0: what the model was made
                        // for, at most 4096, of sources 1024
  std::string type;     // of the caches: ParseCacheType's; "": as the model has them
};

// What a model reads before it writes: tokens, or features of a sound, float32 [frames, bins].
struct Source {
  std::vector<int64_t> tokens;
  std::shared_ptr<const Tensor> sound;  // null: tokens are read

  bool empty() const { return tokens.empty() && sound == nullptr; }
  bool operator==(const Source&) const = default;
};

// One caller at a time.
class CachedModel {
 public:
  // The most slots, and the most tokens of a sequence.
  static constexpr int64_t kMaxSlots = 256, kMaxContext = int64_t{1} << 22;
  // The most tokens of a sequence that a run takes. Runs take powers of two; a piece that is
  // shorter is padded: what padding writes into a cache lies behind the sequence's end, where the
  // next tokens go.
  static constexpr int64_t kMaxChunk = 512;

  // Errors: kUnsupported for a graph that is no language model with caches, naming what is missing;
  // kUsage for a context that the model cannot have; kTooLarge for caches that memory does not
  // hold.
  static Result<std::unique_ptr<CachedModel>> Load(const std::string& path,
                                                   const CacheOptions& options);
  // Of an engine that has the graph. `path` is for messages.
  static Result<std::unique_ptr<CachedModel>> Of(std::unique_ptr<Engine> engine,
                                                 const CacheOptions& options,
                                                 const std::string& path = "");

  const Graph& graph() const { return engine_->model().graph; }
  Engine& engine() { return *engine_; }
  int threads() const { return engine_->threads(); }
  int64_t slots() const { return static_cast<int64_t>(lengths_.size()); }
  int64_t context() const { return context_; }
  int64_t vocabulary() const { return vocabulary_; }
  int64_t cache_bytes() const;  // of all slots
  // Tells the file that was loaded from others: caches of one model mean nothing to another.
  uint32_t mark() const { return mark_; }

  // Tokens that the slot's sequence has.
  int64_t length(int64_t slot) const { return lengths_[static_cast<size_t>(slot)]; }
  // Whether sequences are written by a text that is read before: Encode comes first then.
  bool reads() const { return target_.reads(); }
  const TargetFacts& target() const { return target_; }
  int64_t source_context() const { return source_context_; }  // the most tokens of a source
  // Errors: kUsage for no tokens, too many, and one that is not in the source's vocabulary; for
  // tokens where the model hears and a sound where it reads.
  Status CheckSource(const Source& source) const;
  // The slot's sequence becomes an empty one that has this source. Errors: those of CheckSource;
  // the slot has no source then.
  Status Encode(int64_t slot, const Source& source);
  // For measurements, of so many tokens.
  Source MadeUpSource(int64_t tokens) const;

  // Forgets the tokens from `length` on, which must not be more than it has.
  void Truncate(int64_t slot, int64_t length);
  // Each of two slots gets the other's sequence, with its source.
  void Exchange(int64_t a, int64_t b);
  // The first `length` tokens of another slot, which must have so many, become the slot's sequence.
  void Copy(int64_t from, int64_t to, int64_t length);
  // The source of another slot, whose sequence has no tokens yet.
  void CopySource(int64_t from, int64_t to);
  // Slot i, of the first ones, gets the tokens that slot parents[i], one of them, had before.
  // Sources stay.
  void Reorder(std::span<const int64_t> parents);

  // Errors: kUsage for no tokens, and for one that is not in the vocabulary.
  Status CheckTokens(std::span<const int64_t> tokens) const;

  // Appends tokens to a slot's sequence, in one or more runs. The logits [wanted, vocabulary] of
  // the last `wanted` tokens, 1 to tokens.size(), which stay until the next call. What each token's
  // logits are depends on neither the runs nor other slots (docs/generate.md). Errors: kUsage when
  // the context is full, for a token that is not in the vocabulary, and for no tokens; the sequence
  // is then as it was.
  Result<std::span<const float>> Append(int64_t slot, std::span<const int64_t> tokens,
                                        int64_t wanted = 1);
  // One token for each of the slots [first, first + tokens.size()), in one run: the logits
  // [slots, vocabulary]. Errors: as Append's; no sequence has then changed.
  Result<std::span<const float>> Step(int64_t first, std::span<const int64_t> tokens);

  // Prepares what Append takes for a first prompt of so many tokens, and Step for up to so many
  // slots, so that nothing is compiled later. The sequences are as they were.
  Status Prepare(int64_t prompt_tokens, int64_t slots);
  // The same of Append for so many tokens, all of whose logits are wanted.
  Status PrepareChecks(int64_t tokens);

  // What runs have taken since loading, and what it took to prepare them for new sizes.
  double run_ms() const { return run_ms_; }

  // Types of the caches of a sequence of `tokens`, by cache: [1, heads, tokens, head size]; those
  // of its source are left out.
  std::vector<TensorType> CacheTypes(int64_t tokens) const;
  // The caches' part of a slot's sequence, of CacheTypes.
  std::vector<Tensor> Take(int64_t slot) const;
  // The sequence becomes what Take gave. Errors: kInvalidInput where the types are others.
  Status Give(int64_t slot, std::span<const Tensor> caches);

 private:
  struct Cache {
    size_t input, output;  // of the graph
    Tensor memory;         // [slots, heads, context, head size]
    bool of_source = false;
  };
  // A run of `count` slots by `length` tokens and so many of a source, with `wanted` logits of
  // each.
  struct Sizes {
    int64_t count = 1, length = 0, wanted = 0, source = 0;
    bool operator==(const Sizes&) const = default;
  };
  struct Prepared {
    Sizes sizes;
    std::shared_ptr<Executor> executor;
    std::vector<const std::byte*> inputs;
    std::vector<std::byte*> outputs;
  };
  // The rows of tokens [0, length) of a slot, a span for each head of each cache, and those of
  // another slot beside them, to `move`.
  template <typename Move>
  void EachHead(bool of_source, int64_t a, int64_t b, int64_t length, const Move& move);
  CachedModel(std::unique_ptr<Engine> engine, std::string path)
      : engine_(std::move(engine)), path_(std::move(path)) {}
  Status FindValues();
  Status AllocateCaches(const CacheOptions& options);
  Result<Prepared*> For(const Sizes& sizes);
  // Of how many slots a step of `count` from `first` on is made.
  int64_t Filled(int64_t first, int64_t count) const;
  // A run over tokens_, places_, wanted_ and source_, of slots from `first` on. Its logits go to
  // logits_ from row `row` on.
  Status Run(int64_t first, const Sizes& sizes, int64_t row);
  void ExchangeTokens(int64_t a, int64_t b);

  std::unique_ptr<Engine> engine_;
  std::string path_;
  uint32_t mark_ = 0;
  size_t tokens_input_ = 0, place_input_ = 0, wanted_input_ = 0, logits_output_ = 0;
  size_t source_input_ = 0, source_length_input_ = 0;  // where it reads
  TargetFacts target_;
  int64_t source_context_ = 0;
  std::shared_ptr<const Tensor> heard_;  // of the run that encodes it
  std::vector<Cache> caches_;
  int64_t context_ = 0, vocabulary_ = 0, made_for_ = 0;     // made_for_: 0: unknown
  std::vector<int64_t> lengths_, source_lengths_;           // by slot
  std::vector<int64_t> tokens_, places_, wanted_, source_;  // of a run: its inputs
  std::vector<float> logits_;
  double run_ms_ = 0;
  std::vector<std::unique_ptr<Prepared>> prepared_;
};

}  // namespace evoq
