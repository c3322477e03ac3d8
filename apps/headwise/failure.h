// What a command that failed says, whatever it was that was thrown.
#pragma once

#include <exception>
#include <string>

namespace headwise {

// "[where] expected …; found …; hint", in one line that is safe to print.
// `lower`: what takes less memory when it is less, for the command that ran
// out of it.
std::string FailureText(const std::exception& error, const std::string& lower);

}  // namespace headwise
