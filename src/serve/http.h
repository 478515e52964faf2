// A request and its answer, as the service sees them: what carries them is in server.h.
#pragma once

#include <atomic>
#include <chrono>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace evoq::serve {

struct HttpRequest {
  std::string method;                          // "GET"
  std::string target;                          // as it came: path and query
  std::map<std::string, std::string> headers;  // by lower-case name; the last of several
  std::string body;
  std::string peer;  // address of the client, for logs
  // Nobody waits for the answer after this time, or once this is set; it may be null.
  std::chrono::steady_clock::time_point deadline = std::chrono::steady_clock::time_point::max();
  std::shared_ptr<const std::atomic<bool>> cancelled;

  // "" where it is missing.
  const std::string& header(const std::string& lower_case_name) const;
};

struct HttpResponse {
  int status = 200;
  std::string content_type = "application/json";
  std::string body;
  std::vector<std::pair<std::string, std::string>> headers;  // besides those of every answer
  std::string error;  // of a refusal: its message, which the body says in the protocol's form
};

// Where the answer of one request goes: Send once, or Begin, Write and End. From any thread.
class Reply {
 public:
  virtual ~Reply() = default;
  virtual void Send(HttpResponse response) = 0;
  // The head of an answer that comes in pieces; its body is the first of them.
  virtual void Begin(HttpResponse head) = 0;
  // False: nobody reads it, or too slowly. Nothing more needs to be written then.
  virtual bool Write(std::string piece) = 0;
  virtual void End() = 0;
};

// The decoded parts of a path without its query: "/v2/models/a%2Fb" is v2, models, a/b. False for a
// target that is none.
bool SplitTarget(std::string_view target, std::vector<std::string>& parts);
// The decoded value of a name in the target's query; "" where there is none.
std::string QueryValue(std::string_view target, std::string_view name);

}  // namespace evoq::serve
