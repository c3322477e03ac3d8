/// @file
/// The version of Headwise, at compile time and at run time. This is the one
/// place where it stands: CMakeLists.txt reads it here.
#pragma once

#include "headwise/export.h"

#define HEADWISE_VERSION_MAJOR 0
#define HEADWISE_VERSION_MINOR 1
#define HEADWISE_VERSION_PATCH 0

/// One number to compare, 10203 for 1.2.3.
#define HEADWISE_VERSION                                           \
  (HEADWISE_VERSION_MAJOR * 10000 + HEADWISE_VERSION_MINOR * 100 + \
   HEADWISE_VERSION_PATCH)

#define HEADWISE_DETAIL_QUOTE(text) #text
#define HEADWISE_DETAIL_DOTTED(major, minor, patch) \
  HEADWISE_DETAIL_QUOTE(major)                      \
  "." HEADWISE_DETAIL_QUOTE(minor) "." HEADWISE_DETAIL_QUOTE(patch)

/// "0.1.0"
#define HEADWISE_VERSION_STRING                                          \
  HEADWISE_DETAIL_DOTTED(HEADWISE_VERSION_MAJOR, HEADWISE_VERSION_MINOR, \
                         HEADWISE_VERSION_PATCH)

namespace headwise {

/// The version of the library that is linked, e.g. "0.1.0".
HEADWISE_API const char* Version();

/// The version as a number, to compare with HEADWISE_VERSION.
HEADWISE_API int VersionNumber();

}  // namespace headwise
