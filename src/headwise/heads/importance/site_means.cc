// Sums of outputs. Door: site_means.h.
#include "headwise/heads/importance/site_means.h"

#include <cmath>
#include <utility>

#include "headwise/ops/activation/activation.h"
#include "headwise/ops/copy/copy.h"
#include "headwise/ops/pointwise/pointwise.h"
#include "headwise/tensor/slice.h"
#include "headwise/tensor/temp.h"

namespace headwise {

void SiteMeans::AddOnDevice(Context& context, const Tensor& values,
                            Sums& sums) {
  const Shape rows = {values.shape(0), values.shape(1) * values.shape(2)};
  const ConstTensorView z = Reshaped(values.view(), rows);
  if (sums.device_plain.size() == 0) {
    sums.device_plain = Tensor(context, DType::kF32, {rows[1]});
    sums.device_positive = Tensor(context, DType::kF32, {rows[1]});
  }
  const Temp positive(context, values.type(), rows);
  ActivationForward(context, {Activation::kRelu},
                    {.x = z, .y = positive.view()});
  AddColumnSums(context, z, sums.device_plain.view());
  AddColumnSums(context, positive.view(), sums.device_positive.view());
}

void SiteMeans::Add(Context& context, const HeadOutputs& outputs) {
  for (const auto& [site, values] : outputs) {
    Sums& sums = sums_[site];
    const int64_t width = values.shape(1) * values.shape(2);
    sums.heads = values.shape(1);
    sums.rows += static_cast<double>(values.shape(0));
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

void SiteMeans::Write(Context& context, HeadOutputs& plain,
                      HeadOutputs& absolute) const {
  for (const auto& [site, sums] : sums_) {
    std::vector<double> sum = sums.plain, size = sums.absolute;
    if (sums.device_plain.size() > 0) {
      sum = ToVector<double>(context, sums.device_plain.view());
      size = ToVector<double>(context, sums.device_positive.view());
      // |z| = 2 max(z, 0) − z.
      for (size_t i = 0; i < size.size(); ++i) size[i] = 2 * size[i] - sum[i];
    }
    const int64_t width = std::ssize(sum);
    const Shape shape = {1, sums.heads, width / sums.heads};
    Tensor mean(DType::kF32, shape), mean_size(DType::kF32, shape);
    for (int64_t i = 0; i < width; ++i) {
      mean.As<float>()[i] = static_cast<float>(sum[i] / sums.rows);
      mean_size.As<float>()[i] = static_cast<float>(size[i] / sums.rows);
    }
    plain[site] = std::move(mean);
    absolute[site] = std::move(mean_size);
  }
}

}  // namespace headwise
