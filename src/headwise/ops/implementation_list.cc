// Why no implementation takes a call. Door: implementation_list.h.
#include "headwise/ops/implementation_list.h"

#include "headwise/error.h"

namespace headwise {

void ThrowNoImplementation(std::string_view op, std::string_view wanted,
                           const std::vector<Refusal>& refusals) {
  std::string names, reasons;
  for (const Refusal& refusal : refusals) {
    if (wanted == refusal.name) {
      throw Error(
          ErrorCode::kUnsupported,
          {std::string(op),
           "a call that " + std::string(wanted) +
               ", asked for by name, can run",
           refusal.reason, "leave the choice out to take one that can"});
    }
    const std::string name(refusal.name);
    names += (names.empty() ? "" : ", ") + name;
    reasons += (reasons.empty() ? "" : "; ") + name + ": " + refusal.reason;
  }
  if (!wanted.empty()) {
    throw Error(ErrorCode::kInvalidArgument,
                {std::string(op), "one of " + names, std::string(wanted),
                 "implementations are chosen as " + std::string(op) + ":NAME"});
  }
  throw Error(ErrorCode::kUnsupported,
              {std::string(op), "an implementation of this call", reasons, ""});
}

}  // namespace headwise
