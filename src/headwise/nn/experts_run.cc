// A mixture of experts, forward and backward. Each expert costs its Mlp for the
// tokens that chose it, the gathering of their rows, and one gather, addition
// and scatter of its outputs; where its tokens are consecutive (a single token
// is) rows are read and added to where they lie. Door: experts.h.
#include <algorithm>
#include <limits>
#include <utility>

#include "headwise/nn/experts.h"
#include "headwise/ops/copy/copy.h"
#include "headwise/ops/matmul/matmul.h"
#include "headwise/ops/pointwise/pointwise.h"
#include "headwise/tensor/slice.h"

namespace headwise {
namespace {

// Of the CPU: as many as Mlp takes at once.
constexpr int64_t kExpertRowsPerBlock = 512;
constexpr int64_t kWholeExpert = std::numeric_limits<int64_t>::max();

// Some rows of one expert.
struct ExpertGroup {
  const Mlp* mlp = nullptr;
  int64_t expert = -1;           // −1: the shared one
  int64_t begin = 0;             // of ExpertRows
  int64_t count = 0;             // at least 1
  int64_t first = -1;            // token, where they are consecutive; else −1
  ConstTensorView tokens = {};   // i32 [count]; null where they are consecutive
  ConstTensorView weights = {};  // f32 [count]

  // Its rows of a view that has one for each row or gate.
  template <typename View>
  View Of(const View& view) const {
    return Rows(view, begin, begin + count);
  }
};

// The groups of a call, of at most `block` rows each, in the order of the sums.
// shared: null where it has no gate.
std::vector<ExpertGroup> GroupsOf(const std::vector<Mlp>& experts,
                                  const Mlp* shared, const ExpertRows& rows,
                                  int64_t block) {
  std::vector<ExpertGroup> groups;
  const auto add = [&](const Mlp& mlp, int64_t expert, int64_t begin,
                       int64_t end) {
    while (begin < end) {
      const int64_t count = std::min(block, end - begin);
      ExpertGroup group = {.mlp = &mlp,
                           .expert = expert,
                           .begin = begin,
                           .count = count,
                           .first = begin - rows.count()};
      group.weights = group.Of(ConstTensorView(rows.weights.view()));
      if (expert >= 0) {
        const int64_t first = rows.tokens[begin];
        const bool together =
            rows.tokens[begin + count - 1] - first + 1 == count;
        group.first = together ? first : -1;
        if (!together) group.tokens = group.Of(rows.device_tokens.view());
      }
      groups.push_back(group);
      begin += count;
    }
  };
  const int64_t count = rows.count();
  if (shared != nullptr) add(*shared, -1, count, count + rows.choice.tokens);
  for (int64_t e = 0; e < std::ssize(experts); ++e) {
    add(experts[e], e, rows.starts[e], rows.starts[e + 1]);
  }
  return groups;
}

// x [T, n] of the group's tokens: where they lie if they are consecutive, else
// a copy, which `copy` keeps.
ConstTensorView OfTokens(Context& context, const ExpertGroup& group,
                         const ConstTensorView& x, Temp& copy) {
  if (group.first >= 0) return Rows(x, group.first, group.first + group.count);
  copy = Temp(context, x.type, {group.count, x.shape[1]});
  GatherRows(context, x, group.tokens, copy.view());
  return copy.view();
}

// Adds rows to those of the group's tokens in sum [T, n]; all f32.
void AddToTokens(Context& context, const ExpertGroup& group,
                 const ConstTensorView& rows, const TensorView& sum) {
  if (group.first >= 0) {
    return AddTo(context, rows,
                 Rows(sum, group.first, group.first + group.count));
  }
  const Temp part(context, sum.type, {group.count, sum.shape[1]});
  GatherRows(context, sum, group.tokens, part.view());
  AddTo(context, rows, part.view());
  ScatterRows(context, part.view(), group.tokens, sum);
}

// y [R, n] = each row of x times its weight (f32 [R]); x and y of one type.
void WeighRows(Context& context, const ConstTensorView& x,
               const ConstTensorView& weights, const TensorView& y) {
  ConstTensorView factors = weights;
  Temp rounded;
  if (x.type != weights.type) {
    rounded = Temp(context, x.type, {x.shape[0]});
    Copy(context, weights, rounded.view());
    factors = rounded.view();
  }
  Multiply(context, x,
           Broadcast(Reshaped(factors, {x.shape[0], 1}),
                     Shape{x.shape[0], x.shape[1]}),
           y);
}

// dots [R] = the products of rows of a, of any type, and b; both else f32.
void DotRows(Context& context, const ConstTensorView& a,
             const ConstTensorView& b, const TensorView& dots) {
  const int64_t rows = b.shape[0], width = b.shape[1];
  const Temp products(context, DType::kF32, {rows, width});
  const Temp ones(context, DType::kF32, {width, 1});
  if (a.type == DType::kF32) {
    Multiply(context, a, b, products.view());
  } else {
    Copy(context, a, products.view());
    Multiply(context, products.view(), b, products.view());
  }
  Fill(context, 1, ones.view());
  Matmul(
      context, {.m = rows, .n = 1, .k = width},
      {.a = products.view(), .b = ones.view(), .c = Reshaped(dots, {rows, 1})});
}

// A sum in f32 that becomes y or is added to it.
class ExpertSum {
 public:
  ExpertSum(Context& context, TensorView y, Store store)
      : context_(context), y_(y), store_(store) {
    if (y.type == DType::kF32) return;
    memory_ = Temp(context, DType::kF32, {y.shape[0], y.shape[1]});
  }

