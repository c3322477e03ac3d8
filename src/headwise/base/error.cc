// headwise::Error. Door: include/headwise/error.h.
#include "headwise/error.h"

#include <utility>

namespace headwise {
namespace {

std::string Message(const ErrorParts& parts) {
  std::string text = "[" + parts.where + "]";
  const char* separator = " ";
  auto add = [&](const char* label, const std::string& part) {
    if (part.empty()) return;
    text += separator;
    text += label;
    text += part;
    separator = "; ";
  };
  add("expected ", parts.expected);
  add("found ", parts.found);
  add("", parts.hint);
  return text;
}

}  // namespace

const char* Name(ErrorCode code) {
  switch (code) {
    case ErrorCode::kInvalidArgument:
      return "invalid argument";
    case ErrorCode::kCorrupt:
      return "corrupt";
    case ErrorCode::kNotFound:
      return "not found";
    case ErrorCode::kIo:
      return "input/output";
    case ErrorCode::kUnsupported:
      return "unsupported";
    case ErrorCode::kOutOfMemory:
      return "out of memory";
    case ErrorCode::kCancelled:
      return "cancelled";
    case ErrorCode::kInternal:
      return "internal";
  }
  return "unknown";
}

Error::Error(ErrorCode code, ErrorParts parts)
    : std::runtime_error(Message(parts)),
      code_(code),
      parts_(std::move(parts)) {}

}  // namespace headwise
