// Optimizer. Door: optimizer.h.
#include "headwise/train/optimizer.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "headwise/error.h"
#include "headwise/ops/copy/copy.h"
#include "headwise/ops/pointwise/pointwise.h"
#include "headwise/tensor/slice.h"
#include "headwise/tensor/temp.h"

namespace headwise {
namespace {

bool IsTrained(const ParameterStore::Entry& entry) {
  return entry.gradient && entry.gradient.size() > 0;
}

}  // namespace

Optimizer::Optimizer(Context& context, ParameterStore& store) : store_(store) {
  for (const auto& [name, entry] : store_.entries()) {
    if (IsTrained(entry)) rate_scales_[name] = 1;
  }
  MakeMoments(context);
}

void Optimizer::ShareAmong(Context& context, dist::Group& group) {
  group_ = &group;
  MakeMoments(context);
}

void Optimizer::MakeMoments(Context& context) {
  first_.clear();
  second_.clear();
  for (size_t i = 0; i < store_.buffers().size(); ++i) {
    const Range kept =
        KeptHere({.buffer = i, .end = store_.buffers()[i].gradient.size()});
    const Shape size = {kept.end - kept.begin};
    first_.emplace_back(context, DType::kF32, size);
    second_.emplace_back(context, DType::kF32, size);
  }
}

// Where the share of a rank begins: whole lines of memory, so that vectors of
// any width lie as they do in one process.
int64_t Optimizer::Cut(size_t buffer, int rank) const {
  const int64_t size = store_.buffers()[buffer].gradient.size();
  if (group_ == nullptr || rank == group_->size()) return rank == 0 ? 0 : size;
  const int64_t lines = size / ParameterStore::kAlignment;
  return rank * lines / group_->size() * ParameterStore::kAlignment;
}

Optimizer::Range Optimizer::KeptBy(int rank, Range range) const {
  range.begin = std::max(range.begin, Cut(range.buffer, rank));
  range.end =
      std::max(range.begin, std::min(range.end, Cut(range.buffer, rank + 1)));
  return range;
}

Optimizer::Range Optimizer::KeptHere(const Range& range) const {
  return KeptBy(group_ != nullptr ? group_->rank() : 0, range);
}

TensorView Optimizer::Moment(std::vector<Tensor>& all,
                             const Range& range) const {
  const int64_t first = Cut(range.buffer, group_ ? group_->rank() : 0);
  return Slice(all[range.buffer].view(), 0, range.begin - first,
               range.end - first);
}

int64_t Optimizer::state_bytes() const {
  int64_t values = 0;
  for (const Tensor& moments : first_) values += 2 * moments.size();
  return values * static_cast<int64_t>(sizeof(float));
}

double Optimizer::GradientNorm(Context& context) const {
  const Temp sum(context, DType::kF64, {1});
  Fill(context, 0, sum.view());
  // What no parameter has is 0. The host adds parameter by parameter: the order
  // in which it always did.
  if (!context.device().is_cpu()) {
    for (const ParameterStore::Buffer& buffer : store_.buffers()) {
      if (buffer.gradient.size() == 0) continue;
      AddSumOfSquares(context, buffer.gradient.view(), sum.view());
    }
    return std::sqrt(ToVector<double>(context, sum.view())[0]);
  }
  for (const auto& [name, entry] : store_.entries()) {
    if (!IsTrained(entry)) continue;
    AddSumOfSquares(context, entry.gradient, sum.view());
  }
  return std::sqrt(ToVector<double>(context, sum.view())[0]);
}

void Optimizer::Step(Context& context, AdamWProblem how, double norm,
                     double clip) {
  how.step = ++steps_;
  if (clip > 0 && norm > clip) {
    how.gradient_scale = static_cast<float>(clip / norm);
  }
  const float decay = how.decay, rate = how.rate;
  for (const Range& all : Ranges()) {
    const Range range = KeptHere(all);
    if (range.begin == range.end) continue;
    how.decay = range.decays ? decay : 0;
    how.rate = rate * range.rate_scale;
    const auto part = [&](Tensor& whole) {
      return Slice(whole.view(), 0, range.begin, range.end);
    };
    ParameterStore::Buffer& buffer = store_.buffers()[range.buffer];
    AdamW(context, how,
          {.value = part(buffer.value),
           .gradient = part(buffer.gradient),
           .first = Moment(first_, range),
           .second = Moment(second_, range)});
  }
  if (group_ != nullptr) ExchangeValues(context);
  store_.Round(context);
}

void Optimizer::ExchangeValues(Context& context) {
  for (size_t i = 0; i < store_.buffers().size(); ++i) {
    for (int rank = 0; rank < group_->size(); ++rank) {
      const int64_t begin = Cut(i, rank), end = Cut(i, rank + 1);
      if (begin == end) continue;
      const TensorView values =
          Slice(store_.buffers()[i].value.view(), 0, begin, end);
      if (values.device.is_cpu()) {
        group_->Broadcast(values, rank);
        continue;
      }
      Tensor here = ToHost(context, values);
      group_->Broadcast(here.view(), rank);
      Copy(context, std::as_const(here).view(), values);
      context.Synchronize();
    }
  }
}

Optimizer::Range Optimizer::RangeOf(const std::string& name) const {
  const ParameterStore::Entry& entry = store_.entries().at(name);
  return {entry.buffer, entry.offset, entry.offset + entry.value.size(),
          entry.value.rank > 1, rate_scales_.at(name)};
}

std::vector<Optimizer::Range> Optimizer::Ranges() const {
  std::vector<Range> ranges;
  for (const auto& [name, scale] : rate_scales_) {
    ranges.push_back(RangeOf(name));
  }
  std::sort(ranges.begin(), ranges.end(), [](const Range& a, const Range& b) {
    return std::pair(a.buffer, a.begin) < std::pair(b.buffer, b.begin);
  });
  std::vector<Range> joined;
  for (const Range& range : ranges) {
    Range* last = joined.empty() ? nullptr : &joined.back();
    // Between parameters there is at most what aligns them, and it stays 0.
    if (last != nullptr && last->buffer == range.buffer &&
        range.begin - last->end < ParameterStore::kAlignment &&
        last->decays == range.decays && last->rate_scale == range.rate_scale) {
      last->end = range.end;
    } else {
      joined.push_back(range);
    }
  }
  return joined;
}

void Optimizer::ScaleRate(std::string_view ending, double factor) {
  for (auto& [name, scale] : rate_scales_) {
    if (name.ends_with(ending)) scale = static_cast<float>(factor);
  }
}

// All ranks' moments of one buffer, on the host of the first.
Tensor Optimizer::Gather(Context& context, const Tensor& moments,
                         size_t buffer) const {
  Tensor copy;
  const ConstTensorView own = OnHost(context, moments.view(), copy);
  if (!group_->is_first()) {
    group_->Send(0, own);
    return {};
  }
  Tensor all(DType::kF32, {store_.buffers()[buffer].gradient.size()});
  for (int rank = 0; rank < group_->size(); ++rank) {
    const TensorView to =
        Slice(all.view(), 0, Cut(buffer, rank), Cut(buffer, rank + 1));
    if (rank == 0) {
      Copy(context, own, to);
      context.Synchronize();
    } else {
      group_->Receive(rank, to);
    }
  }
  return all;
}

OptimizerState Optimizer::State(Context& context) const {
  OptimizerState state;
  for (const auto& [moments, suffix] :
       {std::pair(&first_, ".first"), std::pair(&second_, ".second")}) {
    std::vector<ConstTensorView> whole;  // one a buffer
    for (size_t i = 0; i < moments->size(); ++i) {
      if (group_ != nullptr) {
        state.copies.push_back(Gather(context, (*moments)[i], i));
        whole.push_back(std::as_const(state.copies.back()).view());
      } else {
        Tensor copy;
        whole.push_back(OnHost(context, (*moments)[i].view(), copy));
        state.copies.push_back(std::move(copy));
      }
    }
    if (group_ != nullptr && !group_->is_first()) continue;
    for (const auto& [name, scale] : rate_scales_) {
      const Range range = RangeOf(name);
      state.tensors.push_back({name + suffix, Slice(whole[range.buffer], 0,
                                                    range.begin, range.end)});
    }
  }
  return state;
}

void Optimizer::Restore(Context& context, const Safetensors& state,
                        int64_t steps) {
  const auto read = [&](const std::string& name, const Range& range,
                        std::vector<Tensor>& moments) {
    const ConstTensorView from = state.Find(name);
    const int64_t size = range.end - range.begin;
    if (!from || from.type != DType::kF32 || from.rank != 1 ||
        from.shape[0] != size) {
      throw Error(
          ErrorCode::kCorrupt,
          {state.where(),
           "\"" + name + "\" of " + std::to_string(size) + " values",
           from ? ToString(from) : "none", "is it another model's state?"});
    }
    const Range kept = KeptHere(range);
    if (kept.begin == kept.end) return;
    Copy(context,
         Slice(from, 0, kept.begin - range.begin, kept.end - range.begin),
         Moment(moments, kept));
  };
  for (const auto& [name, scale] : rate_scales_) {
    read(name + ".first", RangeOf(name), first_);
    read(name + ".second", RangeOf(name), second_);
  }
  steps_ = steps;
}

}  // namespace headwise
