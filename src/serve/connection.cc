#include "serve/connection.h"

#include <boost/asio/dispatch.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/ssl/context.hpp>
#include <boost/asio/write.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/core/tcp_stream.hpp>
#include <boost/beast/http.hpp>
#include <boost/beast/ssl/ssl_stream.hpp>
#include <deque>
#include <optional>
#include <utility>

#include "base/version.h"

namespace evoq::serve {
namespace {

namespace net = boost::asio;
namespace beast = boost::beast;
namespace http = beast::http;
using tcp = net::ip::tcp;
using boost::system::error_code;

constexpr uint32_t kMaxHeaderBytes = 16 << 10;
// Of an answer in pieces, what the client has not taken yet. Who reads more slowly is left.
constexpr size_t kMaxUnread = size_t{1} << 20;
// What a client that was refused may still send before the connection ends.
constexpr size_t kMaxDiscarded = size_t{1} << 20;
constexpr double kLingerS = 2;
constexpr double kBytesPerSecond = 65536;
// Of a body at a time.
constexpr int64_t kBodyReadBytes = 65536;

std::chrono::steady_clock::duration Seconds(double seconds) {
  return std::chrono::duration_cast<std::chrono::steady_clock::duration>(
      std::chrono::duration<double>(seconds));
}

std::string ErrorBody(const char* message) {
  return std::string("{\"error\":\"") + message + "\"}";
}

// The answer to what is no HTTP request, or one that is too large; nothing where nobody waits.
std::optional<HttpResponse> AnswerTo(error_code error) {
  HttpResponse response;
  if (error == http::error::body_limit) {
    response.status = 413;
    response.body = ErrorBody("the body is larger than this server takes");
  } else if (error == http::error::header_limit) {
    response.status = 431;
    response.body = ErrorBody("the header is larger than this server takes");
  } else if (error == beast::error::timeout || error == http::error::end_of_stream ||
             error == http::error::partial_message ||
             error.category() != make_error_code(http::error::bad_version).category()) {
    return std::nullopt;
  } else {
    response.status = 400;
    response.body = ErrorBody("malformed HTTP request");
  }
  return response;
}

// What a browser is told of a page of this origin: "*", the origin itself, or nothing.
std::string AllowedOrigin(const std::vector<std::string>& allowed, const std::string& origin) {
  if (origin.empty()) return "";
  for (const std::string& one : allowed) {
    if (one == "*" || one == origin) return one;
  }
  return "";
}

// The answer to a browser that asks what a page may send, which it does without a token.
HttpResponse Preflight(const HttpRequest& request) {
  HttpResponse response;
  response.status = 204;
  response.headers.emplace_back("Access-Control-Allow-Methods", "GET, POST");
  response.headers.emplace_back("Access-Control-Max-Age", "600");
  if (const std::string& wanted = request.header("access-control-request-headers"); !wanted.empty())
    response.headers.emplace_back("Access-Control-Allow-Headers", wanted);
  return response;
}

template <typename Stream>
class HttpConnection final : public Connection,
                             public std::enable_shared_from_this<HttpConnection<Stream>> {
 public:
  template <typename... Args>
  HttpConnection(Hub& hub, bool full, Args&&... args)
      : hub_(hub), full_(full), stream_(std::forward<Args>(args)...) {
    ++hub_.counts().connections;
    error_code ignored;
    const auto peer = lowest().socket().remote_endpoint(ignored);
    if (!ignored) peer_ = peer.address().to_string(ignored) + ":" + std::to_string(peer.port());
  }
  ~HttpConnection() override {
    GiveBack();
    --hub_.counts().connections;
    hub_.Left();
  }

  void Start() override {
    hub_.Joined(this->shared_from_this());
    net::dispatch(stream_.get_executor(), [self = this->shared_from_this()] { self->Begin(); });
  }
  void CloseIfIdle() override {
    net::post(stream_.get_executor(), [self = this->shared_from_this()] {
      if (!self->in_request_) self->Close();
    });
  }

 private:
  class ToClient;
  static constexpr bool kTls = !std::is_same_v<Stream, beast::tcp_stream>;

  beast::tcp_stream& lowest() { return beast::get_lowest_layer(stream_); }
  auto Then(void (HttpConnection::*next)(error_code, size_t)) {
    return [self = this->shared_from_this(), next](error_code error, size_t bytes) {
      ((*self).*next)(error, bytes);
    };
  }

  void Begin() {
    if constexpr (kTls) {
      lowest().expires_after(Seconds(hub_.options().header_s));
      stream_.async_handshake(net::ssl::stream_base::server,
                              [self = this->shared_from_this()](error_code error) {
                                if (error) return self->Close();
                                self->ReadNext();
                              });
    } else {
      ReadNext();
    }
  }

  // A request, from its first bytes on.
  void ReadNext() {
    in_request_ = false;
    origin_.clear();
    if (hub_.draining()) return Close();
    parser_.emplace();
    parser_->header_limit(kMaxHeaderBytes);
    parser_->body_limit(static_cast<uint64_t>(hub_.options().max_body));
    if (buffer_.size() > 0) return ReadHeader({}, 0);
    buffer_.shrink_to_fit();  // thousands of connections may wait
    lowest().expires_after(Seconds(full_ ? kLingerS : hub_.options().idle_s));
    http::async_read_some(stream_, buffer_, *parser_, Then(&HttpConnection::ReadHeader));
  }

  void ReadHeader(error_code error, size_t) {
    if (error && error != http::error::need_more) return Fail(error);
    in_request_ = true;
    if (parser_->is_header_done()) return ReadBody({}, 0);
    lowest().expires_after(Seconds(hub_.options().header_s));
    http::async_read_header(stream_, buffer_, *parser_, Then(&HttpConnection::ReadBody));
  }

  void ReadBody(error_code error, size_t) {
    if (error) return Fail(error);
    if (full_) return Refuse(503, "too many connections", true);
    const auto length = parser_->content_length();
    if (length && *length > static_cast<uint64_t>(hub_.options().max_body))
      return Fail(http::error::body_limit);
    // Chunks say no size: they may become the largest body.
    const int64_t most =
        parser_->chunked() ? hub_.options().max_body : static_cast<int64_t>(length.value_or(0));
    if (most > 0 && !hub_.Reserve(most)) return Refuse(503, "too many large requests", true);
    reserved_ = most;
    if (parser_->is_done()) return Handle({}, 0);
    lowest().expires_after(
        Seconds(hub_.options().body_s + static_cast<double>(most) / kBytesPerSecond));
    if (beast::iequals(parser_->get()[http::field::expect], "100-continue")) {
      static constexpr std::string_view kContinue = "HTTP/1.1 100 Continue\r\n\r\n";
      return net::async_write(stream_, net::buffer(kContinue), Then(&HttpConnection::ReadWhole));
    }
    ReadWhole({}, 0);
  }

  void ReadWhole(error_code error, size_t) {
    if (error) return Fail(error);
    // Beast reads what the buffer has room for, at first 512 bytes.
    buffer_.reserve(static_cast<size_t>(std::min(reserved_, kBodyReadBytes)));
    http::async_read(stream_, buffer_, *parser_, Then(&HttpConnection::Handle));
  }

  void Handle(error_code error, size_t);

  void Fail(error_code error) {
    auto response = AnswerTo(error);
    if (!response) return Close();
    keep_alive_ = false;
    version_ = 11;
    Respond(std::move(*response));
  }
  void Refuse(int status, const char* message, bool again) {
    HttpResponse response;
    response.status = status;
    response.body = ErrorBody(message);
    if (again) response.headers.emplace_back("Retry-After", "1");
    keep_alive_ = false;
    Respond(std::move(response));
  }

  template <typename Message>
  void SetHead(const HttpResponse& from, Message& to) {
    to.version(version_);
    to.result(static_cast<unsigned>(from.status));
    to.set(http::field::server, "evoq/" EVOQ_VERSION);
    to.set(http::field::content_type, from.content_type);
    for (const auto& [name, value] : from.headers) to.set(name, value);
    if (!origin_.empty()) {
      to.set(http::field::access_control_allow_origin, origin_);
      if (origin_ != "*") to.set(http::field::vary, "Origin");
    }
    if (hub_.draining()) keep_alive_ = false;
    to.keep_alive(keep_alive_);
  }

  void Respond(HttpResponse from) {
    response_.emplace();
    SetHead(from, *response_);
    response_->body() = std::move(from.body);
    response_->prepare_payload();
    if (head_only_) response_->body().clear();
    WriteExpires();
    if (head_only_) {
      head_serializer_.emplace(*response_);
      return http::async_write_header(stream_, *head_serializer_, Then(&HttpConnection::Wrote));
    }
    http::async_write(stream_, *response_, Then(&HttpConnection::Wrote));
  }
  void WriteExpires() {
    const double bytes = response_ ? static_cast<double>(response_->body().size()) : 0;
    lowest().expires_after(Seconds(hub_.options().write_s + bytes / kBytesPerSecond));
  }

  void Wrote(error_code error, size_t) {
    head_serializer_.reset();
    response_.reset();
    GiveBack();
    if (error) return Close();
    if (keep_alive_) return ReadNext();
    Linger();
  }

  // An answer in pieces.
  void BeginPieces(HttpResponse head) {
    pieces_head_.emplace();
    SetHead(head, *pieces_head_);
    pieces_head_->chunked(true);
    pieces_serializer_.emplace(*pieces_head_);
    if (!head.body.empty()) Queue(std::move(head.body));
    writing_ = true;
    WriteExpires();
    http::async_write_header(stream_, *pieces_serializer_, Then(&HttpConnection::WrotePiece));
  }
  void Queue(std::string piece) { pieces_.push_back(std::move(piece)); }
  void WriteNextPiece() {
    if (writing_ || broken_) return;
    if (!pieces_.empty()) {
      writing_ = true;
      WriteExpires();
      return net::async_write(stream_, http::make_chunk(net::buffer(pieces_.front())),
                              Then(&HttpConnection::WrotePiece));
    }
    if (!ended_) return;
    writing_ = true;
    WriteExpires();
    net::async_write(stream_, http::make_chunk_last(), Then(&HttpConnection::WroteLast));
  }
  void WrotePiece(error_code error, size_t) {
    writing_ = false;
    if (error) {
      broken_ = true;
      return Close();
    }
    if (wrote_head_ && !pieces_.empty()) {
      unread_ -= pieces_.front().size();
      pieces_.pop_front();
    }
    wrote_head_ = true;
    WriteNextPiece();
  }
  void WroteLast(error_code error, size_t) {
    writing_ = wrote_head_ = ended_ = false;
    pieces_serializer_.reset();
    pieces_head_.reset();
    Wrote(error, 0);
  }

  // The answer is on its way: to close with bytes unread would reset the connection before the
  // client has it.
  void Linger() {
    GiveBack();
    if constexpr (kTls) {
      lowest().expires_after(Seconds(kLingerS));
      stream_.async_shutdown([self = this->shared_from_this()](error_code) { self->Close(); });
    } else {
      error_code ignored;
      lowest().socket().shutdown(tcp::socket::shutdown_send, ignored);
      lowest().expires_after(Seconds(kLingerS));
      discarded_ = 0;
      buffer_.clear();
      Discard({}, 0);
    }
  }
  void Discard(error_code error, size_t bytes) {
    discarded_ += bytes;
    buffer_.consume(buffer_.size());
    if (error || discarded_ > kMaxDiscarded) return Close();
    stream_.async_read_some(buffer_.prepare(65536), Then(&HttpConnection::Discard));
  }

  void Close() {
    GiveBack();
    error_code ignored;
    lowest().socket().close(ignored);
  }
  void GiveBack() {
    hub_.GiveBack(std::exchange(reserved_, 0));
    if (std::exchange(counted_, false)) --hub_.counts().requests;
  }

  Hub& hub_;
  const bool full_;
  Stream stream_;
  std::string peer_;
  std::string origin_;  // the page's that may read the answer; "": no page, or not this one
  beast::flat_buffer buffer_;
  std::optional<http::request_parser<http::string_body>> parser_;
  std::optional<http::response<http::string_body>> response_;
  std::optional<http::response_serializer<http::string_body>> head_serializer_;
  std::optional<http::response<http::empty_body>> pieces_head_;
  std::optional<http::response_serializer<http::empty_body>> pieces_serializer_;
  std::deque<std::string> pieces_;  // those that are not written yet
  bool in_request_ = false, keep_alive_ = false, head_only_ = false, counted_ = false;
  bool writing_ = false, wrote_head_ = false, ended_ = false;
  unsigned version_ = 11;
  int64_t reserved_ = 0;
  size_t discarded_ = 0;
  std::atomic<bool> broken_ = false;  // nobody reads any more
  std::atomic<size_t> unread_ = 0;    // bytes of pieces_
};

template <typename Stream>
class HttpConnection<Stream>::ToClient final : public Reply {
 public:
  explicit ToClient(std::shared_ptr<HttpConnection> connection)
      : connection_(std::move(connection)) {}
  ~ToClient() override {
    // A handler that forgot its answer must not leave the client waiting.
    if (!begun_.exchange(true)) {
      HttpResponse response;
      response.status = 500;
      response.body = ErrorBody("the request was not answered");
      Give(std::move(response));
    } else if (pieces_ && !ended_) {
      End();
    }
  }

