// Sums of outputs. Door: site_means.h.
#include "headwise/heads/importance/site_means.h"

#include <cmath>
#include <utility>

#include "headwise/dist/pack.h"
#include "headwise/ops/activation/activation.h"
#include "headwise/ops/copy/copy.h"
#include "headwise/ops/pointwise/pointwise.h"
#include "headwise/tensor/slice.h"
#include "headwise/tensor/temp.h"

namespace headwise {

// f32 sums of this run's rows: Σ z and Σ max(z, 0).
void SiteMeans::AddOnDevice(Context& context, const Tensor& values,
                            Sums& sums) {
  const Shape rows = {values.shape(0), values.shape(1) * values.shape(2)};
  const ConstTensorView z = Reshaped(values.view(), rows);
  const Temp positive(context, values.type(), rows);
  ActivationForward(context, {Activation::kRelu},
                    {.x = z, .y = positive.view()});
  Tensor plain_sum(context, DType::kF32, {rows[1]});
  Tensor positive_sum(context, DType::kF32, {rows[1]});
  AddColumnSums(context, z, plain_sum.view());
  AddColumnSums(context, positive.view(), positive_sum.view());
  sums.plain = ToVector<double>(context, plain_sum.view());
  sums.absolute = ToVector<double>(context, positive_sum.view());
  // |z| = 2 max(z, 0) − z.
  for (size_t i = 0; i < sums.plain.size(); ++i) {
    sums.absolute[i] = 2 * sums.absolute[i] - sums.plain[i];
  }
}

SiteMeans::SiteMeans(Context& context, const HeadOutputs& outputs) {
  for (const auto& [site, values] : outputs) {
    Sums& sums = sums_[site];
    const int64_t width = values.shape(1) * values.shape(2);
    sums.heads = values.shape(1);
    sums.rows = static_cast<double>(values.shape(0));
    if (!values.device().is_cpu()) {
      AddOnDevice(context, values, sums);
      continue;
    }
    sums.plain.resize(width);
    sums.absolute.resize(width);
    for (int64_t t = 0; t < values.shape(0); ++t) {
      const float* row = values.As<float>() + t * width;
      for (int64_t i = 0; i < width; ++i) {
        sums.plain[i] += row[i];
        sums.absolute[i] += std::abs(row[i]);
      }
    }
  }
}

void SiteMeans::Add(const SiteMeans& other) {
  for (const auto& [site, theirs] : other.sums_) {
    Sums& ours = sums_[site];
    ours.heads = theirs.heads;
    ours.rows += theirs.rows;
    ours.plain.resize(theirs.plain.size());
    ours.absolute.resize(theirs.absolute.size());
    for (size_t i = 0; i < theirs.plain.size(); ++i) {
      ours.plain[i] += theirs.plain[i];
      ours.absolute[i] += theirs.absolute[i];
    }
  }
}

void SiteMeans::Write(HeadOutputs& plain, HeadOutputs& absolute) const {
  for (const auto& [site, sums] : sums_) {
    const int64_t width = std::ssize(sums.plain);
    const Shape shape = {1, sums.heads, width / sums.heads};
    Tensor mean(DType::kF32, shape), mean_size(DType::kF32, shape);
    for (int64_t i = 0; i < width; ++i) {
      mean.As<float>()[i] = static_cast<float>(sums.plain[i] / sums.rows);
      mean_size.As<float>()[i] =
          static_cast<float>(sums.absolute[i] / sums.rows);
    }
    plain[site] = std::move(mean);
    absolute[site] = std::move(mean_size);
  }
}

std::string SiteMeans::Pack() const {
  dist::Packer to;
  to.Put(sums_.size());
  for (const auto& [site, sums] : sums_) {
    to.Put(site);
    to.Put(sums.heads);
    to.Put(sums.rows);
    to.Put(sums.plain);
    to.Put(sums.absolute);
  }
  return to.Take();
}

SiteMeans SiteMeans::Unpack(const std::string& bytes) {
  dist::Unpacker from(bytes);
  SiteMeans means;
  for (auto left = from.Get<size_t>(); left > 0; --left) {
    Sums& sums = means.sums_[from.GetString()];
    sums.heads = from.Get<int64_t>();
    sums.rows = from.Get<double>();
    sums.plain = from.GetVector<double>();
    sums.absolute = from.GetVector<double>();
  }
  return means;
}

}  // namespace headwise
