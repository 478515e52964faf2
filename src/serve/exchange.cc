#include "serve/exchange.h"

#include <algorithm>
#include <ctime>
#include <random>

namespace evoq::serve {
namespace {

using nlohmann::json;

std::string RandomHex(int digits) {
  thread_local std::mt19937_64 random{std::random_device{}()};
  std::string text;
  while (static_cast<int>(text.size()) < digits) text += fmt::format("{:016x}", random());
  text.resize(static_cast<size_t>(digits));
  return text;
}

bool IsHex(std::string_view text) {
  return std::all_of(text.begin(), text.end(),
                     [](char c) { return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f'); });
}

// The ids of a traceparent header (W3C Trace Context): 00-TRACE-PARENT-FLAGS. False: it is none.
bool ReadTraceparent(std::string_view text, std::string& trace, std::string& parent) {
  if (text.size() != 55 || text[2] != '-' || text[35] != '-' || text[52] != '-') return false;
  const std::string_view trace_id = text.substr(3, 32), parent_id = text.substr(36, 16);
  if (text.substr(0, 2) != "00" || !IsHex(trace_id) || !IsHex(parent_id) ||
      !IsHex(text.substr(53)) || trace_id.find_first_not_of('0') == std::string_view::npos ||
      parent_id.find_first_not_of('0') == std::string_view::npos)
    return false;
  trace = trace_id;
  parent = parent_id;
  return true;
}

// An id that may stand in a header and a log.
bool IsRequestId(const std::string& id) {
  constexpr size_t kMost = 128;
  return !id.empty() && id.size() <= kMost &&
         std::all_of(id.begin(), id.end(), [](char c) { return c > ' ' && c < 127; });
}

std::string TimeNow() {
  const auto now = std::chrono::system_clock::now();
  const auto ms =
      std::chrono::duration_cast<std::chrono::milliseconds>(now.time_since_epoch()).count();
  const std::time_t seconds = ms / 1000;
  std::tm utc{};
  gmtime_r(&seconds, &utc);
  return fmt::format("{:04}-{:02}-{:02}T{:02}:{:02}:{:02}.{:03}Z", utc.tm_year + 1900,
                     utc.tm_mon + 1, utc.tm_mday, utc.tm_hour, utc.tm_min, utc.tm_sec, ms % 1000);
}

std::string Dump(const json& value) {
  return value.dump(-1, ' ', /*ensure_ascii=*/true, json::error_handler_t::replace);
}

}  // namespace

std::string LineOf(const char* level, const std::string& event, json fields) {
  fields["time"] = TimeNow();
  fields["level"] = level;
  fields["event"] = event;
  return Dump(fields);
}

Exchange::Exchange(std::shared_ptr<HttpRequest> request, std::shared_ptr<Reply> reply, LogLine log)
    : request_(std::move(request)),
      reply_(std::move(reply)),
      log_(std::move(log)),
      bytes_in_(request_->body.size()) {
  if (!ReadTraceparent(request_->header("traceparent"), trace_id_, parent_id_))
    trace_id_ = RandomHex(32);
  span_id_ = RandomHex(16);
  const std::string& given = request_->header("x-request-id");
  id_ = IsRequestId(given) ? given : span_id_;
}

void Exchange::AddHeaders(HttpResponse& response) const {
  response.headers.emplace_back("X-Request-Id", id_);
  response.headers.emplace_back("Traceparent", fmt::format("00-{}-{}-01", trace_id_, span_id_));
}

void Exchange::Answer(HttpResponse response) {
  AddHeaders(response);
  Log(response.status, response.body.size());
  reply_->Send(std::move(response));
}

void Exchange::AnswerJson(const json& body, int status) {
  HttpResponse response;
  response.status = status;
  response.body = body.dump(-1, ' ', false, json::error_handler_t::replace);
  Answer(std::move(response));
}

void Exchange::Refuse(const Refusal& refusal) {
  HttpResponse response;
  response.status = StatusOf(refusal.why);
  if (refusal.retry_after_s > 0)
    response.headers.emplace_back("Retry-After", std::to_string(refusal.retry_after_s));
  if (refusal.why == Why::kUnauthorized)
    response.headers.emplace_back("WWW-Authenticate", "Bearer");
  json error = refusal.message;
  if (openai_)
    error = {{"message", refusal.message},
             {"type", NameOf(refusal.why)},
             {"code", response.status},
             {"param", nullptr}};
  response.body = Dump({{"error", std::move(error)}});
  response.error = refusal.message;
  Note("error", refusal.message);
  Note("reason", NameOf(refusal.why));
  Answer(std::move(response));
}

void Exchange::Begin(HttpResponse head) {
  AddHeaders(head);
  reply_->Begin(std::move(head));
}

void Exchange::End() {
  reply_->End();
  Log(200, 0);
}

void Exchange::Log(int status, size_t bytes) {
  if (log_ == nullptr) return;
  const std::chrono::duration<double, std::milli> took = std::chrono::steady_clock::now() - begun_;
  json line = notes_;
  line["request_id"] = id_;
  line["trace_id"] = trace_id_;
  line["span_id"] = span_id_;
  if (!parent_id_.empty()) line["parent_span_id"] = parent_id_;
  line["peer"] = request_->peer;
  line["method"] = request_->method;
  line["target"] = request_->target.substr(0, 500);
  line["status"] = status;
  line["ms"] = took.count();
  line["bytes_in"] = bytes_in_;
  line["bytes_out"] = bytes;
  const char* level = status >= 500 ? "error" : notes_.contains("ignored") ? "warning" : "info";
  log_(LineOf(level, "request", std::move(line)));
}

}  // namespace evoq::serve
