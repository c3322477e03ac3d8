// A mixture of experts, forward and backward. Besides its experts' Mlp a call
// costs one gather of rows by expert, and for each of a token's experts a
// gather of rows by token, their weighting and an addition.
// Door: experts.h.
#include <algorithm>
#include <span>
#include <utility>
#include <vector>

#include "headwise/nn/experts.h"
#include "headwise/ops/copy/copy.h"
#include "headwise/ops/matmul/matmul.h"
#include "headwise/ops/pointwise/pointwise.h"
#include "headwise/tensor/slice.h"

namespace headwise {
namespace {

// Rows on the CPU: enough for full-speed products, if tokens choose alike.
constexpr int64_t kLeastTokensPerBlock = 512;
constexpr int64_t kRowsPerExpert = 256;

// The rows of tokens [begin, end) of a choice, as if these were all.
ExpertRows GroupByExpert(const ExpertChoice& choice, int64_t active,
                         int64_t begin, int64_t end) {
  const int64_t tokens = end - begin, entries = tokens * active;
  const auto chosen = std::span(choice.chosen).subspan(begin * active, entries);
  ExpertRows rows;
  rows.starts.assign(choice.experts + 1, 0);
  for (const int32_t e : chosen) ++rows.starts[e + 1];
  for (int64_t e = 0; e < choice.experts; ++e) {
    rows.starts[e + 1] += rows.starts[e];
  }
  rows.entries.resize(entries);
  rows.places.resize(entries);
  std::vector<int64_t> next = rows.starts;
  for (int64_t i = 0; i < entries; ++i) {
    const int64_t row = next[chosen[i]]++;
    rows.entries[row] = static_cast<int32_t>(i);
    rows.places[i % active * tokens + i / active] = static_cast<int32_t>(row);
  }
  return rows;
}

// Weights of tokens [begin, end) as [K, T].
std::vector<float> WeightsByPlace(const ExpertChoice& choice, int64_t active,
                                  int64_t begin, int64_t end) {
  std::vector<float> weights;
  weights.reserve((end - begin) * active);
  for (int64_t j = 0; j < active; ++j) {
    for (int64_t t = begin; t < end; ++t) {
      weights.push_back(choice.weights[t * active + j]);
    }
  }
  return weights;
}

// x [T, n] of each row's token.
Temp GatherByExpert(Context& context, const ExpertRows& rows, int64_t active,
                    const ConstTensorView& x) {
  std::vector<int32_t> tokens;
  tokens.reserve(rows.entries.size());
  for (const int32_t entry : rows.entries) {
    tokens.push_back(static_cast<int32_t>(entry / active));
  }
  Temp index;
  Temp gathered(context, x.type, {rows.count(), x.shape[1]});
  GatherRows(context, x, OnDevice(context, ViewOf(tokens), index),
             gathered.view());
  return gathered;
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

// sum [T, n] += the rows of each token, times weights [K, T] unless these are
// empty; in the order of its experts. All f32.
void AddByToken(Context& context, const ExpertRows& rows,
                const ConstTensorView& values,
                const std::vector<float>& weights, const TensorView& sum) {
  const int64_t tokens = sum.shape[0];
  if (tokens == 1) {
    for (int64_t j = 0; j < rows.count(); ++j) {
      const int32_t row = rows.places[j];
      AddScaled(context, sum, weights.empty() ? 1 : weights[j],
                Rows(values, row, row + 1), sum);
    }
    return;
  }
  Temp index_memory, factors_memory;
  const ConstTensorView index =
      OnDevice(context, ViewOf(rows.places), index_memory);
  const ConstTensorView factors =
      OnDevice(context, ViewOf(weights), factors_memory);
  const Temp memory(context, DType::kF32, {tokens, sum.shape[1]});
  const TensorView part = memory.view();
  for (int64_t begin = 0; begin < rows.count(); begin += tokens) {
    GatherRows(context, values, Rows(index, begin, begin + tokens), part);
    if (!weights.empty()) {
      WeighRows(context, part, Rows(factors, begin, begin + tokens), part);
    }
    AddTo(context, part, sum);
  }
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

void Experts::RunShared(Context& context, std::span<const float> gates,
                        ConstTensorView x, TensorView y, Store store,
                        ExpertsSaved* saved) const {
  if (!has_shared()) {
    if (store == Store::kOverwrite) Fill(context, 0, y);
    return;
  }
  const auto forward = [&](TensorView to, Store how) {
    saved != nullptr ? shared_.ForwardSaving(context, x, to, how, saved->shared)
                     : shared_.Forward(context, x, to, how);
  };
  if (!gates_shared()) return forward(y, store);
  Temp memory;
  Temp out(context, DType::kF32, {x.shape[0], x.shape[1]});
  const ConstTensorView factors = OnDevice(context, ViewOf(gates), memory);
  forward(out.view(), Store::kOverwrite);
  if (store == Store::kOverwrite) {
    WeighRows(context, out.view(), factors, y);
  } else {
    const Temp weighted(context, DType::kF32, {x.shape[0], x.shape[1]});
    WeighRows(context, out.view(), factors, weighted.view());
    AddTo(context, weighted.view(), y);
  }
  if (saved != nullptr) saved->shared_output = std::move(out);
}

void Experts::Run(Context& context, const ExpertRoute& route, int64_t begin,
                  ConstTensorView x, TensorView y, Store store,
                  ExpertsSaved* saved) const {
  const int64_t active = config_.active, end = begin + x.shape[0];
  ExpertSum sum(context, y, store);
  RunShared(context,
            gates_shared() ? std::span(route.gates).subspan(begin, x.shape[0])
                           : std::span<const float>(),
            x, sum.view(), sum.first(), saved);
  ExpertRows rows = GroupByExpert(route.choice, active, begin, end);
  const bool single = x.shape[0] == 1;
  const Temp in = single ? Temp() : GatherByExpert(context, rows, active, x);
  Temp outputs(context, DType::kF32, {rows.count(), x.shape[1]});
  for (size_t e = 0; e < experts_.size(); ++e) {
    const int64_t first = rows.starts[e], last = rows.starts[e + 1];
    if (first == last) continue;
    const ConstTensorView own = single ? x : Rows(in.view(), first, last);
    const TensorView out = Rows(outputs.view(), first, last);
    saved != nullptr
        ? experts_[e].ForwardSaving(context, own, out, Store::kOverwrite,
                                    saved->experts[e])
        : experts_[e].Forward(context, own, out, Store::kOverwrite);
  }
  AddByToken(context, rows, outputs.view(),
             WeightsByPlace(route.choice, active, begin, end), sum.view());
  sum.Finish();
  if (saved == nullptr) return;
  saved->rows = std::move(rows);
  saved->outputs = std::move(outputs);
}

void Experts::Forward(Context& context, ConstTensorView x, TensorView y,
                      Store store, const ExpertsInput& input) const {
  const ExpertRoute route = Route(context, x, input);
  const int64_t tokens = x.shape[0];
  const int64_t alike = kRowsPerExpert * std::ssize(experts_) / config_.active;
  const int64_t block = context.device().is_cpu()
                            ? std::max(kLeastTokensPerBlock, alike)
                            : tokens;
  for (int64_t begin = 0; begin < tokens; begin += block) {
    const int64_t end = std::min(tokens, begin + block);
    Run(context, route, begin, Rows(x, begin, end), Rows(y, begin, end), store,
        nullptr);
  }
}

void Experts::ForwardSaving(Context& context, ConstTensorView x, TensorView y,
                            Store store, ExpertsSaved& saved,
                            const ExpertsInput& input) const {
  saved.route = Route(context, x, input);
  saved.experts.clear();
  saved.experts.resize(experts_.size());
  saved.balance = input.loss != nullptr ? input.balance : 0.0f;
  Run(context, saved.route, 0, x, y, store, &saved);
}

std::vector<float> Experts::SharedBackward(Context& context, ConstTensorView x,
                                           const ExpertsSaved& saved,
                                           ConstTensorView dy,
                                           TensorView dx) const {
  if (!has_shared()) {
    Fill(context, 0, dx);
    return {};
  }
  if (!gates_shared()) {
    shared_.Backward(context, x, saved.shared, dy, dx);
    return {};
  }
  const std::vector<float>& gates = saved.route.gates;
  const Temp dots(context, DType::kF32, {x.shape[0]});
  const Temp dout(context, dy.type, {x.shape[0], x.shape[1]});
  Temp memory;
  DotRows(context, dy, saved.shared_output.view(), dots.view());
  WeighRows(context, dy, OnDevice(context, ViewOf(gates), memory), dout.view());
  shared_.Backward(context, x, saved.shared, dout.view(), dx);
  std::vector<float> dgates = ToVector<float>(context, dots.view());
  for (size_t t = 0; t < gates.size(); ++t) {
    dgates[t] *= gates[t] * (1 - gates[t]);
  }
  return dgates;
}

std::vector<float> Experts::ExpertsBackward(Context& context, ConstTensorView x,
                                            const ExpertsSaved& saved,
                                            ConstTensorView dy,
                                            TensorView dx) const {
  const ExpertRows& rows = saved.rows;
  const Temp in = GatherByExpert(context, rows, config_.active, x);
  const Temp dout = GatherByExpert(context, rows, config_.active, dy);
  const Temp dots(context, DType::kF32, {rows.count()});
  DotRows(context, dout.view(), saved.outputs.view(), dots.view());
  std::vector<float> weights;
  weights.reserve(rows.entries.size());
  for (const int32_t entry : rows.entries) {
    weights.push_back(saved.route.choice.weights[entry]);
  }
  Temp memory;
  WeighRows(context, dout.view(), OnDevice(context, ViewOf(weights), memory),
            dout.view());
  const Temp din(context, DType::kF32, {rows.count(), x.shape[1]});
  for (size_t e = 0; e < experts_.size(); ++e) {
    const int64_t first = rows.starts[e], last = rows.starts[e + 1];
    if (first == last) continue;
    experts_[e].Backward(context, Rows(in.view(), first, last),
                         saved.experts[e], Rows(dout.view(), first, last),
                         Rows(din.view(), first, last));
  }
  AddByToken(context, rows, din.view(), {}, dx);
  return ToVector<float>(context, dots.view());
}

void Experts::RouterBackward(Context& context, ConstTensorView x,
                             const ExpertsSaved& saved,
                             std::span<const float> dweights,
                             std::span<const float> dgates,
                             TensorView dx) const {
  const ExpertChoice& choice = saved.route.choice;
  std::vector<float> by_entry(dweights.size());
  for (size_t row = 0; row < dweights.size(); ++row) {
    by_entry[saved.rows.entries[row]] = dweights[row];
  }
  const std::vector<float> own =
      ChoiceBackward(config_, choice, by_entry, saved.balance);
  std::vector<float> dlogits;
  dlogits.reserve(choice.tokens * router_.out());
  for (int64_t t = 0; t < choice.tokens; ++t) {
    const auto row = own.begin() + t * choice.experts;
    dlogits.insert(dlogits.end(), row, row + choice.experts);
    if (!dgates.empty()) dlogits.push_back(dgates[t]);
  }
  const Temp on_device = CopyOf(
      context, Reshaped(ViewOf(dlogits), {choice.tokens, router_.out()}));
  router_.Backward(context, x, on_device.view(), dx, Store::kAccumulate);
}

void Experts::Backward(Context& context, ConstTensorView x,
                       const ExpertsSaved& saved, ConstTensorView dy,
                       TensorView dx) const {
  ExpertSum sum(context, dx, Store::kOverwrite);
  const std::vector<float> dgates =
      SharedBackward(context, x, saved, dy, sum.view());
  const std::vector<float> dweights =
      ExpertsBackward(context, x, saved, dy, sum.view());
  RouterBackward(context, x, saved, dweights, dgates, sum.view());
  sum.Finish();
}

}  // namespace headwise
