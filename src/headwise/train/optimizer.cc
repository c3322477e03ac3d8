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
  for (const ParameterStore::Buffer& buffer : store_.buffers()) {
    const Shape size = {buffer.gradient.size()};
    first_.emplace_back(context, DType::kF32, size);
    second_.emplace_back(context, DType::kF32, size);
  }
  for (const auto& [name, entry] : store_.entries()) {
    if (!IsTrained(entry)) continue;
    const auto part = [&, &entry = entry](Tensor& all) {
      return Slice(all.view(), 0, entry.offset,
                   entry.offset + entry.value.size());
    };
    Moments& moments = moments_[name];
    moments.first = part(first_[entry.buffer]);
    moments.second = part(second_[entry.buffer]);
  }
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
  for (const Range& range : Ranges()) {
    how.decay = range.decays ? decay : 0;
    how.rate = rate * range.rate_scale;
    const auto part = [&](Tensor& all) {
      return Slice(all.view(), 0, range.begin, range.end);
    };
    ParameterStore::Buffer& buffer = store_.buffers()[range.buffer];
    AdamW(context, how,
          {.value = part(buffer.value),
           .gradient = part(buffer.gradient),
           .first = part(first_[range.buffer]),
           .second = part(second_[range.buffer])});
  }
  store_.Round(context);
}

std::vector<Optimizer::Range> Optimizer::Ranges() const {
  std::vector<Range> ranges;
  for (const auto& [name, moments] : moments_) {
    const ParameterStore::Entry& entry = store_.entries().at(name);
    ranges.push_back({entry.buffer, entry.offset,
                      entry.offset + entry.value.size(), entry.value.rank > 1,
                      moments.rate_scale});
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
  for (auto& [name, moments] : moments_) {
    if (name.ends_with(ending)) {
      moments.rate_scale = static_cast<float>(factor);
    }
  }
}

void Optimizer::Save(Context& context,
                     const std::filesystem::path& file) const {
  std::vector<NamedTensor> state;
  std::vector<Tensor> copies;
  copies.reserve(2 * moments_.size());
  for (const auto& [name, moments] : moments_) {
    state.push_back({name + ".first",
                     OnHost(context, moments.first, copies.emplace_back())});
    state.push_back({name + ".second",
                     OnHost(context, moments.second, copies.emplace_back())});
  }
  WriteSafetensors(file, std::move(state));
}

void Optimizer::Restore(Context& context, const Safetensors& state,
                        int64_t steps) {
  auto read = [&](const std::string& name, const TensorView& to) {
    const ConstTensorView from = state.Find(name);
    if (!from || from.type != DType::kF32 || from.rank != 1 ||
        from.shape[0] != to.size()) {
      throw Error(
          ErrorCode::kCorrupt,
          {state.where(),
           "\"" + name + "\" of " + std::to_string(to.size()) + " values",
           from ? ToString(from) : "none", "is it another model's state?"});
    }
    Copy(context, from, to);
  };
  for (auto& [name, moments] : moments_) {
    read(name + ".first", moments.first);
    read(name + ".second", moments.second);
  }
  steps_ = steps;
}

}  // namespace headwise
