// The error of a second caller. Door: one_caller.h.
#include "headwise/base/one_caller.h"

#include "headwise/error.h"

namespace headwise {

void OneCaller::ThrowBusy(const Rule& rule) {
  throw Error(ErrorCode::kInvalidArgument,
              {rule.where, "one calling thread at a time",
               "a call while another thread's is on", rule.hint});
}

}  // namespace headwise
