#include "serve/message.h"

#include <google/protobuf/descriptor.h>
#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/stubs/logging.h>
#include <google/protobuf/util/json_util.h>
#include <google/protobuf/wire_format_lite.h>

#include <climits>

namespace evoq::serve {
namespace {

using google::protobuf::Descriptor;
using google::protobuf::FieldDescriptor;
using google::protobuf::internal::WireFormatLite;
using google::protobuf::io::CodedInputStream;

enum class Walk { kWhole, kMalformed, kTooMany };

// Counts the members of a message down to those of its messages. The protocol's messages do not
// contain themselves, so it ends; groups, which might, are not part of it.
Walk Count(CodedInputStream& in, const Descriptor& type, int64_t& left) {
  for (uint32_t tag = in.ReadTag(); tag != 0; tag = in.ReadTag()) {
    if (--left < 0) return Walk::kTooMany;
    switch (WireFormatLite::GetTagWireType(tag)) {
      case WireFormatLite::WIRETYPE_START_GROUP:
      case WireFormatLite::WIRETYPE_END_GROUP: return Walk::kMalformed;
      case WireFormatLite::WIRETYPE_LENGTH_DELIMITED: break;
      default:
        if (!WireFormatLite::SkipField(&in, tag)) return Walk::kMalformed;
        continue;
    }
    const FieldDescriptor* const field =
        type.FindFieldByNumber(WireFormatLite::GetTagFieldNumber(tag));
    uint32_t bytes = 0;
    if (!in.ReadVarint32(&bytes) || bytes > static_cast<uint32_t>(INT_MAX)) return Walk::kMalformed;
    if (field == nullptr || field->type() != FieldDescriptor::TYPE_MESSAGE) {
      if (!in.Skip(static_cast<int>(bytes))) return Walk::kMalformed;
      continue;
    }
    const auto outer = in.PushLimit(static_cast<int>(bytes));
    const Walk inner = Count(in, *field->message_type(), left);
    if (inner != Walk::kWhole) return inner;
    in.PopLimit(outer);
  }
  return in.ConsumedEntireMessage() ? Walk::kWhole : Walk::kMalformed;
}

}  // namespace

Served<void> ParseMessage(std::string_view bytes, google::protobuf::Message& message) {
  const std::string& name = message.GetDescriptor()->name();
  if (bytes.size() > INT_MAX)
    return Refuse(Why::kTooLarge, "a message of {} bytes, expected at most {}", bytes.size(),
                  INT_MAX);
  const google::protobuf::LogSilencer silent;  // what is wrong with it is told to who sent it
  const auto size = static_cast<int>(bytes.size());
  CodedInputStream in(reinterpret_cast<const uint8_t*>(bytes.data()), size);
  int64_t left = kMaxMembers;
  const Walk walk = Count(in, *message.GetDescriptor(), left);
  if (walk == Walk::kTooMany)
    return Refuse(Why::kTooLarge, "{}: more than {} members", name, kMaxMembers);
  if (walk == Walk::kMalformed || !message.ParseFromArray(bytes.data(), size))
    return Refuse(Why::kBadRequest, "not a message {} ({} bytes)", name, bytes.size());
  return {};
}

Served<void> MessageOf(const nlohmann::json& object, google::protobuf::Message& message) {
  google::protobuf::util::JsonParseOptions options;
  options.ignore_unknown_fields = true;
  const auto read = google::protobuf::util::JsonStringToMessage(
      object.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace), &message, options);
  if (!read.ok())
    return Refuse(Why::kFailed, "{}: {}", message.GetDescriptor()->name(), read.ToString());
  return {};
}

}  // namespace evoq::serve
