// Copies into wider slots, runs, copies back. Door: padding.h.
#include "headwise/ops/attention/padding.h"

#include <utility>
#include <vector>

#include "headwise/ops/attention/geometry.h"
#include "headwise/ops/attention/validate.h"
#include "headwise/ops/copy/copy.h"
#include "headwise/tensor/slice.h"
#include "headwise/tensor/temp.h"

namespace headwise {
namespace {

// What tensor cores and 16-byte loads of half-width types ask for.
constexpr int64_t kMultiple = 8;

// The copies of one call.
class WideCopies {
 public:
  WideCopies(Context& context, const AttentionArgs& args)
      : context_(context), all_heads_(args.active_heads.is_all()) {}

  // A view [B, rows, heads, ·] in slots of `width` columns, zeros behind.
  template <typename Void>
  BasicView<Void> Input(const BasicView<Void>& own, int64_t width) {
    if (!own || own.shape[3] == width) return own;
    Temp wide = Slots(own, width);
    Fill(context_, 0, Columns(wide.view(), own.shape[3], width));
    Copy(context_, own, Own(wide, own));
    memory_.push_back(std::move(wide));
    return memory_.back().view();
  }

  // The same where strides of 0 repeat what is there once: so does the copy.
  ConstTensorView Repeated(const ConstTensorView& own, int64_t width) {
    if (!own) return own;
    ConstTensorView once = own;
    for (int axis = 0; axis < 3; ++axis) {
      if (once.stride[axis] == 0) once.shape[axis] = 1;
    }
    return Broadcast(Input(once, width),
                     {own.shape[0], own.shape[1], own.shape[2], width});
  }

  // Where a result goes until Return. Heads that are left out keep theirs.
  TensorView Result(const TensorView& own, int64_t width) {
    if (!own || own.shape[3] == width) return own;
    if (!all_heads_) {
      const TensorView wide = Input(own, width);
      results_.push_back({Columns(wide, 0, own.shape[3]), own});
      return wide;
    }
    memory_.push_back(Slots(own, width));
    results_.push_back({Own(memory_.back(), own), own});
    return memory_.back().view();
  }

  // The results' own columns to where they were asked for.
  void Return() {
    for (const auto& [from, to] : results_) Copy(context_, from, to);
  }

 private:
  Temp Slots(const ConstTensorView& own, int64_t width) {
    return {
        context_, own.type, {own.shape[0], own.shape[1], own.shape[2], width}};
  }
  static TensorView Own(const Temp& wide, const ConstTensorView& own) {
    return Columns(wide.view(), 0, own.shape[3]);
  }

  Context& context_;
  bool all_heads_;
  std::vector<Temp> memory_;
  std::vector<std::pair<ConstTensorView, TensorView>> results_;
};

// What both passes read.
AttentionArgs WidenedInputs(const AttentionArgs& args,
                            const HeadPadding& padding, WideCopies& copies) {
  const auto [head_dim, value_dim] = padding.widths;
  const auto given = [](const ConstTensorView& view, int64_t width) {
    return view && view.shape[3] == width;
  };
  AttentionArgs wide = args;
  wide.q = copies.Input(args.q, head_dim);
  wide.k =
      given(padding.k, head_dim) ? padding.k : copies.Input(args.k, head_dim);
  wide.v =
      given(padding.v, value_dim) ? padding.v : copies.Input(args.v, value_dim);
  wide.replacement = copies.Repeated(args.replacement, value_dim);
  return wide;
}

}  // namespace

HeadWidths OwnWidths(const AttentionProblem& problem) {
  return {problem.head_dim, ValueDim(problem)};
}

HeadWidths RoundedUp(const AttentionProblem& problem, int64_t multiple) {
  const auto up = [&](int64_t width) {
    return (width + multiple - 1) / multiple * multiple;
  };
  return {up(problem.head_dim), up(ValueDim(problem))};
}

AttentionProblem Widened(const AttentionProblem& problem,
                         const HeadWidths& widths) {
  AttentionProblem wide = problem;
  wide.scale = static_cast<float>(Scale(problem));
  wide.head_dim = widths.head_dim;
  wide.value_dim = widths.value_dim;
  return wide;
}

HeadWidths BestWidths(const ImplementationList<AttentionCall>& list,
                      std::string_view wanted, AttentionPass pass,
                      const AttentionProblem& problem) {
  const HeadWidths own = OwnWidths(problem);
  const HeadWidths up = RoundedUp(problem, kMultiple);
  if (own == up) return own;
  const AttentionProblem wide = Widened(problem, up);
  for (const AttentionImplementation& entry : list.entries) {
    if (!wanted.empty() && wanted != entry.name) continue;
    if (WhyNot(entry, pass, problem).empty()) return own;
    if (WhyNot(entry, pass, wide).empty()) return up;
  }
  return own;
}

HeadWidths BestWidths(const Context& context, AttentionPass pass,
                      const AttentionProblem& problem) {
  if (problem.device != context.device()) return OwnWidths(problem);
  const auto list = AttentionImplementations();
  return BestWidths(list, context.PreferredImplementation(list.op), pass,
                    problem);
}

void AttentionForwardPadded(Context& context, const AttentionProblem& problem,
                            const AttentionArgs& args,
                            const HeadPadding& padding) {
  ValidateForward(problem, args);
  if (padding.widths == OwnWidths(problem)) {
    return RunAttention(context, AttentionForwardCall{problem, args});
  }
  WideCopies copies(context, args);
  AttentionArgs wide = WidenedInputs(args, padding, copies);
  wide.out = copies.Result(args.out, padding.widths.value_dim);
  wide.ungated = copies.Result(args.ungated, padding.widths.value_dim);
  const AttentionProblem wider = Widened(problem, padding.widths);
  RunAttention(context, AttentionForwardCall{wider, wide});
  copies.Return();
}

void AttentionBackwardPadded(Context& context, const AttentionProblem& problem,
                             const AttentionArgs& args,
                             const AttentionGrads& grads,
                             const HeadPadding& padding) {
  ValidateBackward(problem, args, grads);
  if (padding.widths == OwnWidths(problem)) {
    return RunAttention(context, AttentionBackwardCall{problem, args, grads});
  }
  const auto [head_dim, value_dim] = padding.widths;
  WideCopies copies(context, args);
  AttentionArgs wide = WidenedInputs(args, padding, copies);
  wide.out = copies.Input(args.out, value_dim);
  wide.ungated = copies.Input(args.ungated, value_dim);
  AttentionGrads returned = grads;
  returned.dout = copies.Input(grads.dout, value_dim);
  returned.dq = copies.Result(grads.dq, head_dim);
  returned.dk = copies.Result(grads.dk, head_dim);
  returned.dv = copies.Result(grads.dv, value_dim);
  const AttentionProblem wider = Widened(problem, padding.widths);
  RunAttention(context, AttentionBackwardCall{wider, wide, returned});
  copies.Return();
}

}  // namespace headwise
