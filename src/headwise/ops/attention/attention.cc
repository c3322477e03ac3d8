// The attention operator's entry points and its list of implementations: each
// call is validated, then given to the first implementation that takes it.
// Door: include/headwise/attention.h.
#include "headwise/attention.h"

#include <algorithm>
#include <type_traits>

#include "headwise/backend/context_use.h"
#include "headwise/error.h"
#include "headwise/ops/attention/geometry.h"
#include "headwise/ops/attention/implementation.h"
#include "headwise/ops/attention/padding.h"
#include "headwise/ops/attention/validate.h"
#include "headwise/ops/copy/copy.h"

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

void CheckDevice(const Context& context, const AttentionProblem& problem) {
  if (problem.device == context.device()) return;
  throw Error(
      ErrorCode::kInvalidArgument,
      {"attention",
       "a problem on the context's device, " + ToString(context.device()),
       "one on " + ToString(problem.device), ""});
}

// Whether the call's filter leaves no head.
bool IsOfNoHead(const AttentionCall& call) {
  return std::visit(
      []<typename T>(const T& of) {
        if constexpr (std::is_same_v<T, AttentionGramCall>) {
          return std::ranges::all_of(of.sources, [](const HeadSource& source) {
            return source.args.active_heads.is_none();
          });
        } else {
          return of.args.active_heads.is_none();
        }
      },
      call);
}

// What such a call writes: nobody's part of dk and dv, which heads share.
void LeaveOut(Context& context, const AttentionCall& call) {
  const auto* backward = std::get_if<AttentionBackwardCall>(&call);
  if (backward == nullptr) return;
  if (backward->grads.dk) Fill(context, 0, backward->grads.dk);
  if (backward->grads.dv) Fill(context, 0, backward->grads.dv);
}

}  // namespace

ImplementationList<AttentionCall> AttentionImplementations() {
  static const AttentionImplementation kList[] = {
      kAttentionCudaSm90,   // Hopper
      kAttentionCudaSm80,   // Ampere and later
      kAttentionCudaPlain,  // every type and shape on a GPU
      kAttentionCpuF32,     // host
      kAttentionReference,  // the truth
  };
  return {"attention", kList};
}

void RunAttention(Context& context, const AttentionCall& call) {
  const ContextUse use(context);
  std::visit(
      [&]<typename T>(const T& of) {
        if constexpr (std::is_same_v<T, AttentionGramCall>) {
          for (const HeadSource& source : of.sources) {
            CheckDevice(context, source.problem);
          }
        } else {
          CheckDevice(context, of.problem);
        }
      },
      call);
  if (IsOfNoHead(call)) {
    LeaveOut(context, call);
  } else {
    Dispatch(context, AttentionImplementations(), call);
  }
}

void AttentionForward(Context& context, const AttentionProblem& problem,
                      const AttentionArgs& args) {
  AttentionForwardPadded(
      context, problem, args,
      {BestWidths(context, AttentionPass::kForward, problem)});
}

void AttentionBackward(Context& context, const AttentionProblem& problem,
                       const AttentionArgs& args, const AttentionGrads& grads) {
  AttentionBackwardPadded(
      context, problem, args, grads,
      {BestWidths(context, AttentionPass::kBackward, problem)});
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
