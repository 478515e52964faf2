#include "serve/text_model.h"

#include <algorithm>
#include <utility>

#include "base/guarded.h"

namespace evoq::serve {
namespace {

int64_t NsSince(Clock::time_point from, Clock::time_point to) {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(to - from).count();
}

size_t Common(const std::vector<int64_t>& a, const std::vector<int64_t>& b) {
  return static_cast<size_t>(std::mismatch(a.begin(), a.end(), b.begin(), b.end()).first -
                             a.begin());
}

}  // namespace

Result<std::unique_ptr<TextModel>> TextModel::Of(std::unique_ptr<Engine> engine,
                                                 const std::string& path,
                                                 const ModelSettings& settings,
                                                 Statistics& statistics) {
  std::unique_ptr<TextModel> model(new TextModel(settings, statistics));
  const int threads = engine->threads();
  EVOQ_ASSIGN(model->model_, CachedModel::Of(std::move(engine),
                                             {.threads = threads,
                                              .slots = settings.sequences,
                                              .context = settings.context,
                                              .type = settings.kv_cache},
                                             path));
  EVOQ_ASSIGN(model->text_, WithContext(TokenizerOf(model->model_->graph()), path));
  EVOQ_TRY(WithContext(model->model_->Prepare(0, 1), path));
  for (int64_t slot = 0; slot < settings.sequences; ++slot) {
    Sequence sequence;
    sequence.writer = std::make_unique<Writer>(*model->model_, model->text_.tokenizer,
                                               model->text_.ends, nullptr, slot);
    model->sequences_.push_back(std::move(sequence));
  }
  model->thread_ = std::thread([self = model.get()] { self->Work(); });
  return model;
}

TextModel::~TextModel() {
  {
    const std::lock_guard lock(mutex_);
    closed_ = true;
  }
  changed_.notify_all();
  if (thread_.joinable()) thread_.join();
}

int64_t TextModel::queued() const {
  const std::lock_guard lock(mutex_);
  return static_cast<int64_t>(queue_.size());
}

Served<void> TextModel::Submit(TextRequest& request) {
  {
    const std::lock_guard lock(mutex_);
    if (closed_) return Refuse(Why::kUnavailable, "the model is being unloaded");
    if (static_cast<int64_t>(queue_.size()) >= settings_.max_queue) {
      statistics_.Failed(Why::kOverloaded, 0);
      return tl::unexpected(
          Refusal{Why::kOverloaded,
                  fmt::format("{} requests are waiting, the most that this model's queue takes",
                              queue_.size()),
                  1});
    }
    queue_.push_back({std::move(request), Clock::now()});
  }
  changed_.notify_one();
  return {};
}

std::vector<TextModel::Waiting> TextModel::Next() {
  std::unique_lock lock(mutex_);
  if (running_ == 0) changed_.wait(lock, [&] { return closed_ || !queue_.empty(); });
  std::vector<Waiting> next;
  while (!queue_.empty() && running_ + static_cast<int64_t>(next.size()) < settings_.sequences) {
    next.push_back(std::move(queue_.front()));
    queue_.pop_front();
  }
  return next;
}

// The idle one that holds the most of the prompt.
TextModel::Sequence& TextModel::SequenceFor(const TextRequest& request) {
  Sequence* best = nullptr;
  size_t most = 0;
  for (Sequence& sequence : sequences_) {
    if (sequence.active) continue;
    const size_t common = Common(sequence.writer->tokens(), request.prompt);
    if (best != nullptr && common <= most) continue;
    best = &sequence;
    most = common;
  }
  return *best;
}

void TextModel::Begin(Waiting one) {
  const auto now = Clock::now();
  if (one.request.deadline <= now)
    return Answer(one, now, Refuse(Why::kExpired, "the request's time ran out while it waited"));
  Sequence& sequence = SequenceFor(one.request);
  auto writing = Guarded([&] {
    return sequence.writer->Begin(one.request.prompt, one.request.options, one.request.on_text);
  });
  if (!writing) return Answer(one, now, tl::unexpected(RefusalOf(writing.error())));
  sequence.active.emplace(Active{std::move(one), now, std::move(*writing)});
  ++running_;
}

void TextModel::Advance(Sequence& sequence) {
  Active& active = *sequence.active;
  const bool late = active.from.request.deadline <= Clock::now();
  const auto text = Guarded([&]() -> Result<std::optional<Generated>> {
    if (!late) {
      EVOQ_ASSIGN(const bool more, active.writing.Advance());
      if (more) return std::optional<Generated>();
    }
    EVOQ_ASSIGN(Generated all, active.writing.Finish());
    return std::optional(std::move(all));
  });
  if (text && !*text) return;
  Served<Generated> answer = Refuse(Why::kExpired, "the request's time ran out");
  if (!text) {
    answer = tl::unexpected(RefusalOf(text.error()));
  } else if (!late) {
    answer = **text;
  }
  Answer(active.from, active.begun, std::move(answer));
  sequence.active.reset();
  --running_;
}

void TextModel::Answer(const Waiting& one, Clock::time_point begun, Served<Generated> text) {
  InferenceTimes times;
  times.queue_ns = NsSince(one.arrived, begun);
  times.infer_ns = NsSince(begun, Clock::now());
  if (text) {
    statistics_.Executed(1, times);
    statistics_.Succeeded(1, times);
  } else {
    statistics_.Failed(text.error().why, times.total_ns());
  }
  one.request.done(std::move(text));
}

void TextModel::Work() {
  for (;;) {
    std::vector<Waiting> next = Next();
    if (next.empty() && running_ == 0) return;  // closed
    for (Waiting& one : next) Begin(std::move(one));
    for (Sequence& sequence : sequences_) {
      if (sequence.active) Advance(sequence);
    }
  }
}

}  // namespace evoq::serve
