// The attention operator's entry points and its list of implementations: each
// call is validated, then given to the first implementation that takes it.
// Door: include/headwise/attention.h.
#include "headwise/attention.h"

#include <algorithm>

#include "headwise/error.h"
#include "headwise/ops/attention/dispatch.h"
#include "headwise/ops/attention/geometry.h"
#include "headwise/ops/attention/implementation.h"
#include "headwise/ops/attention/validate.h"

namespace headwise {
namespace {

// Σ_{i < count} clamp(i + shift, 0, high), exact in double below 2^53.
double SumOfClamped(int64_t count, double shift, double high) {
  const double n = static_cast<double>(count);
  // i + shift leaves 0 at `rise` and meets `high` at `flat`.
  const double rise = std::clamp(-shift, 0.0, n);
  const double flat = std::clamp(high - shift, rise, n);
  const double first = rise + shift;
  const double terms = flat - rise;
  return terms * first + terms * (terms - 1) / 2 + (n - flat) * high;
}

}  // namespace

std::span<const AttentionImplementation> AttentionImplementations() {
  static const AttentionImplementation kList[] = {
      kAttentionCudaSm90,
      kAttentionCudaSm80,
      kAttentionCpuF32,
      kAttentionReference,
  };
  return kList;
}

std::string WhyNot(const AttentionImplementation& implementation,
                   std::span<const AttentionProblem> problems) {
  for (const AttentionProblem& problem : problems) {
    std::string reason = implementation.why_not(problem);
    if (!reason.empty()) return reason;
  }
  return "";
}

std::span<const AttentionImplementation> Candidates(
    const Context& context, std::span<const AttentionProblem> problems) {
  const auto list = AttentionImplementations();
  const std::string_view wanted = context.PreferredImplementation("attention");
  if (wanted.empty()) return list;
  std::string names;
  for (size_t i = 0; i < list.size(); ++i) {
    if (wanted == list[i].name) {
      const std::string reason = WhyNot(list[i], problems);
      if (reason.empty()) return list.subspan(i);
      throw Error(ErrorCode::kUnsupported,
                  {"attention",
                   "a problem that " + std::string(wanted) +
                       ", asked for by name, can run",
                   reason, "leave the choice out to take one that can"});
    }
    names += (names.empty() ? "" : ", ") + std::string(list[i].name);
  }
  throw Error(ErrorCode::kInvalidArgument,
              {"attention", "one of " + names, std::string(wanted),
               "implementations are chosen as attention:NAME"});
}

void ThrowNoImplementation(std::string_view pass,
                           std::span<const AttentionProblem> problems) {
  std::string reasons;
  for (const AttentionImplementation& entry : AttentionImplementations()) {
    const std::string reason = WhyNot(entry, problems);
    reasons += (reasons.empty() ? "" : "; ") + std::string(entry.name) + ": " +
               (reason.empty() ? "has no such pass" : reason);
  }
  throw Error(
      ErrorCode::kUnsupported,
      {"attention", "an implementation of " + std::string(pass), reasons, ""});
}

void AttentionForward(Context& context, const AttentionProblem& problem,
                      const AttentionArgs& args) {
  ValidateForward(problem, args);
  Dispatch(context, {&problem, 1}, "forward",
           &AttentionImplementation::forward)(context, problem, args);
}

void AttentionBackward(Context& context, const AttentionProblem& problem,
                       const AttentionArgs& args, const AttentionGrads& grads) {
  ValidateBackward(problem, args, grads);
  Dispatch(context, {&problem, 1}, "backward",
           &AttentionImplementation::backward)(context, problem, args, grads);
}

std::vector<ImplementationInfo> ExplainAttention(
    const AttentionProblem& problem) {
  ValidateProblem(problem);
  std::vector<ImplementationInfo> result;
  for (const AttentionImplementation& entry : AttentionImplementations()) {
    result.push_back({entry.name, entry.why_not(problem)});
  }
  return result;
}

double AttentionFlops(const AttentionProblem& problem) {
  ValidateProblem(problem);
  const AttentionMask& mask = problem.mask;
  const double keys = static_cast<double>(problem.key_len);
  const double offset = static_cast<double>(mask.query_offset);
  // The band ends before clamp(p + after + 1) and begins at clamp(p − before);
  // sinks are what is left of its beginning.
  const double end = offset + static_cast<double>(mask.after) + 1;
  const double begin = offset - static_cast<double>(mask.before);
  const double sinks = std::min(keys, static_cast<double>(mask.sinks));
  const double pairs = SumOfClamped(problem.query_len, end, keys) -
                       SumOfClamped(problem.query_len, begin, keys) +
                       SumOfClamped(problem.query_len, begin, sinks);
  return 2.0 * static_cast<double>(problem.head_dim + ValueDim(problem)) *
         pairs * static_cast<double>(problem.batch) *
         static_cast<double>(problem.heads);
}

}  // namespace headwise
