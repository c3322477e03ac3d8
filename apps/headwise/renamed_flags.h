// Flags that have another name now, by command: the error for an unknown flag
// says the new one.
#pragma once

#include <string_view>

namespace headwise {

struct RenamedFlag {
  std::string_view command, before, now;
};

inline constexpr RenamedFlag kRenamedFlags[] = {
    {"profile", "--checkpoint", "--checkpoint-seconds"},
    {"profile", "--pattern", "--patterns"},
    {"rank", "--checkpoint", "--checkpoint-seconds"},
    {"rank", "--least-hurt", "--least-negative"},
    {"rank", "--repair", "--self-repair"},
    {"roles", "--induction", "--repeat-form"},
    {"roles", "--threshold", "--thresholds"},
    {"show", "--rows", "--queries"},
};

// The new name, or "".
constexpr std::string_view NewNameOf(std::string_view command,
                                     std::string_view flag) {
  for (const RenamedFlag& one : kRenamedFlags) {
    if (one.command == command && one.before == flag) return one.now;
  }
  return "";
}

}  // namespace headwise