  TensorView view() const { return memory_ ? memory_.view() : y_; }
  // How the first summand comes to view().
  Store first() const { return memory_ ? Store::kOverwrite : store_; }
  void BeginWithNothing() {
    if (first() == Store::kOverwrite) Fill(context_, 0, view());
  }
  void Finish() {
    if (!memory_) return;
    if (store_ == Store::kOverwrite) return Copy(context_, view(), y_);
    const Temp rounded(context_, y_.type, {y_.shape[0], y_.shape[1]});
    Copy(context_, view(), rounded.view());
    AddTo(context_, rounded.view(), y_);
  }

 private:
  Context& context_;
  TensorView y_;
  Store store_;
  Temp memory_;
};

}  // namespace

void Experts::Forward(Context& context, ConstTensorView x, TensorView y,
                      Store store, const ExpertsInput& input) const {
  const ExpertRows rows = Route(context, x, input);
  ExpertSum sum(context, y, store);
  if (has_shared() && !gates_shared()) {
    shared_.Forward(context, x, sum.view(), sum.first());
  } else {
    sum.BeginWithNothing();
  }
  const int64_t block =
      context.device().is_cpu() ? kExpertRowsPerBlock : kWholeExpert;
  for (const ExpertGroup& group :
       GroupsOf(experts_, gated_shared(), rows, block)) {
    Temp copy;
    const Temp out(context, DType::kF32, {group.count, x.shape[1]});
    group.mlp->Forward(context, OfTokens(context, group, x, copy), out.view(),
                       Store::kOverwrite);
    WeighRows(context, out.view(), group.weights, out.view());
    AddToTokens(context, group, out.view(), sum.view());
  }
  sum.Finish();
}

void Experts::ForwardSaving(Context& context, ConstTensorView x, TensorView y,
                            Store store, ExpertsSaved& saved,
                            const ExpertsInput& input) const {
  saved.rows = Route(context, x, input);
  saved.experts.clear();
  saved.experts.resize(experts_.size());
  saved.balance = input.loss != nullptr ? input.balance : 0.0f;
  saved.outputs = Temp(context, DType::kF32,
                       {saved.rows.weights.view().shape[0], x.shape[1]});
  ExpertSum sum(context, y, store);
  if (has_shared() && !gates_shared()) {
    shared_.ForwardSaving(context, x, sum.view(), sum.first(), saved.shared);
  } else {
    sum.BeginWithNothing();
  }
  for (const ExpertGroup& group :
       GroupsOf(experts_, gated_shared(), saved.rows, kWholeExpert)) {
    Temp copy;
    const TensorView out = group.Of(saved.outputs.view());
    MlpSaved& own =
        group.expert < 0 ? saved.shared : saved.experts[group.expert];
    group.mlp->ForwardSaving(context, OfTokens(context, group, x, copy), out,
                             Store::kOverwrite, own);
    const Temp weighted(context, DType::kF32, {group.count, x.shape[1]});
    WeighRows(context, out, group.weights, weighted.view());
    AddToTokens(context, group, weighted.view(), sum.view());
  }
  sum.Finish();
}

void Experts::Backward(Context& context, ConstTensorView x,
                       const ExpertsSaved& saved, ConstTensorView dy,
                       TensorView dx) const {
  const Temp dweights(context, DType::kF32, {saved.outputs.view().shape[0]});
  ExpertSum sum(context, dx, Store::kOverwrite);
  if (has_shared() && !gates_shared()) {
    shared_.Backward(context, x, saved.shared, dy, sum.view());
  } else {
    sum.BeginWithNothing();
  }
  for (const ExpertGroup& group :
       GroupsOf(experts_, gated_shared(), saved.rows, kWholeExpert)) {
    Temp x_copy, dy_copy;
    const ConstTensorView own_dy = OfTokens(context, group, dy, dy_copy);
    DotRows(context, own_dy, group.Of(saved.outputs.view()),
            group.Of(dweights.view()));
    const Shape shape = {group.count, x.shape[1]};
    const Temp dout(context, dy.type, shape);
    const Temp part(context, DType::kF32, shape);
    WeighRows(context, own_dy, group.weights, dout.view());
    group.mlp->Backward(
        context, OfTokens(context, group, x, x_copy),
        group.expert < 0 ? saved.shared : saved.experts[group.expert],
        dout.view(), part.view());
    AddToTokens(context, group, part.view(), sum.view());
  }
  RouterBackward(context, x, saved, dweights.view(), sum.view());
  sum.Finish();
}

void Experts::RouterBackward(Context& context, ConstTensorView x,
                             const ExpertsSaved& saved,
                             ConstTensorView dweights, TensorView dx) const {
  const ExpertRows& rows = saved.rows;
  const ExpertChoice& choice = rows.choice;
  const std::vector<float> by_row = ToVector<float>(context, dweights);
  std::vector<float> by_entry(rows.count());
  for (int64_t row = 0; row < rows.count(); ++row) {
    by_entry[rows.entries[row]] = by_row[row];
  }
  const std::vector<float> own =
      ChoiceBackward(config_, choice, by_entry, saved.balance);
  const int64_t width = router_.out();
  std::vector<float> dlogits(choice.tokens * width);
  for (int64_t t = 0; t < choice.tokens; ++t) {
    std::copy_n(own.begin() + t * choice.experts, choice.experts,
                dlogits.begin() + t * width);
    if (!gates_shared()) continue;
    const float gate = rows.gates[t];
    dlogits[t * width + choice.experts] =
        by_row[rows.count() + t] * gate * (1 - gate);
  }
  const Temp on_device =
      CopyOf(context, Reshaped(ViewOf(dlogits), {choice.tokens, width}));
  router_.Backward(context, x, on_device.view(), dx, Store::kAccumulate);
}

}  // namespace headwise
