// An entry of a list whose CUDA kernels are not in this build: each operator's
// no_cuda/ has one.
#pragma once

#include "headwise/ops/implementation_list.h"

namespace headwise {

template <class Call>
constexpr Implementation<Call> NotBuilt(const char* name) {
  return {.name = name,
          .why_not = [](const Call&) -> Reason {
            return "this build has no CUDA (preset cuda has it)";
          },
          .run = nullptr};
}

}  // namespace headwise
