/// @file
/// The one exception of the library. It never prints, aborts or exits.
#pragma once

#include <stdexcept>
#include <string>

#include "headwise/export.h"

namespace headwise {

enum class ErrorCode {
  kInvalidArgument,  ///< the caller asked for something impossible
  kCorrupt,          ///< a file says something that cannot be true
  kNotFound,         ///< a file, tensor, key or name is not there
  kIo,               ///< the operating system refused
  kUnsupported,      ///< valid, but no implementation does it
  kOutOfMemory,
  kCancelled,
  kInternal,  ///< a fault of ours
};

/// "invalid argument", "corrupt", …
HEADWISE_API const char* Name(ErrorCode code);

/// The parts of an error, so that programs can act and people can read:
/// "[where] expected …; found …; hint". Empty parts are left out.
struct ErrorParts {
  std::string where;
  std::string expected;
  std::string found;
  std::string hint;
};

class HEADWISE_API Error : public std::runtime_error {
 public:
  Error(ErrorCode code, ErrorParts parts);

  ErrorCode code() const { return code_; }
  const ErrorParts& parts() const { return parts_; }

 private:
  ErrorCode code_;
  ErrorParts parts_;
};

}  // namespace headwise
