#include "serve/text_model.h"

#include <algorithm>
#include <utility>

#include "base/guarded.h"

namespace evoq::serve {
namespace {

int64_t NsSince(Clock::time_point from, Clock::time_point to) {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(to - from).count();
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
  EVOQ_ASSIGN(model->text_, WithContext(TokenizerOf(*model->model_), path));
  EVOQ_TRY(WithContext(model->model_->Prepare(0, settings.sequences), path));
  model->sequences_ =
      std::make_unique<Sequences>(*model->model_, model->text_.tokenizer, model->text_.ends);
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

Served<void> TextModel::Submit(std::vector<TextRequest>& requests) {
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
    for (TextRequest& request : requests) queue_.push_back({std::move(request), Clock::now()});
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

void TextModel::Begin(Waiting one) {
  const auto now = Clock::now();
  if (one.request.deadline <= now)
    return Answer(one, now, Refuse(Why::kExpired, "the request's time ran out while it waited"));
  const auto begun = Guarded([&] {
    return sequences_->Begin(numbers_, one.request.prompt, one.request.options, one.request.on_text,
                             one.request.on_token);
  });
  if (!begun) return Answer(one, now, tl::unexpected(RefusalOf(begun.error())));
  active_.emplace(numbers_++, Active{std::move(one), now});
  ++running_;
}

void TextModel::Ended(size_t number, Served<Generated> text) {
  const auto active = active_.extract(number);
  --running_;
  Answer(active.mapped().from, active.mapped().begun, std::move(text));
}

void TextModel::GiveUp() {
  const auto now = Clock::now();
  std::vector<size_t> late;
  for (const auto& [number, active] : active_) {
    if (active.from.request.deadline <= now) late.push_back(number);
  }
  for (const size_t number : late) {
    (void)sequences_->Leave(number);
    Ended(number, Refuse(Why::kExpired, "the request's time ran out"));
  }
}

void TextModel::Answer(const Waiting& one, Clock::time_point begun, Served<Generated> text) {
  InferenceTimes times;
  times.queue_ns = NsSince(one.arrived, begun);
  times.infer_ns = NsSince(begun, Clock::now());
  if (text) {
    statistics_.Executed(1, times);
    statistics_.Succeeded(1, times);
    const auto run = static_cast<uint64_t>(text->prompt_tokens);
    const uint64_t prompt = std::max<uint64_t>(one.request.prompt.size(), run);
    statistics_.Wrote({.prompt = prompt, .cached = prompt - run, .text = text->tokens.size()});
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
    GiveUp();
    sequences_->Advance([&](size_t number, Result<Generated> text) {
      if (text) {
        Ended(number, std::move(*text));
      } else {
        Ended(number, tl::unexpected(RefusalOf(text.error())));
      }
    });
  }
}

Result<const Tokenizer*> TokenizerFor(const TextModel& model) {
  if (model.tokenizer()) return &*model.tokenizer();
  return Unsupported("the model carries no tokenizer: a prompt must be a list of tokens");
}

}  // namespace evoq::serve
