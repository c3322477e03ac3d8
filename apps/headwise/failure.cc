// Exceptions in plain words. Door: failure.h.
#include "failure.h"

#include <fmt/core.h>

#include <algorithm>
#include <filesystem>
#include <new>
#include <stdexcept>
#include <system_error>

#include "headwise/base/byte_size.h"
#include "headwise/drawing/text.h"
#include "headwise/error.h"
#include "headwise/memory.h"

namespace headwise {
namespace {

std::string OutOfMemory(const std::string& wanted, const std::string& lower) {
  const auto free = FreeMemory();
  return fmt::format("[memory] expected {}; found {} free{}", wanted,
                     free ? ByteSize(*free) : "not enough",
                     lower.empty() ? "" : "; lower " + lower);
}

std::string Plain(const std::exception& error, const std::string& lower) {
  if (const auto* ours = dynamic_cast<const Error*>(&error)) {
    if (ours->code() != ErrorCode::kOutOfMemory ||
        ours->parts().found != "none") {
      return ours->what();
    }
    return OutOfMemory(ours->parts().expected, lower);
  }
  if (dynamic_cast<const std::bad_alloc*>(&error) != nullptr ||
      dynamic_cast<const std::length_error*>(&error) != nullptr) {
    return OutOfMemory("more memory for the next step", lower);
  }
  if (const auto* file =
          dynamic_cast<const std::filesystem::filesystem_error*>(&error)) {
    return fmt::format("[{}] expected it to be readable; found: {}",
                       file->path1().string(), file->code().message());
  }
  if (const auto* system = dynamic_cast<const std::system_error*>(&error)) {
    return fmt::format("[system] {}", system->what());
  }
  return fmt::format(
      "[headwise] {}; this is a fault of the program: please report it with "
      "the command",
      error.what());
}

// As C++ spells one.
bool IsArgument(std::string_view name) {
  return !name.empty() &&
         name.find_first_not_of("abcdefghijklmnopqrstuvwxyz_") == name.npos;
}

}  // namespace

std::string WithFlags(std::string_view text,
                      std::span<const std::string> flags) {
  std::string out;
  while (true) {
    const size_t begin = text.find('`');
    const size_t end = text.find('`', begin + 1);
    if (begin == text.npos || end == text.npos) break;
    const std::string_view name = text.substr(begin + 1, end - begin - 1);
    out += text.substr(0, begin);
    text.remove_prefix(end + 1);
    if (!IsArgument(name)) {
      out += fmt::format("`{}`", name);
      continue;
    }
    std::string flag = fmt::format("--{}", name);
    std::replace(flag.begin(), flag.end(), '_', '-');
    const bool known =
        std::find(flags.begin(), flags.end(), flag) != flags.end();
    out += known ? flag : std::string(name);
  }
  return out.append(text);
}

std::string FailureText(const std::exception& error, const std::string& lower,
                        std::span<const std::string> flags) {
  return Visible(WithFlags(Plain(error, lower), flags));
}

}  // namespace headwise
