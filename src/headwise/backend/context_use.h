// Holds a Context for the calling thread while a call is on, so that a second
// thread that takes the same Context gets an error and not wrong numbers.
#pragma once

#include "headwise/base/one_caller.h"
#include "headwise/context.h"

namespace headwise {

class ContextUse {
 public:
  // Throws Error(kInvalidArgument) while another thread's call is on.
  explicit ContextUse(Context& context) : caller_(context.user_, kRule) {}

 private:
  static constexpr OneCaller::Rule kRule = {
      "context", "give each thread a Context of its own"};
  OneCaller caller_;
};

}  // namespace headwise
