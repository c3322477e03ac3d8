// One dispatcher for every operator. An operator has a Call (its problem, its
// pass and its views), and one list of implementations of it, best first, the
// reference last. A call goes to the first that has no objection; tests hold
// every entry to the reference.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "headwise/backend/context_use.h"
#include "headwise/context.h"
#include "headwise/export.h"

namespace headwise {

// Nothing, or why a call cannot be run. A literal takes no memory: a call asks
// every entry before the one that runs it.
class Reason {
 public:
  Reason(const char* text = "") : literal_(text) {}     // NOLINT: implicit
  Reason(std::string text) : made_(std::move(text)) {}  // NOLINT: likewise
  bool empty() const { return *literal_ == '\0' && made_.empty(); }
  operator std::string() const {  // NOLINT: likewise
    return made_.empty() ? literal_ : made_;
  }
  friend bool operator==(const Reason& reason, std::string_view text) {
    return (reason.made_.empty() ? reason.literal_ : reason.made_) == text;
  }

 private:
  const char* literal_ = "";
  std::string made_;
};

template <class Call>
struct Implementation {
  const char* name = "";  // "cpu.f32"
  // Empty, or why this call cannot be run here and now. What it says nothing
  // against must run: it neither throws for what another entry could do nor
  // hands the call on.
  Reason (*why_not)(const Call& call) = nullptr;
  // The call has been validated.
  void (*run)(Context& context, const Call& call) = nullptr;
  // Bytes that it may keep on the host of what a call shares with others, its
  // weights laid out anew; null: it keeps nothing.
  size_t (*kept_bytes)(const Call& call) = nullptr;
};

template <class Call>
struct ImplementationList {
  std::string_view op;  // "norm"
  std::span<const Implementation<Call>> entries;
};

struct Refusal {
  std::string_view name;
  std::string reason;
};
// Throws Error(kInvalidArgument) when `wanted` is none of the names, else
// Error(kUnsupported) with the reasons.
[[noreturn]] void ThrowNoImplementation(std::string_view op,
                                        std::string_view wanted,
                                        const std::vector<Refusal>& refusals);

// The implementation that runs a call: the one that the context asks for by
// name, and no other; else the first that takes it.
template <class Call>
const Implementation<Call>& Choose(const Context& context,
                                   const ImplementationList<Call>& list,
                                   const Call& call) {
  const std::string_view wanted = context.PreferredImplementation(list.op);
  for (const Implementation<Call>& entry : list.entries) {
    if (!wanted.empty() && wanted != entry.name) continue;
    if (entry.why_not(call).empty()) return entry;
  }
  std::vector<Refusal> refusals;
  for (const Implementation<Call>& entry : list.entries) {
    refusals.push_back({entry.name, entry.why_not(call)});
  }
  ThrowNoImplementation(list.op, wanted, refusals);
}

template <class Call>
void Dispatch(Context& context, const ImplementationList<Call>& list,
              const Call& call) {
  const ContextUse use(context);
  Choose(context, list, call).run(context, call);
}

}  // namespace headwise
