// The message of a failed command, whatever exception ended it.
#pragma once

#include <exception>
#include <span>
#include <string>
#include <string_view>

namespace headwise {

// The library names arguments as its structs do, in `backquotes`; a command
// that has the flag of one names that: `min_visible` becomes --min-visible,
// and just min_visible where there is no such flag.
std::string WithFlags(std::string_view text,
                      std::span<const std::string> flags);

// "[where] expected …; found …; hint", in one line that is safe to print.
// `lower`: what takes less memory when it is less, for the command that ran
// out of it; `flags`: those that it has.
std::string FailureText(const std::exception& error, const std::string& lower,
                        std::span<const std::string> flags);

}  // namespace headwise