  void Send(HttpResponse response) override {
    if (!begun_.exchange(true)) Give(std::move(response));
  }
  void Begin(HttpResponse head) override {
    if (begun_.exchange(true)) return;
    pieces_ = true;
    connection_->unread_ = head.body.size();
    Post([head = std::move(head)](HttpConnection& c) mutable { c.BeginPieces(std::move(head)); });
  }
  bool Write(std::string piece) override {
    if (connection_->broken_ || connection_->unread_ > kMaxUnread) {
      connection_->broken_ = true;
      Post([](HttpConnection& c) { c.Close(); });
      return false;
    }
    if (piece.empty()) return true;  // an empty chunk would be the last
    connection_->unread_ += piece.size();
    Post([piece = std::move(piece)](HttpConnection& c) mutable {
      c.Queue(std::move(piece));
      c.WriteNextPiece();
    });
    return true;
  }
  void End() override {
    if (std::exchange(ended_, true)) return;
    Post([](HttpConnection& c) {
      c.ended_ = true;
      c.WriteNextPiece();
    });
  }

 private:
  template <typename F>
  void Post(F f) {
    net::post(connection_->stream_.get_executor(),
              [connection = connection_, f = std::move(f)]() mutable { f(*connection); });
  }
  void Give(HttpResponse response) {
    Post([response = std::move(response)](HttpConnection& c) mutable {
      c.Respond(std::move(response));
    });
  }
  std::shared_ptr<HttpConnection> connection_;
  std::atomic<bool> begun_ = false;
  bool pieces_ = false, ended_ = false;
};

template <typename Stream>
void HttpConnection<Stream>::Handle(error_code error, size_t) {
  if (error) return Fail(error);
  lowest().expires_never();  // the client waits for us now
  auto message = parser_->release();
  keep_alive_ = message.keep_alive();
  version_ = message.version();
  head_only_ = message.method() == http::verb::head;
  counted_ = true;
  ++hub_.counts().requests;
  auto request = std::make_shared<HttpRequest>();
  request->method = std::string(message.method_string());
  request->target = std::string(message.target());
  for (const auto& field : message) {
    std::string name(field.name_string());
    for (char& c : name) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
    request->headers[std::move(name)] = std::string(field.value());
  }
  origin_ = AllowedOrigin(hub_.options().origins, request->header("origin"));
  if (!origin_.empty() && request->method == "OPTIONS") return Respond(Preflight(*request));
  request->body = std::move(message.body());
  request->peer = peer_;
  hub_.handler()(std::move(request), std::make_shared<ToClient>(this->shared_from_this()));
}

}  // namespace

bool ServerCounts::Reserve(int64_t bytes, int64_t most) {
  int64_t now = body_bytes;
  do {
    if (bytes > most - now) return false;
  } while (!body_bytes.compare_exchange_weak(now, now + bytes));
  return true;
}

void Hub::Joined(const std::shared_ptr<Connection>& connection) {
  const std::lock_guard lock(mutex_);
  if (connections_.size() > 64 &&
      static_cast<int64_t>(connections_.size()) > 2 * counts_.connections)
    std::erase_if(connections_, [](const auto& weak) { return weak.expired(); });
  connections_.push_back(connection);
}

void Hub::Left() {
  const std::lock_guard lock(mutex_);
  left_.notify_all();
}

bool Hub::Drain(double seconds) {
  draining_ = true;
  std::vector<std::weak_ptr<Connection>> connections;
  {
    const std::lock_guard lock(mutex_);
    connections = connections_;
  }
  for (const auto& weak : connections) {
    if (const auto connection = weak.lock()) connection->CloseIfIdle();
  }
  std::unique_lock lock(mutex_);
  return left_.wait_for(lock, Seconds(seconds), [&] { return counts_.connections == 0; });
}

std::shared_ptr<Connection> MakeConnection(tcp::socket socket, net::ssl::context* tls, Hub& hub,
                                           bool full) {
  if (tls == nullptr)
    return std::make_shared<HttpConnection<beast::tcp_stream>>(hub, full, std::move(socket));
  return std::make_shared<HttpConnection<beast::ssl_stream<beast::tcp_stream>>>(
      hub, full, std::move(socket), *tls);
}

}  // namespace evoq::serve
