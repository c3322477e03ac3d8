// A list of hooks. Door: hooks.h.
#include "headwise/nn/hooks.h"

#include <algorithm>

#include "headwise/error.h"

namespace headwise {

void HookList::Add(RunHooks* hooks) {
  if (hooks == nullptr) return;
  if (count_ == kMost) {
    throw Error(ErrorCode::kInvalidArgument,
                {"hooks", "at most " + std::to_string(kMost) + " of one run",
                 "one more", "let one hook do the work of several"});
  }
  hooks_[count_++] = hooks;
}

void HookList::BeforeAttention(const AttentionSite& site,
                               const AttentionProblem& problem,
                               AttentionArgs& args) const {
  for (RunHooks* one : all()) {
    const Observation* before = args.observation;
    one->BeforeAttention(site, problem, args);
    if (before == nullptr || before == args.observation) continue;
    throw Error(ErrorCode::kInvalidArgument,
                {site.name, "one hook that observes the call", "two",
                 "run the model once for each"});
  }
}

void HookList::AfterAttention(const AttentionSite& site,
                              const AttentionProblem& problem,
                              const AttentionArgs& args) const {
  for (RunHooks* one : all()) one->AfterAttention(site, problem, args);
}

bool HookList::KeepsCalls() const {
  return std::ranges::any_of(
      all(), [](const RunHooks* one) { return one->KeepsCalls(); });
}

void HookList::KeepCall(const std::shared_ptr<const void>& memory) const {
  for (RunHooks* one : all()) one->KeepCall(memory);
}

void HookList::BeforeAttentionBackward(const AttentionSite& site,
                                       const AttentionProblem& problem,
                                       const AttentionArgs& args,
                                       AttentionGrads& grads) const {
  for (RunHooks* one : all()) {
    one->BeforeAttentionBackward(site, problem, args, grads);
  }
}

void HookList::AfterAttentionBackward(const AttentionSite& site,
                                      const AttentionProblem& problem,
                                      const AttentionArgs& args,
                                      const AttentionGrads& grads) const {
  for (RunHooks* one : all()) {
    one->AfterAttentionBackward(site, problem, args, grads);
  }
}

bool HookList::WantsSome() const {
  return std::ranges::any_of(
      all(), [](const RunHooks* one) { return one->WantsSome(); });
}

bool HookList::Wants(std::string_view activation) const {
  return std::ranges::any_of(
      all(), [&](const RunHooks* one) { return one->Wants(activation); });
}

void HookList::Take(std::string_view activation, ConstTensorView value) const {
  for (RunHooks* one : all()) {
    if (one->Wants(activation)) one->Take(activation, value);
  }
}

void HookList::Change(std::string_view activation, TensorView value) const {
  for (RunHooks* one : all()) {
    if (one->Wants(activation)) one->Change(activation, value);
  }
}

}  // namespace headwise
